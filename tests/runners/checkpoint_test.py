"""Checkpoints and their settings, through the `shoal` program. Usage: checkpoint_test.py SHOAL [unittest arguments]"""

import re
import shutil
import unittest

from program import SharedFolderTest, shoal

SHORT = ["--quiet", "--set", "stop_return=inf", "--envs", "8", "--workers", "1", "--set", "sampler.horizon=16", "--steps", "128",
         "--set", "ppo.minibatches=2", "--set", "schedule_steps=1000"]
MORE = ["--steps", "256", "--quiet"]
MISFIT = r"model.ckpt does not fit the agent .*"


class CheckpointTest(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shoal("train", "cartpole-ppo", "--out", cls.dir / "run", *SHORT)

    def edited(self, pattern, text):
        """A copy of the run with another config.toml."""
        run = self.dir / self.id().rsplit(".", 1)[1]
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.dir / "run", run)
        settings = (run / "config.toml").read_text()
        changed = re.sub(pattern, text, settings, flags=re.M)
        self.assertNotEqual(changed, settings)
        (run / "config.toml").write_text(changed)
        return run

    def assert_mistake(self, words, *arguments):
        errors = shoal(*arguments, status=2).stderr
        self.assertRegex(errors, words)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_a_network_with_fewer_more_or_other_layers_is_not_played(self):
        for layers, found in (
                ("[64]", r"'agent/policy1.weight', Float \[64, 64\], was saved, expected no tensor with this name"),
                ("[64, 64, 64]", r"the checkpoint has no 'agent/policy2.weight', expected Float \[64, 64\]"),
                ("[64, 32]", r"'agent/policy1.weight' was saved as Float \[64, 64\], expected Float \[32, 64\]")):
            with self.subTest(layers):
                run = self.edited(r"^hidden = .*", f"hidden = {layers}")
                before = (run / "model.ckpt").read_bytes()
                for command in (["eval", run, "--episodes", "1"], ["play", run], ["export", run, "--out", run / "policy.pt"],
                                ["train", "--resume", run, *MORE]):
                    self.assert_mistake(MISFIT + found, *command)
                self.assertFalse((run / "policy.pt").exists())
                self.assertEqual((run / "model.ckpt").read_bytes(), before)
                self.assert_mistake(MISFIT + found, "train", "cartpole-ppo", *SHORT, "--init-from", self.dir / "run", "--out",
                                    self.dir / "new", "--set", f"model.hidden={layers}")

    def test_a_run_goes_on_with_its_own_algorithm(self):
        run = self.edited(r"^algo = .*", "algo = 'a2c'")
        self.assert_mistake("algo: found 'a2c'.*saved by 'ppo'.*--init-from", "train", "--resume", run, *MORE)
        shoal("train", "cartpole-a2c", *SHORT, "--init-from", self.dir / "run", "--out", self.dir / "a2c")

    def test_a_run_goes_on_with_its_own_optimizer(self):
        run = self.edited(r"^optimizer = .*", "optimizer = 'rmsprop'")
        self.assert_mistake("'algo/optimizer.*was saved, expected no tensor with this name", "train", "--resume", run, *MORE)

    def test_the_run_itself_is_played_and_goes_on(self):
        run = self.edited(r"^checkpoint_seconds = .*", "checkpoint_seconds = 100.0")
        for command in (["eval", run, "--episodes", "1"], ["export", run, "--out", run / "policy.pt"], ["train", "--resume", run, *MORE],
                        ["eval", run, "--episodes", "1", "--checkpoint", "model.ckpt"]):
            shoal(*command)


if __name__ == "__main__":
    unittest.main(verbosity=2)
