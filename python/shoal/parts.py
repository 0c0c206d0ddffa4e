"""The parts of a training loop: an agent, a sampler, an algorithm."""

from __future__ import annotations

import atexit
import json
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch

from . import _core
from .settings import Base, Settings, apply, describe, from_toml, make_config, require_type, require_used, table_of

if TYPE_CHECKING:
    from .algos import Algo

# The tables of the settings that a Sampler takes, and single ones: the discount is that of the algorithm.
_SAMPLER_SETTINGS = (
    ("sampler", "async", "env", "atari", "gymnasium"),
    ("seed", *(key for key, *_ in _core.setting_docs(_core.Config()) if key.endswith(".discount"))),
)
_open: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for each in list(_open):
        each.close()


def _require_agent_settings(settings: dict[str, Any]) -> None:
    for name, instead in ("device", "agent.to(device)"), ("init_from", "agent.load(file)"):
        if settings.get(name) is not None:
            raise _core.Error(f"{name}: found a setting of a training, which an agent does not use; call {instead}")


class Agent:
    """An agent for one environment, on the CPU.

    env: an id ("CartPole-v1", "ALE/Pong-v5", "gymnasium:Taxi-v4"), or a callable that returns a gymnasium.Env.
    algo: the algorithm that it is made for: it decides on the networks.
    base: a preset, a file of settings or a Config to start from.
    settings: see make_config(); the ones below, for example.
    """

    def __init__(
        self,
        env: str | Callable[..., Any] | None = None,
        algo: str | None = None,
        base: Base | None = None,
        **settings: Any,
    ) -> None:
        _require_agent_settings(settings)
        self._core = _core.Agent(make_config(base, env=env, algo=algo, **settings))

    @classmethod
    def _of(cls, core: _core.Agent) -> Agent:
        agent = cls.__new__(cls)
        agent._core = core
        return agent

    def _begin(self, env: str | Callable[..., Any]) -> None:
        """A sampler of these environments is made."""

    @property
    def config(self) -> _core.Config:
        """The settings that it was made with."""
        return self._core.config

    @property
    def env_spec(self) -> _core.EnvSpec:
        """The spaces of its environment."""
        return self._core.env_spec

    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name: the agent's own tensors. Call parameters_changed() after writing to them."""
        return self._core.parameters()

    def parameters_changed(self) -> None:
        """Acting may use a copy of the parameters in another layout, which this renews."""
        self._core.parameters_changed()

    def to(self, device: str | torch.device) -> None:
        """Moves it to "cpu", "cuda" or "cuda:N". Make samplers first: a process with a CUDA context cannot fork."""
        self._core.to(str(device))

    def load(self, checkpoint: str | os.PathLike[str]) -> None:
        """Takes the parameters of an agent with the same networks.

        checkpoint: a file of save(), a run folder or a checkpoint in one, a .safetensors file of `shoal export`, or
            "zoo:NAME".
        """
        self._core.load(os.fspath(checkpoint))

    def save(
        self, checkpoint: str | os.PathLike[str], algo: Algo | None = None, sampler: Sampler | None = None
    ) -> None:
        """Writes the parameters to a file, and with `algo` and `sampler` all that a loop needs to go on exactly.

        The file is replaced as a whole. To go on, in any process: load() into an agent, then Sampler(..., saved=file),
        and Algo.load(). Environments that cannot be saved begin new episodes, in this process, too; the last batch of
        the sampler is lost. The generators of torch, which dropout uses, are not saved. No other thread may use the
        agent meanwhile.

        Raises Error if a parameter is not finite.
        """
        for part in (algo, sampler):
            if part is not None and part.agent is not self:
                raise _core.Error(f"found {part!r}, expected one of this agent")
        others = {} if algo is None else algo._core.state()
        if sampler is not None:
            others.update({"sampler/" + name: tensor for name, tensor in sampler._core.save().items()})
            others[_SETTINGS] = torch.tensor(
                list(json.dumps(_sampler_settings(sampler.config)).encode()), dtype=torch.uint8
            )
        name, steps = (self.config.algo, 0) if algo is None else (algo.config.algo, algo.steps)
        self._core.save(os.fspath(checkpoint), name, steps, others)

    def __repr__(self) -> str:
        numbers = sum(tensor.numel() for tensor in self.parameters().values())
        return f"{type(self).__name__}({self.env_spec!r}, algo={self.config.algo!r}, {numbers:,} numbers)"


class ActorCritic(Agent):
    """The agent of PPO, A2C and IMPALA: a stochastic policy and a value function. Arguments as those of Agent."""

    def __init__(self, env: str | Callable[..., Any] | None = None, base: Base | None = None, **settings: Any) -> None:
        super().__init__(env, settings.pop("algo", "ppo" if base is None else None), base, **settings)


