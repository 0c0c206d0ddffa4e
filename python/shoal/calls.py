"""Calls of environments in Python that forked workers step: render(), attributes, methods."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.pool import RemoteTraceback
from typing import Any

import gymnasium

from . import _core
from .callable_env import CallableEnv


class Calls:
    """Reaches the environments that a callable makes, one for each of these seeds, in any process that is forked later.

    The environment whose first reset() has seeds[i] is environment i. A thread of its process answers. The environments
    must not be in a step meanwhile.
    """

    def __init__(self, make: Callable[..., Any], seeds: Sequence[int], seconds: float) -> None:
        self._make, self._seeds, self._seconds = make, seeds, seconds
        # The first reset() begins no episode, so that the environment's first one is the user's. Wrappers outside of
        # the callable would notice.
        self.defer = False
        try:
            self._pipes = [multiprocessing.Pipe() for _ in seeds]
        except OSError as error:
            raise _core.Error(
                f"num_envs: found {len(seeds)} environments of a callable, each of which needs two open files of this "
                f"process; raise their limit (ulimit -n), or give an id: {error}"
            ) from None
        self._requests = 0

    def make(self, **kwargs: Any) -> Any:
        """Makes an environment that can be reached."""
        env = self._make(**kwargs)
        if not isinstance(env, gymnasium.Env):
            return env
        given: dict[str, Any] = {}  # the options of the next reset()
        waits = True

        def reset(*, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            nonlocal waits
            if waits and seed in self._seeds:
                waits = False
                arguments = (self._pipes[self._seeds.index(seed)][1], env, given)
                threading.Thread(target=_answer, args=arguments, daemon=True).start()
                if self.defer:
                    with contextlib.suppress(Exception):  # a space that cannot be sampled
                        return _placeholder(env)
            now = {**(options or {}), **given}
            given.clear()
            return env.reset(seed=seed, **({"options": now} if now else {}))

        reached = CallableEnv(env)  # a copy of the user's environment must not reset the original
        reached.reset = reset  # type: ignore[method-assign]
        return reached

    def ask(self, act: Callable[..., Any], arguments: tuple, envs: Iterable[int]) -> list[Any]:
        """act(env, options, *arguments) of these environments, in their processes. Raises the first exception."""
        envs = list(envs)
        self._requests += 1
        for b in envs:
            self._pipes[b][0].send((self._requests, act, arguments))
        answers = [self._answer_of(b) for b in envs]
        for b, (result, failure) in zip(envs, answers, strict=True):
            if failure:
                raise result from RemoteTraceback(f"environment {b}:\n{failure}")
        return [result for result, _ in answers]

    def close(self) -> None:
        for here, _ in self._pipes:
            here.close()
        self._pipes.clear()  # the other ends close with their last user

    def _answer_of(self, b: int) -> tuple[Any, str]:
        """The result and "", or an exception and its traceback."""
        pipe, end = self._pipes[b][0], time.monotonic() + self._seconds
        while pipe.poll(max(end - time.monotonic(), 0)):
            request, result, failure = pipe.recv()
            if request == self._requests:  # others are late answers of calls that were given up
                return result, failure
        raise _core.Error(
            f"environment {b} did not answer a call within {self._seconds:g} s; its worker is busy or "
            "has died: make the environments anew"
        )


def _placeholder(env: Any) -> tuple[Any, dict[str, Any]]:
    """An observation and an info that nobody sees."""
    observation = copy.deepcopy(env.observation_space).sample()  # the generator of the space stays as it is
    choices = env.action_space.n if isinstance(env.action_space, gymnasium.spaces.Discrete) else 0
    return observation, {"action_mask": [True] * choices}


def _answer(pipe, env: Any, options: dict[str, Any]) -> None:
    while True:
        try:
            request, act, arguments = pipe.recv()
        except (EOFError, OSError):  # closed
            return
        failure = ""
        try:
            result = act(env, options, *arguments)
        except Exception as error:
            result, failure = error, traceback.format_exc()
        pipe.send_bytes(_pickled(request, result, failure))


def _pickled(request: int, result: Any, failure: str) -> bytes:
    try:
        data = pickle.dumps((request, result, failure))
        if failure:
            pickle.loads(data)  # fails for classes whose __init__() takes other arguments than `args`
        return data
    except Exception as error:
        lines = traceback.format_exception_only(result) if failure else [f"the result {type(result).__name__}"]
        refused = RuntimeError(
            f"found {''.join(lines).strip()}, which cannot be sent from a worker, expected what pickle accepts: {error}"
        )
        return pickle.dumps((request, refused, failure or traceback.format_exc()))


def attribute(env: Any, options: dict[str, Any], name: str) -> Any:
    return env.get_wrapper_attr(name)


def call(env: Any, options: dict[str, Any], name: str, arguments: tuple, keywords: dict[str, Any]) -> Any:
    found = env.get_wrapper_attr(name)
    return found(*arguments, **keywords) if callable(found) else found


def has_attribute(env: Any, options: dict[str, Any], name: str) -> bool:
    return env.has_wrapper_attr(name)


def assign(env: Any, options: dict[str, Any], name: str, value: Any) -> None:
    env.set_wrapper_attr(name, value)


def is_wrapped(env: Any, options: dict[str, Any], wrapper: type) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, wrapper):
            return True
        env = env.env
    return False


def give_options(env: Any, options: dict[str, Any], given: dict[str, Any]) -> None:
    """The next reset() gets these options."""
    options.update(given)
