"""Stopping and resuming the `shoal` program: bit for bit, and after a kill at any moment.

Usage: resume_test.py SHOAL [KILLS] [unittest arguments]; KILLS: how many times a training is killed (default 5)."""

import csv
import importlib.util
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from program import SHOAL, FolderTest, shoal

KILLS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 5

ENDLESS = ["--quiet", "--set", "stop_return=inf"]
CARTPOLE = ["--set", "schedule_steps=10000", "--envs", "32", "--set", "sampler.horizon=16"]  # rollouts of 512
MEMORY = ["--set", "schedule_steps=10000", "--envs", "16", "--set", "sampler.horizon=33"]  # of 528
PONG = ["--set", "schedule_steps=10000", "--envs", "4", "--workers", "2", "--set", "sampler.horizon=64"]  # of 256

# Rollouts of 32; the ring turns around several times.
OFF_POLICY = ["--set", "schedule_steps=10000", "--set", "replay.size=1500", "--set", "off_policy.replay_ratio=8"]

# Arguments, the step of the stop (never at the end of a rollout), and the last step.
RUNS = {
    "ppo, serial": (["cartpole-ppo", *CARTPOLE, "--sampler", "serial"], 3001, 6000),
    "ppo, parallel-gpu": (["cartpole-ppo", *CARTPOLE, "--sampler", "parallel-gpu", "--set", "sampler.groups=2"], 3001, 6000),
    "ppo, parallel-cpu": (["cartpole-ppo", *CARTPOLE, "--sampler", "parallel-cpu"], 5555, 6000),
    "LSTM, serial": (["cartpole-memory-ppo", *MEMORY, "--sampler", "serial"], 1501, 3072),
    "LSTM, parallel-gpu": (["cartpole-memory-ppo", *MEMORY, "--sampler", "parallel-gpu", "--set", "sampler.groups=2"], 1501, 3072),
    "LSTM, parallel-cpu": (["cartpole-memory-ppo", *MEMORY, "--sampler", "parallel-cpu", "--set", "sampler.mid_batch_reset=false"], 1501, 3072),
    "a2c, serial": (["cartpole-a2c", *CARTPOLE, "--sampler", "serial"], 4567, 6000),
    "a2c, parallel-gpu": (["cartpole-a2c", *CARTPOLE, "--sampler", "parallel-gpu"], 4567, 6000),
    "resets wait, everything normalized, evaluations": (
        ["pendulum-ppo", *CARTPOLE, "--set", "agent.normalize_observation=true", "--set", "sampler.mid_batch_reset=false",
         "--set", "env.normalize_reward=true", "--set", "eval_steps=2500", "--set", "eval_episodes=2",
         "--set", "sampler.decorrelation=30"], 5001, 6000),
    "Pong, ppo, parallel-gpu": (["pong-ppo", *PONG, "--sampler", "parallel-gpu"], 700, 1536),
    "Pong, ppo, serial": (["pong-ppo", *PONG, "--sampler", "serial"], 700, 1536),
    "Pong, a2c, parallel-cpu": (["pong-ppo", *PONG, "--sampler", "parallel-cpu", "--set", "algo=a2c"], 700, 1536),
}
RUNS |= {
    "ppo, two ranks": (["cartpole-ppo", *CARTPOLE, "--ranks", "2"], 3001, 6000),
    "LSTM, two ranks, parallel-cpu": (["cartpole-memory-ppo", *MEMORY, "--ranks", "2", "--sampler", "parallel-cpu"], 1501, 3072),
    "everything normalized, evaluations, three ranks": (
        ["pendulum-ppo", "--set", "schedule_steps=10000", "--envs", "30", "--set", "sampler.horizon=17", "--ranks", "3", "--set", "agent.normalize_observation=true",
         "--set", "env.normalize_reward=true", "--set", "eval_steps=2500", "--set", "eval_episodes=4",
         "--set", "ppo.minibatches=4"], 5001, 6000),
    "rainbow, two ranks, parallel-gpu": (["cartpole-rainbow", *OFF_POLICY, "--set", "log_steps=0", "--ranks", "2", "--sampler", "parallel-gpu"], 3001, 6000),
    "sac, two ranks, serial": (["pendulum-sac", *OFF_POLICY, "--set", "log_steps=0", "--envs", "4", "--ranks", "2", "--set",
                                "off_policy.replay_ratio=64", "--set", "keep_checkpoints=2"], 3001, 3600),
    "r2d1, two ranks, an epsilon each": (["cartpole-r2d1", *OFF_POLICY, "--set", "log_steps=0", "--set", "replay.size=2000", "--set",
                                          "off_policy.epsilon_each=true", "--ranks", "2"], 3001, 4500),
    "rainbow, two ranks with one replay": (["cartpole-rainbow", *OFF_POLICY, "--set", "log_steps=0", "--ranks", "2", "--set", "replay.shared=true"], 3001, 6000),
    "dqn, serial": (["cartpole-dqn", *OFF_POLICY, "--set", "log_steps=64"], 3001, 6000),
    "dqn, stopped between two rows": (["cartpole-dqn", *OFF_POLICY, "--set", "log_steps=1300"], 3001, 6000),
    "dqn, by priority, an epsilon each, parallel-gpu": (
        ["cartpole-dqn", *OFF_POLICY, "--set", "log_steps=0", "--set", "replay.prioritized=true", "--set",
         "off_policy.epsilon_each=true", "--set", "dqn.returns=quantile", "--sampler", "parallel-gpu"], 3001, 6000),
    "rainbow, parallel-cpu": (["cartpole-rainbow", *OFF_POLICY, "--set", "log_steps=0", "--sampler", "parallel-cpu"], 3001, 6000),
    "sac, serial": (["pendulum-sac", *OFF_POLICY, "--set", "log_steps=0", "--set", "off_policy.replay_ratio=64"], 3001, 3600),
    "td3, by priority, parallel-cpu": (
        ["pendulum-td3", *OFF_POLICY, "--set", "log_steps=0", "--envs", "4", "--workers", "2", "--sampler", "parallel-cpu", "--set",
         "replay.prioritized=true", "--set", "replay.n_step=3", "--set", "off_policy.replay_ratio=64"], 3001, 3600),
    "ddpg, parallel-gpu": (
        ["pendulum-ddpg", *OFF_POLICY, "--set", "log_steps=0", "--envs", "4", "--sampler", "parallel-gpu", "--set",
         "off_policy.replay_ratio=64"], 3001, 3600),
    "r2d1, parallel-gpu": (
        ["cartpole-r2d1", *OFF_POLICY, "--set", "log_steps=0", "--sampler", "parallel-gpu", "--set", "sampler.groups=2"], 3001, 4500),
    "Pong, dqn, parallel-gpu": (
        ["pong-ppo", *PONG, "--sampler", "parallel-gpu", "--set", "algo=dqn", "--set", "sampler.horizon=16", "--set",
         "replay.size=400", "--set", "off_policy.learning_starts=256", "--set", "off_policy.replay_ratio=0.5", "--set",
         "replay.prioritized=true", "--set", "replay.n_step=3", "--set", "dqn.batch=32"], 700, 1280),
}
if importlib.util.find_spec("gymnasium"):
    RUNS["in Python, parallel-gpu"] = (
        ["cartpole-ppo", *CARTPOLE, "--set", "env.id=gymnasium:CartPole-v1", "--sampler", "parallel-gpu"], 3001, 6000)


