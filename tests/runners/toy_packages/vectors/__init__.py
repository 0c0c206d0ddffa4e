"""Vector environments, one that knows no other kind of environment, and games of several agents."""

import gymnasium
import grid_world
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv


def grids(num_envs, mode):
    return SyncVectorEnv([grid_world.Grid] * num_envs, autoreset_mode=AutoresetMode(mode))


def only_next_step(num_envs):
    return grids(num_envs, "NextStep")


gymnasium.register("vectors/Only-v0", entry_point=None, vector_entry_point=only_next_step)


class Relay:
    """Each agent is told a number and must answer it; agent i leaves after i + 3 answers."""

    possible_agents = ["first", "second"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (3,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "random"):
            self.random = np.random.default_rng(seed)
        self.agents, self.steps = list(self.possible_agents), 0
        return self.tell(self.agents), {}

    def tell(self, agents):
        self.told = {agent: int(self.random.integers(3)) for agent in agents}
        return {agent: np.eye(3, dtype=np.float32)[number] for agent, number in self.told.items()}

    def step(self, actions):
        self.steps += 1
        present, told = self.agents, self.told
        leaving = [agent for agent in present if self.possible_agents.index(agent) + 3 == self.steps]
        self.agents = [agent for agent in present if agent not in leaving]
        return (self.tell(present), {agent: float(actions[agent] == told[agent]) for agent in present},
                {agent: agent in leaving for agent in present}, {agent: False for agent in present},
                {agent: {"answers": self.steps} for agent in present})

    def close(self):
        pass


def parallel_env():
    return Relay()
