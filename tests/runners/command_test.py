"""Tests of the `shoal` program from outside: exit statuses, messages, files. Usage: command_test.py SHOAL SHOAL_BENCH
[unittest arguments]"""

import csv
import importlib.util
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SHOAL = os.path.abspath(sys.argv.pop(1))
SHOAL_BENCH = os.path.abspath(sys.argv.pop(1))
# Rollouts of 512 steps; only the number of steps ends a run.
SHORT = ["--set", "stop_return=off", "--set", "checkpoint_seconds=1000", "--set", "sampler.horizon=16", "--set", "sampler.kind=parallel-gpu",
         "--set", "sampler.workers=1"]

LONG = "x" * 300  # no file may have such a name

# Arguments after `shoal`; {dir} is the folder of the test. Each is a mistake of the user, and its message contains the word.
MISTAKES = [
    ([], "subcommand"),
    (["trian"], "trian"),
    (["train"], "give a preset, a file or --env ID to begin a run, or --resume RUN"),
    (["train", "--resume", "{dir}/none"], "config.toml; expected a run folder"),
    (["train", "--resume", "{dir}/cut", "--steps", "2048", "--set", "schedule_steps=2048"], "model.ckpt"),
    (["train", "cartpole-ppo", "--init-from", "{dir}/none", "--out", "{dir}/new"], "none"),
    (["train", "cartpole-ppo", "--init-from", "{dir}/other", "--out", "{dir}/new", "--set", "model.hidden=[8, 8]"], "agent/"),
    (["train", "cartpole-pp"], "cartpole-ppo"),
    (["train", "cartpole-ppo", "--stepz", "3"], "--stepz"),
    (["train", "cartpole-ppo", "--steps", "0"], "steps"),
    (["train", "cartpole-ppo", "--steps", "-5"], "steps"),
    (["train", "cartpole-ppo", "--steps", "many"], "steps"),
    (["train", "cartpole-ppo", "--seed", "-1"], "seed"),
    (["train", "cartpole-ppo", "--envs", "0"], "sampler.envs"),
    (["train", "cartpole-ppo", "--workers=-1"], "sampler.workers"),
    (["train", "cartpole-ppo", "--envs", "2", "--workers", "3"], "3 workers cannot share 2"),
    (["train", "cartpole-ppo", "--sampler", "parallel"], "parallel-gpu"),
    (["train", "cartpole-ppo", "--device", "tpu"], "tpu"),
    (["train", "cartpole-ppo", "--set", "ppo.learning_rat=1"], "ppo.learning_rate"),
    (["train", "cartpole-ppo", "--set", "ppo.epochs"], "key=value"),
    (["train", "cartpole-ppo", "--set", "ppo.epochs=0"], "ppo.epochs"),
    (["train", "--set", "ppo.epochs=0", "cartpole-ppo"], "ppo.epochs: found 0"),
    (["train", "cartpole-r2d1", "--set", "r2d1.length=19"], "sampler.horizon: found 10, expected at most half of r2d1.length, 19"),
    (["train", "cartpole-r2d1", "--set", "r2d1.length=4611686018427387904"], "r2d1.length: found 4611686018427387904, expected"),
    (["train", "cartpole-dqn", "--set", "replay.size=9223372036854775807"], "replay.size: found 9223372036854775807, expected"),
    (["train", "cartpole-dqn", "--set", "off_policy.replay_ratio=1e18"], "off_policy.replay_ratio: found 1e+18, expected"),
    (["train", "cartpole-dqn", "--set", "replay.alpha=60"], "replay.alpha: found 60.0, expected 0 to 1"),
    (["train", "cartpole-ppo", "--set", "ppo.value_coef=inf"], "ppo.value_coef: found inf, expected"),
    (["train", "cartpole-ppo", "--set", "sampler.decorrelation=9223372036854775807"], "sampler.decorrelation: found 922"),
    (["train", "cartpole-ppo", "--set", "ppo.learning_rate=1e30"], "ppo.learning_rate: found 1e+30, expected"),
    (["train", "cartpole-ppo", "--set", b"device=\xff".decode(errors="surrogateescape")], "device: found '?', expected text in UTF-8"),
    (["train", "cartpole-ppo", "--set", "gymnasium.kwargs={{gravity: 5}}"], "gymnasium.kwargs: found '{gravity: 5}', expected a JSON"),
    (["train", "cartpole-ppo", "--seed", ""], "--seed: found an empty value"),
    (["train", "cartpole-ppo", "--init-from", ""], "--init-from: found an empty value"),
    (["eval", "{dir}/other", "--episodes", "010"], "--episodes: found '010', expected a whole number"),
    (["eval", "{dir}/other", "--seed", "99999999999999999999"], "--seed: found '99999999999999999999', expected"),
    (["plot", "{dir}/other", "--goal", "inf"], "--goal: found inf, expected a finite number"),
    (["bench", "sample", "--runs", "010"], "--runs: found '010', expected a whole number"),
    (["eval", ""], "RUN: found an empty value"),
    (["launch", "{dir}/gpus.toml"], "gpus: found 100000, expected at most"),
    (["launch", "{dir}/slash.toml"], "variant.a/b: expected a name of"),
    (["launch", "{dir}/long.toml"], "1 to 200 bytes"),
    (["launch", "{dir}/zero.toml"], "variant.a?b: expected a name"),
    (["train", "cartpole-ppo", "--set", "env.id=CartPol-v1"], "CartPole-v1"),
    (["train", "cartpole-ppo", "--set", "algo=pp"], "ppo"),
    (["train", "cartpole-ppo", "--set", "model.name=nature-cn"], "nature-cnn"),
    (["train", "cartpole-ppo", "--set", "model.name=nature-cnn"], ""),
    (["train", "cartpole-ppo", "--set", "model.hidden=[10000000, 10000000]"], "model.hidden"),
    (["train", "cartpole-ppo", "--set", "model.hidden=[2000000000]"], "model.hidden"),
    (["train", "pong-ppo", "--envs", "100000", "--workers", "1"], "minibatch"),
    (["train", "cartpole-ppo", "--steps", "200000", "--set", "schedule_steps=1000"], "schedule_steps"),
    (["train", "cartpole-ppo", "--set", "stop_return=of"], "stop_return: found 'of', expected a number or off"),
    (["train", "cartpole-ppo", "--set", "agent.act_precision=bf16"], "nature-cnn"),
    (["train", "cartpole-ppo", "--set", "sampler.cores=[-1]"], "sampler.cores: found [-1]"),
    (["train", "cartpole-ppo", "--set", "sampler.cores=[4294967296]"], "sampler.cores: found [4294967296]"),
    (["train", "cartpole-ppo", "--set", "sampler.pin=true", "--set", "sampler.cores=[5000]"], "sampler.cores: found 5000"),
    (["train", "cartpole-ppo", "--set", "stop_grace=-1"], "stop_grace: found -1"),
    (["train", "cartpole-ppo", "--envs", "100000000000"], ""),
    (["train", "cartpole-ppo", "--set", "sampler.horizon=10000000000"], ""),
    (["train", "cartpole-appo", "--set", "async.slots=1"], "async.slots"),
    (["train", "cartpole-impala", "--set", "async.stale=drop", "--set", "async.max_lag=0",
      "--set", "async.publish_interval=2"], "async.max_lag"),
    (["train", "cartpole-dqn", "--sampler", "serial", "--set", "sampler.asynchronous=true",
      "--set", "async.stale=drop"], "takes every rollout"),
    (["train", "cartpole-appo", "--workers", "3"], "evenly"),
    (["train", "cartpole-appo", "--set", "ppo.normalize_advantage=rollout"], "ppo.vtrace"),
    (["train", "cartpole-ppo", "--sampler", "serial", "--set", "sampler.on_death=restart",
      "--set", "sampler.asynchronous=true"], "sampler.on_death"),
    (["train", "cartpole-ppo", "--sampler", "parallel-cpu", "--set", "sampler.dynamic_batch=4"], "sampler.dynamic_batch"),
    (["train", "cartpole-ppo", "--set", "sampler.preempt_share=0.5"], "sampler.dynamic_batch"),
    (["train", "cartpole-dqn", "--sampler", "parallel-gpu", "--set", "sampler.dynamic_batch=1",
      "--set", "sampler.preempt_share=0.5"], "whole rollouts"),
    (["train", "cartpole-dqn", "--sampler", "parallel-cpu", "--workers", "2", "--set", "sampler.asynchronous=true"],
     "rollouts of all environments"),
    (["train", "cartpole-dqn", "--set", "replay.size=31"], "32 steps of a rollout"),
    (["train", "cartpole-dqn", "--set", "replay.n_step=0"], "replay.n_step"),
    (["train", "cartpole-dqn", "--set", "dqn.batch=0"], "dqn.batch"),
    (["train", "cartpole-dqn", "--set", "dqn.returns=mode"], "categorical"),
    (["train", "cartpole-dqn", "--set", "off_policy.replay_ratio=0"], "off_policy.replay_ratio"),
    (["train", "cartpole-dqn", "--set", "env.id=Pendulum-v1"], "discrete"),
    (["train", "pendulum-sac", "--set", "env.id=CartPole-v1"], "real numbers"),
    (["train", "pendulum-sac", "--set", "sac.tau=2"], "sac.tau"),
    (["train", "cartpole-ppo", "--out", "{dir}/full"], "not empty"),
    (["train", "cartpole-ppo", "--out", "{dir}/full/file/run"], "is not a folder"),
    (["train", "cartpole-ppo", "--out", "/proc/none/run"], "/proc"),
    (["train", "cartpole-ppo", "--out", "{dir}/" + LONG], "File name too long"),
    (["train", LONG], "File name too long"),
    (["train", "{dir}/" + LONG + ".toml"], "File name too long"),
    (["train", "{dir}/missing.toml"], "missing.toml"),
    (["train", "{dir}/broken.toml"], "broken.toml"),
    (["train", "{dir}/unknown.toml"], "sampler.workers"),
    (["train", "{dir}/full"], "full"),
    (["eval", "{dir}/none"], "none"),
    (["eval", "{dir}/full"], "config.toml; expected a run folder, made by `shoal train --out`"),
    (["eval", "{dir}/" + LONG], "File name too long"),
    (["eval", "{dir}/cut"], "model.ckpt"),
    (["eval", "{dir}/other"], "agent/"),
    (["eval", "{dir}/good", "--episodes", "0"], "episodes"),
    (["eval", "{dir}/good", "--envs", "-1"], "envs"),
    (["eval", "{dir}/good", "--workers", "0"], "workers"),
    (["eval", "{dir}/good", "--seed", "-1"], "--seed"),
    (["bench", "sample", "--env", "CartPole-v2"], "CartPole-v1"),
    (["train", "pong-ppo", "--set", "model.cnn=impala"], "set model.name to auto"),
    (["train", "cartpole-ppo", "--set", "model.name=mlp", "--set", "model.cnn=nature"], "layers of model 'mlp' are fixed"),
    (["bench", "sample", "--runs", "0"], "runs"),
    (["bench", "sample", "--set", "env.id"], "key=value"),
    (["bench", "sample", "--set", "sampler.env=4"], "sampler.envs"),
    (["bench", "sample", "--envs", "1", "--workers", "2"], "cannot share"),
    (["list", "env"], "envs"),
]
BAD_BENCHES = [
    (["ring", "--item", "vector"], "vectors"),
    (["service", "--experiment", "parameters", "--max-staleness", "2"], "--mode no_batch"),
    (["service", "--mode", "no_batch", "--max-staleness", "2"], "--experiment parameters"),
    (["service", "--experiment", "parameters", "--mode", "no_batch", "--max-staleness", "-2"], "--max-staleness: found -2"),
]
# Valid only if Atari was not built or does not have this game.
MISSING_GAMES = ["ALE/NoSuchGame-v5", "ALE/Combat-v5"]


