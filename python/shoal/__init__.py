"""Shoal: sampling and learning in reinforcement learning. Samplers and algorithms are in C++.

A training loop, a whole training, and environments for the loops of other libraries:

    agent = shoal.ActorCritic("CartPole-v1")
    sampler = shoal.Sampler("CartPole-v1", agent, kind="parallel-gpu", envs=16, workers=2, horizon=32)
    algo = shoal.PPO(agent, clip=0.2)
    batch = sampler.collect()  # torch tensors [T, B, ...] in shared memory
    metrics = algo.update(batch)

    run = shoal.train("cartpole-ppo", out="runs/cartpole")
    action = shoal.load("runs/cartpole").predict(observation)

    envs = shoal.make_vec("CartPole-v1", num_envs=16, workers=2)  # a gymnasium.vector.VectorEnv
    model = stable_baselines3.PPO("MlpPolicy", shoal.sb3.VecEnv("CartPole-v1", n_envs=16))
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    # libgomp reads it when torch is loaded: threads wait a moment for the next loop instead of 10 ms.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
import torch  # noqa: F401  (loads the libraries that the core needs)

from . import algos
from ._core import Batch, DataError, Error, WorkerError, __version__, env_ids, presets
from .algos import *  # noqa: F403  (PPO, A2C, ...)
from .packages import needs as _needs
from .parts import ActorCritic, Agent, Sampler, TorchAgent
from .policy import Policy
from .replay import Replay, SequenceReplay
from .runs import Run, evaluate, load, train
from .settings import EnvSettings, default_config, make_config

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

    from . import sb3 as sb3
    from .vector import VectorEnv as _VectorEnv

__all__ = [
    "ActorCritic",
    "Agent",
    "Batch",
    "DataError",
    "Error",
    "Policy",
    "Replay",
    "Run",
    "Sampler",
    "SequenceReplay",
    "TorchAgent",
    "WorkerError",
    "__version__",
    "default_config",
    "env_ids",
    "evaluate",
    "load",
    "make_config",
    "make_vec",
    "presets",
    "train",
]
__all__ += algos.__all__


def make_vec(
    env: str | Callable[..., Any],
    num_envs: int = 1,
    workers: int | None = None,
    autoreset_mode: AutoresetMode | str = "NextStep",
    copy: bool = True,
    **settings: Unpack[EnvSettings],
) -> _VectorEnv:
    """A gymnasium.vector.VectorEnv on forked workers: see shoal.vector.VectorEnv. Needs Gymnasium."""
    with _needs("Gymnasium", "shoal.make_vec()"):
        from .vector import VectorEnv

    return VectorEnv(env, num_envs, workers, autoreset_mode, copy, **settings)


if not TYPE_CHECKING:  # which knows sb3, and that there is nothing else

    def __getattr__(name: str):
        if name != "sb3":  # loaded when it is used
            raise AttributeError(f"module 'shoal' has no attribute {name!r}")
        import importlib

        with _needs("Stable-Baselines3", "shoal.sb3"):
            return importlib.import_module(".sb3", __name__)
