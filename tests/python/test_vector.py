"""shoal.make_vec() beside Gymnasium's own vector environments."""

import unittest

import shoal

try:
    import gymnasium
    import numpy as np
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from gymnasium.wrappers.vector import RecordEpisodeStatistics
    from toys import Counter
except ImportError:
    gymnasium = None


@unittest.skipUnless(gymnasium, "needs Gymnasium")
class VectorTest(unittest.TestCase):
    def vector(self, *arguments, **keywords):
        envs = shoal.make_vec(*arguments, **keywords)
        self.addCleanup(envs.close)
        return envs

    def assert_equals_gymnasium(self, mode, workers, make, steps=120):
        mine = self.vector(make, 4, workers=workers, autoreset_mode=mode)
        theirs = SyncVectorEnv([make] * 4, autoreset_mode=AutoresetMode(mode))
        self.assertEqual(mine.metadata["autoreset_mode"], AutoresetMode(mode))
        self.assertEqual(mine.single_action_space, theirs.single_action_space)
        random = np.random.default_rng(1)
        observation, _ = mine.reset(seed=7)
        np.testing.assert_array_equal(observation, theirs.reset(seed=7)[0])
        finals = 0
        for _ in range(steps):
            action = random.integers(mine.single_action_space.n, size=4)
            got, expected = mine.step(action), theirs.step(action)
            for a, b in zip(got[:4], expected[:4]):
                np.testing.assert_array_equal(a, b)
                self.assertEqual(a.dtype, b.dtype)
            self.assertTrue(mine.observation_space.contains(got[0]))
            self.assertEqual("final_obs" in got[4], "final_obs" in expected[4])
            if "final_obs" in got[4]:
                np.testing.assert_array_equal(got[4]["_final_obs"], expected[4]["_final_obs"])
                for b in np.flatnonzero(got[4]["_final_obs"]):
                    finals += 1
                    np.testing.assert_array_equal(got[4]["final_obs"][b], expected[4]["final_obs"][b])
        self.assertEqual(finals > 0, mode == "SameStep")

    def test_steps_as_gymnasium_does(self):
        for mode in ("NextStep", "SameStep"):
            for workers in (0, 3):
                with self.subTest(mode=mode, workers=workers):
                    self.assert_equals_gymnasium(mode, workers, lambda: Counter(5))
        self.assert_equals_gymnasium("SameStep", 2, lambda: gymnasium.make("CartPole-v1"))

    def test_an_environment_in_cpp(self):
        envs = self.vector("CartPole-v1", 6, workers=2)
        self.assertEqual(envs.single_observation_space.shape, (4,))
        first, _ = envs.reset(seed=1)
        first = first.copy()
        trajectory = [envs.step(np.ones(6, int))[0].copy() for _ in range(30)]
        again, _ = envs.reset(seed=1)
        np.testing.assert_array_equal(again, first)
        for each in trajectory:
            np.testing.assert_array_equal(envs.step(np.ones(6, int))[0], each)
        self.assertFalse((envs.reset(seed=[5, 6, 7, 8, 9, 10])[0] == first).all())

    def test_observations_are_views_that_stay_for_seven_steps(self):
        envs = self.vector("CartPole-v1", 2, workers=1)
        envs.reset(seed=1)
        for _ in range(20):
            observation = envs.step(np.zeros(2, int))[0]
            copy = observation.copy()
            for _ in range(7):
                envs.step(np.ones(2, int))
            np.testing.assert_array_equal(observation, copy)
            self.assertFalse(observation.flags.owndata)
        copies = self.vector("CartPole-v1", 2, workers=1, copy=True)
        self.assertTrue(copies.reset(seed=1)[0].flags.owndata)

    def test_frames_are_stacked(self):
        try:
            shoal.ActorCritic("ALE/Pong-v5")
        except shoal.Error as error:
            self.skipTest(str(error))
        for mode in ("NextStep", "SameStep"):
            envs = self.vector("ALE/Pong-v5", 3, workers=2, autoreset_mode=mode, time_limit=6)
            before, _ = envs.reset(seed=1)
            self.assertEqual(before.shape, (3, 4, 84, 84))
            self.assertTrue(envs.observation_space.contains(before))
            self.assertFalse(before[:, :3].any())
            resets = 0
            for _ in range(20):
                observation, _, _, _, infos = envs.step(np.arange(3))
                for b in range(3):
                    begins = not observation[b, :3].any()
                    resets += begins
                    final = "final_obs" in infos and infos["_final_obs"][b]
                    self.assertEqual(final, begins and mode == "SameStep")
                    if begins and not final:
                        continue
                    last = infos["final_obs"][b] if final else observation[b]
                    np.testing.assert_array_equal(last[:3], before[b, 1:])
                    self.assertTrue(last[3].any())
                before = observation
            self.assertEqual(resets, 9 if mode == "SameStep" else 6)

    def test_reports_scores_and_episodes(self):
        envs = RecordEpisodeStatistics(self.vector(lambda: Counter(5), 3, workers=1, autoreset_mode="SameStep"))
        envs.reset(seed=1)
        for step in range(1, 11):
            infos = envs.step(np.full(3, 2))[4]
            self.assertEqual("episode" in infos, step % 5 == 0)
        self.assertEqual(infos["episode"]["r"].tolist(), [10, 10, 10])

    def test_steps_while_the_caller_works(self):
        envs = self.vector("CartPole-v1", 4, workers=2)
        envs.reset(seed=1)
        envs.send(np.zeros(4, int))
        self.assertEqual(len(envs.recv()), 5)

    def test_a_loop_of_envpools(self):
        envs = self.vector("CartPole-v1", 4, workers=2)
        expected, _ = self.vector("CartPole-v1", 4).reset(seed=5)
        envs.async_reset(seed=5)
        for step in range(3):
            observation, reward, terminated, truncated, infos = envs.recv()
            if step == 0:
                np.testing.assert_array_equal(observation, expected)
            self.assertEqual(reward.sum(), 0 if step == 0 else 4)
            self.assertFalse(terminated.any() or truncated.any())
            envs.send(np.zeros(4, int), infos["env_id"])
        envs.async_reset(seed=5)
        with self.assertRaisesRegex(shoal.Error, "call recv"):
            envs.send(np.zeros(4, int))
        envs.reset(seed=6)
        envs.send(np.zeros(4, int))
        self.assertEqual(envs.recv()[1].sum(), 4)
        with self.assertRaisesRegex(shoal.Error, r"env_id.*all 4 environments in order"):
            envs.send(np.zeros(2, int), np.arange(2))

    def test_says_what_is_wrong(self):
        envs = self.vector("CartPole-v1", 2, workers=1)
        with self.assertRaisesRegex(shoal.Error, "reset"):
            envs.step(np.zeros(2, int))
        envs.reset(seed=1)
        with self.assertRaisesRegex(shoal.Error, "environment 1: found the action 2, expected 0 to 1"):
            envs.step(np.array([0, 2]))
        with self.assertRaisesRegex(shoal.Error, "3 seeds, expected 2"):
            envs.reset(seed=[1, 2, 3])
        with self.assertRaisesRegex(shoal.Error, "Disabled"):
            shoal.make_vec("CartPole-v1", 2, autoreset_mode="Disabled")
        envs.close()

    def test_an_exception_comes_with_its_environment(self):
        def fail(steps):
            raise RuntimeError("stuck")

        envs = self.vector(lambda: Counter(5, fail), 2, workers=2)
        envs.reset(seed=1)
        with self.assertRaisesRegex(shoal.WorkerError, "stuck"):
            envs.step(np.zeros(2, int))
