"""Policies that act for environments of the caller."""

import unittest

import torch

import shoal


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

    def test_a_policy_acts_for_any_number_of_environments(self):
        agent = shoal.ActorCritic("CartPole-v1")
        observation = torch.randn(50, 4)
        policy = shoal.Policy(agent, seed=1)
        together = policy.act(observation)
        alone = torch.cat([shoal.Policy(agent).act(each.unsqueeze(0)) for each in observation])
        self.assertTrue(torch.equal(together, alone))
        sampled = policy.act(observation, greedy=False)
        self.assertFalse(torch.equal(sampled, policy.act(observation, greedy=False)))
