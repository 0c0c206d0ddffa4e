"""A training loop written in Python: the same bits as in C++, views of shared memory, checkpoints."""

import os
import subprocess
import tempfile
import textwrap
import unittest
import warnings

import torch

import shoal

PPO = dict(learning_rate=1e-3, discount=0.98, gae_lambda=0.8, epochs=10, minibatches=2, clip=0.2, entropy_coef=0.0)


def bits(agent) -> bytes:
    return b"".join(tensor.detach().contiguous().numpy().tobytes() for tensor in agent.parameters().values())


class LoopTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_makes_the_parameters_of_the_cpp_loop(self):
        updates = 4
        file = os.path.join(self.folder, "parameters")
        subprocess.run([os.environ["PYTHON_REFERENCE"], file, str(updates)], check=True, timeout=60)
        agent = shoal.ActorCritic("CartPole-v1", hidden=[64, 64], steps=200_000)
        before = bits(agent)
        algo = shoal.PPO(agent, **PPO)
        with shoal.Sampler("CartPole-v1", agent, envs=16, workers=2, horizon=32) as sampler:
            for _ in range(updates):
                algo.update(sampler.collect())
        with open(file, "rb") as reference:
            expected = reference.read()
        self.assertNotEqual(before, expected)
        self.assertEqual(bits(agent), expected)
        self.assertEqual(algo.steps, updates * 16 * 32)

    def test_a_batch_of_another_agent_is_refused(self):
        agent, other = (shoal.ActorCritic("CartPole-v1", seed=seed) for seed in (1, 2))
        with shoal.Sampler(None, other, kind="serial", envs=4, horizon=8) as sampler:
            with self.assertRaisesRegex(shoal.Error, "another agent's sampler, expected one of the agent that learns"):
                shoal.PPO(agent).update(sampler.collect())
            shoal.PPO(other).update(sampler.collect())
            shoal.IMPALA(agent).update(sampler.collect())  # corrects for the other policy
            shoal.PPO(agent, vtrace=True).update(sampler.collect())

    def test_a_sampler_is_not_bound_to_the_minibatches_of_a_preset(self):
        agent = shoal.ActorCritic("CartPole-v1", memory="lstm", memory_size=8)
        with shoal.Sampler(None, agent, kind="serial", envs=2, horizon=8) as sampler:
            shoal.PPO(agent, minibatches=2).update(sampler.collect())
            with self.assertRaisesRegex(shoal.Error, "4 minibatches of 2 environments"):
                shoal.PPO(agent, minibatches=4).update(sampler.collect())
        with self.assertRaisesRegex(shoal.Error, "sampler.groups: found 4, expected 1 to 2"):
            shoal.Sampler(None, agent, envs=2, groups=4)

    def test_warns_once_the_learning_rate_is_0(self):
        agent = shoal.ActorCritic("CartPole-v1", hidden=[16])
        with shoal.Sampler("CartPole-v1", agent, kind="serial", envs=4, horizon=8) as sampler:
            algo = shoal.PPO(agent, steps=64, minibatches=2)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for _ in range(2):
                    algo.update(sampler.collect())
            before = bits(agent)
            with self.assertWarnsRegex(RuntimeWarning, "found 64 steps.*steps=..."):
                algo.update(sampler.collect())
            self.assertEqual(bits(agent), before)
            constant = shoal.PPO(agent, steps=32, minibatches=2, anneal_learning_rate=False)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for _ in range(2):
                    constant.update(sampler.collect())
            self.assertNotEqual(bits(agent), before)

    def assert_equals_a_run(self, algo_class, **settings):
        """The loop of the class makes the parameters of shoal.train() with these settings."""
        run = shoal.train(shoal.make_config(**settings), os.path.join(self.folder, "run"), quiet=True, threads=1)
        agent = shoal.Agent(**settings)
        algo = algo_class(agent)
        with shoal.Sampler(None, agent) as sampler:
            while algo.steps < settings["steps"]:
                metrics = algo.update(sampler.collect())
        self.assertTrue(all(value == value for value in metrics.values()))
        self.assertEqual(bits(agent), bits(run.agent))

    def test_ppo_equals_a_run(self):
        self.assert_equals_a_run(
            shoal.PPO, env="CartPole-v1", algo="ppo", steps=1024, envs=8, horizon=32, kind="serial"
        )

    def test_dqn_equals_a_run(self):
        self.assert_equals_a_run(
            shoal.DQN,
            env="CartPole-v1",
            algo="dqn",
            steps=1024,
            envs=8,
            horizon=4,
            kind="serial",
            learning_starts=256,
            size=10_000,
            **{"dqn.batch": 32},
        )

    def test_sac_equals_a_run(self):
        self.assert_equals_a_run(
            shoal.SAC,
            env="Pendulum-v1",
            algo="sac",
            steps=256,
            envs=8,
            horizon=4,
            kind="serial",
            learning_starts=128,
            size=10_000,
            hidden=[32, 32],
        )

    def test_a_saved_loop_goes_on_exactly(self):
        ppo = dict(env="CartPole-v1", algo="ppo", envs=8, workers=2, horizon=16)
        dqn = dict(
            env="CartPole-v1", algo="dqn", envs=8, workers=2, horizon=4, learning_starts=64, size=200, replay_ratio=8
        )
        for name, settings in {
            "ppo": dict(ppo, kind="parallel-gpu", groups=2),
            "memory": dict(ppo, kind="parallel-cpu", memory="lstm"),
            "dqn": dict(dqn, kind="parallel-gpu"),
            "rainbow": dict(dqn, kind="serial", prioritized=True, n_step=3, returns="categorical"),
            "noisy": dict(dqn, kind="serial", prioritized=True, n_step=3, returns="categorical", noisy=True),
            "in Python": dict(ppo, env="gymnasium:CartPole-v1", kind="serial"),
        }.items():
            with self.subTest(name):
                file, algo_class = (
                    os.path.join(self.folder, f"{name}.ckpt"),
                    shoal.algos.ALGOS[settings["algo"].upper()],
                )
                agent = shoal.Agent(**settings)
                algo = algo_class(agent)
                with shoal.Sampler(None, agent) as sampler:
                    for _ in range(40):
                        algo.update(sampler.collect())
                    agent.save(file, algo, sampler)
                    steps = algo.steps
                    for _ in range(40):
                        algo.update(sampler.collect())
                other = shoal.Agent(**settings)
                for parameter in other.parameters().values():
                    parameter.detach().zero_()
                if name.startswith("noisy"):  # in either order
                    other.load(file)
                    again = algo_class(other)
                else:
                    again = algo_class(other)
                    other.load(file)
                again.load(file)
                self.assertEqual(again.steps, steps)
                with shoal.Sampler(None, other, saved=file) as sampler:
                    self.assertEqual(sampler.horizon, settings["horizon"])
                    for _ in range(40):
                        again.update(sampler.collect())
                self.assertEqual(bits(other), bits(agent))

    def test_a_saved_sampler_keeps_its_settings(self):
        file = os.path.join(self.folder, "own.ckpt")

        def end_of(agent, algo, sampler):
            for _ in range(4):
                algo.update(sampler.collect())
            return bits(agent)

        agent = shoal.ActorCritic("CartPole-v1")
        algo = shoal.PPO(agent)
        with shoal.Sampler(None, agent, kind="parallel-gpu", envs=16, workers=2, horizon=32, seed=7) as sampler:
            sampler.collect()
            agent.save(file, algo, sampler)
            expected = end_of(agent, algo, sampler)
        again = shoal.ActorCritic("CartPole-v1")
        again.load(file)
        algo = shoal.PPO(again)
        algo.load(file)
        with shoal.Sampler(None, again, saved=file, workers=1) as sampler:
            self.assertEqual((sampler.envs, sampler.horizon), (16, 32))
            self.assertEqual(end_of(again, algo, sampler), expected)

    def test_workers_of_a_resumed_sampler_draw_different_numbers(self):
        try:
            import toys  # noqa: F401
        except ImportError:
            self.skipTest("needs Gymnasium")
        file, env = os.path.join(self.folder, "own.ckpt"), "gymnasium:toys:SharedRandom-v0"
        agent = shoal.ActorCritic(env)
        with shoal.Sampler(env, agent, kind="parallel-gpu", envs=2, workers=2, horizon=4) as sampler:
            sampler.collect()
            agent.save(file, shoal.PPO(agent), sampler)
        with shoal.Sampler(None, agent, saved=file) as sampler:
            numbers = sampler.collect().observation[1:]
        self.assertEqual(len(torch.unique(numbers)), 4 * 2 * 3)

    def test_a_replay_of_another_size_is_refused(self):
        file = os.path.join(self.folder, "own.ckpt")
        settings = dict(algo="dqn", envs=8, horizon=4, learning_starts=64, kind="serial", replay_ratio=8)
        agent = shoal.Agent("CartPole-v1", **settings, size=400)
        algo = shoal.DQN(agent)
        with shoal.Sampler(None, agent) as sampler:
            for _ in range(8):
                algo.update(sampler.collect())
        agent.save(file, algo)
        with self.assertRaisesRegex(shoal.Error, "expected"):
            shoal.DQN(agent, size=200).load(file)

    def test_says_what_a_checkpoint_lacks(self):
        file = os.path.join(self.folder, "own.ckpt")
        agent = shoal.ActorCritic("CartPole-v1")
        agent.save(file)
        for act, sentence in {
            lambda: shoal.PPO(agent).load(file): "holds no algorithm",
            lambda: shoal.Sampler(None, agent, saved=file): "holds no sampler",
            lambda: shoal.ActorCritic("CartPole-v1", hidden=[8]).load(file): "expected",
        }.items():
            with self.assertRaisesRegex(shoal.Error, sentence):
                act()
        algo = shoal.PPO(agent)
        agent.save(file, algo)
        with self.assertRaises(shoal.Error):
            shoal.PPO(agent, optimizer="rmsprop").load(file)
        with self.assertRaisesRegex(shoal.Error, "is a checkpoint of ppo, expected a2c"):
            shoal.A2C(agent).load(file)
        with self.assertRaisesRegex(shoal.Error, "expected one of this agent"):
            shoal.ActorCritic("CartPole-v1").save(file, algo)
        next(iter(agent.parameters().values())).detach().fill_(float("nan"))
        with self.assertRaises(shoal.Error):
            agent.save(file)

    def test_tensors_view_the_shared_rows(self):
        agent = shoal.ActorCritic("CartPole-v1")
        with shoal.Sampler(None, agent, envs=4, workers=2, horizon=8) as sampler:
            batch = sampler.collect()
            self.assertEqual(batch.shape, (8, 4))
            self.assertEqual(tuple(batch.observation.shape), (9, 4, 4))
            self.assertEqual(tuple(batch.action.shape), (8, 4))
            self.assertEqual(set(batch.agent_info), {"log_prob", "value"})
            self.assertTrue(batch.is_first[0].all())
            self.assertIn("observation [9, 4, 4] Float", repr(batch))
            kept, last = batch.observation, batch.observation[-1].clone()
            after = sampler.collect()
            self.assertEqual(after.observation.data_ptr(), kept.data_ptr())
            self.assertTrue(torch.equal(after.observation[0], last))
            with self.assertRaisesRegex(shoal.Error, "earlier collect"):
                _ = batch.reward
        self.assertTrue(torch.equal(kept[0], last))  # the memory lives as long as the tensor
        with self.assertRaisesRegex(shoal.Error, "closed"):
            sampler.collect()

    def test_reports_episodes_and_their_final_observations(self):
        agent = shoal.ActorCritic("CartPole-v1")
        with shoal.Sampler(None, agent, kind="serial", envs=4, horizon=64) as sampler:
            batch = sampler.collect()
            ended = (batch.terminated | batch.truncated).nonzero().tolist()
            self.assertEqual([list(each) for each in zip(batch.final_obs["t"], batch.final_obs["b"])], ended)
            self.assertEqual(len(batch.episodes), len(ended))
            self.assertEqual(batch.final_obs["observation"].shape, (len(ended), 4))
            self.assertGreater(len(ended), 0)
            first = next(each for each in batch.episodes if each["env"] == ended[0][1])
            self.assertEqual(first["length"], ended[0][0] + 1)

    def test_asynchronous_sampler(self):
        agent = shoal.ActorCritic("CartPole-v1")
        algo = shoal.PPO(agent)
        with shoal.Sampler(None, agent, envs=4, workers=2, horizon=16, asynchronous=True) as sampler:
            for _ in range(3):
                algo.update(sampler.collect())
        self.assertGreater(algo.steps, 0)

    @unittest.skipUnless("ALE/Pong-v5" in shoal.env_ids(), "needs Atari")
    def test_atari_in_the_lines_of_the_introduction(self):
        lines = """
            envs  = shoal.make_vec("ALE/Pong-v5", num_envs=32)
            agent   = shoal.ActorCritic("ALE/Pong-v5", model="nature-cnn")
            agent   = shoal.TorchAgent(my_module)
            sampler = shoal.Sampler("ALE/Pong-v5", agent, kind="parallel-gpu", envs=32, workers=2, horizon=128)
            batch   = sampler.collect()
            algo    = shoal.PPO(agent, clip=0.1); metrics = algo.update(batch)
            run     = shoal.train("pong-ppo", steps=2_048, out=folder + "/pong", quiet=True)
            action = shoal.load(folder + "/pong").predict(observation)
            """
        policy, value = torch.nn.Linear(16, 6), torch.nn.Linear(16, 1)

        class Pooled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.policy, self.value = policy, value

            def forward(self, pictures):  # [N, 4, 84, 84]
                x = torch.nn.functional.avg_pool2d(pictures.float() / 255, 42).flatten(1)
                return self.policy(x), self.value(x)

        known = {"shoal": shoal, "my_module": Pooled(), "folder": self.folder, "observation": torch.zeros(4, 84, 84)}
        exec(textwrap.dedent(lines), known)
        self.assertEqual(known["batch"].observation.shape, (129, 32, 84, 84))
        self.assertEqual(set(known["batch"].agent_info), {"log_prob", "value"})
        self.assertIn("policy_loss", known["metrics"])
        self.assertIn(known["action"], range(6))
        known["envs"].close()
        known["sampler"].close()
