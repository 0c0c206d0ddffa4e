"""How a training ends on request: by signals, by an output without a reader, and while environments hang; and that no process is
left. Usage: stop_test.py SHOAL [unittest arguments]"""

import importlib.util
import os
import pathlib
import signal
import subprocess
import time
import unittest
import uuid

from processes import marked, runs, wait_until
from program import SHOAL, FolderTest, shoal

HERE = pathlib.Path(__file__).parent
ENDLESS = ["--set", "stop_return=off", "--set", "sampler.kind=parallel-gpu", "--set", "sampler.horizon=16", "--set", "checkpoint_seconds=1000",
           "--steps", "1000000000"]
STUBBORN = [*ENDLESS, "--set", "env.id=gymnasium:stubborn:Stubborn-v0", "--envs", "4", "--workers", "2", "--set", "stop_grace=0.5",
            "--set", "ppo.minibatches=1", "--quiet"]
ASYNCHRONOUS = ["--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true"]


def default_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # independent of the tests' parent


def ignore_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


class StopCase(FolderTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.dir / "run"
        self.mark = uuid.uuid4().hex  # in the environment of every process of the run

    def start(self, *arguments, preexec_fn=default_hangup, stdout=subprocess.PIPE, **environment):
        training = subprocess.Popen([SHOAL, "train", "cartpole-ppo", "--out", str(self.run_folder), *arguments], cwd=HERE,
                                    stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=preexec_fn,
                                    env={**os.environ, "STUBBORN_MARK": self.mark, **environment})
        self.addCleanup(training.kill)
        self.addCleanup(training.stderr.close)
        if training.stdout:
            self.addCleanup(training.stdout.close)
        return training

    def own_processes(self):
        return marked(self.mark)

    def assert_nothing_left(self):
        end = time.monotonic() + 5
        while left := self.own_processes():
            names = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left if runs(pid)]
            self.assertLess(time.monotonic(), end, f"left: {left} {names}")
            time.sleep(0.02)

    def assert_ends(self, training, status, within=20):
        try:
            training.wait(timeout=within)
        except subprocess.TimeoutExpired:
            self.fail("it goes on")
        errors = training.stderr.read()
        self.assertEqual(training.returncode, status, errors)
        self.assert_nothing_left()
        return errors

    def wait_for_rows(self, training, rows=2):
        progress = self.run_folder / "progress.csv"
        wait_until(lambda: training.poll() is not None or progress.exists() and progress.read_text().count("\n") > rows)
        self.assertIsNone(training.poll())

    def steps(self):
        return int((self.run_folder / "progress.csv").read_text().splitlines()[-1].split(",")[0])

    def goes_on(self):
        before = self.steps()
        shoal("train", "--resume", self.run_folder, "--steps", before + 1, "--quiet", cwd=HERE)
        self.assertGreater(self.steps(), before)


class OutputTest(StopCase):
    def test_a_hangup_ends_it_with_a_checkpoint(self):
        training = self.start(*ENDLESS)
        self.wait_for_rows(training)
        training.send_signal(signal.SIGHUP)
        errors = self.assert_ends(training, 128 + signal.SIGHUP)
        self.assertIn("resume it: shoal train --resume", errors)
        self.goes_on()

    def test_a_hangup_ends_several_ranks_with_a_checkpoint(self):
        training = self.start(*ENDLESS, "--ranks", "2", "--workers", "2")
        self.wait_for_rows(training)
        training.send_signal(signal.SIGHUP)
        self.assert_ends(training, 128 + signal.SIGHUP)
        self.assertTrue((self.run_folder / "model.ckpt").exists())

    def test_one_that_is_ignored_from_the_start_stays_so(self):
        for more in [], ["--ranks", "2", "--workers", "2"]:
            with self.subTest(more):
                training = self.start(*ENDLESS, *more, "--quiet", preexec_fn=ignore_hangup)
                self.wait_for_rows(training)
                training.send_signal(signal.SIGHUP)
                rows = (self.run_folder / "progress.csv").read_text().count("\n")
                self.wait_for_rows(training, rows + 3)
                training.send_signal(signal.SIGTERM)
                self.assert_ends(training, 128 + signal.SIGTERM)
                self.run_folder = self.dir / "another"

    def test_an_output_that_nobody_reads_any_more_ends_it_with_a_checkpoint(self):
        for more in [], ["--ranks", "2", "--workers", "2"]:
            with self.subTest(more):
                training = self.start(*ENDLESS, *more)
                training.stdout.readline()
                training.stdout.close()
                errors = self.assert_ends(training, 128 + signal.SIGPIPE)
                self.assertIn("standard output was closed", errors)
                self.goes_on()
                self.run_folder = self.dir / "another"

    def test_files_do_not_take_the_places_of_closed_streams(self):
        script = f"exec '{SHOAL}' train cartpole-ppo --out '{self.run_folder}' {' '.join(ENDLESS[:-1])} 2048 <&- >&- 2>&-"
        done = subprocess.run(["bash", "-c", script], timeout=60)
        self.assertEqual(done.returncode, 0)
        lines = (self.run_folder / "progress.csv").read_text().splitlines()
        self.assertEqual(len({line.count(",") for line in lines}), 1, lines)