class TorchAgent(ActorCritic):
    """An actor-critic around a torch.nn.Module of your own, for the on-policy algorithms.

    env: may be left out: TorchAgent(module) is for the environment of its first sampler.
    module: called with N observations [N, ...] (stacked frames [N, stack, ...], several arrays a dict); returns policy
        [N, K] and value [N], both float32. K: one logit for each choice of a discrete action, one mean for each number
        of a continuous one, whose standard deviation is a parameter of the agent; see agent.network_std for others.
    state: of a module with memory: the shape of one environment's state, or a dict of them by name. The module is
        called with T steps of N environments: observation [T, N, ...], state [N, ...] before the first step, or the
        dict of them, and is_first [T, N] bool, where an episode begins and the module must use a state of zeros. It
        returns policy [T, N, K], value [T, N] and the state after the last step. To act, T is 1.

    It acts in evaluation mode (as after module.eval()) and learns in the mode that you leave it in: dropout and batch
    normalization belong to learning. It must not change its inputs in place, and belongs to one agent.

    It acts in the sampler's process, in batches; with kind="parallel-cpu" each worker acts with a copy of the module,
    which gets the parameters and buffers, and nothing else, before every rollout. The agent's parameters are the
    module's own; learning changes them in place.
    """

    module: torch.nn.Module

    def __init__(
        self,
        env: str | Callable[..., Any] | torch.nn.Module,
        module: torch.nn.Module | None = None,
        state: Any = None,
        base: Base | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        if isinstance(env, torch.nn.Module):
            self.module, env = env, None
        else:
            require_type(torch.nn.Module, "module", module, "a torch.nn.Module")
            self.module = module
        _require_agent_settings(settings)
        self._state, self._settings = state, {"base": base, "algo": "ppo", **settings}
        if env is not None:
            self._begin(env)

    def _begin(self, env: str | Callable[..., Any]) -> None:
        if "_core" in vars(self):
            return
        state = self._state
        named = state if isinstance(state, dict) else {} if state is None else {"": state}
        shapes = [(name, [shape] if isinstance(shape, int) else list(shape)) for name, shape in named.items()]
        for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers()):
            if torch.nn.parameter.is_lazy(tensor):
                raise _core.Error(
                    f"module: {name!r} belongs to a lazy layer and has no shape yet; call the module with an "
                    "observation first"
                )
        config = make_config(env=env, **self._settings)
        self._core = _core.torch_agent(config, self.module, shapes)

    def __repr__(self) -> str:
        return super().__repr__() if "_core" in vars(self) else f"TorchAgent({type(self.module).__name__})"

    def __getattr__(self, name: str) -> Any:
        if name == "_core":
            raise _core.Error(
                "the agent has no environment yet, expected TorchAgent(env, module), or a Sampler(env, agent) first"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_SETTINGS = "sampler_settings"  # of a sampler in a checkpoint, as JSON


def _sampler_settings(config: _core.Config) -> dict[str, Any]:
    described = _core.setting_docs(config)
    return {key: from_toml(text) for key, text, *_ in described if key == "seed" or table_of(key) == "sampler"}


def _saved_sampler(checkpoint: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Settings and state."""
    prefix, tensors = "sampler/", _core.read_checkpoint(os.fspath(checkpoint))[2]
    if _SETTINGS not in tensors:
        raise _core.Error(f"{os.fspath(checkpoint)} holds no sampler; give it to save(..., sampler=sampler)")
    state = {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return json.loads(bytes(tensors[_SETTINGS].tolist())), state


class Sampler:
    """Steps `envs` environments `horizon` times per collect(). Forks its workers: make it in the main thread.

    env: as for Agent; None: the agent's. Its spaces must be those of the agent's environment.
    saved: a checkpoint of Agent.save(), from which its sampler goes on, with the same settings.
    host_rollouts: batches are on the CPU, whatever the agent's device: for a Replay.
    settings: see make_config(); the ones of the sampler are below. Those of the agent are the defaults.
    """

    agent: Agent
    config: _core.Config

    def __init__(
        self,
        env: str | Callable[..., Any] | None,
        agent: Agent,
        saved: str | os.PathLike[str] | None = None,
        host_rollouts: bool = False,
        **settings: Any,
    ) -> None:
        require_type(Agent, "agent", agent, "an agent, such as ActorCritic(env)")
        self.agent = agent
        if env is not None:
            agent._begin(env)
        advice = "give those of networks to the agent and those of learning to the algorithm"
        require_used(agent.config, settings, "Sampler", _SAMPLER_SETTINGS, advice)
        before, state = ({}, {}) if saved is None else _saved_sampler(saved)
        config = apply(apply(_core.Config(agent.config), before), {"env": env, **settings})
        self._core = _core.Sampler(config, agent._core, state, host_rollouts)
        self.config = self._core.config
        _open.add(self)

    def collect(self) -> _core.Batch:
        """The next rollout; it overwrites the last one.

        Raises WorkerError if a worker died or its environment raised an exception, DataError for a number that is not
        finite, and KeyboardInterrupt.
        """
        return self._core.collect()

    @property
    def envs(self) -> int:
        """Number of environments, B."""
        return self.config.envs

    @property
    def horizon(self) -> int:
        """Steps of each environment in a rollout, T."""
        return self.config.horizon

    def close(self) -> None:
        """Ends the workers. Deleting the sampler does the same."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        keys = ("kind", "envs", "workers", "horizon")
        values = {key: value for key, value, *_ in _core.setting_docs(self.config)}
        return (
            f"Sampler({self.config.env_id!r}, " + ", ".join(f"{key}={values['sampler.' + key]}" for key in keys) + ")"
        )


for _each in (Agent, ActorCritic):
    describe(_each, "model", "agent")
describe(Sampler, "sampler", takes=_SAMPLER_SETTINGS)
