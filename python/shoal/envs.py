"""Environments from Python: callables as ids, and Gymnasium's spaces of Shoal's environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    import gymnasium

_callables: dict[int, tuple[Callable[..., Any], str]] = {}  # by id(); kept alive by their registration anyway


def env_id(env: str | Callable[..., Any]) -> str:
    """The id of an environment. A callable that returns a gymnasium.Env is registered under a private one.

    Workers are forked, so that closures and lambdas work. The id is of this process alone. A callable keeps its id.
    """
    if isinstance(env, str):
        return env
    if not callable(env):
        raise TypeError(
            f"env: found {env!r}, expected an id such as 'CartPole-v1' or a callable that returns a gymnasium.Env"
        )
    if id(env) in _callables:
        return "gymnasium:" + _callables[id(env)][1]
    import gymnasium

    name = f"shoal/callable{len(_callables)}-v0"

    def make(**_: Any) -> gymnasium.Env[Any, Any]:  # a render_mode may be given, which the callable has chosen itself
        return env()

    gymnasium.register(name, entry_point=make, order_enforce=False, disable_env_checker=True)
    _callables[id(env)] = (env, name)
    return "gymnasium:" + name


def observation_space(spec: _core.EnvSpec, stacked: bool = True) -> gymnasium.Space[Any]:
    """The gymnasium.Space of the observations of an EnvSpec; several arrays are a Dict."""
    return _one_or_dict({name: _array_space(array, stacked) for name, array in spec.observations.items()})


def action_space(spec: _core.EnvSpec) -> gymnasium.Space[Any]:
    """The gymnasium.Space of the actions of an EnvSpec; several parts are a Dict."""
    return _one_or_dict({name: _action_space(part) for name, part in spec.actions.items()})


def _one_or_dict(parts: dict[str, gymnasium.Space[Any]]) -> gymnasium.Space[Any]:
    import gymnasium

    return parts[""] if list(parts) == [""] else gymnasium.spaces.Dict(parts)


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
