"""shoal.sb3.VecEnv beside Stable-Baselines3's own, and under its PPO and DQN. Extra: stable-baselines3."""

import unittest

import torch

import shoal

try:
    import gymnasium
    import numpy as np
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize
    from toys import Constant, Counter, Echo, Room
except ImportError:
    gymnasium = None


@unittest.skipUnless(gymnasium, "needs Stable-Baselines3")
class VecEnvTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def envs(self, *arguments, **keywords):
        envs = shoal.sb3.VecEnv(*arguments, **keywords)
        self.addCleanup(envs.close)
        return envs

    def assert_same_infos(self, got, expected):
        self.assertEqual(got["TimeLimit.truncated"], expected["TimeLimit.truncated"])
        self.assertEqual("episode" in got, "episode" in expected)
        if "episode" in got:
            self.assertEqual([got["episode"][each] for each in "rl"], [expected["episode"][each] for each in "rl"])
            np.testing.assert_array_equal(got["terminal_observation"], expected["terminal_observation"])

    def test_steps_as_the_vec_env_of_sb3_does(self):
        for make in (
            lambda: Counter(4),
            lambda: gymnasium.wrappers.TimeLimit(Counter(100), 3),
            lambda: gymnasium.make("CartPole-v1"),
        ):
            mine, theirs = self.envs(make, 3, workers=2), DummyVecEnv([lambda make=make: Monitor(make())] * 3)
            for name in ("shape", "dtype"):
                self.assertEqual(getattr(mine.observation_space, name), getattr(theirs.observation_space, name))
            self.assertEqual(mine.action_space, theirs.action_space)
            for envs in (mine, theirs):
                envs.seed(7)
            np.testing.assert_array_equal(mine.reset(), theirs.reset())
            random, ends = np.random.default_rng(1), 0
            for _ in range(60):
                action = random.integers(mine.action_space.n, size=3)
                got, expected = mine.step(action), theirs.step(action)
                for a, b in zip(got[:3], expected[:3]):
                    np.testing.assert_array_equal(a, b)
                    self.assertEqual(a.dtype, b.dtype)
                for a, b in zip(got[3], expected[3]):
                    self.assert_same_infos(a, b)
                ends += got[2].sum()
            self.assertGreater(ends, 0)

    def test_reset_seeds_and_options(self):
        envs = self.envs(lambda: Counter(4), 2, workers=1, seed=5)
        first = envs.reset()
        envs.step(np.zeros(2, int))
        self.assertFalse(np.array_equal(envs.reset(), first))
        envs.seed(5)
        envs.step_async(np.zeros(2, int))  # a reset cancels it
        np.testing.assert_array_equal(envs.reset(), first)
        envs.set_options({"start": 33})
        self.assertEqual(envs.reset()[:, 1].tolist(), [33, 33])
        self.assertFalse((envs.reset()[:, 1] == 33).any())
        envs.set_options([{"start": 44}, {"start": 55}])
        self.assertEqual(envs.reset()[:, 1].tolist(), [44, 55])
        with self.assertRaisesRegex(shoal.Error, "start"):
            cpp = self.envs("CartPole-v1", 2, workers=1)
            cpp.set_options({"start": 33})
            cpp.reset()

    def test_attributes_methods_and_wrappers_of_environments_in_python(self):
        for workers in (0, 2):
            envs = self.envs(lambda: gymnasium.wrappers.TimeLimit(Counter(4), 9), 3, workers=workers)
            envs.reset()
            envs.step(np.zeros(3, int))
            self.assertEqual(envs.get_attr("steps"), [1, 1, 1])
            envs.set_attr("length", 2, indices=[0, 2])
            self.assertEqual(envs.get_attr("length"), [2, 4, 2])
            self.assertEqual(envs.step(np.zeros(3, int))[2].tolist(), [True, False, True])
            self.assertEqual(envs.env_method("add", 3, times=2, indices=1), [8])
            with self.assertRaisesRegex(ZeroDivisionError, "division"):
                envs.env_method("add", 3, times=0)
            self.assertTrue(envs.has_attr("length"))
            self.assertTrue(envs.has_attr("add"))
            self.assertFalse(envs.has_attr("width"))
            self.assertEqual(envs.env_is_wrapped(gymnasium.wrappers.TimeLimit), [True] * 3)
            self.assertEqual(envs.env_is_wrapped(gymnasium.wrappers.OrderEnforcing, indices=0), [False])
            self.assertEqual(envs.env_is_wrapped(Monitor), [True] * 3)  # infos have `episode`
            with self.assertRaisesRegex(shoal.Error, "under way"):
                envs.step_async(np.zeros(3, int))
                envs.get_attr("steps")
        envs = self.envs("CartPole-v1", 2, workers=1)
        self.assertEqual(envs.get_attr("render_mode"), [None, None])
        with self.assertRaisesRegex(AttributeError, "callable"):
            envs.get_attr("gravity")
        self.assertFalse(envs.has_attr("gravity"))

    def test_renders_environments_in_python(self):
        envs = self.envs(lambda: Counter(4, render_mode="rgb_array"), 4, workers=2)
        envs.reset()
        envs.step(np.zeros(4, int))
        self.assertEqual(envs.render_mode, "rgb_array")
        image = envs.render()
        self.assertEqual((image.shape, image.max()), ((4, 4, 3), 1))  # two by two pictures

    def test_a_lost_life_ends_an_episode_of_the_agent_alone(self):
        envs = (
            self.envs("ALE/Breakout-v5", 2, workers=1, episodic_life=True, seed=1)
            if atari()
            else self.skipTest("no Atari")
        )
        envs.reset()
        lives, games = [0, 0], [0, 0]
        for _ in range(600):
            _, _, done, infos = envs.step(np.array([1, 1]))
            for b in np.flatnonzero(done):
                lives[b] += 1
                games[b] += "episode" in infos[b]
                self.assertEqual(infos[b]["terminal_observation"].shape, (4, 84, 84))
        self.assertGreater(min(games), 0)
        self.assertEqual([each // 5 for each in lives], games)

    def test_action_masks(self):
        envs = self.envs(Room, 2, workers=1)
        self.assertTrue(envs.has_attr("action_masks"))
        self.assertEqual(np.stack(envs.env_method("action_masks")).tolist(), [[True, True, True]] * 2)
        envs.reset()
        self.assertEqual(np.stack(envs.env_method("action_masks")).tolist(), [[True, False, True]] * 2)
        envs.step(np.array([0, 2]))
        self.assertEqual(np.stack(envs.env_method("action_masks")).tolist(), [[False, True, True], [True, False, True]])

    def test_observations_in_a_dict_in_a_dict_are_one_dict(self):
        spaces = gymnasium.spaces
        nested = spaces.Dict(eye=spaces.Dict(at=spaces.Discrete(3)), ear=spaces.Tuple((spaces.MultiBinary(2),)))
        envs = self.envs(lambda: Echo(spaces.Box(np.array([-1, 0]), 4.0, (2,)), nested), 2, workers=1, seed=1)
        self.assertEqual(
            envs.observation_space, spaces.Dict({"eye/at": spaces.Discrete(3), "ear/0": spaces.MultiBinary(2)})
        )
        model = PPO("MultiInputPolicy", envs, n_steps=8, batch_size=8, n_epochs=1, seed=1, device="cpu")
        model.learn(32)
        self.assertEqual(set(envs.step(np.zeros((2, 2)))[0]), {"eye/at", "ear/0"})

    def test_trains_ppo_with_bits_as_actions(self):
        model = PPO(
            "MlpPolicy",
            self.envs(lambda: Echo(gymnasium.spaces.MultiBinary(3)), 2),
            n_steps=8,
            batch_size=8,
            n_epochs=1,
            device="cpu",
        )
        model.learn(32)
        self.assertEqual(model.num_timesteps, 32)

    def test_a_dict_keeps_the_order_of_its_parts(self):
        parts = [
            (name, gymnasium.spaces.Box(-1, 1, (2,), np.float32)) for name in ("observation", "desired", "achieved")
        ]
        space = gymnasium.spaces.Dict(parts)
        envs = self.envs(lambda: Constant(space, {name: np.zeros(2, np.float32) for name, _ in parts}), n_envs=1)
        self.assertEqual(list(envs.observation_space), [name for name, _ in parts])
        self.assertEqual(list(envs.reset()), [name for name, _ in parts])

    def test_trains_ppo(self):
        envs = self.envs("CartPole-v1", 8, workers=2, seed=1)
        model = PPO(
            "MlpPolicy",
            envs,
            n_steps=64,
            batch_size=64,
            n_epochs=10,
            learning_rate=1e-3,
            gamma=0.98,
            gae_lambda=0.8,
            seed=1,
            device="cpu",
        )
        before = evaluate_policy(model, envs, 10)[0]
        model.learn(15_000)
        after = evaluate_policy(model, envs, 10)[0]
        self.assertGreater(after, 3 * before)
        self.assertGreater(np.mean([each["r"] for each in model.ep_info_buffer]), 60)

    def test_trains_dqn_behind_wrappers_of_sb3(self):
        envs = VecNormalize(VecMonitor(self.envs(lambda: gymnasium.make("MountainCar-v0"), 4, workers=2)))
        model = DQN("MlpPolicy", envs, learning_starts=100, buffer_size=2000, train_freq=2, seed=1, device="cpu")
        model.learn(2000)
        self.assertGreater(model._n_updates, 200)
        self.assertTrue(all(each["r"] == -200 and each["l"] == 200 for each in model.ep_info_buffer))
        self.assertGreater(len(model.ep_info_buffer), 4)

    def test_trains_on_pictures(self):
        if not atari():
            self.skipTest("no Atari")
        envs = self.envs("ALE/Pong-v5", 4, workers=2, seed=1)
        self.assertEqual(envs.observation_space.shape, (4, 84, 84))
        model = PPO("CnnPolicy", envs, n_steps=16, batch_size=32, n_epochs=1, seed=1, device="cpu")
        model.learn(128)
        self.assertEqual(model.num_timesteps, 128)


def atari() -> bool:
    try:
        shoal.ActorCritic("ALE/Pong-v5")
    except shoal.Error:
        return False
    return True


class WithoutStableBaselinesTest(unittest.TestCase):
    @unittest.skipIf(gymnasium, "Stable-Baselines3 is there")
    def test_says_what_to_install(self):
        with self.assertRaisesRegex(ImportError, "pip install stable-baselines3"):
            _ = shoal.sb3
