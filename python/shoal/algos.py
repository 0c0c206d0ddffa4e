"""The algorithms: one class for each that the core declares."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from .parts import Agent
from .settings import apply, describe, make_config, require_type, require_used


def _own_tables(algo: str, off_policy: bool) -> tuple[str, ...]:
    return (algo, "off_policy", "replay") if off_policy else (algo,)


def _taken(own: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tables and the single settings that an algorithm with these tables of its own takes."""
    return own, ("steps", "schedule_steps", "seed", "sampler.envs", "sampler.horizon")


class Algo:
    """An algorithm. Its update() does with a rollout what a run of the command does."""

    name: str = ""
    agent: Agent
    config: _core.Config

    def __init__(self, agent: Agent, **settings: Any) -> None:
        require_type(Agent, "agent", agent, "an agent, such as ActorCritic(env)")
        self.agent = agent
        algo = settings.pop("algo", None) or self.name
        if self.name not in ("", algo):
            raise _core.Error(f"algo: found {algo!r}, expected {self.name!r} or none")
        self.config = apply(_core.Config(agent.config), {"algo": algo or None})
        on_policy = not _core.is_off_policy(self.config)
        taken = _taken(_own_tables(self.config.algo, not on_policy))
        advice = "give those of networks and environments to the agent and those of sampling to the Sampler"
        require_used(self.config, settings, type(self).__name__, taken, advice)
        apply(self.config, settings)
        made_for = agent.config.algo
        if self.config.algo != made_for and not (on_policy and not _core.is_off_policy(agent.config)):
            raise _core.Error(
                f"the agent was made for {made_for}, expected {self.config.algo}; "
                f"make it with algo={self.config.algo!r}"
            )
        self._core = _core.Algo(self.config, agent._core)

    def update(self, batch: _core.Batch) -> dict[str, float]:
        """Learns from a rollout, and returns the metrics. Warns when the learning rate or clip range has reached 0.

        An off-policy algorithm appends the rollout to its replay and makes the updates that are due by
        off_policy.replay_ratio; before off_policy.learning_starts steps it makes none.
        """
        require_type(_core.Batch, "batch", batch, "a batch that Sampler.collect() returned")
        return self._core.update(batch)

    def load(self, checkpoint: str | os.PathLike[str]) -> None:
        """Goes on from a checkpoint of Agent.save(..., algo=...): its optimizer, steps and replay.

        Raises Error if it is that of another algorithm, of other networks or of another replay; make a new algorithm
        then.
        """
        algo, steps, tensors = _core.read_checkpoint(os.fspath(checkpoint))
        if algo != self.config.algo:
            raise _core.Error(f"{os.fspath(checkpoint)} is a checkpoint of {algo}, expected {self.config.algo}")
        state = {name: tensor for name, tensor in tensors.items() if name.startswith(("algo/", "replay/"))}
        explores = ("agent/epsilon", "agent/exploration", "agent/noise_")
        state |= {name: tensor for name, tensor in tensors.items() if state and name.startswith(explores)}
        if not state:
            raise _core.Error(f"{os.fspath(checkpoint)} holds no algorithm; give it to save(..., algo=algo)")
        self._core.restore(steps, state)

    @property
    def steps(self) -> int:
        """Steps of all rollouts so far. Schedules follow them, up to the setting `steps`."""
        return self._core.steps

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent!r}, steps={self.steps:,})"


def _algo_class(name: str, description: str) -> type[Algo]:
    doc = (
        f"{description}\n\nagent: made with algo={name!r}.\n"
        "settings: see make_config(); the ones of the algorithm, with their defaults and ranges:"
    )
    cls = type(name.upper(), (Algo,), {"name": name, "__doc__": doc, "__module__": __name__})
    own = _own_tables(name, _core.is_off_policy(make_config(algo=name)))
    describe(cls, *own, algo=name, takes=_taken(own))
    return cls


ALGOS: dict[str, type[Algo]] = {name.upper(): _algo_class(name, description) for name, description in _core.algos()}
globals().update(ALGOS)  # PPO, A2C, ...
__all__ = ["Algo", *ALGOS]
