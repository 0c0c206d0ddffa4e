"""Many runs with `shoal launch`, and which cores a run uses. Usage: launch_test.py SHOAL [unittest arguments]"""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time
import unittest

from processes import children
from program import SHOAL, FolderTest, shoal

CORES = sorted(os.sched_getaffinity(0))
SEARCH = """
base = "cartpole-ppo"
seeds = [4]
[all]
stop_return = inf
sampler.horizon = 16
{more}
[grid]
ppo.learning_rate = {rates}
[tune]
{rungs}
"""
SWEEP = """
base = "cartpole-ppo"
seeds = [1, 2]
[all]
stop_return = inf
schedule_steps = 1000000000
steps = {steps}
checkpoint_steps = 512
sampler.horizon = 16
[variant.narrow]
model.hidden = [16]
[variant.a2c]
algo = "a2c"
"""


class LaunchTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "all runs"

    def sweep(self, steps, more=""):
        file = self.dir / "sweep.toml"
        file.write_text(SWEEP.format(steps=steps) + more)
        return file

    def search(self, rates, rungs, more=""):
        file = self.dir / "tune.toml"
        file.write_text(SEARCH.format(rates=rates, rungs=rungs, more=more))
        return file

    def model(self, name):
        return (self.out / name / "model.ckpt").read_bytes()

    def test_every_run_is_the_one_that_train_makes_and_is_trained_once(self):
        lines = shoal("launch", self.sweep(2048), "--out", self.out).stdout.splitlines()
        self.assertIn("4 runs, 0 of them done", lines[0])
        alone = self.dir / "alone"
        shoal("train", "cartpole-ppo", "--quiet", "--out", alone, "--seed", 2, "--steps", 2048, "--set", "stop_return=inf",
              "--set", "schedule_steps=1000000000", "--set", "sampler.horizon=16", "--set", "model.hidden=[16]")
        self.assertEqual(self.model("narrow-2"), (alone / "model.ckpt").read_bytes())
        self.assertNotEqual(self.model("narrow-2"), self.model("narrow-1"))
        returns = [float(re.search(rf"narrow-{seed}: return (\S+) after 2048 steps", "\n".join(lines))[1]) for seed in (1, 2)]
        row = next(line.split() for line in lines if line.startswith("narrow "))
        self.assertEqual(row[1], "2")
        self.assertAlmostEqual(float(row[2]), sum(returns) / 2, delta=0.011)
        self.assertEqual(row[3:6], [f"{min(returns):.2f}", "and", f"{max(returns):.2f}"])
        self.assertAlmostEqual(float(row[6]), sum(returns) / 2, delta=0.011)
        self.assertEqual(lines[-1], f"plot them: shoal plot '{self.out}'/*/ --out '{self.out}/curves.svg'")
        subprocess.run(lines[-1].split(": ", 1)[1].replace("shoal", SHOAL, 1), shell=True, check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        self.assertIn("<svg", (self.out / "curves.svg").read_text()[:200])

        before = [(self.out / name / "summary.json").stat().st_mtime_ns for name in ("narrow-1", "a2c-2")]
        again = shoal("launch", self.dir / "sweep.toml", "--out", self.out).stdout.splitlines()
        self.assertIn("4 runs, 4 of them done", again[0])
        self.assertEqual(before, [(self.out / name / "summary.json").stat().st_mtime_ns for name in ("narrow-1", "a2c-2")])
        self.assertEqual(again[-4:], lines[-4:], "the same table")

        file = self.dir / "sweep.toml"
        file.write_text(file.read_text().replace("seeds = [1, 2]", "seeds = [1, 2, 3]"))
        more = shoal("launch", file, "--out", self.out).stdout
        self.assertIn("6 runs, 4 of them done", more)
        returns.append(float(re.search(r"narrow-3: return (\S+) after 2048 steps", more)[1]))
        row = next(line.split() for line in more.splitlines() if line.startswith("narrow "))
        half = 4.3027 * statistics.stdev(returns) / 3**0.5
        self.assertAlmostEqual(float(row[3]), statistics.mean(returns) - half, delta=0.05)
        self.assertAlmostEqual(float(row[5]), statistics.mean(returns) + half, delta=0.05)
        self.assertAlmostEqual(float(row[6]), statistics.median(returns), delta=0.011)

    def test_runs_at_a_time_have_cores_of_their_own_and_go_on_after_an_interrupt(self):
        launcher = subprocess.Popen([SHOAL, "launch", str(self.sweep(10**9)), "--out", str(self.out)], stdout=subprocess.DEVNULL)
        self.addCleanup(launcher.kill)
        # Every slot has written a checkpoint.
        while len(list(self.out.glob("*/model.ckpt"))) < min(len(CORES), 4):
            self.assertIsNone(launcher.poll())
            time.sleep(0.01)
        runs = children(launcher.pid)
        masks = [os.sched_getaffinity(run) for run in runs]
        self.assertEqual(len(runs), min(len(CORES), 4))
        self.assertEqual([len(mask) for mask in masks], [1] * len(runs))
        self.assertEqual(len(set.union(*masks)), len(runs), "no core has two runs")
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.wait(30), 128 + signal.SIGINT)
        for run in runs:
            self.assertFalse(pathlib.Path(f"/proc/{run}").exists())
        begun = {file.parent.name: file.parent / "progress.csv" for file in self.out.glob("*/model.ckpt")}
        taken = {name: int(file.read_text().splitlines()[-1].split(",")[0]) for name, file in begun.items()}
        end = max(taken.values()) + 512  # one that can be reached
        text = shoal("launch", self.sweep(end), "--out", self.out).stdout
        for name in taken:
            self.assertIn(f"{name}: return", text)
            rows = [int(line.split(",")[0]) for line in (self.out / name / "progress.csv").read_text().splitlines()[1:]]
            self.assertEqual(rows, list(range(512, end + 1, 512)), "it went on where it had stopped")

    def test_the_best_trials_go_on_as_if_they_had_never_stopped(self):
        file = self.search("[1e-6, 1e-3, 2e-6]", "min_steps = 8192\nmax_steps = 24576")
        self.assertIn("use shoal tune", shoal("launch", file, "--out", self.out, status=2).stderr)
        lines = shoal("tune", file, "--out", self.out).stdout.splitlines()
        name = "cartpole-ppo-ppo.learning_rate=0.001-4"
        self.assertIn(f"best: {self.out}/{name}, return", "\n".join(lines))
        self.assertIn("  ppo.learning_rate = 0.001", lines)
        self.assertIn("  steps = 24576", lines)
        self.assertIn("40960 steps in all", lines)  # 8192 of each, and 16384 more of one
        alone = self.dir / "alone"
        shoal("train", "cartpole-ppo", "--quiet", "--out", alone, "--seed", 4, "--steps", 24576, "--set", "stop_return=inf",
              "--set", "schedule_steps=24576", "--set", "sampler.horizon=16", "--set", "ppo.learning_rate=1e-3")
        self.assertEqual(self.model(name), (alone / "model.ckpt").read_bytes())
        again = shoal("tune", file, "--out", self.out).stdout.splitlines()
        self.assertEqual(again[-5:], lines[-5:], "nothing is trained twice")
        file = self.search("[1e-3]", "min_steps = 8192\nmax_steps = 24576", "steps = 4096")
        self.assertIn("found a setting 'steps', which is max_steps", shoal("tune", file, "--out", self.out, status=2).stderr)

    def test_a_rung_may_end_before_the_first_row(self):
        file = self.search("[1e-12, 1e-3]", "min_steps = 8000\nmax_steps = 16000\nfactor = 2", "log_steps = 8192")
        lines = shoal("tune", file, "--out", self.out).stdout.splitlines()
        self.assertIn("  ppo.learning_rate = 0.001", lines)

    def test_a_rung_counts_the_rollout_in_which_it_is_reached(self):
        file = self.search("[1e-12, 3e-3]", "min_steps = 8200\nmax_steps = 24576\nfactor = 2", "sampler.envs = 512")  # rollouts of 8192
        lines = shoal("tune", file, "--out", self.out).stdout.splitlines()
        self.assertIn("  ppo.learning_rate = 0.003", lines, "in the first rollout no agent has learned")

    def test_what_changes_in_the_file_reaches_runs_that_go_on(self):
        file = self.dir / "solved.toml"

        def launch(stop_return, steps, more=""):
            file.write_text(f'''
                base = "cartpole-ppo"
                seeds = [1]
                [all]
                stop_return = {stop_return}
                steps = {steps}
                {more}
            ''')
            return shoal("launch", file, "--out", self.out).stdout

        run = self.out / "cartpole-ppo-1"
        launch(15, 16384)
        solved = json.loads((run / "summary.json").read_text())
        self.assertEqual(solved["ended_by"], "stop_return")
        self.assertIn("1 of them done", launch(15, 16384))
        self.assertIn("0 of them done", launch('"off"', 16384))
        self.assertEqual(json.loads((run / "summary.json").read_text())["ended_by"], "steps")
        launch('"off"', 32768, "schedule_steps = 65536\nlog_steps = 8192")
        config = (run / "config.toml").read_text()
        for setting in ("steps = 32768", "schedule_steps = 65536", "log_steps = 8192", 'stop_return = "off"'):
            self.assertIn("\n" + setting, config)

        tune = self.dir / "tune.toml"
        trials = 'base = "cartpole-ppo"\nseeds = [1]\n[all]\nstop_return = inf\n[tune]\nmin_steps = 4096\nmax_steps = '
        tune.write_text(trials + "8192\n")
        shoal("tune", tune, "--out", self.dir / "trials")
        tune.write_text(trials + "16384\n")
        self.assertIn("was trained with schedule_steps = 8192, but the file says 16384",
                      shoal("tune", tune, "--out", self.dir / "trials", status=2).stderr)

    def test_a_run_that_fails_is_said_and_the_others_are_trained(self):
        sweep = self.sweep(1024, '[variant.orphan]\ninit_from = "{}"\n'.format(self.dir / "none"))
        done = shoal("launch", sweep, "--out", self.out, status=1)
        self.assertIn(f"orphan-1: failed, see {self.out}/orphan-1.log", done.stdout)
        self.assertIn("none", (self.out / "orphan-1.log").read_text())
        self.assertIn("narrow-2: return", done.stdout)

    def test_mistakes_are_found_before_anything_is_started(self):
        sweep = self.sweep(1024, "[variant.bad]\nppo.clop = 1\n")
        self.assertIn("ppo.clip", shoal("launch", sweep, "--out", self.out, status=2).stderr)
        self.assertFalse(self.out.exists())
        self.assertIn("none.toml", shoal("launch", self.dir / "none.toml", status=2).stderr)

    def test_longer_runs_need_longer_schedules_before_anything_is_started(self):
        file = self.dir / "longer.toml"

        def launch(settings, status=0):
            file.write_text(f'base = "cartpole-ppo"\nseeds = [1]\n[all]\nstop_return = "off"\nsampler.horizon = 16\n{settings}\n')
            return shoal("launch", file, "--out", self.out, status=status)

        launch("steps = 1024")
        before = (self.out / "cartpole-ppo-1.log").stat().st_mtime_ns
        self.assertRegex(launch("steps = 2048", status=2).stderr,
                         r"cartpole-ppo-1: steps: found 2048, but ppo.learning_rate reaches 0 after 1024 \(schedule_steps\)")
        self.assertEqual((self.out / "cartpole-ppo-1.log").stat().st_mtime_ns, before)
        launch("steps = 2048\nschedule_steps = 2048")
        self.assertIn("1 of them done", launch("steps = 2048").stdout)

    def test_nothing_is_taken_for_what_it_is_not(self):
        shoal("launch", self.sweep(512), "--out", self.out)
        changed = self.sweep(512)
        changed.write_text(changed.read_text().replace("[16]", "[32]"))
        done = shoal("launch", changed, "--out", self.out, status=2)
        self.assertIn("narrow-1 was trained with model.hidden = [16], but the file says [32]", done.stderr)
        precious = self.dir / "other" / "a2c-1" / "precious"
        precious.mkdir(parents=True)
        self.assertIn("is not a run folder", shoal("launch", self.sweep(512), "--out", self.dir / "other", status=2).stderr)
        self.assertTrue(precious.exists())

    def test_a_run_that_was_killed_after_its_last_checkpoint_is_done(self):
        (self.out / "a2c-2").mkdir(parents=True)  # that of a run which was killed as it began
        (self.out / "a2c-2" / "config.toml.new").write_text("")
        lines = shoal("launch", self.sweep(512), "--out", self.out).stdout.splitlines()
        summary = self.out / "narrow-1" / "summary.json"
        too_large = json.dumps(json.loads(summary.read_text()) | {"steps": 1e300})
        for text in ("{", '{"steps": 512}', "", too_large):
            summary.write_text(text)
            self.assertIn("summary.json is damaged; remove it", shoal("launch", self.sweep(512), "--out", self.out, status=2).stderr)
        summary.unlink()
        again = shoal("launch", self.sweep(512), "--out", self.out).stdout.splitlines()
        self.assertIn("4 runs, 4 of them done", again[0])
        self.assertEqual(lines[-1].split()[:5], again[-1].split()[:5])

    def test_a_run_uses_the_cores_it_was_given(self):
        core = CORES[-1]
        run = self.dir / "run"
        out = shoal("train", "cartpole-ppo", "--cores", f"{core}-{core}", "--workers", 2, "--pin", "auto", "--steps", 512,
                    "--set", "sampler.horizon=16", "--set", "schedule_steps=0", "--out", run).stdout
        self.assertIn(f"on cores {core}: 2 workers pinned to {core} step 32 environments, 1 thread for tensor operations", out)
        self.assertIn("pin = true", (run / "config.toml").read_text())
        outside = max(CORES) + 1
        for arguments, word in (
            (["--cores", f"{core},{outside}"], f"cores: found {outside}"),
            (["--cores", str(len(CORES) + 1)], f"expected 1 to {len(CORES)}"),
            (["--pin", f"{outside}-{outside}"], f"cores: found {outside}"),
            (["--pin", "yes"], "auto, none or a list"),
        ):
            with self.subTest(arguments):
                self.assertIn(word, shoal("train", "cartpole-ppo", *arguments, "--out", self.dir / "new", status=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
