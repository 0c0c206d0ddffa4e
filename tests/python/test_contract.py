"""What Gymnasium asks of a vector environment, of shoal.make_vec(): spaces, batches, resets, infos, modes, closing."""

import pickle
import unittest

import shoal

try:
    import gymnasium
    import numpy as np
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from gymnasium.vector.utils import batch_space, iterate
    from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation, RecordEpisodeStatistics
    from toys import Counter, Parts, Room
except ImportError:
    gymnasium = None

MODES = ("NextStep", "SameStep")


@unittest.skipUnless(gymnasium, "needs Gymnasium")
class ContractTest(unittest.TestCase):
    def vector(self, *arguments, **keywords):
        envs = shoal.make_vec(*arguments, **keywords)
        self.addCleanup(envs.close)
        return envs

    def test_a_callable_is_one_environment(self):
        def make():
            return Counter(3)

        first = shoal.default_config(make).env_id
        self.assertEqual(shoal.default_config(make).env_id, first, "settings such as stop_return belong to it")
        self.assertNotEqual(shoal.default_config(lambda: Counter(3)).env_id, first)

    def test_spaces_and_batches(self):
        for make in ("CartPole-v1", "Pendulum-v1", lambda: Counter(3), Room, Parts):
            for mode in MODES:
                with self.subTest(make=make, mode=mode):
                    envs = self.vector(make, 3, workers=2, autoreset_mode=mode)
                    self.assertIsInstance(envs, gymnasium.vector.VectorEnv)
                    self.assertEqual(envs.num_envs, 3)
                    self.assertEqual(envs.metadata["autoreset_mode"], AutoresetMode(mode))
                    self.assertEqual(envs.autoreset_mode, AutoresetMode(mode))
                    self.assertEqual(envs.observation_space, batch_space(envs.single_observation_space, 3))
                    self.assertEqual(envs.action_space, batch_space(envs.single_action_space, 3))
                    observation, infos = envs.reset(seed=1)
                    self.assertIn(observation, envs.observation_space)
                    self.assertIsInstance(infos, dict)
                    envs.action_space.seed(1)
                    for _ in range(8):
                        result = envs.step(envs.action_space.sample())
                        observation, reward, terminated, truncated, infos = result
                        self.assertIn(observation, envs.observation_space)
                        self.assertEqual(len(list(iterate(envs.observation_space, observation))), 3)
                        self.assertEqual((reward.dtype, reward.shape), (np.float64, (3,)))
                        for flags in (terminated, truncated):
                            self.assertEqual((flags.dtype, flags.shape), (np.bool_, (3,)))
                        self.check_infos(infos, 3)

    def check_infos(self, infos, count):
        """Every entry has a mask of bools; nested ones, too."""
        for name, value in infos.items():
            if name.startswith("_"):
                self.assertIn(name[1:], infos)
                self.assertEqual((value.dtype, value.shape), (np.bool_, (count,)))
            else:
                self.assertIn("_" + name, infos)
                if isinstance(value, dict):
                    self.check_infos(value, count)
                else:
                    self.assertEqual(len(value), count)

    def test_spaces_of_several_arrays_are_those_of_gymnasium(self):
        mine, theirs = self.vector(Parts, 2, workers=1), SyncVectorEnv([Parts] * 2)
        self.assertEqual(mine.single_observation_space, theirs.single_observation_space)
        self.assertEqual(mine.single_action_space, theirs.single_action_space)
        mine.reset(seed=3), theirs.reset(seed=3)
        theirs.action_space.seed(3)
        for _ in range(5):
            action = theirs.action_space.sample()
            got, expected = mine.step(action), theirs.step(action)
            for name in expected[0]:
                np.testing.assert_array_equal(got[0][name], expected[0][name])
            np.testing.assert_array_equal(got[1], expected[1])

    def test_one_seed_is_counted_up_and_a_list_has_one_for_each(self):
        for make in ("CartPole-v1", lambda: Counter(3)):
            envs = self.vector(make, 3, workers=2)
            first = envs.reset(seed=5)[0].copy()
            np.testing.assert_array_equal(envs.reset(seed=[5, 6, 7])[0], first)
            self.assertFalse(np.array_equal(envs.reset(seed=[7, 6, 5])[0], first))
            np.testing.assert_array_equal(envs.reset(seed=(None, 6, None))[0][1], first[1])
            envs.reset(seed=5)
            second, third = envs.reset()[0].copy(), envs.reset()[0].copy()  # the generators go on
            self.assertFalse(np.array_equal(second, third))
            envs.reset(seed=5)
            np.testing.assert_array_equal(envs.reset()[0], second)
            for wrong in ([1, 2], [1, 2, 3, 4]):
                with self.assertRaisesRegex(shoal.Error, "expected 3"):
                    envs.reset(seed=wrong)

    def test_resets_with_seeds_equal_those_of_gymnasium_in_the_middle_of_episodes(self):
        for mode in MODES:
            envs = self.vector(lambda: Counter(4), 3, workers=2, autoreset_mode=mode)
            theirs = SyncVectorEnv([lambda: Counter(4)] * 3, autoreset_mode=AutoresetMode(mode))
            for steps in (1, 4, 6):  # 4: an autoreset is pending in NextStep mode
                np.testing.assert_array_equal(envs.reset(seed=steps)[0], theirs.reset(seed=steps)[0])
                for _ in range(steps):
                    action = np.arange(3)
                    for got, expected in zip(envs.step(action)[:4], theirs.step(action)[:4]):
                        np.testing.assert_array_equal(got, expected)

    def test_a_mask_chooses_the_environments_to_reset(self):
        for mode in MODES:
            envs = self.vector(lambda: Counter(4), 3, workers=2, autoreset_mode=mode)
            theirs = SyncVectorEnv([lambda: Counter(4)] * 3, autoreset_mode=AutoresetMode(mode))
            for each in (envs, theirs):
                each.reset(seed=1)
            for at in range(20):
                if at in (2, 8, 9, 13):
                    chosen = {"reset_mask": np.array([at % 2 == 0, False, True])}
                    got = envs.reset(seed=[at, None, at], options=dict(chosen))[0]
                    np.testing.assert_array_equal(got, theirs.reset(seed=[at, None, at], options=dict(chosen))[0])
                for got, expected in zip(envs.step(np.arange(3))[:4], theirs.step(np.arange(3))[:4]):
                    np.testing.assert_array_equal(got, expected)
            for wrong in (np.array([True]), np.array([1, 0, 1]), [True, False, True], np.zeros(3, bool)):
                with self.assertRaisesRegex(shoal.Error, "reset_mask.*3 bools"):
                    envs.reset(options={"reset_mask": wrong})

    def test_a_mask_keeps_the_stacked_frames_of_the_others(self):
        try:
            envs = self.vector("ALE/Pong-v5", 2, workers=2)
        except shoal.Error as error:
            self.skipTest(str(error))
        envs.reset(seed=1)
        for _ in range(20):
            before = envs.step(np.array([2, 3]))[0]
        after = envs.reset(options={"reset_mask": np.array([False, True])})[0]
        np.testing.assert_array_equal(after[0], before[0])
        self.assertTrue(before[1, :3].any())
        self.assertFalse(after[1, :3].any())
        self.assertTrue(after[1, 3].any())
        np.testing.assert_array_equal(envs.step(np.array([2, 3]))[0][:, :3], after[:, 1:])

    def test_options_go_to_environments_in_python(self):
        envs = self.vector(lambda: Counter(4), 3, workers=2)
        self.assertEqual(envs.reset(seed=1, options={"start": 44})[0][:, 1].tolist(), [44] * 3)
        chosen = np.array([False, True, False])
        self.assertEqual(envs.reset(options={"start": 55, "reset_mask": chosen})[0][:, 1].tolist(), [44, 55, 44])
        self.assertFalse((envs.reset()[0][:, 1] == 55).any())
        with self.assertRaisesRegex(shoal.Error, "found {'start': 1}, expected none but 'reset_mask'"):
            self.vector("CartPole-v1", 1, workers=0).reset(options={"start": 1})

    def test_infos_of_the_spec_have_masks_and_final_infos(self):
        envs = self.vector(lambda: Counter(3), 2, workers=1, autoreset_mode="SameStep", info=["steps"])
        envs.reset(seed=1)
        for at in (1, 2, 3, 1):
            infos = envs.step(np.zeros(2, int))[4]
            ended = at == 3
            self.check_infos(infos, 2)
            self.assertEqual("final_info" in infos, ended)
            self.assertEqual(infos["_steps"].tolist(), [not ended] * 2)
            last = infos["final_info"] if ended else infos
            self.assertEqual(last["steps"].tolist(), [at, at])

    def test_action_masks_are_in_infos(self):
        for mode in MODES:
            envs = self.vector(Room, 2, workers=1, autoreset_mode=mode)
            infos = envs.reset(seed=1)[1]
            self.assertEqual(infos["action_mask"].tolist(), [[True, False, True]] * 2)
            self.assertEqual(infos["_action_mask"].tolist(), [True, True])
            infos = envs.step(np.array([0, 2]))[4]
            self.assertEqual(infos["action_mask"].tolist(), [[False, True, True], [True, False, True]])

    def test_wrappers_of_gymnasium(self):
        envs = RecordEpisodeStatistics(self.vector("CartPole-v1", 4, workers=2))
        envs = DictInfoToList(NormalizeObservation(envs))
        envs.reset(seed=1)
        episodes = []
        for _ in range(100):
            observation, _, _, _, infos = envs.step(envs.action_space.sample())
            self.assertLess(np.abs(observation).max(), 100)
            episodes += [info["episode"]["l"] for info in infos if "episode" in info]
        self.assertGreater(len(episodes), 4)

    def test_attributes_methods_and_pictures_of_environments_in_python(self):
        for workers in (0, 2):
            envs = self.vector(lambda: Counter(4, render_mode="rgb_array"), 3, workers=workers)
            self.assertEqual(envs.render_mode, "rgb_array")
            envs.reset(seed=1)
            envs.step(np.zeros(3, int))
            self.assertEqual(envs.get_attr("steps"), (1, 1, 1))
            envs.set_attr("steps", [1, 2, 3])
            self.assertEqual(envs.call("add", 1, times=1), (2, 3, 4))
            self.assertEqual([picture.max() for picture in envs.render()], [1, 2, 3])
            with self.assertRaises(AttributeError):
                envs.get_attr("nothing")
            with self.assertRaisesRegex(ValueError, "found 2, expected 3"):
                envs.set_attr("steps", [1, 2])
            self.assertEqual(envs.step(np.zeros(3, int))[0][:, 0].tolist(), [2, 3, 4])

    def test_an_exception_that_cannot_be_pickled_comes_as_text(self):
        class Local(Exception):
            pass

        def fail():
            raise Local("stuck")

        def make():
            env = Counter(4)
            env.fail = fail
            return env

        envs = self.vector(make, 1, workers=1)
        self.assertRaises((AttributeError, pickle.PicklingError), pickle.dumps, Local())
        with self.assertRaisesRegex(RuntimeError, "stuck"):
            envs.call("fail")
        self.assertEqual(envs.get_attr("length"), (4,))

    def test_closing(self):
        for make in ("CartPole-v1", lambda: Counter(4)):
            for workers in (0, 2):
                with self.vector(make, 2, workers=workers) as envs:
                    envs.reset(seed=1)
                    envs.step_async(np.zeros(2, int))
                self.assertTrue(envs.closed)
                envs.close()
                for act in (envs.reset, lambda: envs.step(np.zeros(2, int)), lambda: envs.get_attr("length")):
                    with self.assertRaisesRegex(shoal.Error, "closed"):
                        act()

    def test_a_step_is_waited_for_once(self):
        envs = self.vector("CartPole-v1", 2, workers=1)
        envs.reset(seed=1)
        envs.step_async(np.zeros(2, int))
        with self.assertRaisesRegex(shoal.Error, "step_wait"):
            envs.step_async(np.zeros(2, int))
        envs.step_wait()
        with self.assertRaisesRegex(shoal.Error, "step_async"):
            envs.step_wait()

    def test_environments_that_ended_with_an_exception(self):
        def fail(steps):
            if steps == 1:
                raise RuntimeError("stuck")

        envs = self.vector(lambda: Counter(5, fail), 2, workers=2)
        envs.reset(seed=1)
        envs.step(np.zeros(2, int))
        with self.assertRaisesRegex(shoal.WorkerError, "stuck"):
            envs.step(np.zeros(2, int))
        with self.assertRaisesRegex(shoal.Error, "make them anew"):
            envs.reset()
