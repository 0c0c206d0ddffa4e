"""An environment that behaves as the variable STUBBORN says, as `gymnasium:stubborn:Stubborn-v0`; it creates the file
STUBBORN_FILE when it begins to."""

import multiprocessing
import os
import pathlib
import subprocess
import time

import gymnasium
import numpy as np
from gymnasium import spaces

WHAT = os.environ.get("STUBBORN", "")


def hang():
    pathlib.Path(os.environ["STUBBORN_FILE"]).touch()
    while True:
        time.sleep(1000)


class Stubborn(gymnasium.Env):
    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.total = 0
        if WHAT == "construction":
            hang()

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps, self.total = self.steps + 1, self.total + 1
        if WHAT == "step" and self.total == 100:
            hang()
        if WHAT == "slow" and self.total > 100:
            pathlib.Path(os.environ["STUBBORN_FILE"]).touch()
            time.sleep(0.2)
        if self.total == 1:
            self.multiply()
        return np.float32([self.steps]), 1.0, False, self.steps == 20, {}

    def multiply(self):
        if WHAT == "subprocess":
            subprocess.Popen(["sleep", "1000"], env={**os.environ, "MORE": "1"}, start_new_session=True)
        if WHAT == "multiprocessing":
            multiprocessing.get_context("spawn").Process(target=time.sleep, args=(1000,), daemon=True).start()
        if WHAT == "fork" and os.fork() == 0:
            time.sleep(1000)
        if WHAT == "fork that returns":
            os.fork()


gymnasium.register("Stubborn-v0", entry_point=Stubborn)
