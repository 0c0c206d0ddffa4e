"""Writes atari_*.txt: what Gymnasium's AtariPreprocessing shows and pays for a fixed sequence of actions.

Made with gymnasium 1.4.0, ale-py 0.12.1, opencv-python-headless; run as `python atari.py` in any environment that
has them. Every word is one step: the low 16 bits (hex) of the observation's CRC-32, then the reward if it is not zero,
then T if terminated. The first word is the observation after a reset. Where the game is over it is reset, and the next
word is the observation after that.
"""

import pathlib
import zlib

import ale_py
import gymnasium as gym
import numpy as np
from gymnasium.wrappers import AtariPreprocessing

LIVES, RGB = {"terminal_on_life_loss": True}, {"grayscale_obs": False}
# File, game, steps, what AtariPreprocessing is told beside the rest.
CASES = [("pong", "Pong", 1000, {}), ("pong_rgb", "Pong", 500, RGB), ("pong_96", "Pong", 500, {"screen_size": 96}),
         ("breakout", "Breakout", 1000, {}), ("breakout_lives", "Breakout", 1000, LIVES),
         ("breakout_rgb", "Breakout", 500, RGB), ("seaquest", "Seaquest", 1000, {}),
         ("seaquest_lives", "Seaquest", 1000, LIVES), ("adventure", "Adventure", 200, {}),
         ("adventure_rgb", "Adventure", 200, RGB)]
WORDS_A_LINE = 16


def actions(count):
    """The same numbers as in the test."""
    state = 1
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        yield (state >> 16) % count


def word(observation, reward=0.0, terminated=False):
    code = f"{zlib.crc32(np.ascontiguousarray(observation)) & 0xFFFF:04x}"
    return code + (f"{int(reward):+d}" if reward else "") + ("T" if terminated else "")


def play(game, steps, options):
    raw = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    env = AtariPreprocessing(raw, noop_max=0, frame_skip=4, **options)
    words = [word(env.reset(seed=0)[0])]
    for _, action in zip(range(steps), actions(env.action_space.n)):
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        words.append(word(observation, reward, terminated))
        if env.unwrapped.ale.game_over():
            words.append(word(env.reset()[0]))
    return words


if __name__ == "__main__":
    gym.register_envs(ale_py)
    for file, game, steps, options in CASES:
        words = play(game, steps, options)
        lines = [" ".join(words[i:i + WORDS_A_LINE]) for i in range(0, len(words), WORDS_A_LINE)]
        (pathlib.Path(__file__).parent / f"atari_{file}.txt").write_text("\n".join(lines) + "\n")