def of_time(column):
    return column in ("seconds", "sps") or column.startswith("share_")


def table(run):
    with open(run / "progress.csv") as file:
        return [{k: v for k, v in row.items() if not of_time(k)} for row in csv.DictReader(file)]


def written(file):
    return file.stat().st_mtime_ns if file.exists() else None


class EqualityTest(FolderTest):
    def test_a_resumed_run_is_the_one_that_never_stopped(self):
        for name, (arguments, stop, steps) in RUNS.items():
            with self.subTest(name):
                whole, part, other = (self.dir / name / run for run in ("whole", "part", "other"))
                shoal("train", *arguments, *ENDLESS, "--out", whole, "--steps", steps)
                shoal("train", *arguments, *ENDLESS, "--out", part, "--steps", stop)
                shoal("train", "--resume", part, "--steps", steps, "--quiet")
                steps_of_rows = {row["steps"] for row in table(whole)}
                rows = [row for row in table(part) if row["steps"] in steps_of_rows]
                self.assertEqual(rows, table(whole))
                self.assertEqual(len(table(part)) - len(rows), 1 if "between two rows" in name else 0, "the row where it stopped")
                if "in Python" not in name:  # equal objects may pickle to different bytes
                    self.assertEqual((part / "model.ckpt").read_bytes(), (whole / "model.ckpt").read_bytes())
                    ranks = int(arguments[arguments.index("--ranks") + 1]) if "--ranks" in arguments else 1
                    replays = sorted(whole.glob("replay-*.ckpt"))
                    self.assertEqual(len(replays), ranks if (ranks > 1 and "replay.size=1500" in arguments) else 0)
                    for replay in replays:
                        self.assertEqual((part / replay.name).read_bytes(), replay.read_bytes())
                if "serial" in name and "ppo" in name:
                    shoal("train", *arguments, *ENDLESS, "--out", other, "--steps", steps, "--seed", 2)
                    self.assertNotEqual(table(other), table(whole))


