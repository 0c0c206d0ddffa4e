"""REINFORCE with a network and a loop of its own, on environments stepped by Shoal's workers.

Usage: python examples/python/3_vector_env.py [steps]
"""

import sys

import torch

import shoal

ENVS, HORIZON = 16, 64


def returns_of(rewards: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
    returns, following = torch.zeros_like(rewards), torch.zeros(ENVS)
    for t in reversed(range(HORIZON)):
        following = rewards[t] + 0.98 * following * ~ended[t]
        returns[t] = following
    return returns


def main(steps: int) -> None:
    envs = shoal.make_vec("CartPole-v1", ENVS, workers=2, autoreset_mode="SameStep")
    policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    observation, _ = envs.reset(seed=1)
    for taken in range(0, steps, ENVS * HORIZON):
        log_prob, rewards, ended = [], torch.zeros(HORIZON, ENVS), torch.zeros(HORIZON, ENVS, dtype=torch.bool)
        for t in range(HORIZON):
            distribution = torch.distributions.Categorical(logits=policy(torch.tensor(observation)))
            action = distribution.sample()
            log_prob.append(distribution.log_prob(action))
            observation, reward, terminated, truncated, _ = envs.step(action.numpy())
            rewards[t], ended[t] = torch.from_numpy(reward), torch.from_numpy(terminated | truncated)
        returns = returns_of(rewards, ended)
        loss = -(torch.stack(log_prob) * (returns - returns.mean()) / (returns.std() + 1e-8)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{taken + ENVS * HORIZON:>7} steps  {ENVS * HORIZON / max(int(ended.sum()), 1):5.1f} steps an episode")
    envs.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
