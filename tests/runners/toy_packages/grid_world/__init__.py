"""A package that registers its environments when it is imported; the spaces are those of MiniGrid."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Mission(spaces.Space):
    """A space of texts, as some packages have their own."""

    def __init__(self):
        super().__init__(dtype=str)


class Grid(gymnasium.Env):
    """A bright column in one half of a picture; the wanted action names the half and the direction."""

    observation_space = spaces.Dict({
        "image": spaces.Box(0, 255, (9, 8, 3), np.uint8),
        "direction": spaces.Discrete(2),
        "mission": Mission(),
    })
    action_space = spaces.Discrete(4)

    def observe(self):
        self.column, direction = self.np_random.integers(8), self.np_random.integers(2)
        self.wanted = 2 * int(self.column >= 4) + int(direction)
        image = np.full((9, 8, 3), 20, np.uint8)
        image[:, self.column] = 255
        return {"image": image, "direction": direction, "mission": "go to the half"}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.right = 0, 0
        return self.observe(), {}

    def step(self, action):
        right = int(action) == self.wanted
        self.steps += 1
        self.right += right
        over = self.steps == 8
        info = {"is_success": self.right >= 7, "parts": {"right": float(right)}} if over else {"parts": {"right": float(right)}}
        return self.observe(), float(right), over, False, info


class Direction(gymnasium.ObservationWrapper):
    """Shows the direction alone, times `factor`."""

    def __init__(self, env, factor=1.0):
        super().__init__(env)
        self.factor = factor
        self.observation_space = spaces.Box(0, factor, (1,), np.float32)

    def observation(self, observation):
        return np.float32([self.factor * observation["direction"]])


gymnasium.register("grid_world/Grid-v0", Grid)
gymnasium.register("Grid_World-Grid-v0", Grid)
