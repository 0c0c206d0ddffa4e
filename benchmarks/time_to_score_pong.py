#!/usr/bin/env python3
"""Seconds until the mean of the last 100 training games of Pong reaches a goal: Shoal's PPO with its default settings for
pictures; CleanRL's PPO on EnvPool, its algorithm and settings in a loop of this file; Stable-Baselines3's PPO with the
settings of its zoo; or Sample Factory's with those of its Atari example, in two workers. All plan 10 million agent steps,
without sticky actions, on two cores. --bf16: in bfloat16, but for the last layers. Prints a JSON line after each minute,
and one at the end: of training, or of --minutes.

    python benchmarks/time_to_score_pong.py build/release/bin/shoal --bf16
    python benchmarks/time_to_score_pong.py cleanrl --bf16 --minutes 30
    python benchmarks/time_to_score_pong.py sb3 --minutes 30
    python benchmarks/time_to_score_pong.py sample_factory --minutes 30
"""

import argparse
import collections
import csv
import json
import pathlib
import subprocess
import tempfile
import time

STEPS, ENVS, HORIZON, CORES, GAMES = 10_000_000, 8, 128, 2, 100


def mean_of(games):
    """None before there are as many returns as a mean takes."""
    return float(sum(games)) / GAMES if len(games) == GAMES else None


class Report:
    def __init__(self, program, options):
        self.line = {"program": program, "seed": options.seed, "bf16": options.bf16, "goal": options.goal}
        self.options, self.start, self.minutes = options, time.monotonic(), 0

    def is_last(self, steps, mean, seconds=None):
        """mean: that of the last games; None before there are enough."""
        if seconds is None:
            seconds = time.monotonic() - self.start
        reached = mean is not None and mean >= self.options.goal
        last = reached or seconds >= 60 * self.options.minutes or steps >= STEPS
        if last or seconds >= 60 * (self.minutes + 1):
            self.minutes = int(seconds / 60)
            print(json.dumps({**self.line, "steps": steps, "seconds": seconds, "return": mean, "reached": reached}), flush=True)
        return last


