"""Whole runs: shoal.train() and the command are the same program, and resume one another's runs."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

import torch

import shoal

SETTINGS = dict(env="CartPole-v1", algo="ppo", envs=8, horizon=16, workers=2, threads=1, checkpoint_steps=512)
COMMAND = os.environ["SHOAL_COMMAND"]


def parameters(run) -> bytes:
    return b"".join(tensor.detach().numpy().tobytes() for tensor in run.agent.parameters().values())


class RunsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def shell(self, *arguments):
        return subprocess.run(arguments, check=True, timeout=100, text=True, capture_output=True).stdout

    def test_resumes_runs_of_the_command_and_the_other_way_round(self):
        config = shoal.make_config(None, steps=1024, **SETTINGS)
        file = self.path("settings.toml")
        with open(file, "w") as settings:
            settings.write(config.to_toml())
        self.shell(COMMAND, "train", file, "--out", self.path("whole"))
        whole = parameters(shoal.load(self.path("whole")))

        self.assertEqual(parameters(shoal.train(file, self.path("python"), quiet=True)), whole)
        self.shell(
            COMMAND,
            "train",
            file,
            "--out",
            self.path("command_first"),
            "--steps",
            "512",
            "--set",
            "schedule_steps=1024",
        )
        half = parameters(shoal.load(self.path("command_first")))
        self.assertNotEqual(half, whole)
        self.assertEqual(
            parameters(shoal.train(None, self.path("command_first"), resume=True, quiet=True, steps=1024)), whole
        )

        run = shoal.train(file, self.path("python_first"), quiet=True, steps=512, schedule_steps=1024)
        self.assertEqual(parameters(run), half)
        self.shell(COMMAND, "train", "--resume", self.path("python_first"), "--steps", "1024")
        self.assertEqual(parameters(shoal.load(self.path("python_first"))), whole)

    def test_plays_with_a_trained_agent(self):
        run = shoal.train("cartpole-ppo", self.path("run"), quiet=True, steps=512, workers=1, seed=3)
        self.assertIn("CartPole-v1", repr(run))
        action = run.predict(torch.zeros(4))
        self.assertIn(action, (0, 1))
        for wrong in (torch.zeros(4, 5), torch.zeros(2, 5, 4)):
            with self.assertRaisesRegex(
                shoal.Error, rf"found the shape \[{wrong.shape[0]}, .*, expected \[4\], or .* \[N, 4\]"
            ):
                run.predict(wrong)
        with self.assertRaisesRegex(shoal.Error, r"found a tuple with a dict, .* env.reset\(\) returns"):
            run.predict(([0.0] * 4, {}))
        several = torch.randn(5, 4)
        self.assertEqual(list(run.predict(several)), [run.predict(each) for each in several])
        self.assertTrue(torch.equal(run.policy.act(several.numpy()), run.policy.act(several)))
        returns = shoal.evaluate(run, episodes=3)
        self.assertEqual(len(returns), 3)
        self.assertEqual(returns, shoal.evaluate(shoal.load(self.path("run")), episodes=3, workers=1))
        self.assertTrue(all(each >= 1 for each in returns))

    def test_predicts_from_a_mirrored_view(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("needs NumPy")
        run = shoal.train("cartpole-ppo", self.path("run"), quiet=True, steps=512, workers=1)
        observation = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
        self.assertEqual(run.predict(observation[::-1]), run.predict(observation[::-1].copy()))

    def test_schedules_as_long_as_the_run_follow_its_steps(self):
        config = shoal.make_config("cartpole-ppo", steps=4000, schedule_steps=4000)
        self.assertEqual(shoal.make_config(config, steps=2000).schedule_steps, 0)
        self.assertEqual(config.schedule_steps, 4000)
        config = shoal.make_config("cartpole-ppo", steps=4000, schedule_steps=8000)
        self.assertEqual(shoal.make_config(config, steps=2000).schedule_steps, 8000)

    def test_frames_from_before_the_episode_stay_zeros(self):
        agent = shoal.ActorCritic("CartPole-v1", **{"agent.normalize_observation": True, "env.stack": 4})
        parameters = agent.parameters()
        with torch.no_grad():
            for name, tensor in parameters.items():
                if name.endswith("/mean"):
                    tensor.copy_(torch.tensor([0.05, -0.3, 0.04, 0.5]))
                if name.endswith("/variance"):
                    tensor.copy_(torch.tensor([2e-3, 5e-2, 1e-3, 1e-1]))
                if name.endswith("/count"):
                    tensor.fill_(1e6)
                if name == "policy_head.weight":
                    tensor.mul_(100)
        agent.parameters_changed()
        sampler = shoal.Sampler(None, agent, kind="serial", envs=64, horizon=6, seed=1)
        rollout = sampler.collect()
        self.assertFalse(rollout.is_first[1:6].any())
        policy = shoal.Policy(agent)
        for t in range(4):
            stacks = torch.zeros(64, 4, 4)
            stacks[:, 3 - t :] = rollout.observation[: t + 1].movedim(0, 1)
            p = rollout.agent_info["log_prob"][t].exp()
            likely = torch.where(p > 0.5, rollout.action[t], 1 - rollout.action[t])
            self.assertEqual(policy.act(stacks).tolist(), likely.tolist())

    def test_trains_in_an_environment_of_the_program(self):
        try:
            from toys import Counter
        except ImportError:
            self.skipTest("needs Gymnasium")
        run = shoal.train(None, self.path("run"), quiet=True, **{**SETTINGS, "env": lambda: Counter(4), "steps": 256})
        self.assertIn(run.predict(torch.zeros(2)), (0, 1, 2))
        again = shoal.load(self.path("run"), env=lambda: Counter(4))
        self.assertEqual(shoal.evaluate(again, episodes=2), shoal.evaluate(run, episodes=2))

    def test_environments_of_a_callable_go_on_in_a_resumed_run(self):
        try:
            import gymnasium
        except ImportError:
            self.skipTest("needs Gymnasium")
        script = """
            import sys, gymnasium, shoal
            resume = len(sys.argv) > 4
            begun = dict(algo="ppo", kind="serial", envs=4, horizon=32, schedule_steps=512, threads=1)
            settings = dict(env=lambda: gymnasium.make(sys.argv[3]), quiet=True, **({} if resume else begun))
            shoal.train(out=sys.argv[1], steps=int(sys.argv[2]), resume=resume, **settings)
            """
        for out, steps, *resume in ("whole", "512"), ("parts", "256"), ("parts", "512", "resume"):
            arguments = self.path(out), steps, "CartPole-v1", *resume
            self.shell(sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *arguments)
        whole, parts = (
            shoal.load(self.path(out), env=lambda: gymnasium.make("CartPole-v1")) for out in ("whole", "parts")
        )
        for name, parameter in whole.agent.parameters().items():
            self.assertTrue(torch.equal(parameter, parts.agent.parameters()[name]), name)

    def test_a_callable_of_another_process_is_not_mistaken(self):
        try:
            from toys import Counter
        except ImportError:
            self.skipTest("needs Gymnasium")
        settings = {**SETTINGS, "steps": 256, "schedule_steps": 512}
        script = f"""
            import sys, shoal
            from toys import Counter
            settings = dict({settings!r}, env=lambda: Counter(4))
            run = shoal.train(None, sys.argv[1], quiet=True, **settings)
            shoal.load(sys.argv[1])  # this process knows it
            """
        folder = self.path("run")
        self.shell(sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), folder)
        shoal.default_config(lambda: Counter(9))  # the first callable of this process, as that one was of the other
        with self.assertRaisesRegex(shoal.Error, r"callable of another process.*shoal.load\('.*run', env=make\)"):
            shoal.load(folder)
        with self.assertRaisesRegex(shoal.Error, r"callable of another process.*resume=True, env=make\)"):
            shoal.train(out=folder, resume=True, steps=512)
        with self.assertRaisesRegex(shoal.Error, "Python callable.*env=make"):
            shoal.default_config(shoal.make_config(f"{folder}/config.toml").env_id)
        run = shoal.load(folder, env=lambda: Counter(4))
        self.assertLessEqual(max(shoal.evaluate(run, episodes=2)), 8)
        run = shoal.train(out=folder, resume=True, quiet=True, steps=512, env=lambda: Counter(4))
        self.assertEqual(shoal_steps(folder), 512)
        with self.assertRaisesRegex(shoal.Error, "film.*callable.*gymnasium:MODULE:ID"):
            run.film(self.path("run.gif"))

    def test_predicts_for_the_spaces_of_the_environment(self):
        try:
            import numpy as np
            from gymnasium import spaces
            from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
            from toys import Echo, echoes
        except ImportError:
            self.skipTest("needs Gymnasium")
        bounds = np.array([[-1, 0, 2], [-3, 1, 5]]), np.array([[1, 4, 3], [0, 9, 8]])
        box = spaces.Box(*bounds, dtype=np.float64)
        picture = spaces.Box(0, 255, (20, 24, 3), np.uint8)
        vector = spaces.Box(-1, 1, (3,), np.float32)
        senses = spaces.Dict(eye=spaces.Dict(left=picture, at=vector), ear=spaces.Tuple((vector, spaces.Discrete(3))))
        cases = (
            (spaces.Discrete(4, start=-2), senses),
            (box, vector),
            (spaces.Box(np.array([-1.7e308, 0]), np.array([1.7e308, 1]), dtype=np.float64), vector),
            (spaces.Box(-0.01, 0.01, (2, 1), np.float32), picture),
            (spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [-2, 7]]), spaces.Discrete(5, start=2)),
            (spaces.Dict(arm=spaces.Tuple((box, spaces.Discrete(3, start=1))), grip=spaces.MultiBinary(3)), vector),
        )
        for at, (actions, observations) in enumerate(cases):
            with self.subTest(actions=actions):
                seen = []
                settings = {**SETTINGS, "workers": 1, "steps": 128, "checkpoint_steps": 0}
                settings["env"] = lambda: Echo(actions, observations, seen)  # noqa: B023
                run = shoal.train(None, self.path(str(at)), quiet=True, **settings)
                seen.clear()
                shoal.evaluate(run, episodes=2)  # in this process
                self.assertGreater(len(seen), 8)
                pairs = seen[:20]
                given = create_empty_array(observations, len(pairs))
                given = concatenate(observations, [each for each, _ in pairs], given)
                together = iterate(batch_space(actions, len(pairs)), run.predict(given))
                one = run.predict(concatenate(observations, [pairs[0][0]], create_empty_array(observations, 1)))
                one = next(iter(iterate(batch_space(actions, 1), one)))
                for a, b in zip(leaves(one), leaves(run.predict(pairs[0][0])), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
                for (observation, action), row in zip(pairs, together, strict=True):
                    got = run.predict(observation)
                    for a, b in zip(leaves(got), leaves(row), strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
                    self.assertTrue(actions.contains(got), got)
                    for a, b in zip(leaves(got), leaves(action)):
                        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        settings = {**SETTINGS, "workers": 1, "steps": 128, "checkpoint_steps": 0, "gymnasium__vector": True}
        run = shoal.train(None, self.path("vectors"), quiet=True, **{**settings, "env": "gymnasium:toys:echoes"})
        one = echoes(1)
        got = run.predict(one.single_observation_space.sample())
        self.assertTrue(one.single_action_space.contains(got), got)

    def test_predicts_with_memory(self):
        run = shoal.train(None, self.path("run"), quiet=True, steps=256, memory="lstm", **SETTINGS)
        run.predict(torch.zeros(4))
        self.assertIn(run.predict(torch.ones(4), reward=1.0), (0, 1))
        with self.assertRaisesRegex(shoal.Error, r"is_first: found none, expected \[N\] bool"):
            run.predict(torch.zeros(2, 4))
        several, first = torch.randn(3, 2, 4), torch.tensor([[True, True], [False, True], [False, False]])
        run.reset()
        got = [run.predict(x, reward=[1.0, 1.0], is_first=begins)[1] for x, begins in zip(several, first)]
        run.reset()
        self.assertEqual(got[1:], [run.predict(several[t, 1], reward=1.0) for t in (1, 2)])

    def test_predicts_from_rewards_as_the_environment_gives_them(self):
        changed = {"env": "Pendulum-v1", "memory": "lstm", "memory_sees_previous": True, "ppo__minibatches": 4}
        rewards = {"normalize_reward": False, "reward_scale": 0.5, "reward_clip": 2.0}
        run = shoal.train(None, self.path("run"), quiet=True, steps=256, **{**SETTINGS, **changed, **rewards})

        def predicted(rewards):
            run.reset()
            return [float(run.predict(torch.ones(3), reward=reward)[0]) for reward in rewards]

        def acted(rewards):
            run.reset()
            return [float(run.policy.act(torch.ones(1, 3), reward=torch.tensor([reward]))) for reward in rewards]

        # A Box of [-2, 2]: the agent's actions are in the same units.
        self.assertEqual(predicted([0.0, -3.0, -90.0, 1.0]), acted([0.0, -1.5, -2.0, 0.5]))
        self.assertNotEqual(acted([0.0, -3.0, -90.0, 1.0]), acted([0.0, -1.5, -2.0, 0.5]))

    def test_begins_with_the_settings_of_the_command(self):
        command = (COMMAND, "train", "--env", "Pendulum-v1", "--steps", "64", "--set", "sampler.horizon=8")
        self.shell(*command, "--set", "sampler.kind=serial", "--seed", "2", "--out", self.path("command"))
        config = shoal.default_config("Pendulum-v1", steps=64, horizon=8, kind="serial", seed=2)
        self.assertIn("max_grad_norm", str(config))
        self.assertRegex(repr(config), r"Pendulum-v1.*ppo")
        self.assertEqual(shoal.default_config("Pendulum-v1", "sac").algo, "sac")
        by_id = shoal.train(
            env="Pendulum-v1", out=self.path("id"), steps=64, horizon=8, kind="serial", seed=2, quiet=True
        )
        run = shoal.train(config, self.path("python"), quiet=True)
        self.assertEqual(str(by_id.config), str(run.config))
        command = shoal.load(self.path("command"))
        self.assertEqual(str(run.config), str(command.config))
        self.assertEqual(parameters(run), parameters(command))
        self.assertEqual(shoal.make_config(config, seed=7).seed, 7)
        self.assertEqual(config.seed, 2)

    def test_settings_without_effect_are_warned_of(self):
        def warned(base, name, **settings):
            with warnings.catch_warnings(record=True) as all_of_them:
                warnings.simplefilter("always")
                shoal.train(base, self.path(name), steps=64, horizon=8, threads=1, quiet=True, **settings)
            return [str(each.message) for each in all_of_them if __file__ == each.filename]

        of_workers = "sampler.workers has no effect with sampler.kind = serial"
        of_lag = "async.max_lag has no effect with sampler.asynchronous = false"
        self.assertEqual(warned("cartpole-ppo", "ppo", kind="serial", workers=2, max_lag=3), [of_lag, of_workers])
        self.assertEqual(warned("cartpole-ppo", "used", kind="parallel-cpu", workers=2, clip=0.1), [])
        too_short = "nothing is learned in 64 steps: learning begins after off_policy.learning_starts, 1000"
        of_ppo = "ppo.clip has no effect with algo = dqn"
        self.assertEqual(warned("cartpole-dqn", "dqn", kind="serial", ppo__clip=0.1), [too_short, of_ppo])
        file = pathlib.Path(self.path("own.toml"))
        file.write_text('base = "cartpole-ppo"\nsampler.kind = "serial"\nsampler.workers = 7\n')
        self.assertEqual(warned(file, "file"), [of_workers])

    def test_a_preset_for_another_environment_has_no_goal(self):
        self.assertIn("stop_return = 475", str(shoal.make_config("cartpole-ppo")))
        self.assertNotIn("475", str(shoal.make_config("cartpole-ppo", env="Acrobot-v1")))
        self.assertIn("stop_return = 475", str(shoal.make_config("cartpole-ppo", env="Acrobot-v1", stop_return=475)))

    def test_ranks_beside_the_threads_of_torch(self):
        script = """
            import sys, torch, shoal
            torch.set_num_threads(2)
            torch.rand(2000, 500).exp()  # OpenMP's threads now wait for the next loop
            shoal.train("cartpole-ppo", sys.argv[1], quiet=True, ranks=2, threads=2, steps=4096)
            """
        self.shell(sys.executable, "-c", textwrap.dedent(script), self.path("run"))

    def test_ctrl_c_leaves_a_run_to_resume(self):
        self.interrupt(signal.SIGINT, "KeyboardInterrupt()")
        run = shoal.train(None, self.path("run"), resume=True, quiet=True, steps=shoal_steps(self.path("run")) + 128)
        self.assertEqual(run.config.algo, "ppo")

    def test_a_program_that_is_told_to_end_does_not_go_on(self):
        self.interrupt(signal.SIGTERM, f"SystemExit({128 + signal.SIGTERM})")

    def interrupt(self, signal_, raised):
        script = f"""
            import sys
            import shoal
            try:
                shoal.train(None, sys.argv[1], steps=10**9, log_steps=1, **{SETTINGS!r})
            except BaseException as error:
                print("raised", repr(error))
            """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), self.path("run")],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            for _ in process.stdout:
                if os.path.exists(self.path("run/progress.csv")):
                    break
            process.send_signal(signal_)
            self.assertIn(f"raised {raised}", process.communicate(timeout=60)[0])

    def test_the_module_is_the_command(self):
        module = (sys.executable, "-m", "shoal")
        self.assertEqual(self.shell(*module, "list", "algos"), self.shell(COMMAND, "list", "algos"))
        self.shell(*module, "train", "cartpole-ppo", "--steps", "256", "--out", self.path("run"))
        self.assertIn("return", self.shell(*module, "eval", self.path("run"), "--episodes", "2"))
        sweep = self.path("sweep.toml")
        with open(sweep, "w") as file:
            file.write('base = "cartpole-ppo"\nseeds = [1]\n[all]\nsteps = 256\nsampler.horizon = 16\n')
        self.shell(*module, "launch", sweep, "--out", self.path("many"))  # its runs are processes of their own
        wrong = subprocess.run([*module, "train", "cartpole-pp"], timeout=60, text=True, capture_output=True)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("cartpole-ppo", wrong.stderr)

    def test_says_what_is_wrong(self):
        with self.assertRaisesRegex(shoal.Error, "no run folder"):
            shoal.train("cartpole-ppo")
        with self.assertRaisesRegex(shoal.Error, "own settings"):
            shoal.train("cartpole-ppo", self.path("run"), resume=True)
        with self.assertRaises(shoal.Error):
            shoal.load(self.path("nothing"))
        shoal.train("cartpole-ppo", self.path("run"), quiet=True, steps=256, horizon=16)
        with self.assertRaisesRegex(shoal.Error, "sampler.horizon cannot change.*init_from"):
            shoal.train(None, self.path("run"), resume=True, steps=512, horizon=8)

    def test_weights_and_policies_of_the_zoo_are_loaded(self):
        run = shoal.load("zoo:cartpole-ppo")
        self.assertEqual(shoal.evaluate(run, episodes=3), [500.0] * 3)
        self.assertIn(run.predict([0.0, 0.1, 0.0, -0.1]), (0, 1))
        self.assertEqual(parameters(shoal.load(run.folder)), parameters(run))
        agent = shoal.ActorCritic("CartPole-v1")
        agent.load("zoo:cartpole-ppo")
        self.assertEqual(shoal.evaluate(agent, episodes=3), [500.0] * 3)
        out = self.path("short.ckpt")  # a folder, whatever its name
        short = shoal.train(
            "cartpole-ppo", out=out, steps=64, init_from="zoo:cartpole-ppo", learning_rate=1e-9, quiet=True
        )
        self.assertEqual(shoal.evaluate(short, episodes=3), [500.0] * 3)
        again = shoal.load(out + "/model.ckpt")
        self.assertEqual((again.folder, again.progress["steps"]), (short.folder, short.progress["steps"]))
        agent.save(self.path("agent.pt"))
        other = shoal.ActorCritic("CartPole-v1", seed=9)
        for saved in self.path("agent.pt"), out:
            other.load(saved)
            self.assertEqual(shoal.evaluate(other, episodes=3), [500.0] * 3)
        with self.assertRaisesRegex(shoal.Error, "no 'cartpole'; the nearest is"):
            shoal.load("zoo:cartpole")
        self.assertEqual(run.progress, {})


def leaves(value) -> list:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else None
    return [value] if parts is None else [leaf for part in parts for leaf in leaves(part)]


def shoal_steps(folder) -> int:
    """Steps in the last row of the progress file."""
    with open(os.path.join(folder, "progress.csv")) as file:
        header, *rows = [line.strip().split(",") for line in file if not line.startswith("#")]
    return int(float(rows[-1][header.index("steps")]))
