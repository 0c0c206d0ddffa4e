"""PettingZoo's parallel environments as a vector environment: every agent of a game is one of its environments."""

import importlib
import importlib.util

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate


def make(module, num_envs, **kwargs):
    """module: the name of one with parallel_env(), also without "pettingzoo." in front."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        module = "pettingzoo." + module
    games = importlib.import_module(module)
    if not hasattr(games, "parallel_env"):
        raise ValueError(f"the module {module} has no parallel_env(), expected one of PettingZoo's parallel environments")
    return Games(games.parallel_env, num_envs, kwargs)


def of(agent, values, what):
    """What a step gave an agent that acted."""
    if agent not in values:
        raise ValueError(f"found no {what} of {agent} after a step, expected one of every agent that acted; "
                         "only an agent that was terminated may lack its last observation")
    return values[agent]


class Games(gymnasium.vector.VectorEnv):
    """An agent that leaves a game waits for its end (infos["shoal_waits"]); all agents of a game begin the next one together."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, make_game, num_envs, kwargs):
        first = make_game(**kwargs)
        self.agents = list(first.possible_agents)
        self.multiple = len(self.agents)
        self.num_envs = num_envs or self.multiple
        if self.num_envs % self.multiple:
            raise ValueError(f"found {self.num_envs} environments, expected a multiple of the {self.multiple} agents of a game; "
                             "choose sampler.envs, workers and groups so that every worker has such a number")
        self.games = [first] + [make_game(**kwargs) for _ in range(self.num_envs // self.multiple - 1)]
        self.single_observation_space = self.common("observation", first.observation_space)
        self.single_action_space = self.common("action", first.action_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observations = create_empty_array(self.single_observation_space, self.num_envs)
        self.newest = list(iterate(self.observation_space, self.observations))
        self.waits = np.zeros(self.num_envs, bool)

    def common(self, kind, space_of):
        spaces = {agent: space_of(agent) for agent in self.agents}
        for agent, space in spaces.items():
            if space != spaces[self.agents[0]]:
                raise ValueError(f"the {kind} space of {agent} is {space}, and that of {self.agents[0]} is {spaces[self.agents[0]]}; "
                                 "expected equal spaces, because one policy plays every agent")
        return spaces[self.agents[0]]

    def reset(self, *, seed=None, options=None):
        infos = {}
        for first, game in zip(range(0, self.num_envs, self.multiple), self.games):
            self.begin(game, first, infos, seed[first] if isinstance(seed, list) else seed if seed is None else seed + first)
        return self.observe(), infos

    def begin(self, game, first, infos, seed=None):
        observations, info = game.reset(seed=seed)
        self.waits[first:first + self.multiple] = False
        for i, agent in enumerate(self.agents, first):
            if agent not in observations or agent not in game.agents:
                raise ValueError(f"{agent} is absent at the start of a game, expected all of its possible_agents")
            self.newest[i] = observations[agent]
            self.note(infos, info.get(agent), i)

    def note(self, infos, info, i):
        if info:
            self._add_info(infos, info, i)

    def observe(self):
        self.observations = concatenate(self.single_observation_space, self.newest, self.observations)
        return self.observations

    def step(self, actions):
        actions = list(iterate(self.action_space, actions))
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = (np.zeros(self.num_envs, bool) for _ in range(2))
        infos = {}
        for first, game in zip(range(0, self.num_envs, self.multiple), self.games):
            if self.waits[first:first + self.multiple].all():
                self.begin(game, first, infos)
                continue
            place = {agent: i for i, agent in enumerate(self.agents, first)}
            acting = list(game.agents)
            observations, reward, ended, cut, info = game.step({agent: actions[place[agent]] for agent in acting})
            for agent in acting:
                i = place[agent]
                if self.waits[i]:  # a game may keep those that have ended among its agents
                    continue
                rewards[i], terminated[i] = of(agent, reward, "reward"), of(agent, ended, "termination")
                truncated[i] = of(agent, cut, "truncation") or (agent not in game.agents and not ended[agent])
                self.waits[i] = terminated[i] or truncated[i]
                if agent in observations or not terminated[i]:  # whose last observation has no value
                    self.newest[i] = of(agent, observations, "observation")
                self.note(infos, info.get(agent), i)
        infos["shoal_waits"] = self.waits.copy()
        return self.observe(), rewards, terminated, truncated, infos

    def close_extras(self, **kwargs):
        for game in self.games:
            game.close()
