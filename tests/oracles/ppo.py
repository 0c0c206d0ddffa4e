"""Writes ppo.txt: PPO updates by PyTorch (2.11.0), written from the papers, on numbers given by formulas.

Every case is one update of a 3-6-{4, 1} tanh network on a rollout of 8 steps of 4 environments: 2 epochs of one
minibatch that holds all samples. All of it is in double precision, from inputs that float32 holds exactly. A line is
the case, a name, and numbers: metrics, means over the epochs; or a parameter after the update.
"""

import math
import pathlib

import torch

T, B, OBS, HIDDEN, CHOICES = 8, 4, 3, 6, 4
DISCOUNT, GAE_LAMBDA, EPOCHS, LEARNING_RATE, CLIP, ADAM_EPSILON = 0.97, 0.9, 2, 0.01, 0.35, 1e-5
VALUE_COEF, ENTROPY_COEF = 0.7, 0.05
CASES = {
    "plain": {"value_clip": 0.0, "max_grad_norm": 0.3, "normalize": True, "shared": False, "remaining": 1.0},
    "value_clip": {"value_clip": 0.15, "max_grad_norm": 0.3, "normalize": True, "shared": False, "remaining": 0.75},
    "shared_trunk": {"value_clip": 0.15, "max_grad_norm": 0.0, "normalize": False, "shared": True, "remaining": 1.0},
}


def wave(start, *shape, scale=1.0):
    """scale * sin(start + 1.7 k) for the k-th number, rounded to float32."""
    k = torch.arange(math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(start + 1.7 * k)).float().double().reshape(shape)


class Network(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        for trunk in ["trunk0"] if shared else ["policy0", "value0"]:
            self.add_module(trunk, torch.nn.Linear(OBS, HIDDEN))
        self.policy_head = torch.nn.Linear(HIDDEN, CHOICES)
        self.value_head = torch.nn.Linear(HIDDEN, 1)
        self.shared = shared
        self.double()
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(wave(float(sum(map(ord, name))), *parameter.shape, scale=0.3))

    def forward(self, x):
        policy = torch.tanh((self.trunk0 if self.shared else self.policy0)(x))
        value = policy if self.shared else torch.tanh(self.value0(x))
        return torch.distributions.Categorical(logits=self.policy_head(policy)), self.value_head(value).squeeze(1)


def advantages(reward, value, bootstrap, final, terminated, truncated):
    out = torch.zeros(T, B, dtype=torch.float64)
    for b in range(B):
        running = 0.0
        for t in reversed(range(T)):
            if terminated[t, b]:
                following = 0.0
            elif truncated[t, b]:
                following = final[t, b]
            else:
                following = value[t + 1, b] if t + 1 < T else bootstrap[b]
            if terminated[t, b] or truncated[t, b]:
                running = 0.0
            running = reward[t, b] + DISCOUNT * following - value[t, b] + DISCOUNT * GAE_LAMBDA * running
            out[t, b] = running
    return out


def update(value_clip, max_grad_norm, normalize, shared, remaining):
    network = Network(shared)
    k = torch.arange(T * B)
    observation = wave(0.1, T + 1, B, OBS, scale=1.5)[:T].reshape(T * B, OBS)
    action = torch.div(k * (k + 3), 2, rounding_mode="floor") % CHOICES
    old_log_prob = wave(0.3, T, B, scale=0.2).flatten() - 1.4
    old_value = wave(0.4, T, B, scale=0.6)
    terminated = (k % 7 == 3).reshape(T, B)
    truncated = (k % 11 == 5).reshape(T, B)
    final = torch.where(truncated & ~terminated, wave(0.6, T, B, scale=2.0), 0.0)
    gae = advantages(wave(0.5, T, B), old_value, wave(0.7, B), final, terminated, truncated)
    target = (gae + old_value).flatten()
    old_value = old_value.flatten()

    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE * remaining, eps=ADAM_EPSILON)
    clip = CLIP * remaining
    sums = {}
    for _ in range(EPOCHS):
        distribution, value = network(observation)
        advantage = gae.flatten()
        if normalize:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = torch.exp(distribution.log_prob(action) - old_log_prob)
        surrogate = torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - clip, 1 + clip) * advantage)
        squares = (value - target) ** 2
        if value_clip > 0:
            near = old_value + torch.clamp(value - old_value, -value_clip * remaining, value_clip * remaining)
            squares = torch.maximum(squares, (near - target) ** 2)
        metrics = {
            "policy_loss": -surrogate.mean(),
            "value_loss": 0.5 * squares.mean(),
            "entropy": distribution.entropy().mean(),
            "kl": (ratio - 1 - torch.log(ratio)).mean(),
            "clip_fraction": ((ratio - 1).abs() > clip).double().mean(),
        }
        assert 0.1 < metrics["clip_fraction"] < 0.7, metrics
        optimizer.zero_grad()
        (metrics["policy_loss"] + VALUE_COEF * metrics["value_loss"] - ENTROPY_COEF * metrics["entropy"]).backward()
        limit = max_grad_norm if max_grad_norm > 0 else math.inf
        metrics["grad_norm"] = torch.nn.utils.clip_grad_norm_(network.parameters(), limit)
        assert metrics["grad_norm"] > 0.35, "clipping at 0.3 would do nothing"
        optimizer.step()
        for name, metric in metrics.items():
            sums[name] = sums.get(name, 0.0) + metric.item() / EPOCHS
    sums["explained_variance"] = (1 - (target - old_value).var() / target.var()).item()
    return sums, network


if __name__ == "__main__":
    lines = []
    for case, options in CASES.items():
        metrics, network = update(**options)
        lines += [f"{case} {name} {value:.9g}" for name, value in metrics.items()]
        for name, parameter in network.named_parameters():
            lines.append(" ".join([case, name] + [f"{x:.9g}" for x in parameter.flatten().tolist()]))
    (pathlib.Path(__file__).parent / "ppo.txt").write_text("\n".join(lines) + "\n")
