"""Several ranks of the `shoal` program: they end together if one of them fails.

Usage: ranks_test.py SHOAL [KILLS] [unittest arguments]; KILLS: how many times a rank or a worker is killed (default 5)."""

import os
import random
import signal
import subprocess
import sys
import time
import unittest

from processes import children, runs
from program import SHOAL, FolderTest, shoal

KILLS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 5

ENDLESS = ["--quiet", "--set", "stop_return=inf", "--set", "schedule_steps=1000000000", "--steps", "1000000000"]
RANKS = ["cartpole-ppo", "--ranks", "2", "--workers", "2", "--set", "sampler.envs=16", "--set", "sampler.horizon=16",
         "--set", "sampler.kind=parallel-gpu", *ENDLESS]


class RanksTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.dir / "run"

    def begin(self, *arguments):
        training = subprocess.Popen([SHOAL, "train", *RANKS, *arguments, "--out", str(self.run_folder)],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(training.kill)
        rows = self.run_folder / "progress.csv"
        while not (rows.exists() and rows.read_text().count("\n") > 2):
            self.assertIsNone(training.poll(), "it has ended before it was trained")
            time.sleep(0.01)
        return training

    def ends(self, training, family, within=3):
        begin = time.monotonic()
        text = training.communicate(timeout=within)[1]
        while any(map(runs, family)):
            self.assertLess(time.monotonic() - begin, within, "something is left behind")
            time.sleep(0.01)
        return text

    def family(self, training):
        ranks = children(training.pid)
        self.assertEqual(len(ranks), 2)
        workers = [children(rank) for rank in ranks]
        return ranks, [worker for each in workers for worker in each]

    def test_who_is_killed_at_any_moment_ends_all(self):
        random.seed(3)
        for kill in range(KILLS):
            self.run_folder = self.run_folder.with_name(f"run{kill}")
            while_learning = ["--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true",
                              "--set", "ppo.minibatches=2"]
            training = self.begin(*(while_learning if kill % 2 else []))
            ranks, workers = self.family(training)
            self.assertEqual(len(workers), 2)
            time.sleep(random.uniform(0, 0.1))  # a random moment of the kill; no wait depends on it
            victim = random.choice(ranks + workers)
            os.kill(victim, signal.SIGKILL)
            text = self.ends(training, ranks + workers)
            self.assertEqual(training.returncode, 1, text)
            self.assertIn("SIGKILL", text)
            self.assertIn(f"pid {victim}", text)

    def test_they_die_with_the_one_that_started_them(self):
        training = self.begin()
        ranks, workers = self.family(training)
        training.kill()
        self.ends(training, ranks + workers)

    def test_who_is_stopped_is_named(self):
        training = self.begin("--set", "rank_timeout=0.5")
        ranks, workers = self.family(training)
        os.kill(ranks[1], signal.SIGSTOP)
        text = self.ends(training, ranks + workers)
        self.assertEqual(training.returncode, 1, text)
        self.assertIn("rank 0 waits for rank 1 for more than 0.5 s", text)

    def test_time_in_which_all_are_suspended_does_not_count(self):
        training = self.begin("--set", "rank_timeout=1")
        ranks, workers = self.family(training)
        for _ in range(3):
            for signal_of_all, seconds in ((signal.SIGSTOP, 1.5), (signal.SIGCONT, 0)):
                for process in (training.pid, *ranks, *workers):
                    os.kill(process, signal_of_all)
                time.sleep(seconds)
            steps = self.steps()
            while self.steps() <= steps + 1024:
                self.assertIsNone(training.poll(), "a rank has given up")
                time.sleep(0.01)
        training.send_signal(signal.SIGINT)
        self.ends(training, ranks + workers)
        self.assertEqual(training.returncode, 130)

    def test_they_end_if_whoever_starts_them_ignores_the_ends_of_children(self):
        shoal("train", "cartpole-ppo", "--ranks", 2, "--steps", 2000, "--quiet", "--out", self.run_folder,
              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))

    def test_ctrl_c_ends_all_and_they_go_on(self):
        training = self.begin()
        ranks, workers = self.family(training)
        training.send_signal(signal.SIGINT)
        text = self.ends(training, ranks + workers)
        self.assertEqual(training.returncode, 130, text)
        steps = self.steps()
        shoal("train", "--resume", self.run_folder, "--steps", steps + 512, "--quiet")
        self.assertGreater(self.steps(), steps)

    def steps(self):
        return int((self.run_folder / "progress.csv").read_text().splitlines()[-1].split(",")[0])

    def test_the_cores_of_all_ranks_are_said(self):
        cores = sorted(os.sched_getaffinity(0))[:2]
        done = shoal("train", "cartpole-ppo", "--ranks", "2", "--envs", "16", "--sampler", "parallel-gpu", "--steps", "512",
                     "--cores", ",".join(map(str, cores)), "--out", self.run_folder)
        said = f"{cores[0]}-{cores[-1]}" if cores[-1] == cores[0] + 1 else ",".join(map(str, cores))
        self.assertIn(f"on cores {said}: 2 ranks, {len(cores)} workers step 16 environments", done.stdout)
        self.assertIn("for tensor operations in each rank", done.stdout)

    def test_mistakes_are_told_once(self):
        for arguments, word in ((["--envs", "15"], "sampler.envs: found 15, which 2 ranks cannot share"),
                                (["--envs", "2", "--set", "sampler.groups=2"], "sampler.groups: found 2, expected at most 1, the environments"),
                                (["--set", "ppo.slices=3"], "ppo.slices: found 3, expected a multiple of ranks, 2"),
                                (["--set", "ppo.minibatches=129"], "expected at most the 128 steps of each of 2 slices"),
                                (["--set", "algo=dqn", "--set", "replay.slices=3"], "replay.slices: found 3, expected a multiple of ranks, 2"),
                                (["--set", "algo=dqn", "--set", "replay.slices=2", "--set", "replay.shared=true"], "replay.slices: found 2, expected 0: ranks that share a replay"),
                                (["--set", "algo=dqn", "--set", "replay.size=30001"], "replay.size: found 30001, expected a multiple of ranks, 2"),
                                (["--set", "algo=dqn", "--set", "dqn.batch=33"], "dqn.batch: found 33, expected a multiple of the number of slices, 2")):
            with self.subTest(word):
                errors = shoal("train", *RANKS, "--out", self.run_folder, *arguments, status=2).stderr
                self.assertEqual(errors.count("\n"), 1, errors)
                self.assertIn(word, errors)
                self.assertFalse(self.run_folder.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