@unittest.skipUnless(importlib.util.find_spec("gymnasium"), "no gymnasium")
class StubbornTest(StopCase):
    def start_stubborn(self, what, *arguments):
        self.file = self.dir / uuid.uuid4().hex
        return self.start(*STUBBORN, *arguments, STUBBORN=what, STUBBORN_FILE=str(self.file))

    def asked_while(self, what, *arguments):
        training = self.start_stubborn(what, *arguments)
        wait_until(lambda: self.file.exists() or training.poll() is not None)
        self.assertIsNone(training.poll())
        training.send_signal(signal.SIGTERM)
        return training

    def test_a_hung_step_is_given_up_with_a_checkpoint(self):
        for arguments in (["--sampler", "parallel-gpu"], ["--sampler", "parallel-cpu", *ASYNCHRONOUS]):
            with self.subTest(arguments):
                training = self.asked_while("step", *arguments)
                errors = self.assert_ends(training, 128 + signal.SIGTERM)
                if ASYNCHRONOUS[1] not in arguments:  # with it, the rollouts of the other worker continue
                    self.assertIn("SIGTERM asked to stop", errors)
                self.goes_on()
                self.run_folder = self.dir / "another"

    def test_a_hung_step_in_the_process_itself_ends_it(self):
        for arguments in (["--sampler", "serial"], ["--sampler", "serial", *ASYNCHRONOUS]):
            with self.subTest(arguments):
                training = self.asked_while("step", *arguments)
                self.assertIn("has not returned", self.assert_ends(training, 128 + signal.SIGTERM))
                self.run_folder = self.dir / "another"

    def test_a_hung_step_in_the_process_itself_has_a_limit(self):
        for arguments in (["--sampler", "serial"], ["--sampler", "serial", *ASYNCHRONOUS]):
            with self.subTest(arguments):
                training = self.start_stubborn("step", *arguments, "--set", "sampler.step_limit=0.1", "--set", "sampler.reset_limit=5")
                errors = self.assert_ends(training, 1, within=60)
                self.assertTrue(self.file.exists(), "this machine is too slow for the test")
                self.assertIn("raise sampler.step_limit or sampler.reset_limit", errors)
                self.run_folder = self.dir / "another"

    def test_slow_steps_are_given_up_with_a_checkpoint(self):
        training = self.asked_while("slow", "--set", "sampler.horizon=200", "--set", "stop_grace=1")
        self.assert_ends(training, 128 + signal.SIGTERM)
        self.assertTrue((self.run_folder / "model.ckpt").exists())

    def test_a_hung_construction_has_a_limit(self):
        training = self.start_stubborn("construction", "--set", "sampler.reset_limit=5")
        errors = self.assert_ends(training, 1, within=60)
        self.assertTrue(self.file.exists(), "this machine is too slow for the test")
        self.assertRegex(errors, r"has been constructing environment 0 .*for more than 5\.0 s; .* raise sampler\.reset_limit")
        self.assertFalse(self.run_folder.exists())

    def test_a_signal_during_a_hung_construction_ends_it(self):
        training = self.asked_while("construction")
        self.assert_ends(training, 128 + signal.SIGTERM, within=5)
        self.assertFalse(self.run_folder.exists())

    def test_what_environments_have_started_ends_with_the_run(self):
        for what in "subprocess", "multiprocessing", "fork", "fork that returns":
            for end in "signal", "kill":
                with self.subTest(what=what, end=end):
                    self.run_folder = self.dir / f"{what} {end}"
                    training = self.start_stubborn(what)
                    self.wait_for_rows(training)
                    if what in ("subprocess", "fork"):
                        wait_until(lambda: len(self.own_processes()) > 3 + 4)
                    if end == "signal":
                        training.send_signal(signal.SIGTERM)
                        self.assert_ends(training, 128 + signal.SIGTERM)
                    else:
                        training.kill()
                        self.assert_ends(training, -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
