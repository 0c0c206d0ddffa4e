"""An off-policy algorithm of your own: soft Q-learning (arXiv 1702.08165) from shoal.Replay, with a torch network.
Its episodes reach the full 500 steps within 40,000.

python examples/python/4_own_off_policy.py [steps]
"""

import copy
import sys

import torch

import shoal

TEMPERATURE = 0.02


class SoftQ(torch.nn.Module):
    """Its policy draws actions with probability proportional to exp(Q / TEMPERATURE)."""

    def __init__(self, observation: int, actions: int):
        super().__init__()
        self.q = torch.nn.Sequential(
            torch.nn.Linear(observation, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, actions),
        )

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.q(observation) / TEMPERATURE
        return logits, TEMPERATURE * logits.logsumexp(1)


def main(steps: int) -> None:
    torch.set_num_threads(1)  # the network is small
    torch.manual_seed(1)
    network = SoftQ(4, 2)
    target, optimizer = copy.deepcopy(network), torch.optim.Adam(network.parameters(), lr=1e-3)
    agent = shoal.TorchAgent("CartPole-v1", network, reward_scale=0.01)
    with shoal.Sampler(None, agent, envs=8, workers=2, horizon=8) as sampler:
        replay = shoal.Replay(sampler, size=50_000, n_step=3, discount=0.99, prioritized=True)
        taken = 0
        while taken < steps:
            batch = sampler.collect()
            replay.append(batch)
            taken += batch.steps
            for _ in range(16):
                drawn = replay.sample(128, beta=0.4)
                with torch.no_grad():
                    aim = drawn.reward + drawn.discount * target(drawn.next_observation)[1]
                q = network.q(drawn.observation).gather(1, drawn.action.unsqueeze(1)).squeeze(1)
                replay.update_priorities(drawn.index, (q - aim).abs().detach() + 1e-3)
                optimizer.zero_grad()
                (drawn.weight * torch.nn.functional.huber_loss(q, aim, reduction="none")).mean().backward()
                optimizer.step()
                for old, new in zip(target.parameters(), network.parameters()):
                    old.data.lerp_(new.data, 0.01)
            lengths = [episode["length"] for episode in batch.episodes]
            if lengths:
                print(f"{taken:>7} steps  {sum(lengths) / len(lengths):5.1f} steps an episode")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000)
