#!/usr/bin/env python3
"""Seconds until SAC's greedy evaluation on HalfCheetah reaches a goal: the preset half-cheetah-sac, or with --sb3
Stable-Baselines3's SAC with its defaults. One thread of tensor operations each, and an evaluation of ten episodes
after every 10,000 steps. Prints a JSON line, for the peer also with the seconds without its evaluations.

    python benchmarks/time_to_score.py build/release/bin/shoal --goal 5000 --seed 1
    python benchmarks/time_to_score.py --sb3 --goal 5000 --seed 1
"""

import argparse
import csv
import json
import pathlib
import subprocess
import tempfile
import time

TASK, EVERY, EPISODES = "HalfCheetah-v5", 10_000, 10


def evaluations(folder):
    """(steps, seconds, mean return) of each evaluation so far."""
    file = pathlib.Path(folder, "progress.csv")
    if not file.exists():
        return []
    rows = [row for row in csv.DictReader(file.open()) if row.get("eval_return")]
    return [(int(row["steps"]), float(row["seconds"]), float(row["eval_return"])) for row in rows]


def shoal(command, goal, seed, folder):
    run = pathlib.Path(folder, "run")
    arguments = [
        "--set",
        f"eval_steps={EVERY}",
        "--set",
        f"eval_episodes={EPISODES}",
        "--seed",
        str(seed),
        "--out",
        str(run),
        "--quiet",
    ]
    with subprocess.Popen([command, "train", "half-cheetah-sac", *arguments]) as training:
        while training.poll() is None:
            reached = [row for row in evaluations(run) if row[2] >= goal]
            if reached:
                training.terminate()
                steps, seconds, mean = reached[0]
                return {"program": "shoal", "steps": steps, "seconds": seconds, "return": mean}
            time.sleep(1)
    raise SystemExit(f"the run ended at {evaluations(run)[-1:]}")


def stable_baselines3(goal, seed):
    import gymnasium
    import torch
    from stable_baselines3 import SAC
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)

    class UntilGoal(BaseCallback):
        def _on_training_start(self):
            self.start, self.evaluating, self.mean = time.monotonic(), 0.0, 0.0

        def _on_step(self):
            if self.num_timesteps % EVERY:
                return True
            before = time.monotonic()
            self.mean, _ = evaluate_policy(self.model, Monitor(gymnasium.make(TASK)), n_eval_episodes=EPISODES)
            self.evaluating += time.monotonic() - before
            print(self.num_timesteps, self.mean, flush=True)
            return self.mean < goal

    model, until = SAC("MlpPolicy", gymnasium.make(TASK), seed=seed, device="cpu"), UntilGoal()
    model.learn(1_000_000, callback=until)
    seconds = time.monotonic() - until.start
    return {
        "program": "Stable-Baselines3",
        "steps": model.num_timesteps,
        "seconds": seconds,
        "without_evaluations": seconds - until.evaluating,
        "return": float(until.mean),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shoal", nargs="?")
    parser.add_argument("--sb3", action="store_true")
    parser.add_argument("--goal", type=float, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.sb3 == bool(given.shoal):
        parser.error("expected either the command, or --sb3")
    if given.sb3:
        found = stable_baselines3(given.goal, given.seed)
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = shoal(given.shoal, given.goal, given.seed, folder)
    print(json.dumps({**found, "goal": given.goal, "seed": given.seed}))


if __name__ == "__main__":
    main()
