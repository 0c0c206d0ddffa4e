"""The environments that callables return."""

from __future__ import annotations

import weakref
from typing import Any

import gymnasium

from . import _core


class CallableEnv(gymnasium.Wrapper):
    """Changes nothing. It lives as long as the environment is in use; its reset() can be replaced, not the user's."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        # Without a call of the wrapper, and reset() without an argument that the caller has left out.
        self.reset, self.step = env.reset, env.step  # type: ignore[method-assign]

    def __reduce__(self) -> Any:
        return CallableEnv, (self.env,)


_in_use: weakref.WeakValueDictionary[int, CallableEnv] = weakref.WeakValueDictionary()  # by id() of the innermost one


def in_use(env: Any) -> Any:
    """The environment of a callable. Raises Error if another one of this process is the same object."""
    if not isinstance(env, gymnasium.Env):
        return env
    innermost = env.unwrapped
    other = _in_use.get(id(innermost))
    if other is not None and other.unwrapped is innermost:  # a wrapper may have replaced it, and its id is free again
        raise _core.Error(
            f"env: found the environment {env} again, which is in use, expected a new one from each call; make it in "
            "the callable, as in lambda: gymnasium.make(...)"
        )
    wrapped = CallableEnv(env)
    _in_use[id(innermost)] = wrapped
    return wrapped
