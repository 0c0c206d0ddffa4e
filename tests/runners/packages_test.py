"""Tests that packages of environments are trained by one command. Usage: packages_test.py SHOAL [unittest arguments]"""

import csv
import importlib.util
import os
import sys
import unittest
import unittest.mock

from packages import output
from program import FolderTest

if importlib.util.find_spec("gymnasium") is None:
    sys.exit(77)

GRID = "env.id=gymnasium:grid_world/Grid-v0"
SHORT = ["--steps", "1024", "--envs", "4", "--workers", "2", "--set", "sampler.horizon=32"]


class PackagesTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.run = self.dir / "run"

    def train(self, *settings, steps=(), status=0):
        sets = [word for setting in settings for word in ("--set", setting)]
        return output("train", "cartpole-ppo", *(steps or SHORT), "--set", "stop_return=inf", "--set", "schedule_steps=0", *sets,
                      "--out", self.run, status=status)

    def rows(self):
        with open(self.run / "progress.csv") as file:
            return list(csv.DictReader(file))

    def test_an_evaluation_starts_no_process(self):
        """One that has a context on a GPU cannot fork."""
        (self.dir / "counted.py").write_text(
            "import os, gymnasium\n\ndef make():\n    print(os.getpid(), file=open(os.environ['COUNTED'], 'a'))\n"
            "    return gymnasium.make('CartPole-v1')\n\ngymnasium.register('Counted-v0', make)\n")

        def processes(eval_steps):
            counted = self.dir / f"processes-{eval_steps}"
            self.run = counted.with_suffix(".run")
            with unittest.mock.patch.dict(os.environ, {"COUNTED": str(counted), "PYTHONPATH": str(self.dir)}):
                self.train("env.id=gymnasium:counted:Counted-v0", f"eval_steps={eval_steps}", "eval_episodes=2", "sampler.kind=serial")
            self.assertEqual(any(row.get("eval_return") for row in self.rows()), eval_steps > 0)
            return len(set(counted.read_text().split()))

        self.assertEqual(processes(256), processes(0))

    def test_a_picture_and_a_number_of_a_package(self):
        text = self.train(GRID, "ppo.learning_rate=0.003", "model.hidden=[32]", 'env.info=["is_success", "parts/right:sum"]',
                          "eval_steps=2048", "eval_episodes=10", "stop_return=7.8",
                          steps=["--steps", "24576", "--envs", "16", "--workers", "2", "--set", "sampler.horizon=32"])
        self.assertIn("the observation 'mission' is left out: a Mission has no fixed size", text)
        self.assertIn("the observation 'image' [9, 8, 3] is read as a channels-last picture, transposed to [3, 9, 8]", text)
        rows = self.rows()
        self.assertGreater(float(rows[-1]["info_is_success_mean"]), 0.9)
        self.assertAlmostEqual(float(rows[-1]["info_parts/right_mean"]), float(rows[-1]["return_mean"]), delta=0.01)
        evaluated = [row for row in rows if row.get("eval_info_is_success")]
        self.assertTrue(evaluated and 0 <= float(evaluated[-1]["eval_info_is_success"]) <= 1)
        text = output("eval", self.run, "--episodes", 20)
        self.assertIn("is_success", text)
        self.assertIn("config.toml", os.listdir(self.run))
        config = (self.run / "config.toml").read_text()
        self.assertIn('info = ["is_success", "parts/right:sum"]', config)

    def test_fields_are_selected_and_pictures_changed(self):
        self.train(GRID, 'env.observation=["image"]', "env.grayscale=true", "env.resize=[8, 7]", "env.stack=2",
                   "model.cnn=layers", "model.cnn_layers=[8, 3, 1]")
        self.assertTrue(self.rows())

    def test_flat_observations_are_read_by_an_mlp(self):
        self.train(GRID, "env.flatten=true", "model.name=auto")
        self.assertTrue(self.rows())

    def test_wrappers_have_arguments(self):
        self.train(GRID, 'gymnasium.wrappers=["grid_world.Direction(factor=0.5)", "RescaleObservation(min_obs=-1, max_obs=1)"]')
        self.assertTrue(self.rows())

    def test_a_name_without_a_namespace_imports_the_package_it_begins_with(self):
        self.train("env.id=gymnasium:Grid_World-Grid-v0")
        self.assertTrue(self.rows())

    def test_every_algorithm_learns_from_pictures_and_numbers(self):
        for preset, more in (("cartpole-dqn", ["off_policy.learning_starts=500"]),
                             ("cartpole-r2d1", ["off_policy.learning_starts=500", "env.observation_indices=[]"]),
                             ("cartpole-memory-ppo", ["agent.normalize_observation=false", "ppo.minibatches=2", "env.observation_indices=[]"])):
            with self.subTest(preset):
                sets = [word for setting in ("stop_return=inf", "schedule_steps=0", GRID, *more) for word in ("--set", setting)]
                output("train", preset, "--steps", 1024, "--envs", 4, "--workers", 2, *sets, "--out", self.dir / preset)

    def test_mistakes_are_named(self):
        for settings, message in (
                ([GRID, 'env.observation=["mission"]'], "there is no field 'mission'; the fields are 'direction' int64 []"),
                ([GRID, 'gymnasium.wrappers=["grid_world.Directions"]'], "the module grid_world has no 'Directions'"),
                ([GRID, 'gymnasium.wrappers=["1 + 1"]'], "found '1 + 1', expected the name of a class"),
                ([GRID, "env.observation=[1]"], "expected a list of strings"),
                (["env.id=gymnasium:grid_worlds/Grid-v0"], "grid_worlds"),
                (["env.id=CartPole-v1", 'gymnasium.wrappers=["A"]'], "is no environment of Gymnasium's"),
                (["env.id=CartPole-v1", 'env.info=["fuel"]'], "there is no info 'fuel'"),
                ([GRID, 'env.info=["fuel:mean"]'], "with :last, :sum or :max"),
                ([GRID, "env.resize=[84, 84]"], "expected at most these"),
                ([GRID, "env.resize=[8, 8, 8]"], "env.resize: found 3 numbers")):
            with self.subTest(settings):
                self.assertIn(message, self.train(*settings, status=2))
        self.assertIn("no step of the first episode has an info 'fuel'", self.train(GRID, 'env.info=["fuel"]', status=1))


if __name__ == "__main__":
    unittest.main()
