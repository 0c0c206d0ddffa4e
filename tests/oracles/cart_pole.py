"""Writes cart_pole.txt: states of Gymnasium's CartPole-v1. Made with gymnasium 1.4.0.

A line is one episode: the start state in hexadecimal floats, then the action of each step, every tenth and the
last followed by "=" and the float32 observation after it, and at the end T if the last step terminated. Actions are
random in some episodes; in others they hold the pole up, for 200 steps at most.
"""

import pathlib

import gymnasium as gym
import numpy as np

EPISODES = 8
STEPS = 200


def play(episode):
    env = gym.make("CartPole-v1").unwrapped
    env.reset(seed=episode)
    rng = np.random.default_rng(episode)
    words = [x.hex() for x in env.state.tolist()]
    for t in range(STEPS):
        x, x_dot, theta, theta_dot = env.state
        action = int(rng.integers(2)) if episode % 2 else int(theta + 0.3 * theta_dot + 0.02 * x + 0.05 * x_dot > 0)
        _, reward, terminated, _, _ = env.step(action)
        assert reward == 1
        words.append(str(action))
        if t % 10 == 9 or terminated:
            words += ["="] + [float(np.float32(v)).hex() for v in env.state]
        if terminated:
            return words + ["T"]
    return words


if __name__ == "__main__":
    lines = [" ".join(play(episode)) for episode in range(EPISODES)]
    (pathlib.Path(__file__).parent / "cart_pole.txt").write_text("\n".join(lines) + "\n")