def shoal(options):
    settings = {"sampler.kind": "parallel-cpu", "sampler.workers": CORES}
    if options.bf16:
        settings |= {"model.precision": "bf16", "agent.act_precision": "bf16"}
    flags = {"env": "ALE/Pong-v5", "steps": STEPS, "seed": options.seed, "cores": CORES, "threads": CORES}
    command = [options.program, "train", "--quiet", *(text for key, value in flags.items() for text in (f"--{key}", str(value)))]
    command += [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    report, seen = Report("Shoal", options), 0
    with tempfile.TemporaryDirectory() as folder:
        progress = pathlib.Path(folder, "run", "progress.csv")
        with subprocess.Popen([*command, "--out", str(progress.parent)]) as training:
            while True:
                ended = training.poll() is not None
                rows = list(csv.DictReader(progress.open())) if progress.exists() else []
                for row in rows[seen:]:
                    mean = float(row["return_mean"]) if int(row["episodes"]) >= GAMES else None
                    if report.is_last(int(row["steps"]), mean, float(row["seconds"])):
                        training.terminate()
                        return
                if ended:
                    raise SystemExit(f"the training ended with status {training.returncode} after {len(rows)} lines")
                seen = len(rows)
                time.sleep(1)


def cleanrl(options):
    import envpool
    import numpy as np
    import torch
    from torch import nn

    torch.set_num_threads(CORES)
    torch.manual_seed(options.seed)
    wrappers = {"episodic_life": True, "reward_clip": True}
    env = envpool.make("Pong-v5", env_type="gymnasium", num_envs=ENVS, num_threads=CORES, seed=options.seed, **wrappers)

    def layer(module, gain=2**0.5):
        nn.init.orthogonal_(module.weight, gain)
        nn.init.zeros_(module.bias)
        return module

    body = nn.Sequential(
        *(layer(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(), layer(nn.Conv2d(32, 64, 4, 2)), nn.ReLU()),
        *(layer(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(), nn.Flatten(), layer(nn.Linear(3136, 512)), nn.ReLU()),
    )
    actor, critic = layer(nn.Linear(512, env.action_space.n), 0.01), layer(nn.Linear(512, 1), 1)
    parameters = [*body.parameters(), *actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=2.5e-4, eps=1e-5)

    def networks(pictures):
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            features = body(pictures.float() / 255)
        return actor(features.float()).log_softmax(1), critic(features.float())[:, 0]

    obs = torch.zeros(HORIZON, ENVS, 4, 84, 84, dtype=torch.uint8)
    actions = torch.zeros(HORIZON, ENVS, dtype=torch.long)
    log_probs, values, rewards, dones = (torch.zeros(HORIZON, ENVS) for _ in range(4))
    next_obs, _ = env.reset()
    next_done, totals, games = torch.zeros(ENVS), np.zeros(ENVS), collections.deque(maxlen=GAMES)
    report, steps, last = Report("CleanRL's PPO with EnvPool", options), 0, False
    while not last:
        optimizer.param_groups[0]["lr"] = 2.5e-4 * (1 - steps / STEPS)
        for t in range(HORIZON):
            obs[t], dones[t] = torch.from_numpy(next_obs), next_done
            with torch.no_grad():
                log_prob, values[t] = networks(obs[t])
            actions[t] = torch.multinomial(log_prob.exp(), 1)[:, 0]
            log_probs[t] = log_prob.gather(1, actions[t, :, None])[:, 0]
            next_obs, reward, terminated, truncated, info = env.step(actions[t].numpy())
            rewards[t] = torch.from_numpy(reward)
            ended = terminated | truncated
            totals += info["reward"]
            games.extend(totals[ended])
            totals[ended] = 0
            next_done = torch.from_numpy(ended).float()
        steps += HORIZON * ENVS
        with torch.no_grad():
            _, next_value = networks(torch.from_numpy(next_obs))
        advantages, advantage, nonterminal = torch.zeros(HORIZON, ENVS), 0, 1 - next_done
        for t in reversed(range(HORIZON)):
            error = rewards[t] + 0.99 * next_value * nonterminal - values[t]
            advantages[t] = advantage = error + 0.99 * 0.95 * nonterminal * advantage
            next_value, nonterminal = values[t], 1 - dones[t]
        rollout = (obs, actions, log_probs, values, advantages, advantages + values)
        x, a, old_log_prob, old_value, adv, target = (part.flatten(0, 1) for part in rollout)
        for _ in range(4):
            for i in torch.randperm(len(x)).split(len(x) // 4):
                log_prob, value = networks(x[i])
                ratio = (log_prob.gather(1, a[i, None])[:, 0] - old_log_prob[i]).exp()
                normalized = (adv[i] - adv[i].mean()) / (adv[i].std() + 1e-8)
                policy_loss = -torch.min(ratio * normalized, ratio.clamp(0.9, 1.1) * normalized).mean()
                clipped = old_value[i] + (value - old_value[i]).clamp(-0.1, 0.1)
                value_loss = 0.5 * torch.max((value - target[i]).square(), (clipped - target[i]).square()).mean()
                entropy = -(log_prob.exp() * log_prob).sum(1).mean()
                optimizer.zero_grad()
                (policy_loss - 0.01 * entropy + 0.5 * value_loss).backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
        last = report.is_last(steps, mean_of(games))


def sb3(options):
    import ale_py
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    class Until(BaseCallback):
        def _on_training_start(self):
            self.report, self.last = Report("Stable-Baselines3", options), False

        def _on_rollout_end(self):
            games = [game["r"] for game in self.model.ep_info_buffer]
            self.last = self.report.is_last(self.num_timesteps, mean_of(games))

        def _on_step(self):
            return not self.last

    torch.set_num_threads(CORES)
    gymnasium.register_envs(ale_py)
    processes = {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}}
    env = VecFrameStack(make_atari_env("PongNoFrameskip-v4", ENVS, seed=options.seed, **processes), 4)
    schedules = {"learning_rate": lambda left: 2.5e-4 * left, "clip_range": lambda left: 0.1 * left}
    model = PPO("CnnPolicy", env, n_steps=HORIZON, batch_size=256, n_epochs=4, ent_coef=0.01, seed=options.seed, **schedules)
    model.learn(STEPS, callback=Until())


def make_pong(*args, **keywords):
    import ale_py  # noqa: F401  registers the games, in each process of Sample Factory
    from sf_examples.atari.atari_utils import make_atari_env

    return make_atari_env(*args, **keywords)


def sample_factory(options):
    from sample_factory.algo.utils.misc import LEARNER_ENV_STEPS
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner
    from sf_examples.atari.train_atari import parse_atari_args

    def after_iteration(runner, message, _policy):
        nonlocal last
        if last:
            return
        last = report.is_last(message[LEARNER_ENV_STEPS], mean_of(runner.policy_avg_stats.get("reward", [[]])[0]))
        if last:
            runner._stop_training()

    with tempfile.TemporaryDirectory() as folder:
        flags = {"env": "atari_pong", "device": "cpu", "seed": options.seed, "train_dir": folder, "log_to_file": False}
        flags |= {"num_workers": CORES, "num_envs_per_worker": ENVS // CORES, "train_for_env_steps": STEPS}
        flags |= {"summaries_use_frameskip": False}  # counts agent steps
        register_env("atari_pong", make_pong)
        _, runner = make_runner(parse_atari_args([f"--{key}={value}" for key, value in flags.items()]))
        runner.policy_msg_handlers[LEARNER_ENV_STEPS].append(after_iteration)
        report, last = Report("Sample Factory", options), False
        runner.init()
        runner.run()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="cleanrl, sb3, sample_factory, or the command of Shoal")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--goal", type=float, default=18.0)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    no_bf16 = {
        "sb3": "Stable-Baselines3 has no bfloat16 on the CPU: its buffers convert network outputs to NumPy, which fails",
        "sample_factory": "Sample Factory has no setting for bfloat16",
    }
    if options.bf16 and options.program in no_bf16:
        parser.error(no_bf16[options.program])
    {"cleanrl": cleanrl, "sb3": sb3, "sample_factory": sample_factory}.get(options.program, shoal)(options)


if __name__ == "__main__":
    main()
