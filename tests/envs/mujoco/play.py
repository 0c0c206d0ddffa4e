"""Plays a MuJoCo task in Python, for mujoco_test.cc to compare.

Usage: play.py ID EPISODES ROWS INFO... Writes float64 numbers to the standard output: the time limit; the means,
deviations, minima and maxima of the initial states (qpos and qvel) of EPISODES episodes; then a row per reset and step:
whether it is a reset, reward, terminated, truncated, the observation, the infos of these names (0 for a missing one),
the action, and the state. Writes nothing if MuJoCo is missing or has another version."""

import sys

try:
    import gymnasium.envs.mujoco
    import mujoco
    import numpy as np
except Exception:  # Gymnasium raises its own type for a missing MuJoCo
    sys.exit()
if mujoco.__version__ != "3.3.7":
    sys.exit()

env = gymnasium.make(sys.argv[1], disable_env_checker=True)
episodes, rows = int(sys.argv[2]), int(sys.argv[3])


def write(*parts):
    numbers = np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])
    sys.stdout.buffer.write(numbers.tobytes())


def start(seed):
    env.reset(seed=seed)
    return env.unwrapped.state_vector()


def tell(is_reset, observation, reward, terminated, truncated, info, action):
    infos = [info.get(name, 0.0) for name in sys.argv[4:]]
    write(is_reset, reward, terminated, truncated, observation, infos, action, env.unwrapped.state_vector())
    return terminated or truncated


write(env.spec.max_episode_steps)
starts = [start(seed) for seed in range(episodes)]
write(np.mean(starts, 0), np.std(starts, 0), np.min(starts, 0), np.max(starts, 0))

random, box, over = np.random.default_rng(7), env.action_space, True
for row in range(rows):
    if over:
        observation, info = env.reset(seed=row)
        over = tell(1, observation, 0, 0, 0, info, np.zeros(box.shape))
    else:  # some actions are out of bounds
        action = random.uniform(1.2 * box.low, 1.2 * box.high).astype(np.float32)
        over = tell(0, *env.step(action), action)
