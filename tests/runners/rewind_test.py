"""Repeating failures of environments with `shoal rewind`. Usage: rewind_test.py COMMAND [unittest arguments]; COMMAND: fragile_command, the
`shoal` program with environments that fail"""

import importlib.util
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import unittest

from program import SHOAL, FolderTest, shoal

TOYS = pathlib.Path(__file__).parent.parent / "envs/gymnasium"
# Rollouts of 8 environments times 16 steps; environment 5 fails in the 32nd rollout.
TRAIN = ["train", "cartpole-ppo", "--quiet", "--set", "stop_return=off", "--set", "schedule_steps=100000", "--set", "sampler.kind=parallel-gpu",
         "--envs", "8", "--workers", "2", "--set", "sampler.horizon=16", "--set", "ppo.epochs=1", "--set", "log_steps=10000"]
KINDS = {"serial": ["--sampler", "serial"],
         "parallel-cpu": ["--sampler", "parallel-cpu"],
         "parallel-gpu": ["--sampler", "parallel-gpu", "--set", "sampler.groups=2"],
         "dynamic": ["--sampler", "parallel-gpu", "--set", "sampler.dynamic_batch=4"],
         "resets wait": ["--sampler", "parallel-gpu", "--set", "sampler.mid_batch_reset=false"]}


def environment(how):
    return ["--set", f"env.id=Fragile-{how}"]


