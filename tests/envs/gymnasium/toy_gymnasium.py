"""Environments for gymnasium_test.cc, as `gymnasium:toy_gymnasium:Echo-v0`."""

import builtins
import os

import gymnasium
import numpy as np
from gymnasium import spaces


class Echo(gymnasium.Env):
    """Echoes its inputs in spaces of every kind; truncates after `length` steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    observation_space = spaces.Dict({
        "seed": spaces.Box(-1, 2**31, (), np.int64),
        "nested": spaces.Dict({
            "half": spaces.Box(-10, 10, (2,), np.float16),
            "bits": spaces.MultiBinary((2, 2)),
            "many": spaces.MultiDiscrete([2, 5], start=[1, -1]),
        }),
        "pair": spaces.Tuple([spaces.Discrete(1000, start=-1), spaces.Box(-np.inf, np.inf, (2, 1), np.float64)]),
        "image": spaces.Box(0, 255, (2, 1, 3), np.uint8),
    })
    action_space = spaces.Dict({
        "one": spaces.Discrete(3, start=-1),
        "pair": spaces.Tuple([spaces.Box(np.float32([-2, 0]), np.float32([2, 10])), spaces.MultiBinary((2, 2))]),
        "many": spaces.MultiDiscrete([2, 5]),
    })

    def __init__(self, length=4, render_mode=None):
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed=None, options=None):
        self.seed, self.steps = -1 if seed is None else seed, 0
        self.action = {"one": -1, "pair": (np.zeros(2), np.zeros((2, 2), np.int8)), "many": np.zeros(2, int)}
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.action, self.steps = action, self.steps + 1
        return self.observe(), float(action["one"]), False, self.steps == self.length, {}

    def observe(self):
        box, bits = self.action["pair"]
        return {  # not in the order of the space; with lists, another dtype and a non-contiguous array
            "image": np.full((3, 1, 2), self.steps, np.uint8).T,
            "pair": (self.steps - 1, box.reshape(2, 1)),
            "nested": {"half": [0.5, float(self.steps)], "bits": bits, "many": self.action["many"] + [1, -1]},
            "seed": self.seed,
        }

    def render(self):
        return np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) if self.render_mode == "rgb_array" else None


class Numbers(gymnasium.Env):
    """Counts its steps; the base class of faulty environments."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.float32([self.steps]), 1.0, False, False, {}


class Raises(Numbers):
    def step(self, action):
        if self.steps == 2:
            raise ValueError("the third step is a bad one")
        return super().step(action)


class BadNumbers(Numbers):
    """Episodes of 10 steps; the observation or the reward of the 300th step is not finite."""

    taken = 0

    def step(self, action):
        self.taken += 1
        observation, reward, _, _, info = super().step(action)
        if self.taken == 300:
            observation, reward = self.spoil(observation, reward)
        return observation, reward, self.steps == 10, False, info


class BadObservation(BadNumbers):
    def spoil(self, observation, reward):
        return np.float32([np.nan]), reward


class BadReward(BadNumbers):
    def spoil(self, observation, reward):
        return observation, float("inf")


class CannotBeMade(Numbers):
    def __init__(self):
        raise FileNotFoundError("no map.png")


class Crashes(Numbers):
    def __init__(self):
        os.abort()


class WrongShape(Numbers):
    def step(self, action):
        return np.zeros((1, 2), np.float32), 1.0, False, False, {}


class OldApi(Numbers):
    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, {}


class Returns(Numbers):
    """step() returns the given wrong results; `values` as an array of `dtype`."""

    def __init__(self, space="uint8", dtype=None, values=(1, 2), **instead):
        self.observation_space = spaces.MultiBinary(2) if space == "bits" else spaces.Box(0, 100, (2,), space)
        self.observation = list(values) if dtype is None else np.array(values, dtype)
        self.instead = instead

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, self.observation_space.dtype), {}

    def step(self, action):
        reward = self.instead.get("reward", 1.0)
        reward = np.array(reward) if isinstance(reward, list) else reward
        return self.observation, reward, self.instead.get("terminated", np.bool_(False)), False, {}


class Choice(Numbers):
    """A Discrete observation with the given value."""

    def __init__(self, value):
        self.observation_space, self.value = spaces.Discrete(5), value

    def reset(self, *, seed=None, options=None):
        return np.int64(3), {}

    def step(self, action):
        return self.value, 1.0, False, False, {}


