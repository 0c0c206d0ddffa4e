"""Environments for the tests."""

import copy
import random

import gymnasium
import numpy as np
import torch


class Counter(gymnasium.Env):
    """Observes the number of steps in the episode, which has `length` of them. Calls `at_step(steps)` first."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, length=5, at_step=lambda steps: None, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(-1, 1000, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.length, self.at_step, self.render_mode = length, at_step, render_mode

    def observe(self):
        return np.array([self.steps, self.start], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.start = 0, (options or {}).get("start", self.np_random.integers(100))
        return self.observe(), {}

    def step(self, action):
        self.at_step(self.steps)
        self.steps += 1
        return self.observe(), float(action), self.steps == self.length, False, {"steps": self.steps}

    def add(self, number, times):
        return self.steps + number * times + 0 * (1 // times)

    def plan(self):
        imagined = copy.deepcopy(self)
        imagined.reset()
        return self.steps, imagined.steps

    def render(self):
        return np.full((2, 2, 3), self.steps, np.uint8)


class Ending(Counter):
    """Allows actions 0 and 2, and none at the end."""

    def mask(self):
        return {"action_mask": np.array([1, 0, 1], bool) & (self.steps < self.length)}

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.mask()

    def step(self, action):
        return *super().step(action)[:4], self.mask()


class Constant(gymnasium.Env):
    """Always gives the same observation."""

    def __init__(self, space, observation):
        self.observation_space, self.action_space = space, gymnasium.spaces.Discrete(2)
        self.observation = observation

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


class SharedRandom(gymnasium.Env):
    """Observes a number of each generator that all environments of a process share."""

    observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3), {}

    def step(self, action):
        return np.array([np.random.random(), random.random(), float(torch.rand(()))]), 0.0, False, False, {}


gymnasium.register("SharedRandom-v0", SharedRandom)  # can be pickled


class Room(gymnasium.Env):
    """Action 0 opens the door of a room and is then illegal; action 1 is legal once it is open."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)

    def look(self):
        mask = np.array([not self.open, self.open, True])
        return np.array([self.open], np.float32), {"action_mask": mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.open = False
        return self.look()

    def step(self, action):
        self.open = self.open or action == 0
        observation, info = self.look()
        return observation, 0.0, action == 1, False, info


class Echo(gymnasium.Env):
    """Observes its last action, or, with a space of observations, samples of it."""

    def __init__(self, action_space, observation_space=None, seen=None):
        self.action_space, self.echoes = action_space, observation_space is None
        self.observation_space = copy.deepcopy(observation_space or action_space)  # whose generator it seeds
        self.seen = [] if seen is None else seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.observation, self.steps = self.observation_space.sample(), 0
        return self.observation, {}

    def step(self, action):
        self.seen.append((self.observation, action))
        self.observation = action if self.echoes else self.observation_space.sample()
        self.steps += 1
        return self.observation, 0.0, self.steps == 4, False, {}


def echoes(num_envs):
    bounds = np.array([0.0, 10.0]), np.array([1.0, 20.0])
    actions = gymnasium.spaces.Dict(
        box=gymnasium.spaces.Box(*bounds, dtype=np.float64), number=gymnasium.spaces.Discrete(2, start=5)
    )
    return gymnasium.vector.SyncVectorEnv([lambda: Echo(actions, gymnasium.spaces.Box(-1, 1, (3,)))] * num_envs)


class Parts(gymnasium.Env):
    """Observes the parts of its last action."""

    def __init__(self):
        spaces = gymnasium.spaces
        self.observation_space = spaces.Dict(
            reach=spaces.Box(-1, 1, (2,), np.float32), grip=spaces.MultiBinary(3), tool=spaces.Box(0, 9, (1,), np.int64)
        )
        self.action_space = spaces.Dict(
            reach=spaces.Box(-1, 1, (2,), np.float32), grip=spaces.MultiBinary(3), tool=spaces.MultiDiscrete([4, 5])
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"reach": np.zeros(2, np.float32), "grip": np.zeros(3, np.int8), "tool": np.zeros(1, np.int64)}, {}

    def step(self, action):
        observation = {"reach": action["reach"], "grip": action["grip"], "tool": action["tool"][:1]}
        return observation, float(action["tool"].sum()), False, False, {}
