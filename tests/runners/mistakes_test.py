"""Mistakes in commands and settings are told in one line. Usage: mistakes_test.py SHOAL [unittest arguments]"""

import os
import subprocess
import unittest

from program import SHOAL, SharedFolderTest, shoal, train

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
    (["bench", "sample", "--stepz", "3"], "(see shoal bench sample --help)"),
    (["train", "--env", "CartPole-v1", "--set", "env.time_limit=-4"], "env.time_limit: found -4, expected"),
    (["train", "cartpole-ppo", "--steps", "0"], "steps"),
    (["train", "cartpole-ppo", "--steps", "-5"], "steps"),
    (["train", "cartpole-ppo", "--steps", "many"], "steps"),
    (["train", "cartpole-ppo", "--seed", "-1"], "seed"),
    (["train", "cartpole-ppo", "--envs", "0"], "sampler.envs"),
    (["train", "cartpole-dqn", "--envs", "0"], "sampler.envs"),
    (["train", "cartpole-dqn", "--envs", "1099511627776", "--set", "sampler.horizon=1099511627776"], "sampler.envs"),
    (["train", "--env", "CartPole-v1", "--algo", "dqn", "--set", "dqn.learing_rate=1"], "the nearest is 'dqn.learning_rate'"),
    (["train", "--env", "CartPole-v1", "--algo", "dqn", "--set", "dqn.batch_size=1"], "expected dqn.batch"),
    (["train", "cartpole-ppo", "--algo", "dqn", "--set", "replay.sise=5"], "the nearest is 'replay.size'"),
    (["train", "cartpole-ppo", "--set", "dqn.bach=3"], "the nearest is 'dqn.batch'"),
    (["train", "{dir}/a2c.toml"], "the nearest is 'a2c.learning_rate'"),
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
# Valid only if Atari was not built or does not have this game.
MISSING_GAMES = ["ALE/NoSuchGame-v5", "ALE/Combat-v5"]


class MistakesTest(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        d = cls.dir
        (d / "full").mkdir()
        (d / "full/file").write_text("x")
        (d / "broken.toml").write_text("steps = [\n")
        (d / "unknown.toml").write_text("[sampler]\nworker = 3\n")
        (d / "a2c.toml").write_text('env.id = "CartPole-v1"\na2c.learing_rate = 1\nalgo = "a2c"\n')
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

    def assert_mistake(self, word, *arguments):
        before = sorted(self.dir.rglob("*"))
        done = shoal(*[a.format(dir=self.dir) for a in arguments], cwd=self.dir, status=2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(self.dir.rglob("*")), before, "something was written")

    def test_mistakes(self):
        for arguments, word in MISTAKES:
            with self.subTest(" ".join(arguments)):
                self.assert_mistake(word, *arguments)

    def test_a_replay_is_announced_and_refused_if_there_is_no_memory_for_it(self):
        done = shoal("train", "cartpole-dqn", "--set", "replay.size=1000000000000", "--out", self.dir / "large", status=2)
        self.assertIn("replay: 1000000000000 steps, 48 TB", done.stdout)
        self.assertIn("TB is needed, but", done.stderr)
        self.assertFalse((self.dir / "large").exists())

    def test_missing_games(self):
        for game in MISSING_GAMES:
            with self.subTest(game):
                self.assert_mistake("", "train", "pong-ppo", "--set", f"env.id={game}")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_unwritable_folder(self):
        folder = self.dir / "locked"
        folder.mkdir(mode=0o500)
        self.assert_mistake("not writable", "train", "cartpole-ppo", "--out", "{dir}/locked/run")

    def test_a_removed_working_directory_is_reported(self):
        gone = self.dir / "gone"
        gone.mkdir()
        done = subprocess.run(["sh", "-c", f'rmdir "$PWD"; exec "{SHOAL}" train cartpole-ppo --steps 64 --out "{self.dir}/run"'],
                              cwd=gone, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (2, "shoal: the working directory was removed; change to another one\n"))


if __name__ == "__main__":
    unittest.main()