class ResumeTest(FolderTest):
    def test_another_number_of_ranks_goes_on_with_the_same_environments(self):
        self.changes_ranks(["cartpole-ppo", *CARTPOLE], "ppo.slices")

    def test_another_number_of_ranks_goes_on_with_the_same_replay(self):
        self.changes_ranks(["cartpole-rainbow", *OFF_POLICY, "--envs", "32", "--set", "sampler.horizon=16", "--set",
                            "off_policy.learning_starts=1000", "--set", "log_steps=0"], "replay.slices")

    def test_another_number_of_ranks_goes_on_with_the_replay_that_they_share(self):
        self.changes_ranks(["cartpole-dqn", *OFF_POLICY, "--envs", "32", "--set", "sampler.horizon=16", "--set", "off_policy.learning_starts=1000",
                            "--set", "log_steps=0", "--set", "replay.prioritized=true", "--set", "replay.shared=true"])

    def test_the_last_episodes_of_ranks_are_those_of_one_process(self):
        rows = []
        for ranks in 1, 2:  # a rollout of 8,192 steps, in which some 300 episodes end
            run = self.dir / str(ranks)
            shoal("train", "cartpole-ppo", "--envs", 256, "--set", "sampler.horizon=32", "--set", "ppo.slices=2", "--steps", 8192,
                  "--ranks", ranks, "--out", run)
            rows.append({k: v for k, v in table(run)[0].items() if k == "episodes" or "return" in k or "length" in k})
        self.assertGreater(int(rows[0]["episodes"]), 150)
        self.assertEqual(*rows)

    def changes_ranks(self, arguments, slices=None):
        run, other = self.dir / "run", self.dir / "other"
        of_both = lambda count: ["--set", f"{slices}={count}"] if slices else []
        arguments = [*arguments, *ENDLESS, *of_both(2)]
        for first, then in ((2, 1), (1, 2), (2, 4)):
            shoal("train", *arguments, "--out", run, "--steps", 2048, "--ranks", first)
            shutil.copytree(run, other)
            shoal("train", "--resume", run, "--steps", 2560)
            shoal("train", "--resume", other, "--steps", 2560, "--ranks", then, *of_both(max(2, then)))
            same, changed = ({k: v for k, v in table(r)[4].items() if k == "episodes" or "return" in k or "length" in k}
                             for r in (run, other))
            self.assertEqual(changed, same, f"from {first} to {then} ranks")
            shutil.rmtree(run)
            shutil.rmtree(other)

    def test_a_run_killed_at_any_moment_goes_on(self):
        self.is_killed_and_goes_on(["cartpole-ppo", *CARTPOLE])

    def test_ranks_with_replays_killed_at_any_moment_go_on(self):
        self.is_killed_and_goes_on(["cartpole-dqn", *OFF_POLICY, "--envs", "32", "--set", "sampler.horizon=16", "--set", "log_steps=0",
                                    "--set", "off_policy.replay_ratio=1", "--ranks", "2"])

    def is_killed_and_goes_on(self, arguments):
        run = self.dir / "run"
        begin = ["train", *arguments, *ENDLESS, "--set", "schedule_steps=1000000000", "--steps", "1000000000",
                 "--set", "checkpoint_steps=512", "--set", "keep_checkpoints=3", "--out", run]
        random.seed(1)
        before = 0
        for kill in range(KILLS):
            last = written(run / "model.ckpt")
            training = subprocess.Popen([SHOAL, *map(str, begin)])
            while written(run / "model.ckpt") == last:
                self.assertIsNone(training.poll())
                time.sleep(0.001)
            time.sleep(random.uniform(0, 0.3))  # a random moment of the kill; no wait depends on it
            training.send_signal(signal.SIGKILL)
            training.wait()
            shoal("eval", run, "--episodes", "1")  # the newest checkpoint is whole
            steps = [int(row["steps"]) for row in table(run)]
            self.assertGreater(len(steps), before, f"kill {kill}: it went on")
            before = len(steps) - 1  # the last row may come after the last checkpoint
            begin = ["train", "--resume", run, "--quiet"]
        self.assertGreater(before, KILLS, "it went on after the kills")
        self.assertEqual(steps, list(range(512, 512 * len(steps) + 1, 512)), "no row is missing, none is there twice")
        checkpoints, ranks = len(list(run.glob("checkpoint-*.ckpt"))), 2 if "--ranks" in arguments else 0
        self.assertLessEqual(len(list(run.glob("replay-*.ckpt"))), ranks * (checkpoints + 1), "those of old checkpoints are gone")

    def test_a_run_goes_back_to_an_older_checkpoint(self):
        run, straight = self.dir / "run", self.dir / "straight"
        keep = ["--set", "checkpoint_steps=512", "--set", "keep_checkpoints=9"]
        begin = ["train", "cartpole-ppo", *ENDLESS, *CARTPOLE, *keep, "--steps", 2048]
        shoal(*begin, "--out", run)
        shoal(*begin, "--out", straight)
        shoal("train", "--resume", run / "checkpoint-000000001024.ckpt", "--steps", 1536)
        self.assertEqual([row["steps"] for row in table(run)], ["512", "1024", "1536"])
        self.assertEqual(len(list(run.glob("checkpoint-*.ckpt"))), 3, "those of the steps that it went back")
        shoal("train", "--resume", run, "--steps", 2048)
        shoal("verify", run, straight)

    def test_a_full_disk_keeps_the_last_checkpoint(self):
        run = self.dir / "run"
        shoal("train", "cartpole-ppo", *ENDLESS, *CARTPOLE, "--out", run, "--steps", 1024)
        before = (run / "model.ckpt").read_bytes()

        def fill_disk():  # room for the table, not for a checkpoint; Python ignores the signal that comes with it
            resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

        errors = shoal("train", "--resume", run, "--steps", 2048, preexec_fn=fill_disk, restore_signals=False, status=1).stderr
        self.assertIn("model.ckpt", errors)
        self.assertIn("File too large", errors)
        self.assertIn("the previous checkpoint is kept", errors)
        self.assertEqual((run / "model.ckpt").read_bytes(), before)
        shoal("train", "--resume", run, "--steps", 2048)
        self.assertEqual([row["steps"] for row in table(run)], ["512", "1024", "1536", "2048"])

    def test_a_run_has_one_training_at_a_time(self):
        run = self.dir / "run"
        shoal("train", "cartpole-ppo", *ENDLESS, *CARTPOLE, "--out", run, "--steps", 512)
        training = subprocess.Popen([SHOAL, "train", "--resume", str(run), "--steps", "1000000000", "--quiet",
                                     "--set", "schedule_steps=1000000000"])
        while len(table(run)) < 2:
            self.assertIsNone(training.poll())
            time.sleep(0.01)
        done = shoal("train", "--resume", run, "--steps", 20000, status=None)
        training.send_signal(signal.SIGINT)
        training.wait(60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("in use by another run", done.stderr)

    def test_what_a_resumed_run_may_change(self):
        run = self.dir / "run"
        shoal("train", "cartpole-ppo", *ENDLESS, *CARTPOLE, "--out", run, "--steps", 512)
        for arguments, word in ((["--seed", "2"], "seed cannot change"), (["cartpole-ppo"], "--resume RUN"),
                                (["--out", "x"], "--out"), ([], "has taken 512 of its 512 steps"),
                                (["--set", "ppo.clip=0.1", "--steps", "1024"], "--init-from")):
            with self.subTest(word):
                self.assertIn(word, shoal("train", "--resume", run, *arguments, status=2).stderr)
        shoal("train", "--resume", run, "--steps", 1024, "--sampler", "parallel-gpu", "--workers", 1)
        shoal("train", "cartpole-ppo", "--init-from", run, "--out", self.dir / "new", *ENDLESS, "--steps", 512)


if __name__ == "__main__":
    unittest.main(verbosity=2)
