"""Writes what Gymnasium's classic control tasks do, a file for each task. Made with gymnasium 1.4.0.

A line is one episode: the start state in hexadecimal floats, then the action of each step, every tenth and the
last followed by "=", the float32 observation after it and the float32 reward, and at the end T if the last step
terminated. Actions are random in every second episode; in the others they pursue the goal, for 200 steps at most.
"""

import pathlib

import gymnasium as gym
import numpy as np

EPISODES = 8
STEPS = 200


def cart_pole(state, rng):
    x, x_dot, theta, theta_dot = state
    return int(theta + 0.3 * theta_dot + 0.02 * x + 0.05 * x_dot > 0)


def acrobot(state, rng):
    return 2 if state[2] < 0 else 0  # against the first link's velocity: swings up


def mountain_car(state, rng):
    return 2 if state[1] >= 0 else 0


def mountain_car_continuous(state, rng):
    return (1 if state[1] >= 0 else -1) * rng.uniform(0.7, 1.3)


def pendulum(state, rng):
    return (1 if state[1] >= 0 else -1) * rng.uniform(1, 3)


TASKS = {
    "CartPole-v1": cart_pole,
    "Acrobot-v1": acrobot,
    "MountainCar-v0": mountain_car,
    "MountainCarContinuous-v0": mountain_car_continuous,
    "Pendulum-v1": pendulum,
}


def random_action(space, rng):
    return int(rng.integers(space.n)) if isinstance(space, gym.spaces.Discrete) else rng.uniform(-2.5, 2.5)


def play(task, episode):
    env = gym.make(task).unwrapped
    env.reset(seed=episode)
    if task == "MountainCarContinuous-v0":
        env.state = env.state.astype(np.float32)  # as it is after every step
    rng = np.random.default_rng(episode)
    words = [float(x).hex() for x in env.state]
    for t in range(STEPS):
        action = random_action(env.action_space, rng) if episode % 2 else TASKS[task](env.state, rng)
        if isinstance(env.action_space, gym.spaces.Discrete):
            words.append(str(action))
        else:
            action = np.array([action], np.float32)
            words.append(float(action[0]).hex())
        observation, reward, terminated, _, _ = env.step(action)
        if t % 10 == 9 or terminated:
            words += ["="] + [float(v).hex() for v in [*observation, np.float32(reward)]]
        if terminated:
            return words + ["T"]
    return words


if __name__ == "__main__":
    for name in TASKS:
        lines = [" ".join(play(name, episode)) for episode in range(EPISODES)]
        (pathlib.Path(__file__).parent / f"{name}.txt").write_text("\n".join(lines) + "\n")
        print(name, [line.count("=") for line in lines], [line.endswith("T") for line in lines])
