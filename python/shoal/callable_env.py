"""The environments that callables return."""

from __future__ import annotations

import weakref
from typing import Any

import gymnasium

from . import _core


class CallableEnv(gymnasium.Wrapper):
    """Changes nothing. It lives as long as the environment is in use, and has attributes that the user's own lacks."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        # Calls that pass through nothing cost nothing more, and reset() gets the arguments that are given, no others.
        self.reset, self.step = env.reset, env.step  # type: ignore[method-assign]


_in_use: weakref.WeakValueDictionary[int, CallableEnv] = weakref.WeakValueDictionary()  # by id() of the innermost one


def in_use(env: Any) -> Any:
    """The environment of a callable. Raises Error if another one of this process is the same object."""
    if not isinstance(env, gymnasium.Env):
        return env
    if id(env.unwrapped) in _in_use:
        raise _core.Error(
            f"env: found the environment {env} again, which is in use, expected a new one from each call; make it in "
            "the callable, as in lambda: gymnasium.make(...)"
        )
    wrapped = CallableEnv(env)
    _in_use[id(env.unwrapped)] = wrapped
    return wrapped
