"""Agents whose network is a torch.nn.Module of the user."""

import copy
import unittest

import torch

import shoal


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


class TorchAgentTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def assert_learns(self, module, agent, updates):
        before = [each.detach().clone() for each in module.parameters()]
        algo = shoal.PPO(agent, learning_rate=1e-2)
        with shoal.Sampler(None, agent, kind="parallel-gpu", envs=8, workers=2, horizon=64) as sampler:
            lengths = []
            for _ in range(updates):
                batch = sampler.collect()
                lengths.append([each["length"] for each in batch.episodes])
                algo.update(batch)
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(before, module.parameters())))
        mean = [sum(each) / len(each) for each in lengths]
        self.assertGreater(mean[-1], 2 * mean[0])

    def test_an_agent_of_a_torch_module(self):
        torch.manual_seed(1)
        module = Network()
        agent = shoal.TorchAgent("CartPole-v1", module, steps=100_000)
        self.assertEqual({name.replace(".", "/") for name, _ in module.named_parameters()}, set(agent.parameters()))
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
        self.assert_learns(module, agent, updates=12)

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
        self.assert_learns(module, agent, updates=20)

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

    def test_a_module_that_returns_nan_is_refused(self):
        network = Network()
        agent = shoal.TorchAgent("CartPole-v1", network)
        policy = shoal.Policy(agent)
        network.policy.bias.data[:] = torch.tensor([-torch.inf, 0])  # a choice that is never taken
        self.assertEqual(policy.act(torch.zeros(2, 4)).tolist(), [1, 1])
        network.policy.bias.data[0] = torch.nan
        with self.assertRaisesRegex(shoal.DataError, "the agent's 'log_prob' holds NaN, expected finite numbers"):
            policy.act(torch.zeros(2, 4))
        for kind in ("serial", "parallel-cpu"):
            with shoal.Sampler(None, agent, kind=kind, envs=2, workers=1, horizon=4) as sampler:
                with self.assertRaisesRegex(shoal.DataError, "'log_prob' holds"):
                    sampler.collect()
        network.policy.bias.data[:] = 0
        network.value.bias.data[:] = torch.nan
        with self.assertRaisesRegex(shoal.DataError, "'value' holds"):
            policy.act(torch.zeros(2, 4))

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
