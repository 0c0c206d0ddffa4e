"""Policies that act for environments of the caller."""

import unittest

import torch

import shoal

try:
    import gymnasium
    import numpy as np
    from toys import Counter
except ImportError:  # no Gymnasium
    Counter = None


class PolicyTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

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

    def test_a_policy_remembers_the_action_that_it_gave(self):
        agent = shoal.ActorCritic("Pendulum-v1", memory="lstm", memory_size=8)
        first, later, zeros = torch.randn(3, 3), torch.randn(3, 3), torch.zeros(3)
        kept, changed = shoal.Policy(agent), shoal.Policy(agent)
        kept.act(first)
        changed.act(first).fill_(7)  # a caller that scales actions in place
        self.assertTrue(torch.equal(kept.act(later, reward=zeros), changed.act(later, reward=zeros)))

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_a_policy_predicts_for_the_agent_of_a_loop(self):
        low, high = np.float32([0, 10]), np.float32([1, 20])

        class Bounded(Counter):
            def __init__(self):
                super().__init__()
                self.action_space = gymnasium.spaces.Box(low, high)

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.last = torch.nn.Linear(2, 2)

            def forward(self, observation, state, is_first):
                state = torch.where(is_first[-1, :, None], 0, state) + observation[-1]
                return self.last(observation), observation[..., 0], state

        plain, memory = shoal.ActorCritic(Bounded), shoal.TorchAgent(Bounded, Module(), state=2)
        own = torch.tensor(shoal.Policy(plain).act(np.float32([[1, 2]])))[0].clamp(-1, 1).numpy()
        np.testing.assert_allclose(shoal.Policy(plain).predict([1, 2]), low + (own + 1) / 2 * (high - low), rtol=1e-6)
        for agent in (plain, memory):
            self.assertTrue(Bounded().action_space.contains(shoal.Policy(agent).predict(np.float32([1, 2]))))
        several = np.ones((3, 2), np.float32)
        self.assertEqual(shoal.Policy(plain).predict(several).shape, (3, 2))
        with self.assertRaisesRegex(shoal.Error, "is_first: found none"):
            shoal.Policy(memory).predict(several)
        self.assertEqual(shoal.Policy(memory).predict(several, is_first=[True] * 3).shape, (3, 2))

    def test_a_policy_acts_for_any_number_of_environments(self):
        agent = shoal.ActorCritic("CartPole-v1")
        observation = torch.randn(50, 4)
        policy = shoal.Policy(agent, seed=1)
        together = policy.act(observation)
        alone = torch.cat([shoal.Policy(agent).act(each.unsqueeze(0)) for each in observation])
        self.assertTrue(torch.equal(together, alone))
        sampled = policy.act(observation, greedy=False)
        self.assertFalse(torch.equal(sampled, policy.act(observation, greedy=False)))
