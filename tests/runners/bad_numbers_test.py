"""Numbers that are not finite end the `shoal` program and leave the last checkpoint valid.

Usage: bad_numbers_test.py SHOAL BAD_COMMAND [unittest arguments]"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

from processes import free_port
from program import SHOAL, FolderTest, shoal

BAD_COMMAND = os.path.abspath(sys.argv.pop(1))  # with environments BadObservation-v0, BadReward-v0 and BadEvaluation-v0
TOYS = pathlib.Path(__file__).parent.parent / "envs/gymnasium"
SHORT = ["--quiet", "--set", "stop_return=inf", "--envs", "8", "--workers", "2", "--set", "checkpoint_steps=256",
         "--set", "sampler.horizon=16", "--set", "log_steps=0"]
PPO = ["cartpole-ppo", *SHORT, "--set", "ppo.minibatches=2", "--set", "steps=4096", "--set", "schedule_steps=4096"]
REPLAY = ["--set", "replay.size=4000", "--set", "off_policy.learning_starts=256", "--set", "off_policy.replay_ratio=1",
          "--set", "steps=4096", "--set", "schedule_steps=4096"]
DQN = ["cartpole-dqn", *SHORT, *REPLAY]
ASYNCHRONOUS = ["--set", "sampler.asynchronous=true"]

# Samplers: arguments after PPO or DQN.
SAMPLERS = {
    "serial": (PPO, ["--sampler", "serial"]),
    "parallel-cpu": (PPO, ["--sampler", "parallel-cpu"]),
    "parallel-gpu, two groups": (PPO, ["--sampler", "parallel-gpu", "--set", "sampler.groups=2"]),
    "dynamic batches": (PPO, ["--sampler", "parallel-gpu", "--set", "sampler.dynamic_batch=4"]),
    "asynchronous": (PPO, ["--sampler", "parallel-cpu", *ASYNCHRONOUS]),
    "dqn": (DQN, ["--sampler", "parallel-gpu"]),
    "dqn, asynchronous": (DQN, ["--sampler", "serial", *ASYNCHRONOUS]),
    "two ranks": (PPO, ["--ranks", "2"]),
}

HUGE = ["--set", "env.id=HugeReward-v0"]
HUGE_PENDULUM = ["--set", "env.id=HugePendulum-v0"]

# Algorithms with rewards whose squares overflow.
ALGORITHMS = {
    "ppo, two ranks": [*PPO, *HUGE, "--ranks", "2"],
    "ppo, asynchronous": [*PPO, *HUGE, *ASYNCHRONOUS, "--sampler", "serial"],
    "a2c": ["cartpole-a2c", *SHORT, *HUGE, "--sampler", "serial"],
    "impala": ["cartpole-impala", *SHORT, *HUGE, "--set", "schedule_steps=0", "--set", "env.reward_scale=1"],
    "dqn": [*DQN, *HUGE],
    "sac": ["pendulum-sac", *SHORT, *REPLAY, *HUGE_PENDULUM],
    "td3": ["pendulum-td3", *SHORT, *REPLAY, *HUGE_PENDULUM],
    "ddpg": ["pendulum-ddpg", *SHORT, *REPLAY, *HUGE_PENDULUM],
}
INFINITE_REWARD = r"environment \d at step \d+: the reward is inf, expected a finite number$"
DIVERGED = (r"(of the update after \d+ steps is|after \d+ steps and \d+ updates the agent's '.*' holds|element 0 of the action is)"
            r" (NaN|inf|-inf)")


def bad(*arguments):
    return shoal(*arguments, program=BAD_COMMAND)


class BadNumbersTest(FolderTest):
    def assert_failure(self, words, *arguments, program=BAD_COMMAND, **options):
        done = shoal(*arguments, program=program, status=1, **options)
        errors = [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]  # others tell of files that are kept
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertRegex(errors[0], words)

    def assert_good(self, run, program=BAD_COMMAND, **options):
        """The run ended early, and its newest checkpoint can be evaluated."""
        self.assertFalse((run / "summary.json").exists())
        shoal("eval", run, "--episodes", 1, program=program, **options)

    def test_an_observation_in_every_sampler(self):
        for name, (arguments, sampler) in SAMPLERS.items():
            with self.subTest(name):
                run = self.dir / name
                self.assert_failure(r"environment \d at step \d+: element 2 of the observation is NaN, expected finite numbers$", "train",
                                    *arguments, *sampler, "--set", "env.id=BadObservation-v0", "--out", run)
                self.assert_good(run)
        done = bad("rewind", self.dir / "serial")
        self.assertIn("element 2 of the observation is NaN", done.stdout.split("it failed again")[1])

    def test_a_reward_in_every_kind_of_algorithm(self):
        for name in "serial", "dqn", "two ranks":
            with self.subTest(name):
                arguments, sampler = SAMPLERS[name]
                run = self.dir / name
                self.assert_failure(INFINITE_REWARD, "train", *arguments, *sampler, "--set", "env.id=BadReward-v0", "--out", run)
                self.assert_good(run)

    def test_all_processes_of_a_job_end_with_it(self):
        port = str(free_port())
        command = [BAD_COMMAND, "train", *PPO, "--set", "env.id=BadOfOneRank-v0", "--out", str(self.dir / "run")]
        processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {
            "RANK": place, "WORLD_SIZE": "2", "LOCAL_RANK": place, "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port}) for place in ("0", "1")]
        for process in processes:
            self.addCleanup(process.kill)
        for process in processes:
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 1, errors)
            self.assertRegex(errors, r"environment 0 at step \d+: element 2 of the observation is NaN", "only rank 0 has seen it")
        self.assert_good(self.dir / "run")

    @unittest.skipUnless(importlib.util.find_spec("gymnasium"), "no gymnasium")
    def test_numbers_of_gymnasium(self):
        for env, words in ("BadObservation-v0", "element 0 of the observation is NaN"), ("BadReward-v0", "the reward is inf"):
            with self.subTest(env):
                run = self.dir / env
                self.assert_failure(rf"environment \d at step 299: {words}, expected", "train", *PPO, "--set",
                                    f"env.id=gymnasium:toy_gymnasium:{env}", "--out", run, program=SHOAL, cwd=TOYS)
                self.assert_good(run, SHOAL, cwd=TOYS)

    def test_a_number_of_an_environment_that_evaluates(self):
        bad_env, run = ["--set", "env.id=BadEvaluation-v0"], self.dir / "run"
        bad("train", *PPO, *bad_env, "--steps", "256", "--out", run)
        for kind in "serial", "parallel-gpu", "parallel-cpu":
            settings = (run / "config.toml").read_text()
            (run / "config.toml").write_text(re.sub("^kind = .*", f"kind = '{kind}'", settings, flags=re.M))
            self.assert_failure(INFINITE_REWARD, "eval", run, "--episodes", "4", "--envs", "2", "--workers", "2")
        for name, evaluation in (("between", ["--set", "eval_steps=512"]),
                                 ("beside", ["--set", "live_eval_seconds=0.01", "--steps", "1000000000",
                                             "--set", "schedule_steps=1000000000"])):
            with self.subTest(name):
                self.assert_failure(INFINITE_REWARD, "train", *PPO, *bad_env, *evaluation, "--set", "eval_episodes=32", "--out", self.dir / name)

    def test_rewards_that_overflow_in_every_algorithm(self):
        for name, arguments in ALGORITHMS.items():
            with self.subTest(name):
                self.assert_failure(DIVERGED, "train", *arguments, "--out", self.dir / name)
                self.assertEqual(list((self.dir / name).glob("*.rewind")), [], "no environment has failed")

    def test_a_run_that_diverges_keeps_its_last_checkpoint(self):
        run = self.dir / "run"
        bad("train", *PPO, *HUGE, "--steps", "512", "--out", run)
        good = (run / "model.ckpt").read_bytes()
        self.assert_failure(DIVERGED, "train", "--resume", run, "--set", "steps=4096", "--set", "checkpoint_steps=0", "--quiet")
        self.assertEqual((run / "model.ckpt").read_bytes(), good)
        self.assert_good(run)


if __name__ == "__main__":
    unittest.main(verbosity=2)
