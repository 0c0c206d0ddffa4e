"""A training loop written in Python: the same bits as in C++, views of shared memory, errors of a user."""

import copy
import inspect
import os
import subprocess
import tempfile
import textwrap
import unittest
import warnings

import torch

import shoal

PPO = dict(learning_rate=1e-3, discount=0.98, gae_lambda=0.8, epochs=10, minibatches=2, clip=0.2, entropy_coef=0.0)


class Network(torch.nn.Module):
    def __init__(self, outputs=2, look=lambda observation: observation):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh())
        self.policy, self.value = torch.nn.Linear(32, outputs), torch.nn.Linear(32, 1)
        self.look = look

    def forward(self, observation):
        hidden = self.body(self.look(observation))
        return self.policy(hidden), self.value(hidden)


class Recurrent(torch.nn.Module):
    def __init__(self, returned=lambda policy, value, state: (policy, value, state)):
        super().__init__()
        self.body, self.cell, self.returned = torch.nn.Linear(4, 32), torch.nn.LSTMCell(32, 16), returned
        self.policy, self.value = torch.nn.Linear(48, 2), torch.nn.Linear(48, 1)

    def forward(self, observation, state, is_first):
        h, c = state["h"], state["c"]
        outputs = []
        for x, first in zip(observation, is_first):
            goes_on = (~first).float().unsqueeze(1)
            x = torch.tanh(self.body(x))
            h, c = self.cell(x, (h * goes_on, c * goes_on))
            outputs.append(torch.cat([x, h], 1))
        hidden = torch.stack(outputs)
        return self.returned(self.policy(hidden), self.value(hidden), {"h": h, "c": c})


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

    def test_an_agent_of_a_torch_module(self):
        torch.manual_seed(1)
        module = Network()
        agent = shoal.TorchAgent("CartPole-v1", module, steps=100_000)
        self.assertEqual({name.replace(".", "/") for name, _ in module.named_parameters()}, set(agent.parameters()))
        before = [each.detach().clone() for each in module.parameters()]
        batches = {}
        for kind in ("serial", "parallel-gpu"):
            with shoal.Sampler(None, agent, kind=kind, envs=8, workers=2, horizon=32) as sampler:
                batch = sampler.collect()
                batches[kind] = (batch.observation.clone(), batch.action.clone())
                for t in (0, 31):
                    policy, value = module(batch.observation[t])
                    self.assertTrue(torch.equal(batch.agent_info["value"][t], value.squeeze(1)))
                    log_prob = torch.log_softmax(policy, 1).gather(1, batch.action[t].unsqueeze(1)).squeeze(1)
                    torch.testing.assert_close(batch.agent_info["log_prob"][t], log_prob)
        for a, b in zip(*batches.values()):
            self.assertTrue(torch.equal(a, b))
        algo = shoal.PPO(agent, learning_rate=1e-2)
        with shoal.Sampler(None, agent, kind="parallel-gpu", envs=8, workers=2, horizon=64) as sampler:
            lengths = []
            for _ in range(12):
                batch = sampler.collect()
                lengths.append([each["length"] for each in batch.episodes])
                algo.update(batch)
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(before, module.parameters())))
        mean = [sum(each) / len(each) for each in lengths]
        self.assertGreater(mean[-1], 2 * mean[0])  # it learns

    def test_a_torch_module_may_wait_for_its_environment(self):
        module = Network()
        agent = shoal.TorchAgent(module)
        with self.assertRaisesRegex(shoal.Error, "no environment yet"):
            agent.parameters()
        with shoal.Sampler("CartPole-v1", agent, envs=4, workers=2, horizon=8) as sampler:
            sampler.collect()
        with self.assertRaisesRegex(shoal.Error, "other spaces"):
            shoal.Sampler("Acrobot-v1", agent, envs=4)
        self.assertIs(agent.module, module)

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

    def test_workers_act_with_copies_of_a_torch_module(self):
        torch.manual_seed(1)
        module = Network()
        module.register_buffer("shift", torch.zeros(1))
        act = module.forward
        module.forward = lambda observation: (act(observation)[0], act(observation)[1] + module.shift)
        agent = shoal.TorchAgent("CartPole-v1", module, steps=100_000)
        algo = shoal.PPO(agent, learning_rate=1e-2)
        with shoal.Sampler(None, agent, kind="serial", envs=8, horizon=32) as sampler:
            expected = sampler.collect().action.clone()
        with shoal.Sampler(None, agent, kind="parallel-cpu", envs=8, workers=2, horizon=32) as sampler:
            for rollout in range(3):
                batch = sampler.collect()
                if rollout == 0:
                    self.assertTrue(torch.equal(batch.action, expected))
                values = module(batch.observation[:32].flatten(0, 1))[1].view(32, 8)
                torch.testing.assert_close(batch.agent_info["value"], values.detach())
                algo.update(batch)  # which the next rollout of the workers must show
                module.shift += 1

    def recurrent(self, **settings):
        torch.manual_seed(1)
        module = Recurrent()
        return module, shoal.TorchAgent("CartPole-v1", module, state={"h": 16, "c": 16}, steps=100_000, **settings)

    def test_a_torch_module_with_memory_replays_what_it_did(self):
        module, agent = self.recurrent()
        batches = {}
        for kind, workers in (("serial", 1), ("parallel-gpu", 3)):
            with shoal.Sampler(None, agent, kind=kind, envs=6, workers=workers, horizon=40) as sampler:
                sampler.collect()
                batch = sampler.collect()
                self.assertTrue(batch.is_first[1:].any())
                self.assertTrue(batch.initial_state["h"].any())
                policy, value, state = module(batch.observation[:40], batch.initial_state, batch.is_first[:40])
                torch.testing.assert_close(batch.agent_info["value"], value.squeeze(2))
                log_prob = torch.log_softmax(policy, 2).gather(2, batch.action.unsqueeze(2)).squeeze(2)
                torch.testing.assert_close(batch.agent_info["log_prob"], log_prob)
                last = {name: each.clone() for name, each in state.items()}
                batches[kind] = (batch.observation.clone(), batch.action.clone())
                after = sampler.collect().initial_state
                for name, each in last.items():
                    torch.testing.assert_close(after[name], each)
        for a, b in zip(*batches.values()):
            self.assertTrue(torch.equal(a, b))

    def test_a_torch_module_with_memory_learns(self):
        module, agent = self.recurrent()
        before = [each.detach().clone() for each in module.parameters()]
        algo = shoal.PPO(agent, learning_rate=1e-2)
        with shoal.Sampler(None, agent, kind="parallel-gpu", envs=8, workers=2, horizon=64) as sampler:
            lengths = []
            for _ in range(20):
                batch = sampler.collect()
                lengths.append([each["length"] for each in batch.episodes])
                algo.update(batch)
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(before, module.parameters())))
        mean = [sum(each) / len(each) for each in lengths]
        self.assertGreater(mean[-1], 2 * mean[0])

    def test_a_state_of_one_array(self):
        class Steps(Network):
            def forward(self, observation, state, is_first):
                policy, value = super().forward(observation)
                for first in is_first:
                    state = state * (~first).float().unsqueeze(1) + 1
                return policy, value, state

        agent = shoal.TorchAgent("CartPole-v1", Steps(), state=3)
        with shoal.Sampler(None, agent, kind="serial", envs=2, horizon=5) as sampler:
            sampler.collect()
            self.assertEqual(sampler.collect().initial_state.tolist(), [[5.0] * 3] * 2)

    def test_says_what_is_wrong_with_a_module_with_memory(self):
        def act(state=("h", "c"), returned=lambda policy, value, state: (policy, value, state)):
            module = Recurrent(returned)
            agent = shoal.TorchAgent("CartPole-v1", module, state=dict.fromkeys(state, 16))
            with shoal.Sampler(None, agent, kind="serial", envs=2, horizon=2) as sampler:
                sampler.collect()

        act()
        with self.assertRaisesRegex(shoal.Error, r"2 values, expected \(policy, value, state\)"):
            act(returned=lambda policy, value, state: (policy, value))
        with self.assertRaisesRegex(shoal.Error, r"state 'h' of Float \[1, 16\], expected Float \[2, 16\]"):
            act(returned=lambda policy, value, state: (policy, value, {name: x[:1] for name, x in state.items()}))
        with self.assertRaisesRegex(KeyError, "c"):
            act(state=("h",))
        with self.assertRaisesRegex(shoal.Error, r"policy of the shape \[1, 2\], expected \[1, 2, 2\]"):
            act(returned=lambda policy, value, state: (policy[0, :1], value, state))
        with self.assertRaisesRegex(shoal.Error, r"a policy of <class 'dict'>, expected a tensor \["):
            act(returned=lambda policy, value, state: ({}, value, state))

    def test_says_what_is_wrong_with_a_torch_module(self):
        def act(module):
            with shoal.Sampler(
                None, shoal.TorchAgent("CartPole-v1", module), kind="serial", envs=2, horizon=2
            ) as sampler:
                sampler.collect()

        with self.assertRaisesRegex(shoal.Error, r"policy of the shape \[2, 3\], expected \[2, 2\]"):
            act(Network(outputs=3))
        with self.assertRaisesRegex(shoal.Error, r"expected \(policy, value\)"):
            act(torch.nn.Linear(4, 2))
        with self.assertRaisesRegex(KeyError, "pixels"):
            act(Network(look=lambda observation: {}["pixels"]))
        with self.assertRaisesRegex(shoal.Error, "on-policy"):
            shoal.TorchAgent("CartPole-v1", Network(), algo="dqn")

    def test_a_lazy_layer_is_refused_until_it_has_its_shape(self):
        class Lazy(Network):
            def __init__(self):
                super().__init__()
                self.value = torch.nn.LazyLinear(1)

        module = Lazy()
        with self.assertRaisesRegex(shoal.Error, "'value.weight' belongs to a lazy layer"):
            shoal.TorchAgent("CartPole-v1", module)
        module(torch.zeros(1, 4))
        shoal.TorchAgent("CartPole-v1", module)

    def test_parameters_that_change_their_size_are_refused(self):
        module = Network()
        agent = shoal.TorchAgent("CartPole-v1", module)
        with shoal.Sampler(None, agent, kind="parallel-cpu", envs=4, workers=2, horizon=4) as sampler:
            sampler.collect()
            module.double()
            with self.assertRaisesRegex(shoal.Error, "parameters have 2072 bytes, and had 1036 when the sampler"):
                sampler.collect()

    @staticmethod
    def changed(module, before):
        return {name for name, tensor in module.state_dict().items() if not tensor.equal(before[name])}

    def test_frozen_parameters_stay_as_they_are(self):
        for algo in shoal.PPO, shoal.A2C, shoal.IMPALA:
            with self.subTest(algo.__name__):
                module = Network()
                module.body.requires_grad_(False)
                agent = shoal.TorchAgent("CartPole-v1", module, algo=algo.__name__.lower())
                before = copy.deepcopy(module.state_dict())
                with shoal.Sampler(None, agent, kind="serial", envs=4, horizon=8) as sampler:
                    trained = algo(agent)
                    trained.update(sampler.collect())
                    heads = {f"{head}.{part}" for head in ("policy", "value") for part in ("weight", "bias")}
                    self.assertEqual(self.changed(module, before), heads)
                    module.policy.requires_grad_(False)  # between two updates
                    before = copy.deepcopy(module.state_dict())
                    trained.update(sampler.collect())
                self.assertEqual(self.changed(module, before), {"value.weight", "value.bias"})
                module.requires_grad_(False)
                with shoal.Sampler(None, agent, kind="serial", envs=4, horizon=8) as sampler:
                    with self.assertRaisesRegex(shoal.Error, "no parameter requires a gradient"):
                        algo(agent).update(sampler.collect())

    def test_a_module_acts_in_evaluation_mode_and_learns_in_its_own(self):
        seen = []
        module = Network()
        module.body.append(torch.nn.Dropout(0.5))
        module.register_forward_hook(lambda each, *_: seen.append((torch.is_grad_enabled(), each.body[2].training)))
        agent = shoal.TorchAgent("CartPole-v1", module)
        self.assertEqual(*(shoal.evaluate(agent, episodes=3) for _ in range(2)))
        with shoal.Sampler(None, agent, kind="serial", envs=4, horizon=8) as sampler:
            batch = sampler.collect()
            shoal.PPO(agent).update(batch)
            self.assertEqual(set(seen), {(False, False), (True, True)})
            module.eval()
            seen.clear()
            shoal.PPO(agent).update(batch)
        self.assertEqual(set(seen), {(True, False)})
        module.train()
        shoal.Policy(agent).act(torch.zeros(1, 4))
        self.assertTrue(all(each.training for each in module.modules()))

    def test_a_module_that_writes_to_its_input_is_refused(self):
        agent = shoal.TorchAgent("CartPole-v1", Network(look=lambda observation: observation.sub_(1)))
        with shoal.Sampler(None, agent, kind="serial", envs=2, horizon=2) as sampler:
            with self.assertRaisesRegex(shoal.Error, "changed an input in place"):
                sampler.collect()

    def test_a_module_that_replaces_its_tensors_is_refused(self):
        def buffer(module):
            module.mean = module.mean * 0.9

        def part(module):
            module.value = torch.nn.Linear(32, 1)

        for replace in buffer, part:
            with self.subTest(replace.__name__):
                module = Network()
                module.register_buffer("mean", torch.zeros(4))
                agent = shoal.TorchAgent("CartPole-v1", module)
                algo = shoal.PPO(agent)
                with shoal.Sampler("CartPole-v1", agent, kind="serial", envs=2, horizon=8) as sampler:
                    algo.update(sampler.collect())
                    replace(module)
                    with self.assertRaisesRegex(shoal.Error, "has replaced one of its parameters, buffers or parts"):
                        algo.update(sampler.collect())

    def test_a_policy_checks_its_flags(self):
        policy = shoal.Policy(shoal.ActorCritic("CartPole-v1", memory="lstm"))
        seen = torch.zeros(3, 4)
        policy.act(seen)
        policy.act(seen, is_first=torch.zeros(3, 2, dtype=torch.uint8)[:, 0], reward=torch.zeros(3))
        with self.assertRaisesRegex(shoal.Error, r"is_first: found the shape \[1\], expected \[3\]"):
            policy.act(seen, is_first=torch.tensor([True]), reward=torch.zeros(3))
        with self.assertRaisesRegex(shoal.Error, "mask: found one, but CartPole-v1 has no action masks"):
            policy.act(seen, torch.ones(3, 2, dtype=torch.bool), reward=torch.zeros(3))
        try:
            from toys import Room
        except ImportError:
            self.skipTest("needs Gymnasium")
        policy = shoal.Policy(shoal.ActorCritic(Room))
        mask = torch.tensor([[1, 0, 1]], dtype=torch.int8)
        for _ in range(30):
            self.assertNotEqual(policy.act(torch.zeros(1, 1), mask, greedy=False).item(), 1)
        with self.assertRaisesRegex(shoal.Error, r"mask: found the shape \[1, 2\], expected \[1, 3\]"):
            policy.act(torch.zeros(1, 1), mask[:, :2])
        with self.assertRaisesRegex(shoal.Error, "mask: found none, but .* has action masks; give mask="):
            policy.act(torch.zeros(1, 1))

    def test_numbers_that_are_not_finite_are_not_acted_on(self):
        agent = shoal.ActorCritic("CartPole-v1")
        with self.assertRaisesRegex(shoal.Error, "observation: found a number that is not finite"):
            shoal.Policy(agent).act(torch.tensor([[0.0, 0.0, float("nan"), 0.0]]))
        name, tensor = next(iter(agent.parameters().items()))
        tensor.data[0] = float("inf")
        with self.assertRaisesRegex(shoal.Error, f"'{name}' holds inf"):
            shoal.evaluate(agent, episodes=1)

    def test_a_policy_with_memory_sees_the_rewards(self):
        agent = shoal.ActorCritic("Pendulum-v1", memory="lstm", memory_size=8)
        first, later = torch.randn(3, 3), torch.randn(3, 3)
        policies = [shoal.Policy(agent) for _ in range(3)]
        for policy in policies:
            policy.act(first)
        rewards = (torch.zeros(3), torch.zeros(3), torch.tensor([0.0, -5.0, 0.0]))
        zero, again, other = (each.act(later, reward=reward) for each, reward in zip(policies, rewards))
        self.assertTrue(torch.equal(zero, again))
        self.assertEqual((zero != other).flatten().tolist(), [False, True, False])
        with self.assertRaisesRegex(shoal.Error, "reward: found none"):
            policies[0].act(later)
        with self.assertRaisesRegex(shoal.Error, r"reward: found the shape \[2\], expected \[3\]"):
            policies[0].act(later, reward=torch.zeros(2))
        policies[0].reset()
        policies[0].act(first)

    def test_a_policy_acts_for_any_number_of_environments(self):
        agent = shoal.ActorCritic("CartPole-v1")
        observation = torch.randn(50, 4)
        policy = shoal.Policy(agent, seed=1)
        together = policy.act(observation)
        alone = torch.cat([shoal.Policy(agent).act(each.unsqueeze(0)) for each in observation])
        self.assertTrue(torch.equal(together, alone))
        sampled = policy.act(observation, greedy=False)
        self.assertFalse(torch.equal(sampled, policy.act(observation, greedy=False)))

    def test_representations_show_shapes(self):
        agent = shoal.ActorCritic("CartPole-v1", hidden=[8])
        spaces = r"ActorCritic\(EnvSpec\(CartPole-v1: ArraySpec\(float32 \[4\]\) -> ActionSpec\(discrete 2\)\)"
        self.assertRegex(repr(agent), spaces + r", algo='ppo', \d+ numbers\)")
        self.assertRegex(repr(shoal.PPO(agent)), r"PPO\(" + spaces + r".*, steps=0\)")
        with shoal.Sampler(None, agent, kind="serial", envs=2, horizon=4) as sampler:
            self.assertEqual(repr(sampler), "Sampler('CartPole-v1', kind=\"serial\", envs=2, workers=0, horizon=4)")

    def test_says_what_is_wrong(self):
        with self.assertRaisesRegex(shoal.Error, "hiden.*hidden"):
            shoal.ActorCritic("CartPole-v1", model__hiden=[1])
        with self.assertRaisesRegex(shoal.Error, "'minibatch'.*'ppo.minibatches'"):
            shoal.make_config(algo="ppo", minibatch=4)
        for name, setting in ("gamma", "replay.discount"), ("buffer_size", "replay.size"), ("total_timesteps", "steps"):
            with self.assertRaisesRegex(shoal.Error, f"{name}.*the nearest is '{setting}'"):
                shoal.make_config(algo="sac", **{name: 1})
        with self.assertRaisesRegex(shoal.Error, "wibble'; print"):
            shoal.make_config(wibble=1)
        with self.assertRaisesRegex(shoal.Error, "ppo.clip"):
            shoal.make_config(algo="ppo", clip="wide")
        agent = shoal.ActorCritic("CartPole-v1")
        with self.assertRaisesRegex(shoal.Error, "made for ppo, expected dqn"):
            shoal.DQN(agent)
        with self.assertRaisesRegex(shoal.Error, "other spaces"):
            shoal.Sampler("Acrobot-v1", agent, kind="serial")
        with self.assertRaisesRegex(shoal.Error, r"\[3, 5\], expected \[N, 4\]"):
            shoal.Policy(agent).act(torch.zeros(3, 5))
        with self.assertRaisesRegex(TypeError, "callable"):
            shoal.ActorCritic(5)
        with self.assertRaisesRegex(shoal.Error, "'clip' and 'ppo__clip', which are both ppo.clip"):
            shoal.PPO(agent, clip=0.1, ppo__clip=0.2)

    def test_says_what_was_expected_of_another_type(self):
        agent = shoal.ActorCritic("CartPole-v1")
        for act, sentence in {
            lambda: shoal.PPO("CartPole-v1"): "agent: found 'CartPole-v1', expected an agent",
            lambda: shoal.Sampler(None, "CartPole-v1"): "agent: found 'CartPole-v1', expected an agent",
            lambda: shoal.Policy("CartPole-v1"): "agent: found 'CartPole-v1', expected an agent",
            lambda: shoal.TorchAgent("CartPole-v1", 3): "module: found 3, expected a torch.nn.Module",
            lambda: shoal.TorchAgent("CartPole-v1"): "module: found None, expected a torch.nn.Module",
            lambda: shoal.PPO(agent).update(3): "batch: found 3, expected a batch",
            lambda: shoal.Replay(agent): "sampler: found .*, expected a Sampler",
            lambda: shoal.evaluate("runs/cartpole"): "run: found 'runs/cartpole', expected an agent or a run",
        }.items():
            with self.subTest(sentence), self.assertRaisesRegex(TypeError, sentence):
                act()

    def test_settings_that_a_class_does_not_use(self):
        agent = shoal.ActorCritic("CartPole-v1")
        for setting in (
            {"hidden": [3]},
            {"model": "mlp"},
            {"time_limit": 3},
            {"size": 10},
            {"dqn__batch": 3},
            {"workers": 2},
        ):
            with self.assertRaisesRegex(shoal.Error, "which PPO does not use; give those of networks.*to the agent"):
                shoal.PPO(agent, **setting)
        for setting in ({"learning_rate": 9}, {"hidden": [3]}, {"replay__size": 10}):
            with self.assertRaisesRegex(shoal.Error, "which Sampler does not use; give .*learning to the algorithm"):
                shoal.Sampler(None, agent, **setting)
        for setting in ({"device": "cuda"}, {"init_from": "run"}, {"tensorboard": True}, {"stop_return": 3.0}):
            for make in shoal.PPO, lambda *given, **settings: shoal.Sampler(None, *given, **settings):
                with self.assertRaisesRegex(shoal.Error, "does not use"):
                    make(agent, **setting)
        for setting, instead in ({"device": "cuda"}, "agent.to"), ({"init_from": "run"}, "agent.load"):
            with self.assertRaisesRegex(shoal.Error, f"an agent does not use; call {instead}"):
                shoal.ActorCritic("CartPole-v1", **setting)
            with self.assertRaisesRegex(shoal.Error, f"an agent does not use; call {instead}"):
                shoal.TorchAgent("CartPole-v1", torch.nn.Linear(4, 3), **setting)
        with self.assertRaisesRegex(shoal.Error, "algo: found 'a2c', expected 'ppo'"):
            shoal.PPO(agent, algo="a2c")
        self.assertEqual(shoal.Algo(agent, algo="a2c").config.algo, "a2c")
        shoal.PPO(agent, clip=0.2, steps=1000, learning_rate=None)
        shoal.Sampler(None, agent, kind="serial", envs=2, time_limit=9, discount=0.9, seed=2).close()

    def test_settings_of_numpy(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("needs NumPy")
        given = dict(clip=np.float64(0.3), epochs=np.int64(5), hidden=np.array([32, 16]), vtrace=np.bool_(True))
        config = shoal.make_config(algo="ppo", steps=np.array(2048), model__cnn_layers=[np.int32(8), 3, 1], **given)
        expected = dict(clip=0.3, epochs=5, hidden=[32, 16], vtrace=True)
        self.assertEqual(
            config.to_toml(),
            shoal.make_config(algo="ppo", steps=2048, model__cnn_layers=[8, 3, 1], **expected).to_toml(),
        )

    def test_settings_are_documented(self):
        self.assertRegex(shoal.PPO.__doc__, r"\nclip = 0.1: .* \(above 0 .*\)")
        self.assertIn("horizon = 128", shoal.Sampler.__doc__)
        self.assertIn("hidden = ", shoal.Agent.__doc__)
        clip = inspect.signature(shoal.PPO).parameters["clip"]
        self.assertEqual(clip.default, 0.1)
        self.assertEqual(inspect.signature(shoal.Sampler).parameters["horizon"].default, 128)
        self.assertEqual(list(inspect.signature(shoal.Sampler).parameters)[:2], ["env", "agent"])
        self.assertEqual(
            shoal.make_config(algo="ppo", clip=0.3, horizon=7, env__time_limit=5).to_toml().count("clip = 0.3"), 1
        )
