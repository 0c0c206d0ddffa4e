"""What runs say and leave when they end: by themselves, by signals, deaths and a full disk. Usage: run_end_test.py SHOAL [unittest arguments]"""

import csv
import importlib.util
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import unittest

from processes import children, runs, wait_until
from program import SHOAL, SHORT, FolderTest, shoal, train


def fill_disk():
    """Leaves room for the configuration in a file, but not for a checkpoint, nor for the rows of 200 000 steps."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (24576, 24576))


def undelivered(pid, number):
    """Whether a signal that was sent to the process has yet to reach it."""
    pending = re.search(r"^ShdPnd:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return runs(pid) and int(pending[1], 16) >> (number - 1) & 1  # it never reaches a process that has ended


def group_exists(pid):
    """Whether a process of the group runs, or waits for init to reap it."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def without_kept_failure(errors):
    """The lines of stderr except the note about a recorded failure: the worker may have been inside an environment."""
    return [line for line in errors.splitlines() if not line.startswith("recorded in ")]


class RunEndTest(FolderTest):
    def start_training(self, run, *arguments):
        process = subprocess.Popen([SHOAL, "train", "cartpole-ppo", "--out", run, *SHORT, "--steps", "1000000000", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        process.stdout.readline()  # the first line of progress: it is training
        return process

    def end_of(self, process, status):
        """Its output on stderr."""
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, status, errors)
        wait_until(lambda: not group_exists(process.pid), seconds=30)  # nothing is left running; init reaps what has ended
        return errors

    def stop_with(self, number, status, times=1):
        run = self.dir / f"stopped-{status}-{times}"
        process = self.start_training(run)
        for _ in range(times):
            self.assertTrue(runs(process.pid))
            os.killpg(process.pid, number)  # as a terminal does: workers get it, too
            wait_until(lambda: not undelivered(process.pid, number), interval=0.001)  # or a second one would be lost
        self.assertEqual(self.end_of(process, status), "")
        self.assertTrue((run / "summary.json").exists())
        shoal("eval", run, "--episodes", 2)

    def test_interrupt(self):
        self.stop_with(signal.SIGINT, 130)

    def test_terminate(self):
        self.stop_with(signal.SIGTERM, 143)

    def test_terminate_twice_at_once(self):
        self.stop_with(signal.SIGTERM, 143, times=2)  # as timeout(1) does

    def test_a_killed_worker_is_a_failure(self):
        process = self.start_training(self.dir / "killed", "--workers", "2")
        _, worker = children(process.pid)
        os.kill(worker, signal.SIGKILL)
        errors = self.end_of(process, 1)
        self.assertEqual(len(without_kept_failure(errors)), 1, errors)
        self.assertRegex(errors, rf"worker \d \(pid {worker}\) was killed by SIGKILL")

    ASYNCHRONOUS = ("--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true", "--set", "ppo.minibatches=2")

    def test_an_asynchronous_run_is_stopped_and_resumed(self):
        for kind in ("serial", "parallel-cpu", "parallel-gpu"):
            with self.subTest(kind):
                run = self.dir / f"asynchronous-{kind}"
                process = self.start_training(run, "--sampler", kind, *self.ASYNCHRONOUS)
                os.killpg(process.pid, signal.SIGINT)
                self.assertEqual(self.end_of(process, 130), "")
                before = json.loads((run / "summary.json").read_text())
                shoal("train", "--resume", run, "--steps", before["steps"] + 20000, "--quiet")
                after = json.loads((run / "summary.json").read_text())
                self.assertGreaterEqual(after["steps"], before["steps"] + 20000)
                self.assertGreater(after["updates"], before["updates"])
                self.assertGreaterEqual(after["episodes"], before["episodes"])

    def test_a_killed_worker_is_started_anew_if_asked(self):
        run = self.dir / "restarted"
        process = self.start_training(run, "--sampler", "parallel-cpu", "--workers", "2", *self.ASYNCHRONOUS,
                                      "--set", "sampler.on_death=restart")
        (fork_server,) = children(process.pid)
        worker = children(fork_server)[0]
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(children(fork_server)) == 2 and not os.path.exists(f"/proc/{worker}"))

        def restarts():
            with open(run / "progress.csv") as file:
                return [row["restarts"] for row in csv.DictReader(file)][-1]

        wait_until(lambda: restarts() == "1")
        os.killpg(process.pid, signal.SIGINT)
        errors = self.end_of(process, 130)
        self.assertEqual(len(without_kept_failure(errors)), 1, errors)
        self.assertRegex(errors, rf"worker \d \(pid {worker}\) was killed by SIGKILL.* it is restarted")

    @unittest.skipUnless(importlib.util.find_spec("gymnasium"), "no gymnasium")
    def test_an_exception_in_python_is_a_failure_with_its_traceback(self):
        toys = pathlib.Path(__file__).parent.parent / "envs/gymnasium"
        errors = shoal("train", "cartpole-ppo", *SHORT, "--set", "env.id=gymnasium:toy_gymnasium:Raises-v0", "--quiet",
                       "--workers", "2", "--out", self.dir / "raises", cwd=toys, status=1).stderr
        self.assertRegex(errors, r"shoal: worker \d \(pid \d+\) threw while stepping environment \d+ at step \d+")
        self.assertIn('toy_gymnasium.py", line', errors)
        self.assertTrue(errors.endswith("ValueError: the third step is a bad one\n"), errors)

    def test_a_full_disk_while_training_is_a_failure(self):
        for steps, file in ("1024", "model.ckpt"), ("200000", "progress.csv"):
            with self.subTest(file):
                run = self.dir / f"full-{steps}"
                # Python ignores SIGXFSZ: so will the program.
                errors = shoal("train", "cartpole-ppo", "--out", run, *SHORT, "--steps", steps, status=1, preexec_fn=fill_disk,
                               restore_signals=False).stderr
                self.assertEqual(len(errors.splitlines()), 1, errors)
                self.assertIn(f"{run}/{file}", errors)
                self.assertIn("File too large", errors)

    def test_the_end_tells_of_a_return_that_was_not_reached(self):
        self.assertRegex(train(self.dir / "short", "--steps", "1024", "--set", "stop_return=475").stdout,
                         r"not solved: final return \d+\.\d\d \(last \d+ episodes\), expected 475 ")
        self.assertNotIn("not solved", train(self.dir / "solved", "--steps", "100000", "--set", "stop_return=1").stdout)
        self.assertNotIn("not solved", train(self.dir / "endless", "--steps", "1024").stdout)

    def ended_by(self, run):
        return json.loads((run / "summary.json").read_text())["ended_by"]

    def test_the_end_says_why(self):
        steps, solved, stopped = (self.dir / f"why-{name}" for name in ("steps", "solved", "stopped"))
        self.assertIn("1024 steps are taken, of 1024 that were asked for\ndone: ", train(steps, "--steps", "1024", "--set", "stop_return=off").stdout)
        self.assertEqual(self.ended_by(steps), "steps")
        self.assertIn('stop_return = "off"', (steps / "config.toml").read_text())
        self.assertRegex(train(solved, "--steps", "100000", "--set", "stop_return=1").stdout,
                         r"mean return \d+\.\d\d \(last 100 episodes\) reached stop_return, 1, after \d+ steps\ndone: ")
        self.assertEqual(self.ended_by(solved), "stop_return")
        process = self.start_training(stopped)
        process.send_signal(signal.SIGTERM)
        self.assertRegex(process.communicate(timeout=30)[0], r"SIGTERM asked to stop after \d+ of 1000000000 steps\nstopped: ")
        self.assertEqual(self.ended_by(stopped), "SIGTERM")


if __name__ == "__main__":
    unittest.main()
