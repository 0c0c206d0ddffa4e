"""An agent that acts outside a sampler."""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import _core
from .envs import Spaces, env_action, parts_of, planes, spaces_of, tables_of, value_of
from .parts import Agent
from .settings import require_type


def tensor_of(x: Any) -> torch.Tensor:
    """A tensor of a tensor, an array or numbers. torch.as_tensor() refuses negative strides."""
    return torch.as_tensor(x.copy() if any(stride < 0 for stride in getattr(x, "strides", ())) else x)


def _stacked(actions: list[Any]) -> Any:
    """The actions of several environments, as a vector environment takes them."""
    import numpy as np

    if isinstance(actions[0], dict):
        return {name: _stacked([each[name] for each in actions]) for name in actions[0]}
    if isinstance(actions[0], tuple):
        return tuple(_stacked(list(part)) for part in zip(*actions, strict=True))
    return np.stack(actions)


class Policy:
    """Acts outside a sampler, with an agent as it is now, and keeps the recurrent state.

    predict() is for environments, act() for batches of tensors.

    seed: of actions that are drawn, with greedy=False.
    """

    def __init__(self, agent: Agent, seed: int = 0) -> None:
        require_type(Agent, "agent", agent, "an agent, such as ActorCritic(env)")
        self._core = _core.Policy(agent._core, seed)
        self._agent = agent

    def reset(self) -> None:
        """The next observations are the first of their episodes."""
        self._core.reset()

    def act(
        self,
        observation: Any,
        mask: Any = None,
        is_first: Any = None,
        greedy: bool = True,
        reward: Any = None,
    ) -> Any:
        """Actions for observations [N, ...], or a dict of them; of stacked frames [N, stack, ...], in which those
        from before the episode are zeros: the first frames that are all zeros are taken for such. All are tensors or
        NumPy arrays.

        The actions are the agent's own: numbers from -1 to 1 where the elements of a Box have different bounds,
        all of them finite, and choices counted from 0. predict() gives them as the environment takes them.

        is_first: [N] bool, where an episode begins; None: only in the first call, and after reset().
        reward: [N], of the last actions, as the agent saw them in training: scaled and clipped, if env.reward_scale,
            env.reward_clip or atari.clip_reward say so. A recurrent policy needs it where an episode goes on, unless it
            was made with memory_sees_previous=False or is a module of your own.
        """
        if isinstance(observation, dict):
            observation = {name: tensor_of(x) for name, x in observation.items()}
        else:
            observation = tensor_of(observation)
        given = [None if x is None else tensor_of(x) for x in (mask, reward, is_first)]
        return self._core.act(observation, *given, greedy)

    def predict(
        self, observation: Any, mask: Any = None, greedy: bool = True, reward: Any = None, is_first: Any = None
    ) -> Any:
        """The action for one observation, as env.step() takes it: an int or an array, or a dict or tuple of them.

        observation: as the environment gives it, or [N, ...], as a vector environment does: the actions are then
            [N, ...]. Stacked frames are [stack, ...], zeros before the episode, and where settings change the
            observation (env.resize, ...), it is the changed one.
        mask: [K] or [N, K] bool, the legal actions.
        reward: of the last action, or [N], as the environment gives it, which a recurrent policy needs after the first
            step. It is scaled and clipped as in training; with env.normalize_reward give the normalized one.
        is_first: [N] bool, where an episode begins, which a recurrent policy needs for several observations.

        A recurrent policy keeps its state until reset().
        """
        batch, several = self._batch_of(observation)
        if several and is_first is None and self._core.has_memory:
            raise _core.Error(
                "is_first: found none, expected [N] bool, where an episode begins: the memory of this policy needs it"
            )
        masks = None if mask is None else torch.as_tensor(mask)
        if masks is not None and not several:
            masks = masks.unsqueeze(0)
        rewards = None if reward is None else self._reward_in_training(torch.as_tensor(reward).reshape(-1))
        first = None if is_first is None else torch.as_tensor(is_first).reshape(-1)
        action = self.act(batch, masks, first, greedy=greedy, reward=rewards)
        parts = {name: x.numpy() for name, x in (action if isinstance(action, dict) else {"": action}).items()}

        def of(i: int) -> Any:
            if self.spaces is not None:
                return value_of(self.spaces.action, lambda name, space: env_action(space, parts[name][i]))
            values = {name: x[i].item() if x.ndim == 1 else x[i] for name, x in parts.items()}
            return values if isinstance(action, dict) else values[""]

        if not several:
            return of(0)
        return _stacked([of(i) for i in range(len(next(iter(parts.values()))))])

    def _reward_in_training(self, reward: torch.Tensor) -> torch.Tensor:
        """As the agent saw it in training."""
        env = self._settings["env"]
        reward = reward.double()
        if self._agent.config.env_id.startswith("ALE/") and self._settings["atari"]["clip_reward"]:
            reward = reward.sign()
        reward = reward * env["reward_scale"]
        most = env["reward_clip"]
        return (reward.clamp(-most, most) if most > 0 else reward).float()

    def _batch_of(self, observation: Any) -> tuple[Any, bool]:
        """Observations [N, ...], and whether several were given."""
        arrays = self._agent.env_spec.observations
        several: set[bool] = set()
        own = {} if self.spaces is None else {name: space.shape for name, space, _ in parts_of(self.spaces.observation)}

        def one(name: str, x: Any) -> torch.Tensor:
            field = f"observation{f' {name!r}' if name else ''}"
            if x is None or (isinstance(x, tuple) and any(isinstance(each, dict) for each in x)):
                found = "None" if x is None else "a tuple with a dict"
                raise _core.Error(f"{field}: found {found}, expected an array: the first of what env.reset() returns")
            tensor, array = tensor_of(x), arrays[name]
            expected = array.shape if array.stack == 1 else (array.stack, *array.shape)

            def fits(shape: tuple[int, ...]) -> bool:
                return shape == expected or (array.stack == 1 and planes(shape) == array.shape)

            shape = tuple(tensor.shape)
            single = fits(shape)
            if single and shape and fits(shape[1:]):  # [1, H, W, C]
                single = shape == own.get(name)
            elif not single and not (shape and fits(shape[1:])):
                raise _core.Error(
                    f"{field}: found the shape {list(shape)}, expected {list(expected)}, or several as "
                    f"{['N', *expected]}".replace("'", "")
                )
            several.add(not single)
            tensor = tensor.unsqueeze(0) if single else tensor
            if tensor.shape[1:] != expected:
                tensor = tensor.movedim(-1, -3).reshape(len(tensor), *array.shape)
            return tensor

        if isinstance(observation, dict) and set(observation) == set(arrays):
            parts = observation
        elif self.spaces is not None:
            parts = {name: value for name, _, value in parts_of(self.spaces.observation, observation)}
        else:
            parts = observation if isinstance(observation, dict) else {"": observation}
        batch = {name: one(name, x) for name, x in parts.items() if name in arrays}
        if set(batch) != set(arrays):
            raise _core.Error(f"observation: found the fields {sorted(parts)}, expected {sorted(arrays)}")
        if len(several) > 1:
            raise _core.Error("observation: found fields of one environment and of several, expected the same number")
        return batch.get("", batch), True in several

    @functools.cached_property
    def spaces(self) -> Spaces | None:
        """The Gymnasium spaces of an environment in Python, which is made once to read them; None: it is in C++."""
        return spaces_of(self._agent.config, of_vectors=True)[1]

    @functools.cached_property
    def _settings(self) -> dict[str, Any]:
        return tables_of(self._agent.config)
