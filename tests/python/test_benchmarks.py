"""The benchmarks from Python run, and print the rows that they are asked for."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

POLES = """
import gymnasium


def make(num_envs):
    return gymnasium.make_vec("CartPole-v1", num_envs)
"""


@unittest.skipUnless(importlib.util.find_spec("gymnasium"), "needs Gymnasium")
class BenchmarksTest(unittest.TestCase):
    def test_each_row(self):
        brief = ["--env", "CartPole-v1", "--envs", "4", "--horizon", "8", "--seconds", "0.05", "--rounds", "1"]
        command = ["--command", os.environ["SHOAL_COMMAND"]]
        some = ["TorchAgent, parallel-cpu", "make_vec", "AsyncVectorEnv"]
        runs = [
            ("python_ppo.py", ["--rollouts", "--rows", *some], some),
            ("python_ppo.py", ["--rows", "make_vec"], ["make_vec"]),
            (
                "python_ppo.py",
                ["--rollouts", "--env", "gymnasium:poles:make", *command],
                ["shoal, serial", "shoal, parallel-cpu", "its own loop"],
            ),
            ("python_rates.py", command, ["Sampler", "shoal bench sample", "make_vec", "AsyncVectorEnv"]),
        ]
        if importlib.util.find_spec("stable_baselines3"):
            runs.append(("python_ppo.py", ["--sb3", "--envs", "2"], ["shoal.sb3.VecEnv", "SubprocVecEnv"]))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "poles.py").write_text(POLES)
            # torch is installed without bytecode; compiling it takes seconds each time.
            kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
            for program, arguments, rows in runs:
                with self.subTest(program, arguments=arguments):
                    done = subprocess.run(
                        [sys.executable, ROOT / "benchmarks" / program, *brief, *arguments],
                        timeout=100,
                        text=True,
                        capture_output=True,
                        cwd=folder,
                        env={**os.environ, "SHOAL_PYTHON": sys.executable, **kept},
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)
                    printed = re.findall(r"^(.+?) +[\d,]+ steps/s", done.stdout, re.M)
                    self.assertLessEqual(set(rows), set(printed), done.stderr)
