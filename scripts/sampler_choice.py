#!/usr/bin/env python3
"""Compares the sampler that `--sampler auto` chooses with a full search.

For each task and number of environments: `shoal bench sample` with every sampler, by turns, and the choice. Prints the rate of
the chosen sampler as a share of that of the fastest one, both medians of the search.

usage: sampler_choice.py SHOAL [--rounds N] [--seconds S] [--choices N] [--only TEXT]
"""

import argparse
import json
import os
import statistics
import subprocess

# Task, environments, horizon, threads: those of docs/performance.md.
TASKS = [("CartPole-v1", 16, 128, 1), ("CartPole-v1", 64, 128, 1), ("CartPole-v1", 256, 128, 1), ("ALE/Pong-v5", 32, 128, 2),
         ("ALE/Breakout-v5", 32, 128, 2), ("gymnasium:CartPole-v1", 16, 128, 1), ("gymnasium:CartPole-v1", 64, 128, 1),
         ("HalfCheetah-v5", 16, 128, 1), ("Hopper-v5", 16, 128, 1), ("Humanoid-v5", 16, 128, 1)]


def even_workers(envs, workers):
    """The fewest workers whose largest share is as small, as samplers/partition.cc rounds them."""
    share = -(-envs // min(envs, workers))
    return -(-envs // share)


def samplers(envs):
    """All of them: (kind, workers, groups)."""
    cores = len(os.sched_getaffinity(0))
    counts = sorted({even_workers(envs, count) for count in (1, cores // 2, cores, 2 * cores) if count})
    return [("serial", 1, 1), *(("parallel-cpu", workers, 1) for workers in counts),
            *(("parallel-gpu", workers, groups) for workers in counts for groups in (1, 2))]


def bench(shoal, task, *arguments):
    env, envs, horizon, threads = task
    command = [shoal, "bench", "sample", "--env", env, "--envs", str(envs), "--horizon", str(horizon), "--threads", str(threads), "--runs", "1",
               "--json", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def name(kind, workers, groups):
    text = kind if kind == "serial" else f"{kind}, {workers} worker{'s' * (workers > 1)}"
    return text + f", {groups} groups" * (groups > 1)


def compare(shoal, task, options):
    rates, choices, busy = {}, [], []
    for _ in range(options.rounds):
        for kind, workers, groups in samplers(task[1]):
            line = bench(shoal, task, "--sampler", kind, "--workers", workers, "--groups", groups, "--seconds", options.seconds)
            rates.setdefault(name(kind, workers, groups), []).append(line["median"])
            busy.append(line["other_cpu"])
    for _ in range(options.choices):
        config = bench(shoal, task, "--sampler", "auto", "--seconds", 0.01)["config"]
        choices.append(name(config["sampler"], config["workers"], config["groups"]))
    medians = {each: statistics.median(found) for each, found in rates.items()}
    best = max(medians, key=medians.get)
    for each, rate in sorted(medians.items(), key=lambda item: -item[1]):
        print(f"    {each:36} {rate:>12,.0f} ({min(rates[each]):,.0f} to {max(rates[each]):,.0f})", flush=True)
    shares = [medians[each] / medians[best] for each in choices]
    print(f"{task[0]} x {task[1]}: fastest {best}; chosen {', '.join(f'{each} ({share:.0%})' for each, share in zip(choices, shares))}; other "
          f"processes used {statistics.median(busy):.1f} cores", flush=True)
    return statistics.median(shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shoal", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--choices", type=int, default=1, help="how often `auto` chooses")
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    options = parser.parse_args()
    shares = [compare(options.shoal, task, options) for task in TASKS if options.only in task[0]]
    print(f"within 5 % of the fastest: {sum(share >= 0.95 for share in shares)} of {len(shares)}")


if __name__ == "__main__":
    main()
