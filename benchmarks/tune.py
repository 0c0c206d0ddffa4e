#!/usr/bin/env python3
"""Steps until settings that solve a task are found from wide ranges: `shoal tune` against random search over the same draws.

Usage: tune.py SHOAL [--out FOLDER] [--searches N] [--task PRESET]

Both draw the same settings in the same order and stop at the first trial that reaches the preset's stop_return. The random
search trains every trial to the end; it is a search with a single rung."""

import argparse
import pathlib
import re
import subprocess
import tempfile

# Preset, most steps of a trial, and further settings.
TASKS = [
    ("cartpole-ppo", 270_000, ""),
    ("acrobot-ppo", 270_000, ""),
    ("pendulum-ppo", 540_000, "stop_return = -250.0"),
]
FILE = """
base = "{preset}"
seeds = [1]
[all]
{settings}
[random]
draws = 200
seed = {seed}
ppo.learning_rate = {{low = 1e-6, high = 1.0, log = true}}
ppo.epochs = {{low = 1, high = 12}}
ppo.discount = [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999]
ppo.gae_lambda = [0.0, 0.5, 0.8, 0.95, 1.0]
ppo.entropy_coef = {{low = 1e-5, high = 1.0, log = true}}
ppo.clip = {{low = 0.02, high = 1.0, log = true}}
[tune]
min_steps = {least}
max_steps = {most}
factor = 3
"""


def search(shoal, folder, **values):
    folder.mkdir(parents=True, exist_ok=True)  # the command goes on with what is there
    file = folder / "search.toml"
    file.write_text(FILE.format(**values))
    done = subprocess.run([shoal, "tune", file, "--out", folder / "runs"], capture_output=True, text=True)
    steps = re.search(r"(\d+) steps in all", done.stdout)
    if steps is None:  # a trial may fail, with settings that make a loss infinite
        raise SystemExit(done.stdout + done.stderr)
    return int(steps[1]), ", solved" in done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shoal")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--searches", type=int, default=5)
    parser.add_argument("--task", action="append", help="a preset among the three; may be repeated")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = given.out or pathlib.Path(temporary)
        print("| task | search | random search, steps | shoal tune, steps | ratio |\n|---|---|---|---|---|")
        for preset, most, settings in TASKS:
            if given.task and preset not in given.task:
                continue
            totals = [0, 0]
            for seed in range(1, given.searches + 1):
                results = []
                for kind, least in (("random", most), ("tune", most // 27)):
                    steps, solved = search(given.shoal, out / preset / f"{kind}-{seed}", preset=preset, seed=seed,
                                           settings=settings, least=least, most=most)
                    results.append((steps, solved))
                    totals[kind == "tune"] += steps
                cells = [f"{steps:,}" + ("" if solved else " (not solved)") for steps, solved in results]
                print(f"| {preset} | {seed} | {cells[0]} | {cells[1]} | {results[1][0] / results[0][0]:.2f} |", flush=True)
            print(f"| {preset} | all | {totals[0]:,} | {totals[1]:,} | {totals[1] / totals[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
