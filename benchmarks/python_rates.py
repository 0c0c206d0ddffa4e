#!/usr/bin/env python3
"""Steps a second from Python: shoal.Sampler beside `shoal bench sample`, and shoal.make_vec() beside Gymnasium's
AsyncVectorEnv and, where it is installed, EnvPool, with random actions. All of them in turn, `--rounds` times; the
medians are printed.

    PYTHONPATH=build/release/python python benchmarks/python_rates.py --env CartPole-v1 --envs 64 --workers 2
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import shoal


def rate(step, steps_each: int, seconds: float) -> float:
    step()
    begin, count = time.perf_counter(), 0
    while (now := time.perf_counter()) - begin < seconds:
        step()
        count += 1
    return count * steps_each / (now - begin)


def sampler(o) -> float:
    agent = shoal.ActorCritic(o.env, shared_trunk=True)  # as the command does
    with shoal.Sampler(None, agent, kind=o.kind, envs=o.envs, workers=o.workers, horizon=o.horizon) as each:
        return rate(each.collect, o.envs * o.horizon, o.seconds)


def command(o, *more: str) -> float:
    done = subprocess.run([o.command, "bench", "sample", "--env", o.env, "--envs", str(o.envs), "--workers", str(o.workers),
                           "--horizon", str(o.horizon), "--sampler", o.kind, "--seconds", str(o.seconds), "--runs", "1", "--json", *more],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[0])["median"]


def stepped(envs, o, space=None, seed=1) -> float:
    space = space or envs.action_space
    envs.reset(seed=seed)
    space.seed(1)
    actions = [space.sample() for _ in range(64)]
    turn = iter(range(10**12))
    try:
        return rate(lambda: envs.step(actions[next(turn) % 64]), o.envs, o.seconds)
    finally:
        envs.close()


def make_vec(o) -> float:
    return stepped(shoal.make_vec(o.env, o.envs, workers=o.workers, copy=False), o)


def gymnasium_async(o):
    """Gymnasium's AsyncVectorEnv; of Atari's games as make_vec() prepares them."""
    import gymnasium

    def make():
        if not o.env.startswith("ALE/"):
            return gymnasium.make(o.env)
        import ale_py

        gymnasium.register_envs(ale_py)
        env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make(o.env, frameskip=1, repeat_action_probability=0))
        return gymnasium.wrappers.FrameStackObservation(env, 4)

    return gymnasium.vector.AsyncVectorEnv([make] * o.envs)


def gymnasium(o) -> float:
    return stepped(gymnasium_async(o), o)


def envpool(o) -> float:
    import envpool as pool
    from gymnasium.vector.utils import batch_space

    envs = pool.make_gymnasium(o.env.removeprefix("ALE/"), num_envs=o.envs, num_threads=o.workers, seed=1)
    return stepped(envs, o, batch_space(envs.action_space, o.envs), seed=None)


def by_turns(rows: dict, o) -> dict[str, list]:
    """What each row measures in `o.rounds` rounds, without those whose library is missing."""
    found: dict[str, list] = {name: [] for name in rows}
    for _ in range(o.rounds):
        for name in list(found):
            try:
                found[name].append(rows[name](o))
            except ImportError as missing:
                print(f"{name} is left out: {missing}", file=sys.stderr)
                del found[name]
    return found


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--env", default="CartPole-v1")
    flags.add_argument("--envs", type=int, default=64)
    flags.add_argument("--workers", type=int, default=2)
    flags.add_argument("--horizon", type=int, default=128)
    flags.add_argument("--kind", default="parallel-gpu")
    flags.add_argument("--seconds", type=float, default=2)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--command", default="build/release/bin/shoal")
    o = flags.parse_args()
    rows = {"Sampler": sampler, "shoal bench sample": command, "make_vec": make_vec, "AsyncVectorEnv": gymnasium,
            "EnvPool": envpool}
    for name, all_rates in by_turns(rows, o).items():
        print(f"{name:20} {statistics.median(all_rates):12,.0f} steps/s  ({min(all_rates):,.0f} to {max(all_rates):,.0f})")


if __name__ == "__main__":
    main()
