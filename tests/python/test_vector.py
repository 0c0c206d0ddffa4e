"""shoal.make_vec() beside Gymnasium's own vector environments."""

import functools
import multiprocessing
import resource
import threading
import unittest

import torch

import shoal

try:
    import gymnasium
    import numpy as np
    from gymnasium.utils.env_checker import data_equivalence
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from gymnasium.wrappers.vector import RecordEpisodeStatistics
    from toys import Constant, Counter, Echo, Ending, SharedRandom

    from shoal.callable_env import in_use
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
        envs = self.vector("CartPole-v1", 2, workers=1, copy=False)
        envs.reset(seed=1)
        for _ in range(20):
            observation = envs.step(np.zeros(2, int))[0]
            copy = observation.copy()
            for _ in range(7):
                envs.step(np.ones(2, int))
            np.testing.assert_array_equal(observation, copy)
            self.assertFalse(observation.flags.owndata)
        copies = self.vector("CartPole-v1", 2, workers=1)
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

    def test_infos_are_of_steps_and_not_of_resets(self):
        for mode in ("NextStep", "SameStep"):
            envs = self.vector(lambda: Counter(3), 2, workers=1, autoreset_mode=mode, info=["steps"])
            theirs = SyncVectorEnv([lambda: Counter(3)] * 2, autoreset_mode=AutoresetMode(mode))
            envs.reset(seed=1)
            theirs.reset(seed=1)
            flags = []
            for _ in range(9):
                got, expected = (each.step(np.zeros(2, int))[4] for each in (envs, theirs))
                flags.append(bool(got["_steps"].all()))
                self.assertEqual(flags[-1], bool(expected.get("_steps", np.zeros(2, bool)).all()))
                if flags[-1]:
                    np.testing.assert_array_equal(got["steps"], expected["steps"])
            self.assertIn(False, flags)

    def test_an_info_of_some_steps(self):
        make = lambda: gymnasium.wrappers.RecordEpisodeStatistics(Counter(3))  # noqa: E731
        for mode in ("NextStep", "SameStep"):
            envs = self.vector(make, 2, workers=1, autoreset_mode=mode, info=["episode/l", "steps"])
            theirs = SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode(mode))
            envs.reset(seed=1)
            theirs.reset(seed=1)
            lengths = []
            for _ in range(9):
                got, expected = (each.step(np.zeros(2, int))[4] for each in (envs, theirs))
                got, expected = (each.get("final_info", each) for each in (got, expected))
                for name in ("episode/l", "steps"):
                    there = expected.get("_" + name.split("/")[0], np.zeros(2, bool))
                    self.assertEqual(got["_" + name].tolist(), there.tolist(), name)
                lengths += got["episode/l"][got["_episode/l"]].tolist()
            self.assertEqual(lengths, [3] * (6 if mode == "SameStep" else 4))

    def test_keywords_go_to_a_callable(self):
        envs = self.vector(Counter, 2, workers=1, kwargs={"length": 2})
        self.assertEqual(envs.get_attr("length"), (2, 2))
        envs = self.vector(lambda length=4: Counter(length), 1, workers=1, kwargs={"length": 3})
        self.assertEqual(envs.get_attr("length"), (3,))

    def test_keywords_of_an_environment_that_a_callable_replaces_are_dropped(self):
        config = shoal.make_config(env="gymnasium:CartPole-v1", kwargs={"sutton_barto_reward": True})
        self.assertIn("sutton", str(config))
        make = lambda: Counter(3)  # noqa: E731
        mine = shoal.make_config(config, env=make)
        self.assertNotIn("sutton", str(mine))
        mine = shoal.make_config(config, kwargs={"length": 3}, env=Counter)
        self.assertIn("length", str(shoal.make_config(mine, env=make)))

    def test_no_action_is_legal_once_an_episode_is_over(self):
        for mode in ("NextStep", "SameStep"):
            envs = self.vector(lambda: Ending(2), 2, workers=1, autoreset_mode=mode)
            _, infos = envs.reset(seed=1)
            self.assertEqual(infos["action_mask"].tolist(), [[1, 0, 1]] * 2)
            for _ in range(7):
                _, _, terminated, _, infos = envs.step(np.zeros(2, int))
                over = terminated.all() and mode == "NextStep"
                self.assertEqual(infos["action_mask"].tolist(), [[1, 1, 1] if over else [1, 0, 1]] * 2)

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

    def test_workers_do_not_draw_the_same_numbers(self):
        mine = np.random.get_state()[1].copy()
        seen = []
        for _ in range(2):
            envs = self.vector(SharedRandom, 3, workers=3)
            envs.reset(seed=1)
            seen.append(np.concatenate([envs.step(np.zeros(3, int))[0].copy() for _ in range(4)], axis=1))
        self.assertEqual(len(np.unique(seen[0])), 3 * 4 * 3)
        np.testing.assert_array_equal(seen[0], seen[1])
        self.vector(SharedRandom, 2, workers=0).reset(seed=1)
        np.testing.assert_array_equal(np.random.get_state()[1], mine, "the program's own generator")

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

    def assert_equal_values(self, got, expected):
        self.assertTrue(data_equivalence(got, expected), f"{got} {expected}")

    def assert_echoes(self, make, make_env, scale=1, **settings):
        """Observations, which are the actions, and spaces equal those of Gymnasium."""
        for mode in ("NextStep", "SameStep"):
            mine = self.vector(make, 3, workers=2, autoreset_mode=mode, copy=True, **settings)
            theirs = SyncVectorEnv([make_env] * 3, autoreset_mode=AutoresetMode(mode))
            for name in ("single_action_space", "action_space", "single_observation_space", "observation_space"):
                self.assertEqual(getattr(mine, name), getattr(theirs, name))
            self.assert_equal_values(mine.reset(seed=3)[0], theirs.reset(seed=3)[0])
            theirs.action_space.seed(3)
            for _ in range(10):
                action = theirs.action_space.sample()
                action = action * scale if isinstance(action, np.ndarray) and action.dtype.kind == "f" else action
                got, expected = mine.step(action), theirs.step(action)
                self.assert_equal_values(got[:4], expected[:4])
                for final, other in zip(got[4].get("final_obs", []), expected[4].get("final_obs", [])):
                    self.assert_equal_values(final, other)
        return mine

    def test_any_action_and_observation_equals_gymnasiums(self):
        spaces = gymnasium.spaces
        bounds = np.array([[-1, 0, 2], [-3, 1, 5]], np.float32), np.array([[1, 4, 3], [0, 9, 8]], np.float32)
        for space in (
            spaces.Box(bounds[0][0], bounds[1][0]),
            spaces.Box(*bounds),
            spaces.Box(bounds[0].astype(np.float64), bounds[1].astype(np.float64), dtype=np.float64),
            spaces.Box(-2, 2, (), np.float32),
            spaces.Discrete(4, start=-2),
            spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [-2, 7]]),
            spaces.MultiBinary((2, 2)),
            spaces.Dict(
                {"arm": spaces.Dict({"b": spaces.Box(*bounds), "a": spaces.Discrete(3, start=1)})},
                grip=spaces.Tuple((spaces.MultiBinary(3), spaces.Discrete(2))),
            ),
        ):
            with self.subTest(space=space):
                envs = self.assert_echoes(lambda space=space: Echo(space), lambda space=space: Echo(space), scale=3)
                self.assertEqual(len(envs.get_attr("seen")[0]), 10)
        gymnasium.register("ShoalTest/Echo-v0", entry_point=lambda low, **_: Echo(spaces.Box(np.array([low, 0]), 4.0)))
        make = lambda: gymnasium.make("ShoalTest/Echo-v0", low=-7.0)  # noqa: E731
        self.assert_echoes("gymnasium:ShoalTest/Echo-v0", make, 3, gymnasium__kwargs={"low": -7.0})

    def test_observations_have_the_form_of_the_environment(self):
        spaces = gymnasium.spaces
        picture = spaces.Box(0, 255, (20, 24, 3), np.uint8)
        for space in (
            spaces.Discrete(5, start=2),
            picture,
            spaces.Box(-9, 9, (2,), np.int8),
            spaces.Box(0, 255, (2, 20, 24, 3), np.uint8),
            spaces.Tuple((picture, spaces.Dict(at=spaces.Discrete(3), see=picture))),
        ):
            with self.subTest(space=space):
                make = lambda space=space: Echo(spaces.Discrete(2), space)  # noqa: E731
                self.assert_echoes(make, make)
        told = spaces.Dict(see=picture, hear=spaces.Text(4))
        envs = self.vector(lambda: Echo(spaces.Discrete(2), told), 2, workers=0)
        self.assertEqual(envs.single_observation_space, spaces.Dict(see=picture))  # a Text has no fixed size
        self.assertIn(envs.reset(seed=1)[0], envs.observation_space)
        envs = self.vector(lambda: Echo(spaces.Discrete(2), picture), 2, workers=0, resize=[10, 10])
        self.assertEqual(envs.reset(seed=1)[0].shape, (2, 3, 10, 10))

    def test_actions_of_another_shape_or_type(self):
        box = gymnasium.spaces.Box(np.array([0, -1]), np.array([1, 1]))
        for make, wrong in (
            ("CartPole-v1", (1, [0] * 3, np.zeros((4, 1), int), np.zeros(4))),
            ("Pendulum-v1", (0.0, np.zeros(4), np.zeros((1, 1)))),
            (lambda: Counter(5), (1, [0] * 3, np.zeros(4), [True, False, True, 0.5])),
            (lambda: Echo(box), (0.0, np.zeros(2), np.zeros((4, 1)), np.zeros((4, 2), complex))),
            (lambda: Echo(gymnasium.spaces.MultiDiscrete([3, 3])), (np.zeros((4, 2)), np.zeros(2, int))),
        ):
            envs = self.vector(make, 4, workers=0)
            envs.reset(seed=1)
            for action in wrong:
                with self.assertRaisesRegex(shoal.Error, r"actions: found .*, expected \w+ \[4"):
                    envs.step(action)
            envs.step(envs.action_space.sample())
        envs = self.vector(lambda: Echo(gymnasium.spaces.Discrete(3, start=2)), 2, workers=0)
        envs.reset(seed=1)
        with self.assertRaisesRegex(shoal.Error, "environment 1: found the action 5, expected 2 to 4"):
            envs.step(np.array([2, 5]))

    def test_settings_that_it_does_not_use(self):
        with self.assertRaisesRegex(shoal.Error, r"seed: .*reset\(seed=\.\.\.\)"):
            shoal.make_vec("CartPole-v1", 2, seed=3)
        for name, value in {"learning_rate": 0.1, "horizon": 8, "envs": 3, "hidden": [3], "algo": "dqn"}.items():
            with self.assertRaisesRegex(shoal.Error, f"{name}: found .*does not use"):
                shoal.make_vec("CartPole-v1", 2, **{name: value})
        self.vector("CartPole-v1", 2, workers=1, time_limit=5, step_limit=30, pin=False, reward_scale=0.1)

    def test_numbers_of_environments_and_workers(self):
        for name, numbers in ("num_envs", (0, 1)), ("workers", (2, -1)):
            with self.assertRaisesRegex(shoal.Error, f"{name}: found"):
                shoal.make_vec("CartPole-v1", numbers[0], workers=numbers[1])

    def test_the_first_episode_begins_with_the_first_reset(self):
        resets = []

        def make():  # in this process
            env = Counter()
            reset = env.reset
            env.reset = lambda **given: (resets.append(given), reset(**given))[1]
            return env

        envs = self.vector(make, 2, workers=0)
        before = len(resets)  # to see the spaces
        envs.reset(seed=3)
        self.assertEqual(resets[before:], [{"seed": 3}, {"seed": 4}])
        envs.reset()
        self.assertEqual(resets[before + 2 :], [{"seed": None}] * 2)
        self.assert_equals_gymnasium("NextStep", 2, lambda: gymnasium.wrappers.NormalizeObservation(Counter()))
        before = len(resets)
        self.vector(make, 2, workers=0, gymnasium__wrappers=["gymnasium.wrappers.NormalizeObservation"])
        self.assertEqual(len(resets[before:]), 2, "wrappers outside of the callable see an episode of each environment")

    def test_an_observation_outside_its_space(self):
        for space, bad in (gymnasium.spaces.Discrete(5, start=2), 7), (gymnasium.spaces.MultiDiscrete([2, 3]), [0, 3]):
            for observation, message in (space.sample(), None), (bad, "has the number [73], expected [20] to [62]"):
                with self.subTest(f"{space}, {observation}"):
                    envs = self.vector(functools.partial(Constant, space, np.asarray(observation)[()]), 2, workers=1)
                    if message is None:
                        envs.reset()
                    else:
                        with self.assertRaisesRegex(shoal.WorkerError, message):
                            envs.reset()

    def test_options_of_a_reset(self):
        def make():
            return gymnasium.make("Pendulum-v1")  # whose actions pass through a wrapper

        mine, theirs = self.vector(make, 3, workers=2), SyncVectorEnv([make] * 3)
        for options in {"x_init": 0.1, "y_init": 0.2}, None:
            expected = theirs.reset(seed=7, options=options)[0]
            np.testing.assert_array_equal(mine.reset(seed=7, options=options)[0], expected)

    def test_seeds_that_are_none(self):
        envs = self.vector(Counter, 2, workers=1)
        for seed in -1, 1.5, 2**64, "1":
            with self.assertRaisesRegex(shoal.Error, r"seed\[1\]: found"):
                envs.reset(seed=[3, seed])
        envs.reset(seed=[3, np.int64(4)])  # they live on
        envs.reset(seed=torch.tensor([3, 4]))

    def test_an_environment_that_copies_itself(self):
        envs = self.vector(Counter, 2, workers=1)
        envs.reset(seed=1)
        envs.step(np.zeros(2, int))
        self.assertEqual(envs.call("plan"), ((1, 0), (1, 0)))

    def test_one_object_is_not_several_environments(self):
        shared = Counter()
        for workers, error in (1, shoal.WorkerError), (0, shoal.Error):
            with self.assertRaisesRegex(error, "expected a new one from each call"):
                shoal.make_vec(lambda: shared, 2, workers=workers)
        for _ in range(2):
            with shoal.make_vec(lambda: shared, 1, workers=0) as envs:
                envs.reset(seed=1)

    def test_a_wrapper_that_replaces_its_environment(self):
        class NewLevels(gymnasium.Wrapper):
            def reset(self, **given):
                before, self.env = self.env, Counter()
                result = super().reset(**given)
                del before  # the next environment may get its place in memory
                return result

        ids, kept = set(), []
        for _ in range(1000):
            env = NewLevels(Counter())
            ids.add(id(env.unwrapped))
            kept.append(in_use(env))
            env.reset(seed=1)
        self.assertLess(len(ids), 1000, "the test needs an environment in the place of an earlier one")

    def test_metadata_are_those_of_the_environment(self):
        metadata = self.vector(Counter, 2, workers=1).metadata
        self.assertEqual(metadata, {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP})

    def test_too_few_open_files(self):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
        with self.assertRaisesRegex(shoal.Error, "num_envs: found 60 .*ulimit -n"):
            shoal.make_vec(Counter, 60, workers=1)

    def test_what_cannot_be_pickled(self):
        class TwoArgumentsError(Exception):
            def __init__(self, first, second):
                super().__init__(f"{first} and {second}")

        class Failing(Counter):
            def fail(self):
                raise TwoArgumentsError("this", "that")

            def lock(self):
                return threading.Lock()

            def tensor(self):
                return torch.ones(2, requires_grad=True) * 2  # which torch's own pickler refuses

        envs = self.vector(Failing, 2, workers=1)
        with self.assertRaisesRegex(RuntimeError, "TwoArgumentsError: this and that") as failed:
            envs.call("fail")
        self.assertIn("environment 0:", str(failed.exception.__cause__))
        self.assertIn("in fail", str(failed.exception.__cause__))
        with self.assertRaisesRegex(RuntimeError, "found the result lock, which cannot be sent"):
            envs.call("lock")
        self.assertEqual([each.tolist() for each in envs.call("tensor")], [[2, 2]] * 2)
        self.assertEqual(envs.get_attr("length"), (5, 5))

    def test_a_late_answer_is_not_that_of_the_next_call(self):
        done = multiprocessing.Event()

        def make():
            env = Counter(4)
            env.wait = done.wait
            return env

        envs = self.vector(make, 2, workers=1)
        seconds, envs._calls._seconds = envs._calls._seconds, 0.1
        with self.assertRaisesRegex(shoal.Error, "environment 0 did not answer"):
            envs.call("wait")
        envs._calls._seconds = seconds
        done.set()
        self.assertEqual(envs.get_attr("length"), (4, 4))
        self.assertEqual(envs.get_attr("render_mode"), (None, None))

    def test_an_exception_comes_with_its_environment(self):
        def fail(steps):
            raise RuntimeError("stuck")

        envs = self.vector(lambda: Counter(5, fail), 2, workers=2)
        envs.reset(seed=1)
        with self.assertRaisesRegex(shoal.WorkerError, "stuck"):
            envs.step(np.zeros(2, int))
