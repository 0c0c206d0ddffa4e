"""shoal.Replay and shoal.SequenceReplay hold what the sampler returned."""

import subprocess
import sys
import unittest

import torch

import shoal

ON_A_GPU = """
import sys, torch, shoal
agent = shoal.ActorCritic("CartPole-v1")
samplers = [shoal.Sampler(None, agent, kind="serial", envs=4, horizon=8, host_rollouts=host) for host in (True, False)]
if not torch.cuda.is_available():
    sys.exit("no GPU")
agent.to("cuda")
for sampler in samplers:
    batch = sampler.collect()
    print(batch.reward.device.type)
    replay = shoal.Replay(sampler, size=100)
    replay.append(batch)
    print(len(replay))
"""


class ReplayTest(unittest.TestCase):
    def sampler(self, env="CartPole-v1", agent=None, **settings):
        settings = {"kind": "serial", "envs": 4, "horizon": 16, **settings}
        sampler = shoal.Sampler(None, agent or shoal.ActorCritic(env), **settings)
        self.addCleanup(sampler.close)
        return sampler

    def test_steps_are_those_of_the_rollouts(self):
        sampler = self.sampler()
        replay = shoal.Replay(sampler, size=10_000, discount=0.9)
        known = {}
        for _ in range(6):
            batch = sampler.collect()
            replay.append(batch)
            finals = {
                (t, b): x for t, b, x in zip(batch.final_obs["t"], batch.final_obs["b"], batch.final_obs["observation"])
            }
            for t in range(16):
                for b in range(4):
                    after = finals.get((t, b), batch.observation[t + 1, b])
                    key = tuple(batch.observation[t, b].tolist())
                    known[key] = (
                        batch.action[t, b].item(),
                        batch.reward[t, b].item(),
                        batch.terminated[t, b].item(),
                        after.tolist(),
                    )
        self.assertEqual(len(replay), 6 * 64)
        drawn = replay.sample(256)
        ends = 0
        for i in range(256):
            action, reward, terminated, after = known[tuple(drawn.observation[i].tolist())]
            self.assertEqual(drawn.action[i].item(), action)
            self.assertEqual(drawn.reward[i].item(), reward)
            self.assertAlmostEqual(drawn.discount[i].item(), 0 if terminated else 0.9, places=6)
            if terminated:
                ends += 1  # its next observation counts for nothing
            else:
                self.assertEqual(drawn.next_observation[i].tolist(), after)
        self.assertGreater(ends, 0)
        self.assertIn("observation [256, 4]", repr(drawn))
        self.assertEqual(drawn.weight.tolist(), [1.0] * 256)
        kept = drawn.observation.clone()
        replay.sample(256)
        self.assertTrue(torch.equal(drawn.observation, kept))  # the caller's own

    def test_priorities_decide_what_is_drawn(self):
        sampler = self.sampler()
        replay = shoal.Replay(sampler, size=64, prioritized=True, alpha=1.0)
        replay.append(sampler.collect())
        seen = torch.cat([replay.sample(64).index for _ in range(20)]).unique()
        self.assertEqual(len(seen), 64)
        priority = torch.full((64,), 1e-6)
        priority[5] = 1.0
        replay.update_priorities(seen, priority)
        drawn = replay.sample(32, beta=1.0)
        self.assertGreater((drawn.index == seen[5]).float().mean().item(), 0.9)

    def test_frames_are_stacked(self):
        try:
            sampler = self.sampler("ALE/Pong-v5", envs=2, horizon=8)
        except shoal.Error as error:
            self.skipTest(str(error))
        replay = shoal.Replay(sampler, size=64, n_step=3)
        replay.append(sampler.collect())
        drawn = replay.sample(8)
        self.assertEqual(tuple(drawn.observation.shape), (8, 4, 84, 84))
        self.assertTrue(torch.equal(drawn.observation[:, 3], drawn.next_observation[:, 0]))

    def test_sequences(self):
        agent = shoal.ActorCritic("CartPole-v1", memory="lstm", hidden=[8])
        sampler = self.sampler(agent=agent, horizon=10)
        replay = shoal.SequenceReplay(sampler, size=4000, burn_in=5, length=10, n_step=2)
        observations = []
        while len(replay) == 0:
            batch = sampler.collect()
            replay.append(batch)
            observations.append(batch.observation[0].clone())
        drawn = replay.sample(3)
        self.assertEqual(tuple(drawn.observation.shape), (17, 3, 4))
        self.assertEqual(tuple(drawn.action.shape), (10, 3))
        self.assertEqual((drawn.burn_in, drawn.is_first.dtype), (5, torch.bool))
        self.assertEqual(
            {tuple(each.shape) for each in drawn.state.values()},
            {(3, *each.shape[1:]) for each in batch.initial_state.values()},
        )
        starts = torch.cat(observations)
        for i in range(3):  # a sequence begins where a rollout began
            self.assertTrue((starts == drawn.observation[0, i]).all(1).any())
        replay.update_priorities(drawn.index, torch.ones(3))

    def test_rollouts_of_an_agent_on_a_gpu(self):
        # In a process of its own, because one that uses a GPU cannot fork.
        done = subprocess.run([sys.executable, "-c", ON_A_GPU], capture_output=True, text=True, timeout=100)
        if "no GPU" in done.stderr:
            self.skipTest("needs a GPU")
        self.assertEqual(done.stdout.split(), ["cpu", "32", "cuda"])
        self.assertIn("make the sampler with host_rollouts", done.stderr)

    def test_says_what_is_wrong(self):
        sampler = self.sampler()
        replay = shoal.Replay(sampler, size=1000)
        with self.assertRaises(shoal.Error):
            replay.sample(4)
        batch = sampler.collect()
        replay.append(batch)
        with self.assertRaises(shoal.Error):
            replay.sample(4096)
        sampler.collect()
        with self.assertRaisesRegex(shoal.Error, "earlier collect"):
            replay.append(batch)
        with self.assertRaisesRegex(TypeError, "batch: found 3, expected a batch"):
            replay.append(3)
