"""The settings with which a run begins: of a preset, of a file, or of the task. Usage: run_settings_test.py SHOAL [unittest arguments]"""

import importlib.util
import pathlib
import shutil
import unittest

from program import FolderTest, shoal


class RunSettingsTest(FolderTest):
    def trains_without_a_preset(self, kind, algo, *arguments):
        run = self.dir / f"no-preset-{len(list(self.dir.glob('no-preset-*')))}"
        done = shoal("train", *arguments, "--out", run)
        name = f"defaults/{kind}"
        self.assertIn(f"begins with these settings, of presets/{name}.toml and the command line:\n", done.stdout)
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
            self.assertIn(f"shoal train --env {name}", shoal("train", name, status=2).stderr)

    def test_a_sweep_needs_no_preset(self):
        sweep = self.dir / "without-base.toml"
        sweep.write_text('seeds = [1]\n[all]\nenv.id = "CartPole-v1"\nsteps = 1e3\nsampler.horizon = 16\n')
        shoal("launch", sweep, "--out", self.dir / "without-base")
        self.assertIn('base = "defaults/vectors-discrete"', (self.dir / "without-base/CartPole-v1-1/config.toml").read_text())

    def test_its_folder_is_named_after_it(self):
        (self.dir / "empty").mkdir()
        done = shoal("train", "--env", "CartPole-v1", "--steps", "512", "--set", "sampler.horizon=16", cwd=self.dir / "empty")
        self.assertRegex(done.stdout, r"done: runs/CartPole-v1-ppo-1-")

    def test_a_preset_does_not_stop_another_task_at_its_return(self):
        for name, arguments, said in (("other", ["--env", "Acrobot-v1"], True), ("same", ["--env", "CartPole-v1"], False),
                                      ("given", ["--env", "Acrobot-v1", "--set", "stop_return=475"], False)):
            with self.subTest(name):
                run = self.dir / f"another-{name}"
                done = shoal("train", "cartpole-ppo", "--steps", "512", "--set", "sampler.horizon=16", "--out", run, *arguments)
                self.assertEqual("stop_return is off: 475 was for CartPole-v1, not Acrobot-v1\n" in done.stdout, said)
                self.assertIn('stop_return = "off"' if said else "stop_return = 475.0", (run / "config.toml").read_text())

    def test_settings_of_a_preset_that_stay_for_another_task_are_said(self):
        done = shoal("train", "mountain-car-ppo", "--env", "CartPole-v1", "--set", "env.normalize_reward=true", "--steps", "512", "--set",
                     "sampler.horizon=16", "--out", self.dir / "kept")
        self.assertRegex(done.stdout, r"(?m)^kept from MountainCar-v0: env\.action_repeat = \d+$")
        done = shoal("train", "mountain-car-ppo", "--steps", "512", "--set", "sampler.horizon=16", "--out", self.dir / "same")
        self.assertNotIn("kept from", done.stdout)

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
            (["cartpole-appo", "--workers", "2", "--set", "async.max_lag=3"], ["async.max_lag has no effect with async.stale = use"]),
            (["cartpole-appo", "--workers", "2", "--set", "async.max_lag=3", "--set", "async.stale=drop"], []),
            (["cartpole-dqn", "--set", "replay.alpha=0.5", "--set", "dqn.v_min=-5", "--set", "dqn.noise=0.4", "--set", "dqn.epsilon_end=0.1"],
             ["dqn.noise has no effect with dqn.noisy = false", "dqn.v_min has no effect with dqn.returns = mean",
              "replay.alpha has no effect with replay.prioritized = false"]),
            (["cartpole-ppo", "--sampler", "parallel-cpu", "--set", "sampler.cores=[0]", "--set", "eval_episodes=3", "--set", "model.memory_size=8"],
             ["eval_episodes has no effect with eval_steps = 0", "model.memory_size has no effect with model.memory = none",
              "sampler.cores has no effect with sampler.pin = false"])):
            with self.subTest(arguments):
                done = shoal("train", *arguments, "--steps", "64", "--out", self.dir / "run")
                self.assertEqual([line for line in done.stdout.splitlines() if "has no effect" in line], notes)
                shutil.rmtree(self.dir / "run")

    def test_steps_set_the_length_of_the_schedules(self):
        file = self.dir / "scheduled.toml"
        file.write_text('base = "cartpole-ppo"\nsteps = 512\nschedule_steps = 512\n[sampler]\nhorizon = 16\n')
        for source in ("cartpole-ppo", file):
            run = self.dir / f"scheduled-{pathlib.Path(source).stem}"
            shoal("train", source, "--quiet", "--set", "sampler.horizon=16", "--out", run, "--steps", "1024")
            self.assertRegex((run / "config.toml").read_text(), r"(?m)^schedule_steps = 1024 ")
        refused = shoal("train", "--resume", run, "--steps", "2048", status=2)
        self.assertIn("give schedule_steps = 2048 too", refused.stderr)
        shoal("train", "--resume", run, "--steps", "2048", "--set", "schedule_steps=2048", "--quiet")
        self.assertRegex((run / "config.toml").read_text(), r"(?m)^schedule_steps = 2048 ")


if __name__ == "__main__":
    unittest.main()