class RewindTest(FolderTest):
    def fails(self, name, *arguments, status=1):
        """A run whose environment fails."""
        run = self.dir / name
        done = shoal(*TRAIN, "--steps", 50000, "--out", run, *arguments, status=status)
        self.assertIn(f"`shoal rewind {shlex.quote(str(run))}` repeats the failure of environment 5", done.stderr)
        return run

    def rewind(self, run, *arguments):
        done = shoal("rewind", run, *arguments)
        self.assertIn("the observation equals that of the run bit for bit", done.stdout)
        return done.stdout

    def test_what_ends_a_worker_ends_the_replay(self):
        words = {"throw": "threw while stepping environment 5 at step 499: the wheel came off",
                 "segfault": "was killed by SIGSEGV while stepping environment 5 at step 499",
                 "exit": "called exit(3) while stepping environment 5 at step 499"}
        for how, text in words.items():
            for saves in ("", "-unsaved"):
                with self.subTest(how + saves):
                    run = self.fails(how + saves, *environment(how + saves))
                    said = self.rewind(run)
                    self.assertRegex(said, rf"failed at step 499:\n  worker 1 \(pid \d+\) {re.escape(text)}")
                    self.assertRegex(said, "recorded: a saved state of" if saves == "" and "state" in said else "recorded: a reset with seed .* at step 0, and 500 actions")
                    self.assertRegex(said, rf"next: the step that failed, with action \[\d\]\nit failed again: .*{re.escape(text)}")

    def test_every_sampler_keeps_it(self):
        for name, kind in KINDS.items():
            with self.subTest(name):
                said = self.rewind(self.fails(name, *environment("throw"), *kind))
                self.assertIn("it failed again", said)

    def test_what_ends_the_training_process_itself_is_repeated(self):
        succeeds = ("exit-0", 1, r"called exit\(0\)")  # a failure all the same
        crash, end = ("segfault", -signal.SIGSEGV, "was killed by SIGSEGV"), ("exit", 3, r"called exit\(3\)")
        asynchronous = ["--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true", "--set", "ppo.minibatches=4"]
        for (how, status, text), more in ((crash, []), (end, []), (succeeds, []), (crash, asynchronous)):
            with self.subTest(how, more=more):
                run = self.fails(f"serial-{how}-{len(more)}", *environment(how), "--sampler", "serial", *more, status=status)
                self.assertRegex(self.rewind(run), f"(?s)failed at step 499:\n  {text}.*it failed again: worker 0 .* {text}")

    def test_a_hang_is_repeated(self):
        run = self.fails("hang", *environment("hang"), "--set", "sampler.step_limit=0.5")
        self.assertRegex(self.rewind(run), "it failed again: .* stepping environment 5 at step 499 for more than 0.5 s")

    def test_a_reset_that_fails_is_repeated(self):
        run = self.fails("reset", *environment("reset"))
        self.assertRegex(self.rewind(run), "it failed again: .*: the wheel came off while it was put on")

    def test_failures_before_the_first_rollout_are_repeated(self):
        asynchronous = ["--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true", "--set", "ppo.minibatches=4"]
        for how, about, text in (("constructor", "the constructor of the environment", "there is no wheel"),
                                 ("first-reset", "the first reset", "the wheel does not fit")):
            for kind in ["--sampler", "serial"], ["--sampler", "parallel-gpu"], ["--sampler", "serial", *asynchronous]:
                with self.subTest(how, kind=kind):
                    run = self.fails(f"{how}-{len(kind)}-{kind[1]}", *environment(how), *kind)
                    said = shoal("rewind", run).stdout
                    self.assertRegex(said, f"next: {about}.*\nit failed again: .*{text}")
        settings = run / "config.toml"
        settings.write_text(settings.read_text().replace("Fragile-first-reset", "Fragile-constructor"))
        self.assertIn("it failed earlier, with another error: worker 0", shoal("rewind", run, status=1).stdout)

    def test_a_save_that_fails_is_repeated(self):
        run = self.fails("save", *environment("save"), "--set", "checkpoint_steps=256")
        self.assertRegex(shoal("rewind", run).stdout, "next: the save that failed\nit failed again: .* the wheel cannot be described")

    def test_a_resumed_run_is_repeated_from_its_checkpoint(self):
        run = self.dir / "resumed"
        shoal(*TRAIN, "--out", run, *environment("throw"), "--steps", 3000)
        done = shoal("train", "--resume", run, "--steps", 50000, "--quiet", status=1)
        self.assertIn("the wheel came off", done.stderr)
        step, actions = re.search(r"recorded: a saved state of \d+ bytes at step (\d+), and (\d+) actions since", self.rewind(run)).groups()
        self.assertGreaterEqual(int(step), 384)  # or a later one, if that took long
        self.assertEqual(int(step) + int(actions), 500)

    def test_the_kept_failure_is_another_one_than_now(self):
        run = self.fails("changed", *environment("throw-unsaved"))
        config = (run / "config.toml").read_text()
        (run / "config.toml").write_text(config.replace("Fragile-throw-unsaved", "CartPole-v1"))  # another environment under the same id
        done = shoal("rewind", run, status=1)
        self.assertIn("the observation DIFFERS from that of the run", done.stdout)
        self.assertIn("the environment did not fail this time", done.stdout)

    def test_the_latest_few_deaths_of_a_run_are_kept(self):
        run = self.dir / "restarts"
        done = shoal(*TRAIN, "--out", run, *environment("segfault"), "--set", "sampler.on_death=restart", "--steps", "17500")
        self.assertEqual(done.stderr.count("repeats the failure"), 4, done.stderr)
        files = sorted(run.glob("failure-*.rewind"))
        self.assertEqual(len(files), 4)
        for file in files:
            self.assertIn("it failed again", self.rewind(file))
            self.assertLess(file.stat().st_size, 50000)
        for i in range(10):
            shutil.copy(files[0], run / f"failure-{i}.rewind")
        shoal("train", "--resume", run, "--steps", 24000, "--quiet")
        self.assertEqual(len(list(run.glob("failure-*.rewind"))), 5)

    def test_it_waits_for_a_debugger(self):
        run = self.fails("break", *environment("segfault"))
        process = subprocess.Popen([SHOAL, "rewind", str(run), "--break"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        said = [process.stdout.readline() for _ in range(6)]
        self.assertIn("next: the step that failed", said[-2])
        self.assertIn(f"gdb -p {process.pid}", said[-1])
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(20), -signal.SIGSEGV)

    def test_a_debugger_comes_before_a_reset(self):
        run = self.fails("reset", *environment("reset"))
        process = subprocess.Popen([SHOAL, "rewind", str(run), "--break"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        said = [process.stdout.readline() for _ in range(6)]
        self.assertEqual(said[-2], "next: the reset that failed\n")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.stdout.read(), "it failed again: the wheel came off while it was put on\n")
        self.assertEqual(process.wait(20), 0)

    def test_what_came_before_is_filmed(self):
        run = self.fails("to be filmed", *environment("throw"))
        for film, word in (("film.avi", "expected a name ending in .gif"), ("none/film.gif", "cannot write"), ("none/film.mp4", "--video|cannot write")):
            done = shoal("rewind", run, "--video", self.dir / film, status=2)
            self.assertRegex(done.stderr, word)
            self.assertEqual(done.stdout, "", "nothing is said of the environment")
        said = shoal("rewind", run, "--video", self.dir / "film.gif").stdout
        steps = int(re.search(r"(\d+) steps replayed", said)[1])
        pictures = (self.dir / "film.gif").read_bytes().count(b"!\xf9\x04")  # a duration each
        self.assertEqual(pictures, steps + 1)
        self.assertIn("it failed again", said)

    def test_a_run_without_failure_is_a_mistake(self):
        run = self.dir / "fine"
        shoal(*TRAIN, "--out", run, "--steps", 256)
        self.assertIn("no environment of this run has failed", shoal("rewind", run, status=2).stderr)
        (run / "failure-1-2.rewind").write_bytes(b"SHOALCK1")
        self.assertIn("truncated", shoal("rewind", run, status=2).stderr)
        self.assertIn("expected a run folder", shoal("rewind", self.dir, status=2).stderr)

    @unittest.skipUnless(importlib.util.find_spec("gymnasium"), "no gymnasium")
    def test_an_exception_in_python_comes_again(self):
        run = self.dir / "raises"
        shoal(*TRAIN, "--steps", 10000, "--set", "env.id=gymnasium:toy_gymnasium:Raises-v0", "--out", run, status=1, cwd=TOYS)
        said = shoal("rewind", run, cwd=TOYS).stdout
        self.assertRegex(said, r"(?s)it failed again: .*ValueError: the third step is a bad one")


if __name__ == "__main__":
    unittest.main(verbosity=2)
