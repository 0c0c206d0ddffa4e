"""Calls of environments in Python that forked workers step: render(), attributes, methods."""

from __future__ import annotations

import multiprocessing
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _core


class Calls:
    """Reaches the environments that a callable makes, in any process that is forked after begin().

    A thread of that process answers. The environments must not be in a step meanwhile.
    """

    def __init__(self, make: Callable[[], Any], seconds: float):
        self._make, self._seconds = make, seconds
        self._seeds: list[int] = []
        self._options: dict[str, Any] = {}
        self._pipes: list[tuple[Any, Any]] = []

    def begin(self, seeds: Sequence[int], options: dict[str, Any]) -> None:
        """Environments will be made anew. Environment i is the one whose first reset() has seeds[i].

        options: of that reset.
        """
        self.close()
        self._seeds, self._options = list(seeds), options
        self._pipes = [multiprocessing.Pipe() for _ in seeds]

    @property
    def can_ask(self) -> bool:
        """Environments are told apart by their seeds."""
        return len(set(self._seeds)) == len(self._seeds)

    def make(self) -> Any:
        """Makes an environment that can be reached."""
        env = self._make()
        reset, waits = env.reset, True

        def first_reset(*, seed=None, **keywords):
            nonlocal waits
            if waits and seed in self._seeds:
                waits = False
                pipe = self._pipes[self._seeds.index(seed)][1]
                if self.can_ask:
                    threading.Thread(target=_answer, args=(pipe, env), daemon=True).start()
                keywords = {"options": self._options} if self._options else {}
            return reset(seed=seed, **keywords)

        env.reset = first_reset
        return env

    def ask(self, act: Callable[..., Any], arguments: tuple, envs: Iterable[int]) -> list[Any]:
        """act(env, *arguments) of these environments, in their processes. Raises the exception of the first."""
        envs = list(envs)
        if not self.can_ask:
            raise _core.Error(
                f"found the seeds {self._seeds}, expected different ones: environments are told apart by them"
            )
        for b in envs:
            self._pipes[b][0].send((act, arguments))
        answers = [self._answer_of(b) for b in envs]
        for succeeded, result in answers:
            if not succeeded:
                raise result
        return [result for _, result in answers]

    def close(self) -> None:
        for here, _ in self._pipes:
            here.close()
        self._pipes.clear()  # the other ends close with their last user

    def _answer_of(self, b: int) -> tuple[bool, Any]:
        pipe = self._pipes[b][0]
        if not pipe.poll(self._seconds):
            raise _core.Error(
                f"environment {b} did not answer a call within {self._seconds:g} s; its worker is busy or "
                "has died: make the environments anew"
            )
        return pipe.recv()


def _answer(pipe, env: Any) -> None:
    while True:
        try:
            act, arguments = pipe.recv()
        except (EOFError, OSError):  # closed
            return
        failure = ""
        try:
            answer = (True, act(env, *arguments))
        except Exception as error:
            answer, failure = (False, error), traceback.format_exc()
        try:
            pipe.send(answer)
        except Exception as error:  # it cannot be pickled
            pipe.send((False, RuntimeError(failure or str(error))))


def attribute(env: Any, name: str) -> Any:
    return env.get_wrapper_attr(name)


def call(env: Any, name: str, arguments: tuple, keywords: dict[str, Any]) -> Any:
    return env.get_wrapper_attr(name)(*arguments, **keywords)


def assign(env: Any, name: str, value: Any) -> None:
    env.set_wrapper_attr(name, value)


def is_wrapped(env: Any, wrapper: type) -> bool:
    import gymnasium

    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, wrapper):
            return True
        env = env.env
    return False
