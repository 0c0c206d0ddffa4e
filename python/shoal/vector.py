"""Shoal's environments as a gymnasium.vector.VectorEnv."""

from __future__ import annotations

import contextlib
import json
import operator
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Self, Unpack

import gymnasium
import numpy as np
import torch
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space

from . import _core
from .calls import Calls, assign, attribute, call, give_options
from .envs import (
    action_space,
    observation_space,
    parts_of,
    planes,
    spaces_of,
    tables_of,
    value_of,
    with_wrapper,
    wrappers_of,
)
from .parts import _open
from .settings import ENV_SETTINGS, EnvSettings, make_config, require_used


def _arrays(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


class ExactActions(gymnasium.ActionWrapper):
    """Shows the plugin any action as the bytes of its numbers, which it neither rescales, clips nor rounds."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._own, self._parts, end = env.action_space, [], 0
        for name, part, _ in parts_of(self._own):
            begin, end = end, end + int(np.prod(part.shape)) * part.dtype.itemsize
            self._parts.append((name, slice(begin, end), part.dtype, part.shape))
        self.action_space = gymnasium.spaces.Box(0, 255, (end,), np.float32)

    def step(self, action: np.ndarray) -> Any:
        return self.env.step(self.action(action))

    def action(self, action: np.ndarray) -> Any:
        data = action.astype(np.uint8)
        if self._parts[0][0] == "":
            return data.view(self._parts[0][2]).reshape(self._parts[0][3])[()]
        parts = {name: data[at].copy().view(dtype).reshape(shape)[()] for name, at, dtype, shape in self._parts}
        return value_of(self._own, lambda name, _: parts[name])


def _numbers(values: Any, shape: tuple[int, ...], dtype: np.dtype, name: str = "") -> np.ndarray:
    """Actions of this shape and type. Raises Error for others; nothing is broadcast or truncated."""
    found = np.asarray(values)
    if found.shape == shape and found.dtype.kind in ("fiub" if dtype.kind == "f" else "iub"):
        numbers = np.ascontiguousarray(found, dtype)
        if dtype.kind == "f" or found.dtype == dtype or (numbers == found).all():
            return numbers
    raise _core.Error(
        f"actions{name and f'[{name!r}]'}: found {found.dtype} {list(found.shape)}, expected {dtype} {list(shape)}, "
        "with one action for each environment"
    )


def _without_left_out(space: gymnasium.Space, arrays: Container[str], name: str = "") -> gymnasium.Space:
    """The space without those parts of a Dict that have no array."""
    if not isinstance(space, gymnasium.spaces.Dict):
        return space
    kept = {}
    for key, part in space.spaces.items():
        path = f"{name}/{key}" if name else str(key)
        if any(each in arrays for each, _, _ in parts_of(part, name=path)):
            kept[key] = _without_left_out(part, arrays, path)
    return gymnasium.spaces.Dict(list(kept.items())) if kept != dict(space.spaces) else space


def _has_form(array: _core.ArraySpec | None, space: gymnasium.Space) -> bool:
    """Whether the array holds values of the space, maybe with transposed pictures: no setting has changed it."""
    return array is not None and array.stack == 1 and array.shape in (space.shape, planes(space.shape))


def _element(values: Any, b: int) -> Any:
    """That of one environment, copied."""
    if isinstance(values, dict):
        return {name: _element(part, b) for name, part in values.items()}
    return tuple(_element(part, b) for part in values) if isinstance(values, tuple) else values[b].copy()


def _seed_of(i: int, seed: Any) -> int | None:
    if seed is None:
        return None
    with contextlib.suppress(TypeError):
        number = operator.index(seed)
        if 0 <= number < 2**64:
            return number
    raise _core.Error(f"seed[{i}]: found {seed!r}, expected None or an integer from 0 to 2**64 - 1")


class VectorEnv(GymnasiumVectorEnv):
    """`num_envs` environments, stepped by forked workers that write to shared memory.

    env: an id, or a callable that returns a gymnasium.Env.
    workers: forked processes; 0: this one; None: one per core, at most `num_envs`.
    autoreset_mode: NEXT_STEP, Gymnasium's default, or SAME_STEP, in which infos have `final_obs`.
    copy: False saves a copy: observations are views of shared memory, and stay as they are for the next 7 steps only,
        unless a reset() overwrites the newest. Stacked frames are copies in any case.
    settings: of the environment: see make_config(). `step_limit` and `reset_limit` are in seconds, `pin` is a bool.

    Makes the environments and forks: call it in the main thread, and before the process uses CUDA. Environment i is
    seeded with seed + i. Environments in Python have their own spaces, and get actions as Gymnasium's SyncVectorEnv
    gives them. Infos of steps hold the numbers that the environment reports in its spec, and `action_mask`; of other
    infos of environments in Python, those that `info` names, as float32: whole numbers are exact up to 2**24. A lost
    life that ends an episode (atari.episodic_life) is `terminated`, and the game goes on with the next step in both
    modes.
    """

    _nested = True  # whether observations may be a Dict in a Dict, or a Tuple

    def __init__(
        self,
        env: str | Callable[..., Any],
        num_envs: int = 1,
        workers: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Unpack[EnvSettings],
    ) -> None:
        self._core: _core.VectorEnv | None = None
        self._calls: Calls | None = None
        for name, value, least in (("num_envs", num_envs, 1), ("workers", workers or 0, 0)):
            if value < least:
                raise _core.Error(f"{name}: found {value}, expected {least} or more")
        mode = AutoresetMode(autoreset_mode)
        if mode is AutoresetMode.DISABLED:
            raise _core.Error("autoreset_mode: found Disabled, expected NextStep or SameStep")
        self.autoreset_mode = mode
        self._next_step = mode is AutoresetMode.NEXT_STEP
        self._copy = copy
        self._begun = self._stepping = False
        self._reset: tuple[Any, dict[str, Any]] | None = None  # what async_reset() began
        self.num_envs = num_envs
        first = int(self.np_random.integers(1, 2**30))  # environments are told apart by their first seeds
        self._first_seeds = [first + i for i in range(num_envs)]
        tables, also = ENV_SETTINGS
        if settings.get("seed") is not None:
            raise _core.Error("seed: found a setting of a training; give it to reset(seed=...)")
        expected = f"expected one of {', '.join(tables + also)}"
        require_used(make_config(), settings, "a vector environment", ENV_SETTINGS, expected)
        shape = {"envs": num_envs, "workers": 0 if workers is None else max(workers, 1)}
        if callable(env):
            limit = settings.get("step_limit")
            self._calls = Calls(env, self._first_seeds, 60 if limit is None else float(limit))
            weakref.finalize(self, self._calls.close)  # Gymnasium's registry keeps what makes the environments
            env = self._calls.make
        self.config = make_config(None, env=env, **shape, **settings)
        if self._calls:
            self._calls.defer = not wrappers_of(self.config)
        self._workers = _core.worker_count(self.config) if workers is None else workers
        spec, own = spaces_of(self.config)
        self.metadata = {"render_modes": [], **(own.metadata if own else {}), "autoreset_mode": mode}
        self.single_observation_space = observation_space(spec)
        self.single_action_space = action_space(spec)
        self._own_actions, self._own_observations = own is not None, False
        if own is not None:
            self._take_spaces(own.observation, own.action, spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._stacked = any(array.stack > 1 for array in spec.observations.values())
        self._single = list(spec.observations) == [""]
        self._all = np.ones(num_envs, dtype=bool)
        _open.add(self)
        self._make()
        self.render_mode = self.get_attr("render_mode")[0] if self._calls else None

    def _take_spaces(self, observation: gymnasium.Space, action: gymnasium.Space, spec: _core.EnvSpec) -> None:
        """Those of an environment in Python; of observations, unless settings change them."""
        self.single_action_space = action
        if not isinstance(action, gymnasium.spaces.Discrete):
            self.config = with_wrapper(self.config, "shoal.vector.ExactActions")
        arrays = spec.observations
        observation = _without_left_out(observation, arrays)
        parts = {name: part for name, part, _ in parts_of(observation)}
        if all(_has_form(arrays.get(name), part) for name, part in parts.items()):
            nested = self._nested or list(parts) == [""]
            self.single_observation_space = observation if nested else gymnasium.spaces.Dict(list(parts.items()))
            self._own_observations = True

    def _make(self) -> None:
        self._core = _core.VectorEnv(self._asking(), self._workers, self._first_seeds, self._next_step)
        rows = self._core.rows()
        self._observation = _arrays(rows["observation"])
        self._action = _arrays(rows["action"])
        self._mask = _arrays(rows["mask"])
        env_info = _arrays(rows["env_info"])
        self._present = {name[1:]: values for name, values in env_info.items() if name.startswith("?")}
        self._env_info = {name: values for name, values in env_info.items() if not name.startswith("?")}
        self._reward = rows["reward"].numpy()
        self._terminated = rows["terminated"].numpy()
        self._truncated = rows["truncated"].numpy()
        self._began_episode = rows["began"].numpy() if self._next_step else None

    def _asking(self) -> _core.Config:
        """The settings, with which environments in Python also tell which infos a step has: "?NAME"."""
        infos = tables_of(self.config)["env"]["info"]
        if not self._own_actions or not infos:
            return self.config
        config = _core.Config(self.config)
        config.set("env.info", json.dumps([*infos, *("?" + (info.rpartition(":")[0] or info) for info in infos)]))
        return config

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in each environment. Returns observations [num_envs, ...] and infos.

        seed: environment i gets seed + i, or its own of a sequence; without a seed its random generator goes on.
        options: "reset_mask" [num_envs] bool: the environments to reset, None: all. Others go to the environments.

        Infos have `action_mask` alone; those that the environment's reset() returns are left out. Raises as step().
        """
        options = dict(options or {})
        chosen = np.flatnonzero(self._mask_of(options.pop("reset_mask", None)))
        return self.reset_each(self._seeds(seed), [options] * self.num_envs, chosen)

    def reset_each(
        self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]], chosen: np.ndarray | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """reset() of these environments, None: all, with a seed and options for each of the num_envs."""
        core = self._opened()
        self._reset = None
        if self._stepping:
            self.step_wait()
        if chosen is None:
            chosen = np.arange(self.num_envs)
        if len(options) != self.num_envs:
            raise _core.Error(f"options: found {len(options)}, expected {self.num_envs}, one for each environment")
        for given in {id(options[b]): options[b] for b in chosen if options[b]}.values():
            if self._calls is None:
                raise _core.Error(
                    f"options: found {given}, expected none but 'reset_mask'; {self.config.env_id} takes its "
                    "settings when it is made"
                )
            self.ask(give_options, (given,), [b for b in chosen.tolist() if options[b] is given])
        try:
            core.reset(chosen.tolist(), [seeds[b] for b in chosen])
        except BaseException:
            self._close_workers()
            raise
        self._begun = True
        return self._observations(core.row), self._masks(core.row, chosen)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes one action in each environment.

        actions: a batch of the action space: [num_envs, ...].

        Returns observations [num_envs, ...], rewards [num_envs] float64, terminated and truncated [num_envs] bool, and
        infos. Raises WorkerError if a worker died or its environment raised an exception (without workers Error), and
        DataError for a number that is not finite; all of them close the environments.
        """
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Starts a step; step_wait() returns its result. The workers step meanwhile."""
        core = self._opened()
        if self._reset is not None:
            raise _core.Error("the observations of async_reset() wait; call recv() first")
        if not self._begun or self._stepping:
            raise _core.Error(
                "a step is under way; call step_wait() first"
                if self._stepping
                else "the environments have not begun; call reset() first"
            )
        self._write(actions, core.row)
        core.start()
        self._stepping = True

    def _write(self, actions: Any, row: int) -> None:
        space, count = self.single_action_space, self.num_envs
        if not self._own_actions:
            for name, to in self._action.items():
                to[row] = _numbers(actions if name == "" else actions[name], to.shape[1:], to.dtype, name)
        elif isinstance(space, gymnasium.spaces.Discrete):
            numbers, first = _numbers(actions, (count,), np.dtype(np.int64)), int(space.start)
            if first != 0:
                for b in np.flatnonzero((numbers < first) | (numbers >= first + space.n))[:1]:
                    raise _core.Error(
                        f"environment {b}: found the action {numbers[b]}, expected {first} to {first + space.n - 1}"
                    )
                numbers = numbers - first
            self._action[""][row] = numbers  # start() checks them
        else:
            parts = [
                _numbers(value, (count, *part.shape), part.dtype, name).reshape(count, -1).view(np.uint8)
                for name, part, value in parts_of(space, actions)
            ]
            self._action[""][row] = np.concatenate(parts, axis=1)

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Waits for the step that step_async() has started; returns and raises as step()."""
        core = self._opened()
        if not self._stepping:
            raise _core.Error("no step is under way; call step_async() first")
        self._stepping, started = False, core.row
        try:
            ended = core.finish()
        except BaseException:
            if core.row == started:  # a worker has failed or is in the middle of its step
                self._close_workers()
            self._begun = False  # nobody has seen the result
            raise
        row = core.row
        before = row - 1
        infos = self._masks(row)
        running = self._all if self._began_episode is None else ~self._began_episode[before]
        if ended:
            running = running.copy()
            running[ended] = False
            self._add_finals(infos, ended, ~running, before)
        self._add_infos(infos, running, before)
        return (
            self._observations(row),
            self._reward[before].astype(np.float64),
            self._terminated[before].copy(),
            self._truncated[before].copy(),
            infos,
        )

    def async_reset(self, *, seed: int | Sequence[int | None] | None = None) -> None:
        """Begins an episode in each environment, as EnvPool's: the next recv() returns the observations."""
        self._reset = self.reset(seed=seed)

    def send(self, actions: Any, env_id: Any = None) -> None:
        """step_async() as EnvPool's send(). env_id: the `env_id` of recv()'s infos, or None: all environments."""
        if env_id is not None and not np.array_equal(env_id, np.arange(self.num_envs)):
            raise _core.Error(
                f"env_id: found {env_id!r}, expected all {self.num_envs} environments in order: they step together"
            )
        self.step_async(actions)

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """step_wait() as EnvPool's recv(): infos have `env_id`, too. After async_reset(), rewards are zeros."""
        if self._reset is None:
            observation, reward, terminated, truncated, infos = self.step_wait()
        else:
            (observation, infos), self._reset = self._reset, None
            reward, terminated = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
            truncated = terminated.copy()
        infos["env_id"] = np.arange(self.num_envs)
        return observation, reward, terminated, truncated, infos

    def render(self) -> tuple[Any, ...]:
        """The results of render() of each environment."""
        return tuple(self.call("render"))

    def call(self, name: str, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        """The method of each environment, called in its worker. A callable must have made the environments."""
        return tuple(self.ask(call, (name, arguments, keywords)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute of each environment, as call()."""
        return tuple(self.ask(attribute, (name,)))

    def set_attr(self, name: str, values: Any) -> None:
        """Sets the attribute of each environment, as call(); a list or tuple has one value for each."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"values: found {len(values)}, expected {self.num_envs}, one for each environment")
        for b, value in enumerate(values):
            self.ask(assign, (name, value), [b])

    def all_legal(self) -> np.ndarray | None:
        """Action masks [num_envs, choices] bool of which all are true; None if the environments have none."""
        return next((np.ones_like(values[0]) for values in self._mask.values()), None)

    @property
    def in_python(self) -> bool:
        """Whether the environments can be asked: they were made by a callable."""
        return self._calls is not None

    def ask(self, act: Callable[..., Any], arguments: tuple, envs: Iterable[int] | None = None) -> list[Any]:
        """See Calls.ask(); envs: None: all."""
        self._opened()
        if self._calls is None:
            raise AttributeError(
                f"{arguments[0]}: {self.config.env_id} has no attributes and methods in Python; give a "
                "callable that returns a gymnasium.Env"
            )
        if self._stepping:
            raise _core.Error(f"{arguments[0]}: a step is under way; call step_wait() first")
        return self._calls.ask(act, arguments, range(self.num_envs) if envs is None else envs)

    def last_scores(self) -> np.ndarray:
        """Rewards of the last step, before they are clipped or scaled where the environment reports them as `score`."""
        return self._env_info.get("score", self._reward)[self._opened().row - 1]

    def close_extras(self, **_: Any) -> None:
        self._close_workers()
        if self._calls:
            self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"VectorEnv({self.config.env_id!r}, num_envs={self.num_envs}, workers={self._workers})"

    def _opened(self) -> _core.VectorEnv:
        if self.closed:
            raise _core.Error("the environments are closed")
        if self._core is None:
            raise _core.Error("the environments ended with an exception; make them anew")
        return self._core

    def _close_workers(self) -> None:
        if self._core is not None:
            self._core.close()
        self._core = None
        self._begun = self._stepping = False

    def _mask_of(self, mask) -> np.ndarray:
        if mask is None:
            return self._all
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise _core.Error(
                f"options['reset_mask']: found {mask!r}, expected an array of {self.num_envs} bools, not all "
                "of them False"
            )
        return mask

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            self._np_random, self._np_random_seed = seeding.np_random(int(seed))
            seed = [int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise _core.Error(f"seed: found {len(seed)} seeds, expected {self.num_envs}, one for each environment")
        return [_seed_of(i, each) for i, each in enumerate(seed)]

    def _observations(self, row: int) -> Any:
        if self._stacked:
            parts = _arrays(self._opened().observation())
        else:
            parts = {name: values[row] for name, values in self._observation.items()}
            if self._copy:
                parts = {name: part.copy() for name, part in parts.items()}
        return self._shaped(parts)

    def _shaped(self, parts: dict[str, np.ndarray]) -> Any:
        if not self._own_observations:
            parts = {name: part.view(np.int8) if part.dtype == bool else part for name, part in parts.items()}
            return parts[""] if self._single else parts

        def own(name: str, space: Any) -> np.ndarray:
            part = parts[name]
            if part.shape[1:] != space.shape:  # planes of pictures
                *pictures, height, width, channels = space.shape
                part = np.moveaxis(part.reshape(len(part), *pictures, channels, height, width), -3, -1)
            return part.view(space.dtype) if part.dtype == bool else part.astype(space.dtype, copy=False)

        space = self.single_observation_space
        return own("", space) if self._single else value_of(space, own)

    def _masks(self, row: int, envs: np.ndarray | None = None) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for values in self._mask.values():
            infos["action_mask"] = values[row].copy()
            infos["_action_mask"] = self._all.copy() if envs is None else np.isin(np.arange(self.num_envs), envs)
        return infos

    def _add_infos(self, infos: dict[str, Any], envs: np.ndarray, row: int) -> None:
        """Those of these environments, a mask; 0 where there is none."""
        for name, values in self._env_info.items():
            present = envs & self._present[name][row].astype(bool) if name in self._present else envs.copy()
            infos[name] = np.where(present.reshape(-1, *[1] * (values.ndim - 2)), values[row], 0)
            infos["_" + name] = present

    def _add_finals(self, infos: dict[str, Any], ended: list[int], mask: np.ndarray, row: int) -> None:
        finals = self._shaped(_arrays(self._opened().final_observation()))
        objects = np.full(self.num_envs, None, dtype=object)
        for b in ended:
            objects[b] = _element(finals, b)
        infos["final_obs"], infos["_final_obs"] = objects, mask
        final_info: dict[str, Any] = {}
        self._add_infos(final_info, mask, row)
        infos["final_info"], infos["_final_info"] = final_info, mask.copy()
