"""The training of examples/2_cartpole_parallel.cc: forked workers, PPO, and an evaluation on fresh seeds.

Usage: python examples/python/1_cartpole.py [steps]
"""

import collections
import sys

import shoal


def main(steps: int) -> None:
    agent = shoal.ActorCritic("CartPole-v1", hidden=[64, 64], steps=steps)
    algo = shoal.PPO(
        agent, learning_rate=1e-3, discount=0.98, gae_lambda=0.8, epochs=10, minibatches=2, clip=0.2, entropy_coef=0.0
    )
    recent = collections.deque([0.0], maxlen=100)
    with shoal.Sampler("CartPole-v1", agent, envs=16, workers=2, horizon=32) as sampler:
        while algo.steps < steps and sum(recent) / 100 < 475:
            batch = sampler.collect()
            recent.extend(episode["score"] for episode in batch.episodes)
            algo.update(batch)
            print(f"\r{algo.steps:>7} steps  return {sum(recent) / len(recent):3.0f}", end="", file=sys.stderr)
    returns = shoal.evaluate(agent, episodes=20)
    print(f"\nOn fresh seeds: {sum(returns) / len(returns):.0f} points of 500")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
