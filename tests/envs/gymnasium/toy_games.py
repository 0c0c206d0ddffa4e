"""A parallel environment as PettingZoo has them, for gymnasium_vector_test.cc: `pettingzoo:toy_games`."""

import numpy as np
from gymnasium import spaces


class Race:
    """Agent i leaves after i + 2 steps: the first is terminated, the others truncated. Observation: seed or -1, agent, step.

    unseen: agents that leave without an observation. stay: those that have left are among the agents until the next game.
    """

    possible_agents = ["ann", "bob", "cy"]

    def __init__(self, apart=False, late=False, unseen=(), stay=False):
        self.apart, self.late, self.unseen, self.stay, self.agents = apart, late, unseen, stay, []

    def observation_space(self, agent):
        return spaces.Box(-1, 2**31, (3 + (self.apart and agent == "bob"),), np.float64)

    def action_space(self, agent):
        return spaces.Discrete(5, start=1)

    def reset(self, seed=None, options=None):
        self.seed, self.steps = -1 if seed is None else seed, 0
        self.agents = self.possible_agents[1:] if self.late else list(self.possible_agents)
        return {agent: self.observe(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def observe(self, agent):
        return np.float64([self.seed, self.possible_agents.index(agent), self.steps])

    def step(self, actions):
        assert list(actions) == self.agents and all(type(a) is np.int64 and 1 <= a <= 5 for a in actions.values()), actions
        self.steps += 1
        present, leaving = self.agents, [agent for agent in self.agents if self.possible_agents.index(agent) + 2 == self.steps]
        self.agents = present if self.stay else [agent for agent in present if agent not in leaving]
        seen = [agent for agent in present if agent not in leaving or agent not in self.unseen]
        return ({agent: self.observe(agent) for agent in seen}, {agent: float(actions[agent]) for agent in present},
                {agent: agent in leaving and agent == "ann" for agent in present},
                {agent: agent in leaving and agent != "ann" for agent in present},
                {agent: {"steps": self.steps} for agent in present})

    def close(self):
        pass


def parallel_env(**kwargs):
    return Race(**kwargs)
