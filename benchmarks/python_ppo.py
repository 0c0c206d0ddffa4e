#!/usr/bin/env python3
"""Steps a second of a PPO loop in the form of CleanRL's, on shoal.make_vec() and on the vector environments of others
that are installed: Gymnasium's AsyncVectorEnv, EnvPool (synchronous, and asynchronous in halves) and ALE's. Or, with
--sb3, of Stable-Baselines3's PPO on shoal.sb3.VecEnv and on its SubprocVecEnv. Or, with --rollouts, of rollouts alone,
also with the same network in a shoal.TorchAgent; of a vector environment of another package, given as
gymnasium:module:callable, by the command and by a loop over it. With --device cuda each row has its own process. All of
them in turn, `--rounds` times; medians of the whole loop, and of its rollouts alone, are printed.

    PYTHONPATH=build/release/python python benchmarks/python_ppo.py --env ALE/Pong-v5 --envs 32
    PYTHONPATH=build/release/python python benchmarks/python_ppo.py --env CartPole-v1 --envs 16 --sb3
"""

import argparse
import contextlib
import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import time

import gymnasium
import numpy as np
import torch
from python_rates import by_turns, command, gymnasium_async, rate
from torch import nn

import shoal


class Synchronous:
    """A gymnasium.vector.VectorEnv: all environments are ready after every step."""

    seed = {"seed": 1}

    def __init__(self, envs):
        self.envs, self.ids = envs, np.arange(envs.num_envs)
        self.observation, self.action = envs.single_observation_space, envs.single_action_space

    def reset(self) -> None:
        self.last = (self.envs.reset(**self.seed)[0], np.zeros(len(self.ids)), np.zeros(len(self.ids), bool))

    def receive(self):
        return self.ids, *self.last

    def send(self, action, ids) -> None:
        observation, reward, terminated, truncated, _ = self.envs.step(action)
        self.last = (observation, reward, terminated | truncated)

    def close(self) -> None:
        self.envs.close()


class Package(Synchronous):
    """The vector environment of a callable, `gymnasium:module:callable`, whose observations are flattened."""

    def __init__(self, o):
        module, function = o.env.split(":")[1:]
        super().__init__(getattr(importlib.import_module(module), function)(num_envs=o.envs, **json.loads(o.kwargs)))
        self.observation = gymnasium.spaces.flatten_space(self.observation)

    def receive(self):
        ids, observation, *rest = super().receive()
        return ids, observation.reshape(len(ids), -1), *rest

    def send(self, action, ids) -> None:
        super().send(action.astype(self.action.dtype), ids)

    def close(self) -> None:
        with contextlib.suppress(NotImplementedError):  # PufferLib's cannot be closed
            super().close()


class EnvPool(Synchronous):
    seed: dict = {}  # it was given one when it was made

    def __init__(self, envs, count: int):
        self.envs, self.ids = envs, np.arange(count)
        self.observation, self.action = envs.observation_space, envs.action_space


class Asynchronous(EnvPool):
    """Half of the environments step while the policy acts for the others."""

    def reset(self) -> None:
        self.envs.async_reset()

    def receive(self):
        observation, reward, terminated, truncated, info = self.envs.recv()
        return info["env_id"], observation, reward, terminated | truncated

    def send(self, action, ids) -> None:
        self.envs.send(action, ids)


def envpool(o, batch=None):
    import envpool as pool

    name, threads = o.env.removeprefix("ALE/"), max(o.workers, 1)
    envs = pool.make_gymnasium(name, num_envs=o.envs, num_threads=threads, batch_size=batch or o.envs, seed=1)
    return (Asynchronous if batch else EnvPool)(envs, o.envs)


def ale(o):
    if not o.env.startswith("ALE/"):
        raise ImportError("Atari only")
    from ale_py.vector_env import AtariVectorEnv

    game = "".join("_" + c.lower() if c.isupper() else c for c in o.env[4:-3]).lstrip("_")
    return Synchronous(AtariVectorEnv(game, num_envs=o.envs, num_threads=max(o.workers, 1)))


