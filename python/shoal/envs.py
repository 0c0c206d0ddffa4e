"""Environments from Python: callables as ids, Gymnasium's spaces of Shoal's environments, and values of spaces."""

from __future__ import annotations

import contextlib
import json
import pickle
import tempfile
import threading
import tomllib
import uuid
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from . import _core
from .packages import needs

if TYPE_CHECKING:
    import gymnasium

_PREFIX = "gymnasium:shoal/callable"


class _EntryPoint:
    """Makes the environments of a callable. Pickled with them, in their specs, as a name."""

    def __init__(self, name: str, env: Callable[..., Any] | None = None) -> None:
        self.name, self._env = name, env

    def __call__(self, render_mode: str | None = None, **kwargs: Any) -> Any:
        if self._env is None:
            raise _core.Error(f"{self.name}: found an environment of another process, expected one of this process")
        from .callable_env import in_use

        return in_use(self._env(**kwargs))  # which has chosen its render_mode

    def __reduce__(self) -> Any:
        return _EntryPoint, (self.name,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


_callables: dict[int, _EntryPoint] = {}  # by id(), of callables that they keep alive


def env_id(env: str | Callable[..., Any]) -> str:
    """The id of an environment. A callable that returns a gymnasium.Env is registered under a private one.

    Workers are forked, so that closures and lambdas work. The id is of this process alone, and no other process gives
    it to another callable. A callable keeps its id.
    """
    if isinstance(env, str):
        return env
    if not callable(env):
        raise TypeError(
            f"env: found {env!r}, expected an id such as 'CartPole-v1' or a callable that returns a gymnasium.Env"
        )
    if id(env) in _callables:
        return _callables[id(env)].name
    with needs("Gymnasium", "a callable as an environment"):
        import gymnasium

    name = f"{_PREFIX}-{uuid.uuid4().hex}-v0"
    made = _EntryPoint(name, env)
    gymnasium.register(name.removeprefix("gymnasium:"), entry_point=made, order_enforce=False, disable_env_checker=True)
    _callables[id(env)] = made
    return name


def is_callable_id(env_id: str) -> bool:
    """Whether this process or another one gave this id to a callable."""
    return env_id.startswith(_PREFIX)


def require_known(config: _core.Config, folder: Any, call: str) -> None:
    """Raises Error if a run was trained with a callable that this process does not have."""
    if is_callable_id(config.env_id) and all(made.name != config.env_id for made in _callables.values()):
        raise _core.Error(
            f"{folder}: found a run whose environment is a callable of another process, expected the callable; "
            f"give it: {call}"
        )


def observation_space(spec: _core.EnvSpec, stacked: bool = True) -> gymnasium.Space[Any]:
    """The gymnasium.Space of the observations of an EnvSpec; several arrays are a Dict."""
    return _one_or_dict({name: _array_space(array, stacked) for name, array in spec.observations.items()})


def action_space(spec: _core.EnvSpec) -> gymnasium.Space[Any]:
    """The gymnasium.Space of the actions of an EnvSpec; several parts are a Dict."""
    return _one_or_dict({name: _action_space(part) for name, part in spec.actions.items()})


def _one_or_dict(parts: dict[str, gymnasium.Space[Any]]) -> gymnasium.Space[Any]:
    import gymnasium

    return parts[""] if list(parts) == [""] else gymnasium.spaces.Dict(list(parts.items()))


def _array_space(array: _core.ArraySpec, stacked: bool) -> gymnasium.Space[Any]:
    import gymnasium
    import numpy as np

    shape = (array.stack, *array.shape) if stacked and array.stack > 1 else array.shape
    if array.dtype == "bool":
        return gymnasium.spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    dtype = np.dtype(array.dtype)
    low, high = array.low, array.high
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        low, high = max(low, limits.min), min(high, limits.max)
    return gymnasium.spaces.Box(np.full(shape, low).astype(dtype), np.full(shape, high).astype(dtype), dtype=dtype.type)


def _action_space(part: _core.ActionSpec) -> gymnasium.Space[Any]:
    import gymnasium
    import numpy as np

    spaces = gymnasium.spaces
    if part.kind == "discrete":
        return spaces.Discrete(part.choices[0])
    if part.kind == "multi-discrete":
        return spaces.MultiDiscrete(part.choices)
    if part.kind == "multi-binary":
        return spaces.MultiBinary(part.dims)
    return spaces.Box(np.float32(part.low), np.float32(part.high), (part.dims,), np.float32)


def tables_of(config: _core.Config) -> dict[str, Any]:
    """The settings by table: tables_of(config)["env"]["info"]."""
    return tomllib.loads(config.to_toml())


def wrappers_of(config: _core.Config) -> list[str]:
    """The setting gymnasium.wrappers."""
    return tables_of(config)["gymnasium"]["wrappers"]


def with_wrapper(config: _core.Config, wrapper: str) -> _core.Config:
    """A copy whose environments in Python have this wrapper around all others."""
    config = _core.Config(config)
    config.set("gymnasium.wrappers", json.dumps([*wrappers_of(config), wrapper]))
    return config


class Spaces(NamedTuple):
    """Spaces and metadata of an environment in Python."""

    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]
    metadata: dict[str, Any]


