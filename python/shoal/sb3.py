"""Shoal's environments as a VecEnv of Stable-Baselines3."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import gymnasium
import numpy as np
from gymnasium.spaces import MultiBinary
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv as StableVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from .calls import assign, attribute, call, has_attribute, is_wrapped
from .settings import EnvSettings
from .vector import VectorEnv, _element


class _FlatVectorEnv(VectorEnv):
    _nested = False  # Stable-Baselines3 accepts neither a Dict in a Dict nor a Tuple


class VecEnv(StableVecEnv):
    """`n_envs` environments for Stable-Baselines3, stepped by forked workers that write to shared memory.

    env: an id, or a callable that returns a gymnasium.Env.
    workers: forked processes; 0: this one; None: one per core, at most `n_envs`.
    seed: environment i is seeded with seed + i, until seed() gives another one.
    settings: of the environment: see shoal.make_config().

    It forks: make it in the main thread, and before the process uses CUDA. Infos have `episode`, as those of SB3's
    Monitor do. Attributes, methods and render() are those of environments in Python, made by a callable;
    `env_method("action_masks")` works with all that have action masks.
    """

    def __init__(
        self,
        env: str | Callable[..., Any],
        n_envs: int = 1,
        workers: int | None = None,
        seed: int | None = None,
        **settings: Unpack[EnvSettings],
    ):
        self._vector = _FlatVectorEnv(env, n_envs, workers, AutoresetMode.SAME_STEP, copy=True, **settings)
        self._masks = self._vector.all_legal()
        super().__init__(n_envs, self._vector.single_observation_space, self._vector.single_action_space)
        self._begin = time.monotonic()
        if seed is not None:
            self.seed(seed)

    def reset(self) -> VecEnvObs:
        """Begins an episode in each environment. Returns observations [n_envs, ...]; raises as step_wait()."""
        observation, infos = self._vector.reset_each(self._seeds, self._options)
        self._reset_seeds()
        self._reset_options()
        self._masks = infos.get("action_mask")
        self.reset_infos = [_info_of(infos, b) for b in range(self.num_envs)]
        self._returns, self._lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=np.int64)
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        """Starts a step with actions [n_envs, ...]; the workers step meanwhile."""
        if isinstance(self.action_space, MultiBinary):
            actions = actions.astype(self.action_space.dtype)  # SB3's Bernoulli distribution draws floats
        self._vector.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Returns observations [n_envs, ...], rewards [n_envs] float32, dones [n_envs] bool, and a list of infos.

        Raises WorkerError (without workers Error) or DataError if an environment fails, which closes all of them.
        """
        observation, reward, terminated, truncated, infos = self._vector.step_wait()
        self._masks = infos.get("action_mask")
        self._returns += self._vector.last_scores()
        self._lengths += 1
        each = [{**_info_of(infos, b), "TimeLimit.truncated": False} for b in range(self.num_envs)]
        done = terminated | truncated
        for b in np.flatnonzero(done):
            each[b]["TimeLimit.truncated"] = bool(truncated[b] and not terminated[b])
            if "final_obs" in each[b]:
                self._end(b, each[b])
            else:  # a lost life: the game goes on
                each[b]["terminal_observation"] = _element(observation, b)
        return observation, reward.astype(np.float32), done, each

    def _end(self, b: int, info: dict[str, Any]) -> None:
        self.reset_infos[b] = {name: info[name] for name in ("action_mask",) if name in info}
        info["terminal_observation"] = info.pop("final_obs")
        info.update(info.pop("final_info", {}))
        info["episode"] = {
            "r": round(float(self._returns[b]), 6),
            "l": int(self._lengths[b]),
            "t": round(time.monotonic() - self._begin, 6),
        }
        self._returns[b] = self._lengths[b] = 0

    def close(self) -> None:
        """Ends the workers."""
        self._vector.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Calls render() of each environment."""
        return self._all(call, ("render", (), {}))

    def has_attr(self, attr_name: str) -> bool:
        """Whether all environments have it."""
        if attr_name == "render_mode" or (attr_name == "action_masks" and self._masks is not None):
            return True
        return self._vector.in_python and all(self._all(has_attribute, (attr_name,)))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The attribute of each environment: a copy, which can be pickled."""
        if attr_name == "action_masks" and self._masks is not None:
            return [lambda b=b: self._masks[b] for b in self._get_indices(indices)]
        if attr_name == "render_mode" and not self._vector.in_python:
            return [None for _ in self._get_indices(indices)]
        return self._all(attribute, (attr_name,), indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets the attribute of each environment."""
        self._all(assign, (attr_name, value), indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls the method of each environment. The results are copies, which can be pickled."""
        if method_name == "action_masks" and self._masks is not None:
            return [self._masks[b] for b in self._get_indices(indices)]
        return self._all(call, (method_name, method_args, method_kwargs), indices)

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Whether each environment has this wrapper; Monitor is built in."""
        if issubclass(wrapper_class, Monitor) or not self._vector.in_python:
            return [issubclass(wrapper_class, Monitor) for _ in self._get_indices(indices)]
        return self._all(is_wrapped, (wrapper_class,), indices)

    def __repr__(self) -> str:
        return f"sb3.{self._vector!r}"

    def _all(self, act: Callable[..., Any], arguments: tuple, indices: VecEnvIndices = None) -> list[Any]:
        return self._vector.ask(act, arguments, self._get_indices(indices))


def _info_of(infos: dict[str, Any], b: int) -> dict[str, Any]:
    """That of one environment."""
    return {
        name: _info_of(value, b) if isinstance(value, dict) else value[b]
        for name, value in infos.items()
        if not name.startswith("_") and infos["_" + name][b]
    }
