"""Vector environments for gymnasium_vector_test.cc, as `gymnasium:toy_vectors:sync` with the setting gymnasium.vector."""

import gymnasium
import numpy as np
import toy_gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Reporting(gymnasium.Wrapper):
    """Infos: a mask that allows one of the actions, the number of the step, and one that the last step has not."""

    def reset(self, **kwargs):
        observation, _ = super().reset(**kwargs)
        self.steps = 0
        return observation, {**self.info(), "early": 100.0}

    def step(self, action):
        observation, reward, _, _, _ = super().step(action)
        self.steps += 1
        info = {**self.info(), "of": {"step": float(self.steps)}}
        if self.steps < 3:
            info["early"] = float(self.steps)
        return observation, reward, self.steps == 3, False, info

    def info(self):
        return {"action_mask": np.int8([self.steps % 2, 1 - self.steps % 2])}


def sync(num_envs, mode, env="Echo", **kwargs):
    def make():
        one = getattr(toy_gymnasium, env)(**kwargs)
        return one if env == "Echo" else Reporting(one)
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode(mode))


class OneSeed(SyncVectorEnv):
    """Accepts one seed for all environments."""

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, int)
        return super().reset(seed=seed, options=options)


def one_seed(num_envs):
    return OneSeed([toy_gymnasium.Echo] * num_envs)


def oddly(num_envs):
    env = SyncVectorEnv([toy_gymnasium.Numbers] * num_envs)
    env.metadata = {"autoreset_mode": "Sometimes"}
    return env


def too_few(num_envs):
    return SyncVectorEnv([toy_gymnasium.Numbers] * max(1, num_envs - 1))


def raises(num_envs):
    return SyncVectorEnv([toy_gymnasium.Raises] * num_envs)


gymnasium.register("OnlyVectors-v0", entry_point=None, vector_entry_point=one_seed)