_report = threading.local()


def report_spaces(env: Any) -> Any:
    """A wrapper that changes nothing: it writes the Spaces for spaces_of(), in the process that makes the environment.

    Of a vector environment they are those of a single one.
    """
    import cloudpickle  # type: ignore[import-untyped]  # Gymnasium needs it; spaces may hold lambdas
    import gymnasium

    single = "" if isinstance(env, gymnasium.Env) else "single_"
    file: IO[bytes] | None = getattr(_report, "file", None)
    if file is not None:
        with contextlib.suppress(Exception):  # they cannot be pickled: spaces_of() knows none
            spaces = [getattr(env, f"{single}{kind}_space") for kind in ("observation", "action")]
            file.write(cloudpickle.dumps((Spaces(*spaces, getattr(env, "metadata", None) or {}), single != "")))
            file.flush()
    return env


def spaces_of(config: _core.Config, of_vectors: bool = False) -> tuple[_core.EnvSpec, Spaces | None]:
    """The spec, and, of an environment in Python, its own spaces; those of vector environments only with of_vectors."""
    if not config.env_id.startswith(("gymnasium:", "pettingzoo:")):
        return _core.env_spec(config), None
    with tempfile.TemporaryFile() as file:
        _report.file = file
        try:
            spec = _core.env_spec(with_wrapper(config, "shoal.envs.report_spaces"))
        finally:
            _report.file = None
        file.seek(0)
        reported = file.read()
    spaces, is_vector = pickle.loads(reported) if reported else (None, True)
    return spec, spaces if of_vectors or not is_vector else None


def parts_of(space: Any, value: Any = None, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Name, space and value of each part, which has no parts itself; "a/b" is value["a"]["b"], as in an EnvSpec."""
    import gymnasium

    if isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        keys = space.spaces if isinstance(space, gymnasium.spaces.Dict) else range(len(space.spaces))
        for key in keys:
            part = None if value is None else value[key]
            yield from parts_of(space[key], part, f"{name}/{key}" if name else str(key))
    else:
        yield name, space, value


def value_of(space: Any, part: Callable[[str, Any], Any], name: str = "") -> Any:
    """A value of a space, whose parts are part(name, space)."""
    import gymnasium

    def below(key: Any) -> Any:
        return value_of(space[key], part, f"{name}/{key}" if name else str(key))

    if isinstance(space, gymnasium.spaces.Dict):
        return {key: below(key) for key in space.spaces}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(below(key) for key in range(len(space.spaces)))
    return part(name, space)


def planes(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape that Shoal gives a channels-last picture, or several; None for other shapes."""
    if shape is None or len(shape) not in (3, 4):
        return None
    *pictures, height, width, channels = shape
    return (channels * (pictures[0] if pictures else 1), height, width)


def env_action(space: Any, action: Any) -> Any:
    """An action of an agent, as the environment takes it: what the plugin does (plugins/gymnasium/spaces.cc)."""
    import gymnasium
    import numpy as np

    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action) + int(space.start)
    action = action.reshape(space.shape)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        action = action + space.start
    elif isinstance(space, gymnasium.spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        low, high = np.where(low <= -1e30, -np.inf, low), np.where(high >= 1e30, np.inf, high)
        differ = (low != low.min()).any() or (high != high.max()).any()
        if differ and np.isfinite(low).all() and np.isfinite(high).all():
            action = low + (action.astype(np.float64) + 1) / 2 * (high - low)
        action = np.clip(action, low, high)
    return action.astype(space.dtype)