def shoal(*arguments, **options):
    return subprocess.run([SHOAL, *arguments], capture_output=True, text=True, timeout=120, **options)


def shoal_bench(*arguments, **options):
    return subprocess.run([SHOAL_BENCH, *arguments], capture_output=True, text=True, timeout=120, **options)


def train(out, *arguments):
    done = shoal("train", "cartpole-ppo", "--out", str(out), *SHORT, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def fill_disk():
    """Leaves room for the configuration in a file, but not for a checkpoint, nor for the rows of 200 000 steps."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (24576, 24576))


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def undelivered(pid, number):
    """Whether a signal that was sent to the process has yet to reach it."""
    pending = re.search(r"^ShdPnd:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(pending[1], 16) >> (number - 1) & 1


def group_exists(pid):
    """Whether a process of the group runs, or waits for init to reap it."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def without_kept_failure(errors):
    """The lines of stderr except the note about a recorded failure: the worker may have been inside an environment."""
    return [line for line in errors.splitlines() if not line.startswith("recorded in ")]


class AppTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = d = pathlib.Path(cls.temporary.name)
        (d / "full").mkdir()
        (d / "full/file").write_text("x")
        (d / "broken.toml").write_text("steps = [\n")
        (d / "unknown.toml").write_text("[sampler]\nworker = 3\n")
        launched = 'base = "cartpole-ppo"\nseeds = [1]\n'
        (d / "gpus.toml").write_text(launched + "gpus = 100000\n")
        for name, variant in ("slash", "a/b"), ("long", LONG), ("zero", "a\\u0000b"):
            (d / f"{name}.toml").write_text(f'{launched}[variant."{variant}"]\n')
        train(d / "good", "--steps", "1024")
        for name in ("cut", "other"):
            (d / name).mkdir()
            for file in ("config.toml", "model.ckpt"):
                (d / name / file).write_bytes((d / "good" / file).read_bytes())
        checkpoint = (d / "cut/model.ckpt").read_bytes()
        (d / "cut/model.ckpt").write_bytes(checkpoint[: len(checkpoint) // 2])
        config = (d / "other/config.toml").read_text()
        (d / "other/config.toml").write_text(config.replace("hidden = [64, 64]", "hidden = [32, 32]"))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def assert_mistake(self, arguments, word, program=shoal):
        before = sorted(self.dir.rglob("*"))
        done = program(*[a.format(dir=self.dir) for a in arguments], cwd=self.dir)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(self.dir.rglob("*")), before, "something was written")

    def test_mistakes(self):
        for arguments, word in MISTAKES:
            with self.subTest(" ".join(arguments)):
                self.assert_mistake(arguments, word)
        for arguments, word in BAD_BENCHES:
            with self.subTest(" ".join(arguments)):
                self.assert_mistake(arguments, word, shoal_bench)

    def test_a_replay_is_announced_and_refused_if_there_is_no_memory_for_it(self):
        done = shoal("train", "cartpole-dqn", "--set", "replay.size=1000000000000", "--out", self.dir / "large")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("replay: 1000000000000 steps, 48000.0 GB", done.stdout)
        self.assertIn("GiB is needed, but", done.stderr)
        self.assertFalse((self.dir / "large").exists())

    def test_missing_games(self):
        for game in MISSING_GAMES:
            with self.subTest(game):
                self.assert_mistake(["train", "pong-ppo", "--set", f"env.id={game}"], "")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_unwritable_folder(self):
        folder = self.dir / "locked"
        folder.mkdir(mode=0o500)
        self.assert_mistake(["train", "cartpole-ppo", "--out", "{dir}/locked/run"], "not writable")

    def test_run_folder_and_eval(self):
        run = self.dir / "good"
        self.assertEqual(sorted(f.name for f in run.iterdir()),
                         ["config.toml", "model.ckpt", "progress.csv", "summary.json"])
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["steps"], 1024)
        self.assertLessEqual({"final_return", "steps", "seconds", "sps", "seed", "version"}, summary.keys())
        done = shoal("eval", str(run), "--episodes", "7", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(set(result), {"mean_return", "std_return", "episodes"})
        self.assertEqual(result["episodes"], 7)
        again = shoal("eval", str(run), "--episodes", "7", "--json")
        self.assertEqual(again.stdout, done.stdout, "one seed, one result")
        self.assertNotEqual(shoal("eval", str(run), "--episodes", "7", "--json", "--seed", "9").stdout, done.stdout)

    def test_config_runs_again_equally(self):
        done = shoal("train", str(self.dir / "good/config.toml"), "--out", str(self.dir / "again"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("config.toml", "model.ckpt"):
            self.assertEqual((self.dir / "again" / name).read_bytes(), (self.dir / "good" / name).read_bytes(), name)
        rows = (self.dir / "again/progress.csv").read_text().splitlines()
        self.assertEqual(len(rows), 1 + 1024 // 512)

    def test_default_folder_is_named_at_the_end(self):
        done = shoal("train", "cartpole-ppo", "--steps", "512", "--seed", "4", "--sampler", "serial", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = (self.dir / "runs").iterdir()
        self.assertTrue(run.name.startswith("cartpole-ppo-4-"), run.name)
        self.assertIn(f"shoal eval runs/{run.name}", done.stdout)

    def test_a_default_folder_without_a_preset_is_named_after_the_environment(self):
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        for source in (["--env", "Acrobot-v1"], [str(self.dir / "acrobot/config.toml")]):
            out = ["--out", str(self.dir / "acrobot")] if source[0] == "--env" else []
            done = shoal("train", *source, "--steps", "2048", *out, cwd=elsewhere)
            self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = (elsewhere / "runs").iterdir()
        self.assertTrue(run.name.startswith("Acrobot-v1-ppo-1-"), run.name)

    def test_commands_that_are_printed_run_in_a_shell(self):
        run = self.dir / "two words"
        said = train(run, "--steps", "512").stdout
        evaluate = re.search("(?m)^evaluate it: shoal (eval .*)$", said)[1]
        done = subprocess.run(f"{SHOAL} {evaluate} --episodes 1", shell=True, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = shoal("train", "--resume", str(run), "--set", "ppo.clip=0.3")
        self.assertIn(f"--init-from '{run}'", done.stderr)

    def test_the_zoo_tells_steps_from_bounds_of_them(self):
        lines = {line.split()[0]: " ".join(line.split()[3:]) for line in shoal("zoo").stdout.splitlines()}
        self.assertRegex(lines["zoo:cartpole-ppo"], r"^at most \d+ steps$")
        self.assertRegex(lines["zoo:cartpole-dqn"], r"^\d+ steps$")

    def start_training(self, run, *arguments):
        process = subprocess.Popen([SHOAL, "train", "cartpole-ppo", "--out", str(run), *SHORT, "--steps", "1000000000",
                                    *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        process.stdout.readline()  # the first line of progress: it is training
        return process

    def end_of(self, process, status):
        """Its output on stderr."""
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, status, errors)
        wait_until(lambda: not group_exists(process.pid))  # nothing is left running; init reaps what has ended
        return errors

    def stop_with(self, number, status, times=1):
        run = self.dir / f"stopped-{status}-{times}"
        process = self.start_training(run)
        for _ in range(times):
            os.killpg(process.pid, number)  # as a terminal does: workers get it, too
            wait_until(lambda: not undelivered(process.pid, number))  # or a second one would be lost
        self.assertEqual(self.end_of(process, status), "")
        self.assertTrue((run / "summary.json").exists())
        self.assertEqual(shoal("eval", str(run), "--episodes", "2").returncode, 0)

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
                done = shoal("train", "--resume", run, "--steps", str(before["steps"] + 20000), "--quiet")
                self.assertEqual(done.returncode, 0, done.stderr)
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
        wait_until(lambda: len(children(fork_server)) == 2 and worker not in children(fork_server))

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
        done = shoal("train", "cartpole-ppo", *SHORT, "--set", "env.id=gymnasium:toy_gymnasium:Raises-v0", "--quiet",
                     "--workers", "2", "--out", self.dir / "raises", cwd=toys)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"shoal: worker \d \(pid \d+\) threw while stepping environment \d+ at step \d+")
        self.assertIn('toy_gymnasium.py", line', done.stderr)
        self.assertTrue(done.stderr.endswith("ValueError: the third step is a bad one\n"), done.stderr)

    def test_a_full_disk_while_training_is_a_failure(self):
        for steps, file in ("1024", "model.ckpt"), ("200000", "progress.csv"):
            with self.subTest(file):
                run = self.dir / f"full-{steps}"
                done = shoal("train", "cartpole-ppo", "--out", str(run), *SHORT, "--steps", steps,
                             preexec_fn=fill_disk, restore_signals=False)  # Python ignores SIGXFSZ: so will the program
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(f"{run}/{file}", done.stderr)
                self.assertIn("File too large", done.stderr)

    def test_the_end_tells_of_a_return_that_was_not_reached(self):
        self.assertRegex(train(self.dir / "short", "--steps", "1024", "--set", "stop_return=475").stdout,
                         r"final return \d+\.\d\d \(last \d+ episodes\), expected 475 ")
        self.assertNotIn("not solved", train(self.dir / "solved", "--steps", "100000", "--set", "stop_return=1").stdout)
        self.assertNotIn("not solved", train(self.dir / "endless", "--steps", "1024").stdout)

    def trains_without_a_preset(self, kind, algo, *arguments):
        run = self.dir / f"no-preset-{len(list(self.dir.glob('no-preset-*')))}"
        done = shoal("train", *arguments, "--out", str(run))
        self.assertEqual(done.returncode, 0, done.stderr)
        name = f"defaults/{kind}"
        self.assertIn(f"begins with the settings of presets/{name}.toml:\n", done.stdout)
        self.assertNotIn("not solved", done.stdout)
        text = (run / "config.toml").read_text()
        for line in (f'base = "{name}"', f'algo = "{algo}"', 'stop_return = "off"'):
            self.assertIn(line, text)
        return done

    def test_an_environment_needs_no_preset(self):
        done = self.trains_without_a_preset("vectors-discrete", "ppo", "--env", "CartPole-v1", "--steps", "4096")
        self.assertIn("ppo.minibatches = 8", done.stdout)
        self.assertNotIn("a2c.", done.stdout)
        self.trains_without_a_preset("vectors-real", "ppo", "--env", "Pendulum-v1", "--steps", "512", "--set", "sampler.horizon=32")
        self.trains_without_a_preset("vectors-real-sac", "sac", "--env", "Pendulum-v1", "--algo", "sac", "--steps", "300")
        self.trains_without_a_preset("vectors-discrete-dqn", "dqn", "--set", "env.id=Acrobot-v1", "--set", "algo=dqn", "--steps", "320")

    def test_a_file_needs_no_preset(self):
        mine = self.dir / "mine.toml"
        short = "steps = 1024\nsampler.horizon = 16\nsampler.kind = 'serial'\nenv.id = 'CartPole-v1'\n"
        mine.write_text(short)
        self.assertIn("ppo.minibatches = 8", self.trains_without_a_preset("vectors-discrete", "ppo", mine).stdout)
        mine.write_text(short + "algo = 'dqn'\noff_policy.learning_starts = 512\n")
        self.trains_without_a_preset("vectors-discrete-dqn", "dqn", mine)
        mine.write_text("steps = 300\n[env]\nid = 'Pendulum-v1'\n")
        self.trains_without_a_preset("vectors-real-sac", "sac", mine, "--algo", "sac")
        mine.write_text("steps = 512\nsampler.horizon = 16\n")
        self.trains_without_a_preset("vectors-discrete", "ppo", mine, "--env", "CartPole-v1")
        mine.write_text('base = ""\n' + short)
        done = shoal("train", mine, "--out", self.dir / "empty-base")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("begins with", done.stdout)
        self.assertIn('base = ""', (self.dir / "empty-base/config.toml").read_text())

    @unittest.skipUnless(importlib.util.find_spec("gymnasium"), "no gymnasium")
    def test_an_environment_of_gymnasium_needs_no_preset(self):
        self.trains_without_a_preset("vectors-discrete", "ppo", "--env", "gymnasium:CartPole-v1", "--steps", "512",
                                     "--set", "sampler.horizon=16")

    @unittest.skipUnless("ALE/Pong-v5" in shoal("list", "envs").stdout, "no Atari")
    def test_a_game_needs_no_preset(self):
        self.trains_without_a_preset("pictures-discrete", "ppo", "--env", "ALE/Pong-v5", "--envs", "2", "--steps", "64",
                                     "--set", "sampler.horizon=32")

    def test_an_environment_is_no_preset(self):
        for name in "CartPole-v1", "Unknown-v3":
            done = shoal("train", name)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"shoal train --env {name}", done.stderr)

    def test_a_sweep_needs_no_preset(self):
        sweep = self.dir / "without-base.toml"
        sweep.write_text('seeds = [1]\n[all]\nenv.id = "CartPole-v1"\nsteps = 1e3\nsampler.horizon = 16\n')
        done = shoal("launch", str(sweep), "--out", str(self.dir / "without-base"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('base = "defaults/vectors-discrete"', (self.dir / "without-base/CartPole-v1-1/config.toml").read_text())

    def test_its_folder_is_named_after_it(self):
        (self.dir / "empty").mkdir()
        done = shoal("train", "--env", "CartPole-v1", "--steps", "512", "--set", "sampler.horizon=16", cwd=self.dir / "empty")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"done: runs/CartPole-v1-ppo-1-")

    def test_a_preset_does_not_stop_another_task_at_its_return(self):
        for name, arguments, said in (("other", ["--env", "Acrobot-v1"], True), ("same", ["--env", "CartPole-v1"], False),
                                      ("given", ["--env", "Acrobot-v1", "--set", "stop_return=475"], False)):
            with self.subTest(name):
                run = self.dir / f"another-{name}"
                done = shoal("train", "cartpole-ppo", "--steps", "512", "--set", "sampler.horizon=16", "--out", str(run), *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual("stop_return is off: 475 was for CartPole-v1, not Acrobot-v1\n" in done.stdout, said)
                self.assertIn('stop_return = "off"' if said else "stop_return = 475.0", (run / "config.toml").read_text())

    def test_settings_of_a_preset_that_stay_for_another_task_are_said(self):
        done = shoal("train", "mountain-car-ppo", "--env", "CartPole-v1", "--set", "env.normalize_reward=true", "--steps", "512", "--set",
                     "sampler.horizon=16", "--out", self.dir / "kept")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^kept from MountainCar-v0: env\.action_repeat = \d+$")
        done = shoal("train", "mountain-car-ppo", "--steps", "512", "--set", "sampler.horizon=16", "--out", self.dir / "same")
        self.assertNotIn("kept from", done.stdout)

    def test_rates_of_exploration_bind_no_other_number_of_environments(self):
        run = self.dir / "four"
        short = ["train", "cartpole-r2d1", "--steps", "400", "--quiet"]
        for arguments in ([*short, "--envs", "4", "--out", run], ["eval", run, "--episodes", "10", "--envs", "10", "--sample"],
                          ["export", run, "--out", run / "policy.safetensors"],
                          [*short, "--envs", "8", "--init-from", run, "--out", self.dir / "eight"],
                          [*short, "--envs", "8", "--init-from", run / "policy.safetensors", "--out", self.dir / "from-weights"]):
            done = shoal(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / "from-weights" / "model.ckpt").read_bytes(), (self.dir / "eight" / "model.ckpt").read_bytes())

    def test_a_run_begins_where_a_policy_of_the_zoo_ended(self):
        run = self.dir / "from-zoo"
        done = shoal("train", "cartpole-ppo", "--init-from", "zoo:cartpole-ppo", "--set", "ppo.learning_rate=1e-9", "--steps", "20000", "--out", run)
        self.assertEqual(done.returncode, 0, done.stderr)
        for trained in "zoo:cartpole-ppo", run / "model.ckpt":
            done = shoal("eval", trained, "--episodes", "3")
            self.assertRegex(done.stdout, "^return 500.00", done.stderr)
        for arguments, words in ((["train", "cartpole-ppo", "--init-from", "zoo:cartpole-poo", "--out", self.dir / "new"], "'cartpole-ppo'; `shoal zoo`"),
                                 (["eval", "zoo:cartpole-ppo", "--checkpoint", "best.ckpt"], "is one file; expected a run folder")):
            done = shoal(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)

    def test_a_run_too_short_to_learn_says_so(self):
        for starts, said in ((400, False), (512, True)):
            done = shoal("train", "cartpole-dqn", "--steps", "512", "--set", f"off_policy.learning_starts={starts}", "--out",
                         self.dir / f"starts-{starts}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("nothing is learned in 512 steps" in done.stdout, said)

    def test_settings_without_effect_are_reported(self):
        file = self.dir / "mine.toml"
        file.write_text('base = "cartpole-ppo"\nalgo = "dqn"\n[ppo]\nclip = 0.1\n[dqn]\nbatch = 32\n[async]\nmax_lag = 3\n')
        for arguments, notes in (
            ([file], ["async.max_lag has no effect with sampler.asynchronous = false", "ppo.clip has no effect with algo = dqn"]),
            ([file, "--set", "algo=ppo"], ["async.max_lag has no effect with sampler.asynchronous = false", "dqn.batch has no effect with algo = ppo"]),
            (["cartpole-dqn", "--set", "ppo.clip=0.1", "--set", "atari.stack=2", "--set", "dqn.batch=32"],
             ["atari.stack has no effect with env.id = CartPole-v1", "ppo.clip has no effect with algo = dqn"]),
            (["cartpole-ppo", "--sampler", "serial", "--workers", "2", "--pin", "none", "--set", "replay.n_step=3", "--set", "ppo.clip=0.1"],
             ["replay.n_step has no effect with algo = ppo", "sampler.pin has no effect with sampler.kind = serial",
              "sampler.workers has no effect with sampler.kind = serial"]),
            (["cartpole-ppo", "--workers", "2", "--set", "async.max_lag=3"], ["async.max_lag has no effect with sampler.asynchronous = false"]),
            (["cartpole-appo", "--workers", "2", "--set", "async.max_lag=3"], [])):
            with self.subTest(arguments):
                done = shoal("train", *arguments, "--steps", "64", "--out", self.dir / "run")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([line for line in done.stdout.splitlines() if "has no effect" in line], notes)
                shutil.rmtree(self.dir / "run")

    def test_a_removed_working_directory_is_reported(self):
        gone = self.dir / "gone"
        gone.mkdir()
        done = subprocess.run(["sh", "-c", f'rmdir "$PWD"; exec "{SHOAL}" train cartpole-ppo --steps 64 --out "{self.dir}/run"'],
                              cwd=gone, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (2, "shoal: the working directory was removed; change to another one\n"))

    def ended_by(self, run):
        return json.loads((run / "summary.json").read_text())["ended_by"]

    def test_the_end_says_why(self):
        steps, solved, stopped = (self.dir / f"why-{name}" for name in ("steps", "solved", "stopped"))
        self.assertIn("all 1024 steps are taken\ndone: ", train(steps, "--steps", "1024", "--set", "stop_return=off").stdout)
        self.assertEqual(self.ended_by(steps), "steps")
        self.assertIn('stop_return = "off"', (steps / "config.toml").read_text())
        self.assertRegex(train(solved, "--steps", "100000", "--set", "stop_return=1").stdout,
                         r"mean return \d+\.\d\d \(last 100 episodes\) reached stop_return, 1, after \d+ steps\ndone: ")
        self.assertEqual(self.ended_by(solved), "stop_return")
        process = self.start_training(stopped)
        process.send_signal(signal.SIGTERM)
        self.assertRegex(process.communicate(timeout=30)[0], r"SIGTERM asked to stop after \d+ of 1000000000 steps\nstopped: ")
        self.assertEqual(self.ended_by(stopped), "SIGTERM")

    def test_steps_set_the_length_of_the_schedules(self):
        file = self.dir / "scheduled.toml"
        file.write_text('base = "cartpole-ppo"\nsteps = 512\nschedule_steps = 512\n[sampler]\nhorizon = 16\n')
        for source in ("cartpole-ppo", file):
            run = self.dir / f"scheduled-{pathlib.Path(source).stem}"
            done = shoal("train", source, "--quiet", "--set", "sampler.horizon=16", "--out", run, "--steps", "1024")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex((run / "config.toml").read_text(), r"(?m)^schedule_steps = 1024 ")
        refused = shoal("train", "--resume", run, "--steps", "2048")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("give schedule_steps = 2048 too", refused.stderr)
        done = shoal("train", "--resume", run, "--steps", "2048", "--set", "schedule_steps=2048", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex((run / "config.toml").read_text(), r"(?m)^schedule_steps = 2048 ")

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "there is one core only")
    def test_eval_pins_workers_as_the_run_did(self):
        run = self.dir / "pinned"
        train(run, "--steps", "512", "--set", "sampler.pin=true")
        process = subprocess.Popen([SHOAL, "eval", str(run), "--episodes", "1000000000"], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: [len(os.sched_getaffinity(child)) for child in children(process.pid)] == [1, 1])
        finally:
            process.kill()
            process.wait()

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "there is one core only")
    def test_ranks_pin_their_workers_one_after_the_other(self):
        cores = sorted(os.sched_getaffinity(0))[:2]
        process = subprocess.Popen([SHOAL, "train", "cartpole-ppo", "--ranks", "3", "--steps", "1000000000", "--set", "stop_return=inf",
                                    "--sampler", "parallel-gpu", "--envs", "12", "--workers", "4", "--set", "sampler.pin=true",
                                    "--set", f"sampler.cores={cores}", "--out", str(self.dir / "ranks")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def pinned():
            everyone = [process.pid, *children(process.pid)]
            try:
                masks = [os.sched_getaffinity(child) for parent in everyone for child in children(parent)]
            except OSError:  # one has ended meanwhile
                return []
            return sorted(mask.pop() for mask in masks if len(mask) == 1)
        try:
            wait_until(lambda: pinned() == sorted(2 * cores))
        finally:
            process.kill()
            process.wait()

    def test_a_terminal_gets_a_live_line(self):
        main, other = pty.openpty()
        process = subprocess.Popen([SHOAL, "train", "cartpole-ppo", "--out", str(self.dir / "live"), "--steps", "2048"],
                                   stdout=other)
        os.close(other)
        text = b""
        try:
            while part := os.read(main, 4096):
                text += part
        except OSError:
            pass  # the other end is closed
        os.close(main)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertIn(b"\r[", text)
        self.assertIn(b"100%", text)

    def test_bench_line(self):
        for sampler in ("serial", "parallel-cpu", "parallel-gpu"):
            done = shoal("bench", "sample", "--sampler", sampler, "--runs", "2", "--seconds", "0.05", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            line = json.loads(done.stdout)
            self.assertEqual((line["bench"], line["peer"], line["unit"]), ("sample_cartpole", "shoal", "env steps/s"))
            self.assertEqual(line["config"]["T"], 128)
            self.assertEqual(len(line["runs"]), 2)
            self.assertTrue(0 < line["min"] <= line["median"] <= line["max"])
            self.assertGreater(min(line["environments_alone"], line["acting_alone"], line["share_of_bound"]), 0)

    def test_bench_line_with_settings(self):
        settings = ("--set", "sampler.horizon=7", "--set", "sampler.envs=6", "--set", "sampler.groups=2")
        done = shoal("bench", "sample", *settings, "--runs", "1", "--seconds", "0.05", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        config = json.loads(done.stdout)["config"]
        self.assertEqual((config["T"], config["envs"], config["groups"]), (7, 6, 2))

    def test_bench_of_asynchronous_samplers(self):
        for sampler in ("serial", "parallel-cpu", "parallel-gpu"):
            done = shoal("bench", "sample", "--asynchronous", "--sampler", sampler, "--runs", "2", "--seconds", "0.05", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            line = json.loads(done.stdout)
            self.assertTrue(line["config"]["asynchronous"])
            self.assertGreater(min(line["environments_alone"], line["acting_alone"], line["share_of_bound"]), 0)

    def test_bench_lines_of_the_parts(self):
        for command, bench in [(["replay", "--size", "100000"], "replay"), (["ring"], "queue_ipc"), (["act", "--batch", "4"], "act"),
                               (["act", "--network", "mlp", "--precision", "bf16"], "act"),
                               (["update", "--hidden", "16", "--batch", "32"], "update_sac")]:
            done = shoal_bench(*command, "--runs", "2", "--seconds", "0.05", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            line = json.loads(done.stdout)
            self.assertEqual((line["bench"], line["peer"], len(line["runs"])), (bench, "shoal", 2))
            self.assertTrue(0 < line["min"] <= line["median"] <= line["max"])
            self.assertGreater(line["bound"], 0)

    def test_bench_of_convolutions(self):
        done = shoal_bench("convolution", "--batch", "2", "--runs", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = done.stdout.splitlines()[1:]
        self.assertEqual(len(rows), 3)
        for row in rows:
            library, own, ratio = map(float, row[24:].split())
            self.assertGreater(min(library, own, ratio), 0)

    def test_bench_act_takes_several_batches(self):
        done = shoal_bench("act", "--network", "mlp", "--batch", "2", "8", "--runs", "2", "--seconds", "0.02", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["config"]["batch"] for line in lines], [2, 8])
        for line in lines:
            self.assertAlmostEqual(line["share_of_bound"], line["bound"] / line["latency_us"], places=3)

    def test_bench_line_of_the_parameter_server(self):
        def line_of(clients, *more):
            done = shoal_bench("service", "--experiment", "parameters", "--clients", clients, "--runs", "2", "--seconds",
                         "0.05", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout) if "--json" in more else done.stdout

        line = line_of("2", "--json")
        self.assertEqual((line["bench"], line["unit"], line["config"]["mode"]), ("batch_rpc", "updates/s", "batch"))
        self.assertNotIn("staleness", line)
        alone = line_of("1", "--mode", "no_batch", "--json")
        self.assertEqual(alone["staleness"], {"mean": 0, "most": 0, "refused": 0})
        line = line_of("3", "--mode", "no_batch", "--max-staleness", "1", "--json")
        self.assertEqual(line["config"]["max_staleness"], 1)
        self.assertTrue(0 <= line["staleness"]["mean"] <= line["staleness"]["most"] <= 1, line)
        # The last of three gradients of the same parameters is two updates stale.
        self.assertGreater(line["staleness"]["refused"], 0)
        self.assertIn(" refused", line_of("2", "--mode", "no_batch"))

    def errors_on_a_terminal(self, *arguments):
        main, other = pty.openpty()
        process = subprocess.Popen([SHOAL, *arguments], stdout=subprocess.DEVNULL, stderr=other)
        os.close(other)
        text = b""
        try:
            while part := os.read(main, 4096):
                text += part
        except OSError:
            pass  # the other end is closed
        os.close(main)
        self.assertEqual(process.wait(timeout=60), 0)
        return text

    def test_check_env(self):
        done = shoal("check-env", "Pendulum-v1", "--steps", "200")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("no mistake found in 200 steps", done.stdout)
        self.assertIn(b" of 7, step ", self.errors_on_a_terminal("check-env", "Acrobot-v1", "--steps", "300000"))
        done = shoal("check-env", "Pendulum-v0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Pendulum-v1", done.stderr)

    def test_lists(self):
        for what, word in [("envs", "CartPole-v1"), ("algos", "ppo"), ("samplers", "parallel-gpu"),
                           ("presets", "pong-ppo"), ("settings", "ppo.learning_rate")]:
            done = shoal("list", what)
            self.assertEqual(done.returncode, 0)
            self.assertIn(word, done.stdout)
        self.assertEqual(shoal("--help").returncode, 0)
        self.assertEqual(shoal("--version").returncode, 0)


if __name__ == "__main__":
    unittest.main()
