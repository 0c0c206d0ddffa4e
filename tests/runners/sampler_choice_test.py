"""sampler.kind = auto: the choice is written and kept, and changes nothing of a run. Usage: sampler_choice_test.py COMMAND
[unittest arguments]; COMMAND: fragile_command, the `shoal` program with environments that fail"""

import os
import re
import signal
import subprocess
import tomllib
import unittest
import uuid

from processes import marked, wait_until
from program import SHOAL, FolderTest, shoal

# Each part of a run samples for at least 2 s, on the fastest machine and with two ranks, and is measured.
SLOW = ["train", "cartpole-ppo", "--set", "env.id=Slow-v0", "--set", "stop_return=off", "--envs", "64", "--set", "sampler.horizon=32",
        "--set", "schedule_steps=200000"]
PART, WHOLE = 2048 * 40, 2048 * 60
# Environment 5 of 8 fails at step 500, in a measurement and in a run.
BROKEN = ["train", "cartpole-ppo", "--set", "stop_return=off", "--envs", "8", "--set", "sampler.horizon=16", "--steps", "100000000"]


def sampler_of(run):
    settings = tomllib.loads((run / "config.toml").read_text())["sampler"]
    return {key: settings[key] for key in ("kind", "workers", "groups")}


def told(done, run):
    """Its errors, without what differs from run to run."""
    return re.sub(r"\(pid \d+\)", "", done.stderr.replace(str(run), "RUN"))


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core: there is nothing to choose from")
class SamplerChoiceTest(FolderTest):
    def test_the_run_is_that_of_any_sampler_and_resumes_with_its_own(self):
        whole, parts = self.dir / "whole", self.dir / "parts"
        shoal(*SLOW, "--out", whole, "--steps", WHOLE, "--sampler", "serial", "--quiet")
        said = shoal(*SLOW, "--out", parts, "--steps", PART).stdout
        self.assertRegex(said, r"samplers, in steps/s:\n  (\S.*\S) +\d+  chosen\n  \S")
        chosen = sampler_of(parts)
        self.assertIn(chosen["kind"], ("serial", "parallel-cpu", "parallel-gpu"))
        self.assertIn(f"  {chosen['kind']}", said.split("chosen")[0])
        said = shoal("train", "--resume", parts, "--steps", WHOLE).stdout
        self.assertNotIn("samplers", said)
        self.assertEqual(sampler_of(parts), chosen)
        shoal("verify", whole, parts)

    def test_a_resumed_run_measures_again_if_it_is_told_to(self):
        run, whole = self.dir / "run", self.dir / "whole"
        shoal(*SLOW, "--out", whole, "--steps", WHOLE, "--sampler", "serial", "--quiet")
        shoal(*SLOW, "--out", run, "--steps", PART, "--sampler", "parallel-gpu", "--workers", "2", "--set", "sampler.groups=2", "--quiet")
        said = shoal("train", "--resume", run, "--steps", PART + 2048, "--sampler", "auto", "--workers", "3").stdout
        self.assertIn("samplers, in steps/s:", said)
        self.assertEqual(sampler_of(run)["workers"], 3)
        said = shoal("train", "--resume", run, "--steps", WHOLE, "--sampler", "auto").stdout
        self.assertIn("samplers, in steps/s:", said)
        self.assertNotIn(", 3 workers", said)
        shoal("verify", whole, run)

    def test_ranks_agree(self):
        auto, serial = self.dir / "auto", self.dir / "serial"
        ranks = [*SLOW, "--ranks", "2", "--steps", PART]
        shoal(*ranks, "--out", auto)
        shoal(*ranks, "--out", serial, "--sampler", "serial", "--quiet")
        self.assertNotEqual(sampler_of(auto)["kind"], "auto")
        shoal("verify", auto, serial)

    def test_short_runs_are_not_measured(self):
        said = shoal("train", "cartpole-ppo", "--out", self.dir / "run", "--steps", 2048).stdout
        self.assertIn("samplers are not measured: the run samples for less than a second", said)
        self.assertNotEqual(sampler_of(self.dir / "run")["kind"], "auto")

    def test_an_asynchronous_run_has_workers(self):
        shoal("train", "cartpole-ppo", "--out", self.dir / "run", "--steps", 8192, "--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true",
              "--set", "ppo.minibatches=1", "--quiet")
        self.assertEqual(sampler_of(self.dir / "run")["kind"], "parallel-gpu")

    def test_an_environment_that_fails_is_told_of_as_without_a_measurement(self):
        for how in "throw", "segfault":
            with self.subTest(how):
                auto, same = self.dir / f"{how}-auto", self.dir / f"{how}-same"
                broken = [*BROKEN, "--set", f"env.id=Fragile-{how}"]
                done = shoal(*broken, "--out", auto, status=None)
                self.assertIn("samplers are not measured: ", done.stdout)
                chosen = sampler_of(auto)
                again = shoal(*broken, "--out", same, "--sampler", chosen["kind"], "--workers", chosen["workers"], status=None)
                self.assertNotIn(done.returncode, (0, 2))
                self.assertEqual(done.returncode, again.returncode)
                self.assertEqual(told(done, auto), told(again, same))
                shoal("rewind", auto)

    def test_a_signal_ends_the_measurement_without_a_trace(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number):
                run, mark = self.dir / "run", uuid.uuid4().hex
                training = subprocess.Popen([SHOAL, *BROKEN, "--out", run, "--set", "env.id=Fragile-hang"], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE, env={**os.environ, "CHOICE_MARK": mark})
                self.addCleanup(training.stderr.close)
                self.addCleanup(training.kill)
                # The run itself, the reaper, a trial, its reaper and its workers. An environment then hangs for longer than this takes.
                wait_until(lambda: training.poll() is not None or len(marked(mark)) > 5)
                self.assertIsNone(training.poll())
                training.send_signal(number)
                self.assertEqual(training.wait(timeout=4), 128 + number, training.stderr.read())
                self.assertFalse(run.exists())
                wait_until(lambda: not marked(mark))


if __name__ == "__main__":
    unittest.main(verbosity=2)
