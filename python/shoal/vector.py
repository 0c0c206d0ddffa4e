"""Shoal's environments as a gymnasium.vector.VectorEnv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space

from . import _core
from .envs import action_space, observation_space
from .parts import _open
from .settings import make_config


class VectorEnv(GymnasiumVectorEnv):
    """`num_envs` environments, stepped by forked workers that write to shared memory.

    env: an id, or a callable that returns a gymnasium.Env.
    workers: forked processes; 0: this one; None: one per core, at most `num_envs`.
    autoreset_mode: NEXT_STEP, Gymnasium's default, or SAME_STEP, in which infos have `final_obs`.
    copy: False: observations are views of shared memory, and stay as they are for the next 7 steps. Stacked frames are
        copies in any case.
    settings: of the environment: see make_config(). `step_limit` and `reset_limit` are in seconds.

    Environments are made by the first reset(), which forks: call it in the main thread. Environment i is seeded with
    seed + i. A later reset() makes them anew, in new workers. Infos hold the numbers that the environment reports in
    its spec, and `action_mask`; other infos of environments in Python are dropped. A lost life that ends an episode
    (atari.episodic_life) is `terminated`, and the game goes on with the next step in both modes.
    """

    def __init__(self, env: str | Callable[..., Any], num_envs: int = 1, workers: int | None = None,
                 autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, copy: bool = False, **settings: Any):
        self.config = make_config(None, env=env, envs=num_envs, workers=0 if workers is None else max(workers, 1), **settings)
        self._workers = _core.worker_count(self.config) if workers is None else workers
        mode = AutoresetMode(autoreset_mode)
        if mode is AutoresetMode.DISABLED:
            raise _core.Error("autoreset_mode: found Disabled, expected NextStep or SameStep")
        self._next_step = mode is AutoresetMode.NEXT_STEP
        self._copy = copy
        self._core: _core.VectorEnv | None = None
        spec = _core.env_spec(self.config)
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        self.render_mode = None
        self.single_observation_space = observation_space(spec)
        self.single_action_space = action_space(spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._stacked = any(array.stack > 1 for array in spec.observations.values())
        self._single = list(spec.observations) == [""]
        _open.add(self)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None):
        """Makes the environments, and begins an episode in each."""
        if options:
            raise _core.Error(f"options: found {options}, expected none; environments take their settings when they are made")
        self._close_workers()
        self._core = _core.VectorEnv(self.config, self._workers, self._seeds(seed), self._next_step)
        rows = self._core.rows()
        arrays = lambda tensors: {name: tensor.numpy() for name, tensor in tensors.items()}  # noqa: E731
        self._observation = arrays(rows["observation"])
        self._action = arrays(rows["action"])
        self._mask = arrays(rows["mask"])
        self._env_info = arrays(rows["env_info"])
        self._reward = rows["reward"].numpy()
        self._terminated = rows["terminated"].numpy()
        self._truncated = rows["truncated"].numpy()
        self._all = np.ones(self.num_envs, dtype=bool)
        row = self._core.row
        return self._observations(row), self._masks(row)

    def step(self, actions):
        """Takes one action in each environment."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions) -> None:
        """Starts a step; step_wait() returns its result. The workers step meanwhile."""
        core = self._opened()
        row = core.row
        for name, to in self._action.items():
            to[row] = actions if name == "" else actions[name]
        core.start()

    def step_wait(self):
        """Waits for the step that step_async() has started."""
        core = self._opened()
        ended = core.finish()
        row = core.row
        before = row - 1
        infos = self._masks(row)
        running = self._all
        if ended:
            running = self._all.copy()
            running[ended] = False
            self._add_finals(infos, ended, ~running, before)
        for name, values in self._env_info.items():
            infos[name] = np.where(running.reshape(-1, *[1] * (values.ndim - 2)), values[before], 0)
            infos["_" + name] = running.copy()
        return (self._observations(row), self._reward[before].astype(np.float64), self._terminated[before].copy(),
                self._truncated[before].copy(), infos)

    send, recv = step_async, step_wait

    def close_extras(self, **_: Any) -> None:
        self._close_workers()

    def _opened(self) -> _core.VectorEnv:
        if self._core is None:
            raise _core.Error("the environments have not begun or are closed; call reset() first")
        return self._core

    def _close_workers(self) -> None:
        if self._core is not None:
            self._core.close()
        self._core = None

    def _seeds(self, seed) -> list[int]:
        if seed is None:
            return [int(x) for x in self.np_random.integers(2**31, size=self.num_envs)]
        if isinstance(seed, (int, np.integer)):
            self._np_random, self._np_random_seed = seeding.np_random(int(seed))
            return [int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise _core.Error(f"seed: found {len(seed)} seeds, expected {self.num_envs}, one for each environment")
        return [int(self.np_random.integers(2**31)) if each is None else int(each) for each in seed]

    def _observations(self, row: int):
        if self._stacked:
            parts = {name: tensor.numpy() for name, tensor in self._core.observation().items()}
        else:
            parts = {name: values[row] for name, values in self._observation.items()}
            if self._copy:
                parts = {name: part.copy() for name, part in parts.items()}
        return self._shaped(parts)

    def _shaped(self, parts: dict[str, np.ndarray]):
        parts = {name: part.view(np.int8) if part.dtype == bool else part for name, part in parts.items()}
        return parts[""] if self._single else parts

    def _masks(self, row: int) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for values in self._mask.values():
            infos["action_mask"] = values[row].copy()
            infos["_action_mask"] = self._all.copy()
        return infos

    def _add_finals(self, infos: dict[str, Any], ended: list[int], mask: np.ndarray, row: int) -> None:
        finals = self._shaped({name: tensor.numpy() for name, tensor in self._core.final_observation().items()})
        objects = np.full(self.num_envs, None, dtype=object)
        for b in ended:
            objects[b] = finals[b].copy() if self._single else {name: part[b].copy() for name, part in finals.items()}
        infos["final_obs"], infos["_final_obs"] = objects, mask
        final_info: dict[str, Any] = {}
        for name, values in self._env_info.items():
            final_info[name] = np.where(mask.reshape(-1, *[1] * (values.ndim - 2)), values[row], 0)
            final_info["_" + name] = mask.copy()
        infos["final_info"], infos["_final_info"] = final_info, mask.copy()
