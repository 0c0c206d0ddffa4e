"""An environment written in Python, in forked workers: walk to the right end of a corridor.

Usage: python examples/python/2_custom_environment.py [steps]
"""

import sys
from typing import Any

import gymnasium
import numpy as np

import shoal


class Corridor(gymnasium.Env[np.ndarray, np.int64]):
    def __init__(self, length: int) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length = length

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.at = max(self.at + (1 if action == 1 else -1), 0)
        done = self.at == self.length
        return np.array([self.at / self.length], np.float32), 1.0 if done else -0.1, done, False, {}


def main(steps: int) -> None:
    agent = shoal.ActorCritic(lambda: Corridor(10), time_limit=100, steps=steps)
    algo = shoal.PPO(agent, learning_rate=1e-3)
    with shoal.Sampler(None, agent, envs=16, workers=2, horizon=64) as sampler:
        while algo.steps < steps:
            batch = sampler.collect()
            algo.update(batch)
            lengths = [episode["length"] for episode in batch.episodes]
            if lengths:
                print(f"{algo.steps:>7} steps  {sum(lengths) / len(lengths):5.1f} steps an episode, 10 are the fewest")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
