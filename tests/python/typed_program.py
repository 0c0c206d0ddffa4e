"""A user's program as mypy --strict reads it."""

from pathlib import Path

import torch

import shoal


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.policy, self.value = torch.nn.Linear(4, 2), torch.nn.Linear(4, 1)

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.policy(observation), self.value(observation)


def learn(agent: shoal.Agent, updates: int) -> dict[str, float]:
    algo = shoal.PPO(agent, clip=0.2, learning_rate=1e-3, ppo__epochs=4)
    metrics: dict[str, float] = {}
    with shoal.Sampler(None, agent, kind="parallel-gpu", envs=16, workers=2, horizon=32) as sampler:
        for _ in range(updates):
            batch: shoal.Batch = sampler.collect()
            rewards: torch.Tensor = batch.reward
            steps, envs = batch.shape
            assert rewards.shape == (steps, envs)
            metrics = algo.update(batch)
    return metrics


def main() -> None:
    learn(shoal.ActorCritic("CartPole-v1", hidden=[64, 64], memory="none", seed=1), 4)
    learn(shoal.TorchAgent("CartPole-v1", Network()), 4)
    print(shoal.Policy(shoal.ActorCritic("CartPole-v1")).predict([0.0, 0.1, 0.0, -0.1]))
    off_policy: shoal.Algo = shoal.DQN(shoal.Agent("CartPole-v1", algo="dqn"), size=10_000)
    print(off_policy.steps)
    run = shoal.train("cartpole-ppo", Path("runs/cartpole"), steps=4_000)
    print(run.predict([0.0, 0.1, 0.0, -0.1]), shoal.evaluate(run, episodes=5), shoal.presets()[0])
    config = shoal.default_config("CartPole-v1", "dqn", double_q=False, dqn__batch=64)
    print(config, shoal.make_config(config, env="Acrobot-v1", gymnasium__kwargs={"size": 3}))
    envs = shoal.make_vec("CartPole-v1", num_envs=2, workers=0, time_limit=None)
    observation, _ = envs.reset(seed=1)
    print(observation.shape)
    try:
        envs.step(envs.action_space.sample())
    except shoal.WorkerError as error:
        print(error.worker, error.env, error.step)
    envs.close()


if __name__ == "__main__":
    main()
