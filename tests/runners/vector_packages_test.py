"""Tests that vector environments and games are trained by one command. Usage: vector_packages_test.py SHOAL [unittest arguments]"""

import csv
import importlib.util
import sys
import unittest

from packages import output
from program import FolderTest

if importlib.util.find_spec("gymnasium") is None:
    sys.exit(77)

TIMES = ("seconds", "steps_per_second")  # columns, and beginnings of columns, that differ between equal runs


class VectorPackagesTest(FolderTest):
    def train(self, name, *settings, steps=2048, envs=8, workers=2, status=0):
        sets = [word for setting in settings for word in ("--set", setting)]
        return output("train", "cartpole-ppo", "--steps", steps, "--envs", envs, "--sampler", "parallel-gpu", "--workers", workers,
                      "--set", "sampler.horizon=32", "--set", "ppo.learning_rate=0.003", "--set", "model.hidden=[32]", "--set", "stop_return=inf",
                      "--set", "schedule_steps=0", *sets, "--out", self.run_of(name), status=status)

    def run_of(self, name):
        return self.dir / str(name)

    def rows(self, name):
        with open(self.run_of(name) / "progress.csv") as file:
            return list(csv.DictReader(file))

    def results(self, name):
        def is_time(column):
            return "time" in column or "per_second" in column or "seconds" in column or column.startswith("share_")
        return [{k: v for k, v in row.items() if k in ("steps", "episodes", "loss", "entropy") or k.startswith(("return", "info", "length"))
                 and not is_time(k)} for row in self.rows(name)]

    def test_a_vector_that_resets_at_once_gives_the_samples_of_single_environments(self):
        infos = 'env.info=["is_success", "parts/right:sum"]'
        self.train("single", "env.id=gymnasium:grid_world/Grid-v0", infos)
        wanted = self.results("single")
        self.assertTrue(wanted and any(key.startswith("info_") for key in wanted[0]))
        for mode in ("SameStep", "Disabled"):
            self.train(mode, "env.id=gymnasium:vectors:grids", "gymnasium.vector=true", f'gymnasium.kwargs={{"mode": "{mode}"}}', infos)
            self.assertEqual(self.results(mode), wanted, mode)

    def test_a_vector_that_resets_in_the_next_step_resumes_with_new_episodes(self):
        text = self.train("next", "env.id=gymnasium:vectors/Only-v0", "schedule_steps=4096")
        self.assertIn("transposed to [3, 9, 8]", text)
        first = self.rows("next")
        output("train", "--resume", self.run_of("next"), "--steps", 4096)
        self.assertGreater(len(self.rows("next")), len(first))
        self.assertIn("return", output("eval", self.run_of("next"), "--episodes", 8))

    def test_replays_learn_from_vectors_that_wait(self):
        for preset, more in (("cartpole-dqn", []), ("cartpole-r2d1", ["env.observation_indices=[]"])):
            with self.subTest(preset):
                sets = [word for setting in ("stop_return=inf", "schedule_steps=0", "env.id=gymnasium:vectors/Only-v0",
                                             "off_policy.learning_starts=500", *more) for word in ("--set", setting)]
                output("train", preset, "--steps", 1500, "--envs", 4, "--workers", 2, *sets, "--out", self.run_of(preset))

    def test_agents_of_a_game_learn(self):
        self.train("relay", "env.id=pettingzoo:vectors", 'env.info=["answers"]', "stop_return=3.3", "eval_steps=500", "eval_episodes=5", steps=60000)
        last = self.rows("relay")[-1]
        self.assertTrue(any(row.get("eval_return") for row in self.rows("relay")), "5 episodes need 3 games of 2")
        played = output("eval", self.run_of("relay"), "--episodes", 7, "--workers", 3)
        self.assertIn("over 7 episodes", played)
        self.assertGreater(float(last["return_mean"]), 3.2)  # 3 for one agent and 4 for the other
        self.assertAlmostEqual(float(last["info_answers_mean"]), 3.5, delta=0.1)

    def test_a_sampler_is_chosen_that_keeps_games_whole(self):
        for envs in (2, 6):
            text = output("train", "--env", "pettingzoo:vectors", "--algo", "ppo", "--steps", 2048, "--envs", envs, "--out", self.run_of(envs))
            self.assertNotIn("expected a multiple", text)

    def test_mistakes_are_named(self):
        text = self.train("odd", "env.id=pettingzoo:vectors", envs=6, status=2)
        self.assertIn("found 3 environments to be stepped together, expected a multiple of 2", text)
        for settings, message in (
                (["env.id=pettingzoo:grid_world"], "the module grid_world has no parallel_env()"),
                (["env.id=gymnasium:grid_world/Grid-v0", "gymnasium.vector=true"], "found no vector_entry_point in the spec"),
                (["env.id=CartPole-v1", "gymnasium.vector=true"], "is no environment of Gymnasium's"),
                (["env.id=gymnasium:vectors/Only-v0", "sampler.decorrelation=5"], "stepped in batches; set it to 0")):
            with self.subTest(settings):
                self.assertIn(message, self.train("mistake", *settings, status=2))


if __name__ == "__main__":
    unittest.main()
