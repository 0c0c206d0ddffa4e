"""Environments for the tests."""

import gymnasium
import numpy as np


class Counter(gymnasium.Env):
    """Observes the number of steps in the episode, which has `length` of them. Calls `at_step(steps)` first."""

    def __init__(self, length=5, at_step=lambda steps: None):
        self.observation_space = gymnasium.spaces.Box(-1, 1000, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.length, self.at_step = length, at_step

    def observe(self):
        return np.array([self.steps, self.start], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.start = 0, self.np_random.integers(100)
        return self.observe(), {}

    def step(self, action):
        self.at_step(self.steps)
        self.steps += 1
        return self.observe(), float(action), self.steps == self.length, False, {}
