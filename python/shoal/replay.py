"""Replays: the last steps of a sampler's environments, for off-policy algorithms written in Python."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _core
from .parts import Sampler
from .settings import require_type

Array = Any  # a tensor; a dict of them where the environment has several arrays


def _describe(drawn: Any) -> str:
    parts = []
    for field in dataclasses.fields(drawn):
        value = getattr(drawn, field.name)
        if isinstance(value, dict):
            parts += [f"{field.name}[{name}] {list(tensor.shape)}" for name, tensor in value.items()]
        else:
            parts.append(f"{field.name} {list(value.shape)}" if hasattr(value, "shape") else f"{field.name}={value}")
    return f"{type(drawn).__name__}({', '.join(parts)})"


@dataclasses.dataclass(repr=False)
class Steps:
    """N steps, each with up to n rewards and the observation after those. The target of the action's value is

        reward + discount * value(next_observation).

    The discount is 0 after a termination; a truncated episode bootstraps from its final observation.
    """

    observation: Array  # [N, ...]; stacked frames [N, stack, ...]
    action: Array  # [N, ...]
    reward: Array  # [N]: r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)
    discount: Array  # [N]: gamma^k, or 0
    next_observation: Array  # [N, ...]; meaningless where the discount is 0
    mask: Array  # [N, n] bool, true: legal; {} without action masks
    next_mask: Array
    weight: Array  # [N]: importance weights, at most 1; all 1 if drawn uniformly
    index: Array  # [N]: identifies the steps, for update_priorities()

    __repr__ = _describe


@dataclasses.dataclass(repr=False)
class Sequences:
    """N sequences of R = burn_in + length + n_step rows, time-major, for agents with memory.

    The `length` rows after the burn-in are to be learned from. The target of the value of row t's action is

        reward[t] + discount[t] * value(row burn_in + t + next[t]).

    Episodes may end anywhere; `is_first` marks their beginnings.
    """

    burn_in: int
    observation: Array  # [R, N, ...]
    mask: Array  # [R, N, n] bool, true: legal; {} without action masks
    previous_action: Array  # [R, N, ...]; zeros where is_first
    previous_reward: Array  # [R, N]; zeros where is_first
    is_first: Array  # [R, N] bool
    state: Array  # [N, ...]: the agent's state before the first row
    action: Array  # [length, N, ...]
    reward: Array  # [length, N]: of up to n_step steps
    discount: Array  # [length, N]: gamma^k, or 0 after a termination
    next: Array  # [length, N] int64: k, in rows
    valid: Array  # [length, N] bool: the row has an action
    weight: Array  # [N]: importance weights, at most 1
    index: Array  # [N]: identifies the sequences, for update_priorities()

    __repr__ = _describe


class Replay:
    """The last `size` steps of the sampler's environments, drawn at random. On the CPU; every frame is stored once.

    size: steps that can be drawn, over all environments. n_step: of n-step returns. discount: gamma.
    prioritized: draws a step with probability proportional to priority^alpha, not uniformly.
    seed: of the draws. largest_batch: most steps of one draw.
    """

    _drawn: type = Steps

    def __init__(
        self,
        sampler: Sampler,
        size: int = 1_000_000,
        n_step: int = 1,
        discount: float = 0.99,
        prioritized: bool = False,
        alpha: float = 0.6,
        seed: int = 1,
        largest_batch: int = 1024,
    ):
        require_type(Sampler, "sampler", sampler, "a Sampler")
        self._core = _core.StepReplay(
            sampler.agent._core, sampler.envs, size, n_step, discount, prioritized, alpha, seed, largest_batch
        )

    def append(self, batch: _core.Batch) -> None:
        """Copies a rollout. New steps get the largest priority so far."""
        require_type(_core.Batch, "batch", batch, "a batch that Sampler.collect() returned")
        self._core.append(batch)

    def sample(self, n: int, beta: float = 1.0):
        """Draws n, with replacement. Their tensors are the caller's own.

        beta: exponent of the importance weights, 0 to 1. Raises Error while there is nothing to draw.
        """
        return self._drawn(**self._core.sample(n, beta))

    def update_priorities(self, index, priority) -> None:
        """index: as drawn. priority: [N] float32, above 0. What has been overwritten since is skipped."""
        self._core.update_priorities(index, priority)

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} to draw)"


class SequenceReplay(Replay):
    """The last `size` steps, drawn as sequences that begin where rollouts began, with the agent's recorded state.

    burn_in: rows that only refresh the state. length: rows to learn from. Others as for Replay.
    """

    _drawn = Sequences

    def __init__(
        self,
        sampler: Sampler,
        size: int = 1_000_000,
        burn_in: int = 40,
        length: int = 80,
        n_step: int = 5,
        discount: float = 0.997,
        prioritized: bool = True,
        alpha: float = 0.9,
        seed: int = 1,
        largest_batch: int = 64,
    ):
        require_type(Sampler, "sampler", sampler, "a Sampler")
        self._core = _core.SequenceReplay(
            sampler.agent._core,
            sampler.envs,
            sampler.horizon,
            size,
            burn_in,
            length,
            n_step,
            discount,
            prioritized,
            alpha,
            seed,
            largest_batch,
        )
