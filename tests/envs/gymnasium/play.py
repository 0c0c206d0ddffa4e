"""Plays an environment in Python and prints the results, for gymnasium_test.cc to compare.

Usage: play.py ID SEED STEPS. Prints a line per reset and step: reward, terminated, truncated, the observation's numbers."""

import sys

import gymnasium
import numpy as np

env = gymnasium.make(sys.argv[1], disable_env_checker=True)
state, discrete = 1, isinstance(env.action_space, gymnasium.spaces.Discrete)


def tell(observation, reward=0.0, terminated=False, truncated=False):
    numbers = np.asarray(observation, np.float64).ravel()
    print(float(reward), int(terminated), int(truncated), *numbers)
    return terminated or truncated


over = tell(env.reset(seed=int(sys.argv[2]))[0])
for _ in range(int(sys.argv[3])):
    if over:
        over = tell(env.reset()[0])
        continue
    state = (state * 1103515245 + 12345) % 2**31
    if discrete:
        action = np.int64((state >> 16) % env.action_space.n)
    else:
        action = np.full(env.action_space.shape, ((state >> 16) % 5 - 2) / 2, np.float32)
        action = np.clip(action, env.action_space.low, env.action_space.high)
    over = tell(*env.step(action)[:4])