class Missing(Numbers):
    observation_space = spaces.Dict({"left": spaces.Box(0, 1, ()), "right": spaces.Box(0, 1, ())})

    def reset(self, *, seed=None, options=None):
        return {"left": 0, "right": 1}, {}

    def step(self, action):
        return {"left": 0, "up": 1}, 1.0, False, False, {}


class ResetAlone(Numbers):
    """reset() returns the observation alone, as in Gym."""

    def reset(self, **_):
        return np.zeros(1, np.float32)


class ResetWithoutInfo(Numbers):
    def reset(self, **_):
        return np.zeros(1, np.float32), None


class Fixed(Numbers):
    """Deterministic, with small steps, each of which allocates something."""

    def step(self, action):
        self.steps += int(action)
        return np.float32([self.steps % 100]), 1.0, self.steps > 20, False, {}


class Words(Numbers):
    observation_space = spaces.Dict({"word": spaces.Text(5)})


class TwoNames(Numbers):
    observation_space = spaces.Dict({"a/b": spaces.Box(0, 1, ()), "a": spaces.Dict({"b": spaces.Box(0, 1, ())})})


class Nameless(Numbers):
    observation_space = spaces.Dict({" a\nb": spaces.Box(0, 1, ())})


class Actions(Numbers):
    """Asserts that each action is of its space: a Box with the bounds `low` and `high`, or a Discrete of 4 bytes."""

    metadata = {"render_modes": ["rgb_array"]}  # but there is no argument render_mode

    def __init__(self, low=None, high=None):
        box = low is not None
        self.action_space = spaces.Box(np.float64(low), np.float64(high), dtype=np.float64) if box else spaces.Discrete(3, dtype=np.int32)

    def step(self, action):
        assert self.action_space.contains(action), repr(action)
        return super().step(action)


class Denormal(Numbers):
    observation_space = spaces.Box(0, 1e-310, (1,), np.float64)


class Shrinks(Numbers):
    """Its space changes each time, as a file says."""

    def __init__(self, file):
        with open(file, "a+") as made:
            made.write("x")
            size = made.tell()
        self.observation_space = spaces.Box(0, 1, (size,))


class MadeAnew(Numbers, gymnasium.utils.EzPickle):
    def __init__(self):
        gymnasium.utils.EzPickle.__init__(self)


class HoldsAnew(Numbers):
    """Has another environment, which it does not call `env`."""

    def __init__(self):
        self.inner = [MadeAnew()]


class Slashes(Numbers):
    """Infos whose keys have slashes, beside a dict of the same names."""

    def step(self, action):
        return *super().step(action)[:4], {"r/fwd": 3.0, "r": {"fwd": 4.0, "side": 5.0}}


class Masked(Numbers):
    """Allows the action equal to the parity of the step count. `later` replaces the info from the second step on."""

    def __init__(self, later=None):
        self.later = later

    def info(self):
        if self.later is not None and self.steps > 1:
            return self.later
        return {"action_mask": np.int8([self.steps % 2 == 0, self.steps % 2 == 1])}

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.info()

    def step(self, action):
        assert action == self.steps % 2
        return (*super().step(action)[:4], self.info())


class Flags(Numbers):
    """Ends episodes with numbers instead of bools."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        flags = (0, 1, np.int64(0), np.int64(1), np.array(0), np.uint8(1))
        return observation, reward, flags[self.steps - 1], truncated, info


class Lucky(Numbers):
    """Episodes of two steps; with an even seed the first one has the info `luck`."""

    def reset(self, *, seed=None, options=None):
        self.lucky = seed % 2 == 0
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, _, truncated, _ = super().step(action)
        return observation, reward, self.steps == 2, truncated, {"luck": 1.0} if self.lucky and self.steps == 1 else {}


class CountsImports(Numbers):
    """Its third step observes how often NumPy was imported since the first one."""

    def step(self, action):
        if self.steps == 0:
            self.imports, self.real = 0, builtins.__import__
            builtins.__import__ = self.counting
        elif self.steps == 2:
            builtins.__import__ = self.real
        self.steps += 1
        return [float(self.imports)], 1.0, False, False, {}

    def counting(self, name, *rest):
        self.imports += name == "numpy"
        return self.real(name, *rest)


for made in (Echo, Raises, BadObservation, BadReward, CannotBeMade, Crashes, WrongShape, OldApi, Words, TwoNames, Nameless, Actions, Denormal, Shrinks, MadeAnew, HoldsAnew, Slashes,
             Masked, Returns, Choice, Missing, ResetAlone, ResetWithoutInfo, Fixed, Flags, CountsImports, Lucky):
    gymnasium.register(f"{made.__name__}-v0", made)
