"""Checkpoints and their settings, through the `shoal` program. Usage: checkpoint_test.py SHOAL [unittest arguments]"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SHOAL = os.path.abspath(sys.argv.pop(1))
SHORT = ["--quiet", "--set", "stop_return=inf", "--envs", "8", "--workers", "1", "--set", "sampler.horizon=16", "--steps", "128",
         "--set", "ppo.minibatches=2", "--set", "schedule_steps=1000"]
MORE = ["--steps", "256", "--quiet"]
MISFIT = r"model.ckpt does not fit the agent .*"


def shoal(*arguments):
    return subprocess.run([SHOAL, *map(str, arguments)], capture_output=True, text=True, timeout=60)


class CheckpointTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.dir = pathlib.Path(cls.temporary.name)
        done = shoal("train", "cartpole-ppo", "--out", cls.dir / "run", *SHORT)
        assert done.returncode == 0, done.stderr

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

    def assert_mistake(self, done, words):
        self.assertEqual(done.returncode, 2, done.stderr or done.stdout)
        self.assertRegex(done.stderr, words)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

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
                    self.assert_mistake(shoal(*command), MISFIT + found)
                self.assertFalse((run / "policy.pt").exists())
                self.assertEqual((run / "model.ckpt").read_bytes(), before)
                self.assert_mistake(shoal("train", "cartpole-ppo", *SHORT, "--init-from", self.dir / "run", "--out", self.dir / "new",
                                          "--set", f"model.hidden={layers}"), MISFIT + found)

    def test_a_run_goes_on_with_its_own_algorithm(self):
        run = self.edited(r"^algo = .*", "algo = 'a2c'")
        self.assert_mistake(shoal("train", "--resume", run, *MORE), "algo: found 'a2c'.*saved by 'ppo'.*--init-from")
        done = shoal("train", "cartpole-a2c", *SHORT, "--init-from", self.dir / "run", "--out", self.dir / "a2c")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_run_goes_on_with_its_own_optimizer(self):
        run = self.edited(r"^optimizer = .*", "optimizer = 'rmsprop'")
        self.assert_mistake(shoal("train", "--resume", run, *MORE), "'algo/optimizer.*was saved, expected no tensor with this name")

    def test_the_run_itself_is_played_and_goes_on(self):
        run = self.edited(r"^checkpoint_seconds = .*", "checkpoint_seconds = 100.0")
        for command in (["eval", run, "--episodes", "1"], ["export", run, "--out", run / "policy.pt"], ["train", "--resume", run, *MORE],
                        ["eval", run, "--episodes", "1", "--checkpoint", "model.ckpt"]):
            done = shoal(*command)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
