"""A runner of your own: it logs, evaluates and keeps the best parameters.

Usage: python examples/python/5_own_runner.py [steps]
"""

import sys

import torch

import shoal


def main(steps: int) -> None:
    agent = shoal.ActorCritic("CartPole-v1", steps=steps)
    algo = shoal.PPO(agent, learning_rate=1e-3, epochs=10, clip=0.2)
    best = 0.0
    kept: dict[str, torch.Tensor] = {}
    with shoal.Sampler(None, agent, envs=16, workers=2, horizon=64) as sampler:
        for update in range(steps // (16 * 64)):
            metrics = algo.update(sampler.collect())
            if update % 8 == 0:
                returns = shoal.evaluate(agent, episodes=20)
                mean = sum(returns) / len(returns)
                print(f"{algo.steps:>7} steps  return {mean:5.1f}  entropy {metrics['entropy']:.3f}")
                if mean > best:
                    best, kept = mean, {name: tensor.detach().clone() for name, tensor in agent.parameters().items()}
    torch.save(kept, "best_parameters.pt")
    print(f"best return {best:.1f}: best_parameters.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