ROWS = {
    "make_vec": lambda o: Synchronous(shoal.make_vec(o.env, o.envs, workers=o.workers, copy=False)),
    "AsyncVectorEnv": lambda o: Synchronous(gymnasium_async(o)),
    "EnvPool": envpool,
    "EnvPool async": lambda o: envpool(o, o.envs // 2),
    "ALE": ale,
}


class Agent(nn.Module):
    def __init__(self, observation, action):
        super().__init__()
        self.discrete = hasattr(action, "n")
        outputs = int(action.n) if self.discrete else action.shape[0]
        if len(observation.shape) == 3:
            self.body, width = (
                nn.Sequential(
                    nn.Conv2d(4, 32, 8, 4),
                    nn.ReLU(),
                    nn.Conv2d(32, 64, 4, 2),
                    nn.ReLU(),
                    nn.Conv2d(64, 64, 3),
                    nn.ReLU(),
                    nn.Flatten(),
                    nn.Linear(3136, 512),
                    nn.ReLU(),
                ),
                512,
            )
        else:
            self.body, width = (
                nn.Sequential(nn.Linear(observation.shape[0], 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()),
                64,
            )
        self.policy, self.value, self.log_std = (
            nn.Linear(width, outputs),
            nn.Linear(width, 1),
            nn.Parameter(torch.zeros(outputs)),
        )

    def outputs(self, observation):
        """Those of the policy, and the value, as a shoal.TorchAgent wants them."""
        scaled = observation.float() / 255 if observation.dtype == torch.uint8 else observation.float()
        hidden = self.body(scaled)
        return self.policy(hidden), self.value(hidden).squeeze(1)

    def forward(self, observation, action=None):
        out, value = self.outputs(observation)
        if self.discrete:
            policy = torch.distributions.Categorical(logits=out)
        else:
            policy = torch.distributions.Independent(torch.distributions.Normal(out, self.log_std.exp()), 1)
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action), policy.entropy(), value


class Outputs(nn.Module):
    def __init__(self, agent: Agent):
        super().__init__()
        self.agent = agent

    def forward(self, observation):
        return self.agent.outputs(observation)


def learn(agent, optimizer, rows, o) -> None:
    obs, action, log_prob, reward, done, value = rows
    advantage, following = torch.zeros_like(reward[: o.horizon]), torch.zeros_like(reward[0])
    for t in reversed(range(o.horizon)):
        goes_on = (~done[t + 1]).float()
        delta = reward[t + 1] + 0.99 * value[t + 1] * goes_on - value[t]
        advantage[t] = following = delta + 0.99 * 0.95 * goes_on * following
    flat = [x[: o.horizon].flatten(0, 1) for x in (obs, action, log_prob, advantage, advantage + value[:-1])]
    for _ in range(o.epochs):
        for index in torch.randperm(o.horizon * o.envs, device=obs.device).chunk(4):
            observation, taken, before, gain, aim = (x[index] for x in flat)
            _, now, entropy, estimate = agent(observation, taken)
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = (now - before).exp()
            loss = -torch.min(gain * ratio, gain * ratio.clamp(0.9, 1.1)).mean() - 0.01 * entropy.mean()
            loss = loss + 0.5 * (estimate - aim).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def loop(envs, o) -> tuple[float, float]:
    """Steps a second of the loop, and of its rollouts."""
    torch.manual_seed(1)
    agent = Agent(envs.observation, envs.action).to(o.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4)
    # Rows of two rollouts: asynchronous environments may be ahead.
    T, B, R = o.horizon + 1, o.envs, 2 * (o.horizon + 1)
    zeros = functools.partial(torch.zeros, device=o.device)
    obs = zeros(R, B, *envs.observation.shape, dtype=torch.uint8 if len(envs.observation.shape) == 3 else torch.float32)
    action = zeros(R, B, *envs.action.shape, dtype=torch.int64 if agent.discrete else torch.float32)
    log_prob, reward, value, done = *(zeros(R, B) for _ in range(3)), zeros(R, B, dtype=torch.bool)

    def there(array, dtype):
        return torch.as_tensor(array, device=o.device).to(dtype)

    envs.reset()
    at = np.zeros(B, int)
    begin, rollouts, steps, updates = time.perf_counter(), 0.0, 0, 0
    while updates <= o.warm_up or time.perf_counter() - begin < o.seconds:
        started = time.perf_counter()
        while at.min() < (updates + 1) * T:
            ids, observation, gained, over = envs.receive()
            t, ids = at[ids] % R, np.asarray(ids)
            row = (torch.as_tensor(t, device=o.device), torch.as_tensor(ids, device=o.device))
            obs[row], reward[row] = there(observation, obs.dtype), there(gained, torch.float32)
            done[row] = there(over, torch.bool)
            with torch.no_grad():
                chosen, log_prob[row], _, value[row] = agent(obs[row])
            action[row] = chosen
            at[ids] += 1
            envs.send(chosen.cpu().numpy(), ids)
        rollouts += time.perf_counter() - started
        rows = slice(updates % 2 * T, updates % 2 * T + T)
        if not o.rollouts:
            learn(agent, optimizer, [x[rows] for x in (obs, action, log_prob, reward, done, value)], o)
        updates, steps = updates + 1, steps + T * B
        if updates == o.warm_up:
            begin, rollouts, steps = time.perf_counter(), 0.0, 0
    return steps / (time.perf_counter() - begin), steps / rollouts


def torch_agent(o, kind, **settings) -> tuple[float, float]:
    """Rollouts of a shoal.Sampler."""
    torch.manual_seed(1)
    spaces = shoal.make_vec(o.env, 1, workers=0)
    module = Outputs(Agent(spaces.single_observation_space, spaces.single_action_space))
    spaces.close()
    agent = shoal.TorchAgent(o.env, module)
    shape = {"kind": kind, "envs": o.envs, "horizon": o.horizon, "workers": o.workers, **settings}
    with shoal.Sampler(None, agent, **shape) as each:
        agent.to(o.device)
        collected = rate(each.collect, o.envs * o.horizon, o.seconds)
    return collected, collected


def package(o, kind, workers) -> tuple[float, float]:
    """Rollouts of `shoal bench sample`, of a vector environment from Python."""
    sampler = argparse.Namespace(**{**vars(o), "kind": kind, "workers": workers})
    settings = ["--set", "gymnasium.vector=true", "--set", f"gymnasium.kwargs={o.kwargs}"]
    sampled = command(sampler, "--threads", str(o.threads), *settings)
    return sampled, sampled


SAMPLERS = {
    "TorchAgent, serial": lambda o: torch_agent(o, "serial", workers=1),
    "TorchAgent, parallel-cpu": lambda o: torch_agent(o, "parallel-cpu"),
    "TorchAgent": lambda o: torch_agent(o, "parallel-gpu"),
    "TorchAgent, groups": lambda o: torch_agent(o, "parallel-gpu", groups=2, workers=1),
}


def measure(make, o) -> tuple[float, float]:
    envs = make(o)
    try:
        return loop(envs, o)
    finally:
        envs.close()


# With an id gymnasium:module:callable.
PACKAGES = {
    "shoal, serial": lambda o: package(o, "serial", 1),
    "shoal, parallel-cpu": lambda o: package(o, "parallel-cpu", o.workers),
    "its own loop": lambda o: measure(Package, o),
}


def sb3_rate(make, o) -> tuple[float, float]:
    from stable_baselines3 import PPO

    envs = make()
    try:
        kind = "CnnPolicy" if len(envs.observation_space.shape) == 3 else "MlpPolicy"
        model = PPO(kind, envs, n_steps=o.horizon, batch_size=o.horizon * o.envs // 4, n_epochs=o.epochs, device=o.device)
        model.learn(o.horizon * o.envs)
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < o.seconds:
            model.learn(o.horizon * o.envs)
            steps += o.horizon * o.envs
        whole = time.perf_counter() - begin
        return steps / whole, steps / (o.horizon * o.envs) / whole
    finally:
        envs.close()


def sb3_rows(o):
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    def subproc():
        if o.env.startswith("ALE/"):
            import ale_py

            gymnasium.register_envs(ale_py)  # forked, so that the workers know them, too
            fork = {"start_method": "fork"}
            env = {"frameskip": 1, "repeat_action_probability": 0}  # SB3's wrapper skips the frames
            each = functools.partial(make_atari_env, env_kwargs=env, vec_env_cls=SubprocVecEnv, vec_env_kwargs=fork)
            return VecFrameStack(each(o.env, o.envs, seed=1), 4)
        return make_vec_env(o.env, o.envs, seed=1, vec_env_cls=SubprocVecEnv)

    return {
        "shoal.sb3.VecEnv": lambda: shoal.sb3.VecEnv(o.env, o.envs, workers=o.workers, seed=1),
        "SubprocVecEnv": subproc,
    }


MISSING = 77  # exit status of a row whose library is missing


def elsewhere(name, o) -> tuple[float, float]:
    """That row, by a process of its own: one with a CUDA context cannot fork."""
    done = subprocess.run([sys.executable, *sys.argv, "--only", name], stdout=subprocess.PIPE, text=True)
    last = done.stdout.splitlines()[-1:]
    if done.returncode == MISSING:
        raise ImportError(*last)
    done.check_returncode()
    return tuple(json.loads(*last))


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--env", default="CartPole-v1")
    flags.add_argument("--envs", type=int, default=32)
    flags.add_argument("--workers", type=int, default=2, help="processes or threads; 0: Shoal steps in this process")
    flags.add_argument("--horizon", type=int, default=128)
    flags.add_argument("--epochs", type=int, default=4)
    flags.add_argument("--seconds", type=float, default=5)
    flags.add_argument("--warm-up", type=int, default=1, help="updates before the clock starts")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--threads", type=int, default=1, help="of torch")
    flags.add_argument("--device", default="cpu", help="of the policy and of learning")
    flags.add_argument("--rows", nargs="+", help="measure these only")
    flags.add_argument("--only", help=argparse.SUPPRESS)
    flags.add_argument("--kwargs", default="{}", help="of the callable, as JSON")
    flags.add_argument("--command", default="build/release/bin/shoal")
    flags.add_argument("--sb3", action="store_true")
    flags.add_argument("--rollouts", action="store_true", help="without learning")
    o = flags.parse_args()
    torch.set_num_threads(o.threads)
    sys.path.insert(0, os.getcwd())  # the module of the callable may be there, as for the command
    rows = {name: (lambda o, make=make: measure(make, o)) for name, make in ROWS.items()}
    if o.rollouts:
        rows = PACKAGES if o.env.startswith("gymnasium:") else {**SAMPLERS, **rows}
    if o.sb3:
        rows = {name: (lambda o, make=make: sb3_rate(make, o)) for name, make in sb3_rows(o).items()}
    if o.only:
        try:
            print(json.dumps(rows[o.only](o)))
        except ImportError as missing:
            print(missing)
            sys.exit(MISSING)
        return
    if o.rows:
        rows = {name: rows[name] for name in o.rows}
    if o.device != "cpu":
        rows = {name: functools.partial(elsewhere, name) for name in rows}
    for name, each in by_turns(rows, o).items():
        whole, second = zip(*each)
        of_second = statistics.median(second)
        print(
            f"{name:24} {statistics.median(whole):9,.0f} steps/s ({min(whole):,.0f} to {max(whole):,.0f})  "
            + (f"{of_second:.2f} updates/s" if o.sb3 else f"rollouts {of_second:9,.0f} steps/s")
        )


if __name__ == "__main__":
    main()
