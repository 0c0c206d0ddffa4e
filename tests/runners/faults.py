"""A campaign of random faults against the `shoal` program.

Usage: faults.py SHOAL [--faults N] [--seed S] [--jobs J] [--first I] [--chain I] [--folder DIR]

A chain is one run folder: it is trained, meets a fault, is resumed, meets the next fault, and so on. Everything in chain I is
drawn from (seed, I), so `--chain I` repeats the draws of one chain, and `--first I` begins with chain I, so that a campaign can
be played in parts. After each fault these must hold:
  - the command has ended within its limit, with an exit status and a sentence that fit the fault;
  - one second later none of its processes is left (they are found by an environment variable, whoever their parent is);
  - the checkpoint loads (`shoal eval` plays it) or is refused in a sentence;
  - the resumed run writes new rows.
Prints a table of faults at the end; exit status 1 if anything did not hold."""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from processes import children, fields, marked

LIMIT = 30  # seconds for operations whose own limit is a second or two, on a busy machine
LEFT = 1.0  # seconds until no process may be left
ENDLESS = 1_000_000_000
MARK = "SHOAL_FAULT_CHAIN"

COMMON = ["--quiet", "--set", "stop_return=inf", "--set", f"schedule_steps={ENDLESS}", "--set", "log_steps=0", "--set",
          "checkpoint_seconds=0.05", "--set", "sampler.step_limit=1", "--set", "sampler.reset_limit=5", "--set", "rank_timeout=2"]
TASKS = {
    "ppo": ["cartpole-ppo", "--envs", "16", "--set", "sampler.horizon=16", "--set", "ppo.minibatches=2"],
    "a2c": ["cartpole-a2c", "--envs", "16"],
    "dqn": ["cartpole-dqn", "--set", "replay.size=2000", "--set", "off_policy.learning_starts=256", "--set", "off_policy.replay_ratio=8"],
    "r2d1": ["cartpole-r2d1", "--set", "replay.size=2000", "--set", "off_policy.learning_starts=512", "--set", "off_policy.replay_ratio=4"],
    "sac": ["pendulum-sac", "--envs", "4", "--set", "replay.size=2000", "--set", "off_policy.learning_starts=64", "--set",
            "off_policy.replay_ratio=16"],
    "lstm": ["cartpole-memory-ppo", "--envs", "16", "--set", "sampler.horizon=16", "--set", "ppo.minibatches=2"],
}
SAMPLERS = {
    "serial": ["--sampler", "serial"],
    "parallel-cpu": ["--sampler", "parallel-cpu", "--workers", "2"],
    "parallel-gpu": ["--sampler", "parallel-gpu", "--workers", "2"],
    "two groups": ["--sampler", "parallel-gpu", "--workers", "2", "--set", "sampler.groups=2"],
    "dynamic": ["--sampler", "parallel-gpu", "--workers", "2", "--set", "sampler.dynamic_batch=2"],
}


ENDED_BY_TERM = {143, -signal.SIGTERM}  # the second before training has begun


class Broken(Exception):
    """A guarantee that did not hold."""


def is_worker(pid):
    """Whether a process has the mark that each worker gives itself; a child that only helps to begin has none."""
    with contextlib.suppress(OSError):
        return re.search(rf"memfd:shoal-\d+-\d+\.{pid}-", (pathlib.Path("/proc") / str(pid) / "maps").read_text()) is not None
    return False


class Chain:
    def __init__(self, shoal, seed, index, folder):
        self.shoal, self.random = shoal, random.Random(f"{seed}/{index}")
        self.mark = f"{MARK}={seed}.{index}.{os.getpid()}"
        self.environ = os.environ | {MARK: self.mark.split("=")[1], "GOMP_SPINCOUNT": "0"}
        self.folder = folder / f"chain{index}"
        self.run = self.folder / "run"
        self.folder.mkdir(parents=True)
        draw = self.random
        task, sampler = draw.choice(list(TASKS)), draw.choices(list(SAMPLERS), [1, 2, 2, 2, 2])[0]
        self.asynchronous = draw.random() < 0.4 and task != "a2c"
        one_writer = self.asynchronous and sampler == "parallel-cpu" and task in ("dqn", "r2d1", "sac")  # as their replays need
        self.ranks = 2 if draw.random() < 0.3 and not one_writer else 1
        self.restarts = sampler != "serial" and draw.random() < 0.3
        self.arguments = [*TASKS[task], *SAMPLERS[sampler], *COMMON, "--seed", str(draw.randrange(1000))]
        if self.asynchronous:
            if one_writer:
                self.arguments[self.arguments.index("--workers") + 1] = "1"
            self.arguments += ["--set", "sampler.asynchronous=true", "--set", "ppo.vtrace=true"]
        if self.ranks == 2:
            self.arguments += ["--ranks", "2"]
        if self.restarts:
            self.arguments += ["--set", "sampler.on_death=restart"]
        if draw.random() < 0.2:
            self.arguments += ["--set", "eval_steps=2000", "--set", "eval_episodes=2"]
        self.name = ", ".join([task, sampler, *(["asynchronous"] if self.asynchronous else []),
                               *(["two ranks"] if self.ranks == 2 else []), *(["restart"] if self.restarts else [])])

    # A command and its surroundings.

    def start(self, **options):
        known = (self.run / "model.ckpt").exists()
        how = ["--resume", self.run] if known else [*self.arguments, "--out", self.run]
        if not known:
            shutil.rmtree(self.run, ignore_errors=True)
        self.rows_before = self.rows()
        return subprocess.Popen([self.shoal, "train", *how, *(["--quiet"] if known else []), "--steps", str(ENDLESS)],
                                env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def rows(self):
        with contextlib.suppress(OSError):
            return (self.run / "progress.csv").read_bytes().count(b"\n")
        return 0

    def await_rows(self, training, more):
        """Waits for rows that were not there at the start."""
        deadline = time.monotonic() + LIMIT
        while self.rows() < self.rows_before + more:
            if training.poll() is not None:
                raise Broken(f"ended before it went on: {self.end(training)}")
            if time.monotonic() > deadline:
                raise Broken(f"wrote no {more} rows within {LIMIT} s")
            time.sleep(0.005)

    def end(self, training):
        try:
            out, err = training.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            state = {pid: (fields(pid)[0], (pathlib.Path("/proc") / str(pid) / "wchan").read_text()) for pid in marked(self.mark)}
            rows = self.rows()
            time.sleep(1)
            raise Broken(f"hangs: {state}, {self.rows() - rows} rows in the next second") from None
        ended = time.monotonic()
        while left := marked(self.mark):
            if time.monotonic() - ended > LEFT:
                raise Broken(f"left {left} behind after {LEFT} s")
            time.sleep(0.01)
        return training.returncode, err.strip()

    def check_files(self):
        if not (self.run / "config.toml").exists():
            return
        done = subprocess.run([self.shoal, "eval", self.run, "--episodes", "1"], env=self.environ, capture_output=True, text=True,
                              timeout=4 * LIMIT)
        has_checkpoint = (self.run / "model.ckpt").exists()
        if (done.returncode != 0) if has_checkpoint else (done.returncode not in (1, 2) or not done.stderr.strip()):
            raise Broken(f"eval of what it left ({'a' if has_checkpoint else 'no'} checkpoint): {done.returncode} {done.stderr}")

    # The processes that a fault can hit.

    def victims(self, training):
        main, below = training.pid, children(training.pid)
        each = {"main": [main]}
        ranks = below if self.ranks == 2 else [main]
        if self.ranks == 2:
            each["rank"] = ranks
        for rank in ranks:
            for child in children(rank):
                workers = [pid for pid in [child, *children(child)] if is_worker(pid)]
                each.setdefault("worker", []).extend(workers)
                if workers and child not in workers:
                    each.setdefault("fork server", []).append(child)
        return {role: pids for role, pids in each.items() if pids}

    def pick(self, training):
        victims = self.victims(training)
        role = self.random.choice(sorted(victims))
        return role, self.random.choice(victims[role])

    def expect(self, end, statuses, words=True):
        status, text = end
        if status not in statuses:
            raise Broken(f"exit status {status}, expected one of {sorted(statuses)}: {text[-2000:]}")
        if status == 1 and words and not text:
            raise Broken("failed without a sentence")
        if "terminate called" in text or "Sanitizer" in text:
            raise Broken(text[-2000:])
        return status

    # The faults. Each draws its moment, causes the fault, and lists the valid outcomes.

    def moment(self, training):
        if self.random.random() < 0.2:  # while it begins
            time.sleep(self.random.uniform(0, 0.6))
        else:
            self.await_rows(training, self.random.randrange(1, 4))
            time.sleep(self.random.uniform(0, 0.05))

    def go_on_and_stop(self, training):
        """Training must continue unaffected, and end by SIGTERM."""
        if training.poll() is None:
            training.send_signal(signal.SIGTERM)
        return self.end(training)

    def kill(self):
        training = self.start()
        self.moment(training)
        role, victim = self.pick(training)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, self.random.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]) if role == "worker" else signal.SIGKILL)
        if role == "main":
            self.expect(self.end(training), {-signal.SIGKILL})
        elif role == "worker" and self.restarts:
            self.expect(self.go_on_and_stop(training), {1, *ENDED_BY_TERM})
        else:
            self.expect(self.end(training), {1})
        return f"SIGKILL of the {role}"

    def stop(self):
        training = self.start()
        self.moment(training)
        role, victim = self.pick(training)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGSTOP)
        if role == "worker" and self.restarts and self.random.random() < 0.5:
            before = self.rows()
            time.sleep(1.5)  # beyond step_limit
            self.rows_before = max(self.rows_before, before)
            try:
                self.await_rows(training, 3)
            except Broken:  # a worker that is stopped before training begins ends the run
                if training.poll() is None:
                    raise
            self.expect(self.go_on_and_stop(training), {1, *ENDED_BY_TERM})
            return "SIGSTOP of a worker that is replaced"
        if role in ("main", "fork server") or (role == "worker" and self.restarts):
            # No limit applies to a stopped main process; a fork server is missed only when a worker dies.
            time.sleep(self.random.uniform(0, 0.5))
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)
            self.expect(self.go_on_and_stop(training), {1, *ENDED_BY_TERM})
        else:
            self.expect(self.end(training), {1})
        return f"SIGSTOP of the {role}"

    def signal_pair(self):
        training = self.start()
        self.moment(training)
        statuses = {1}
        for _ in range(2):
            number = self.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGSTOP,
                                         signal.SIGKILL])
            role, victim = self.pick(training) if training.poll() is None else ("main", training.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, number)
            if number == signal.SIGSTOP:
                time.sleep(self.random.uniform(0, 0.3))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGCONT)
            else:
                statuses |= {-number, 128 + number}
            time.sleep(self.random.uniform(0, 0.02))
        if training.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                training.send_signal(signal.SIGTERM)
            statuses |= ENDED_BY_TERM
        self.expect(self.end(training), statuses)
        return "two signals"

    def interrupt(self):
        training = self.start()
        self.moment(training)
        number = self.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        training.send_signal(number)
        begun = self.rows() > self.rows_before
        self.expect(self.end(training), {128 + number, -number})
        if begun and not (self.run / "model.ckpt").exists():
            raise Broken(f"no checkpoint after signal {number}")
        return "one signal"

    def worker_without_fork_server(self):
        """The fork server is stopped for good, then one of its workers dies."""
        if not self.restarts:
            return self.kill()
        training = self.start()
        self.await_rows(training, 1)
        victims = self.victims(training)
        if not victims.get("fork server"):
            self.expect(self.go_on_and_stop(training), ENDED_BY_TERM)
            return "nothing"
        server = self.random.choice(victims["fork server"])
        os.kill(server, signal.SIGSTOP)
        os.kill(self.random.choice(children(server)), signal.SIGKILL)
        self.expect(self.end(training), {1})
        return "death of a worker while the fork server is stopped"

    def full_disk(self):
        """A disk of a few hundred kB (where this user may mount one), which other files fill while it trains."""
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        size = self.random.choice([16, 64, 256, 1024])
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], capture_output=True).returncode != 0:
            return "full disk (left out: not root)"
        try:
            kept, self.run = self.run, disk / "run"
            training = self.start()
            with contextlib.suppress(Broken, OSError):
                self.moment(training)
            with contextlib.suppress(OSError), open(disk / "filler", "wb") as filler:
                while filler.write(bytes(4096)) and not filler.flush():
                    pass
            if training.poll() is None and self.random.random() < 0.5:
                training.send_signal(signal.SIGTERM)
            self.expect(self.go_on_and_stop(training) if size == 1024 else self.end(training), {1, 2, *ENDED_BY_TERM})
            (disk / "filler").unlink(missing_ok=True)
            self.check_files()
        finally:
            self.run = kept
            subprocess.run(["umount", "-l", disk], check=True)
        return "full disk"

    def limits(self):
        which, values = self.random.choice([(resource.RLIMIT_NOFILE, range(3, 64)), (resource.RLIMIT_FSIZE, range(0, 60_000)),
                                            (resource.RLIMIT_AS, range(100_000_000, 4_000_000_000)),
                                            (resource.RLIMIT_MEMLOCK, range(0, 100_000))])
        value = self.random.choice(values)
        training = self.start(preexec_fn=lambda: resource.setrlimit(which, (value, value)))
        with contextlib.suppress(Broken):
            self.moment(training)
        if training.poll() is None:
            training.send_signal(signal.SIGTERM)
        self.expect(self.end(training), {1, 2, 127, *ENDED_BY_TERM})  # 127: the loader of libraries
        return "file descriptors, file sizes, memory"

    def next_fault(self):
        fault = self.random.choices([self.kill, self.stop, self.worker_without_fork_server, self.signal_pair, self.interrupt,
                                     self.full_disk, self.limits], [30, 15, 5, 20, 10, 10, 10])[0]
        self.current = fault.__name__
        name = fault()
        if self.random.random() < 0.25:
            self.check_files()
        return name

    def clean_up(self):
        for pid in marked(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


LENGTH = 20  # faults of one chain


def play(options, index, folder, counts, lock, stop):
    chain = Chain(options.shoal, options.seed, index, folder)
    broken = []
    try:
        for number in range(LENGTH):
            if stop():
                break
            try:
                name = chain.next_fault()
            except Exception as error:  # a promise, or this script
                broken.append(f"chain {index} ({chain.name}), fault {number} ({chain.current}): {type(error).__name__}: {error}")
                break
            with lock:
                counts[name] += 1
        if not broken and (chain.run / "model.ckpt").exists():
            training = chain.start()
            chain.await_rows(training, 2)
            training.send_signal(signal.SIGTERM)
            chain.expect(chain.end(training), {143})
    except Exception as error:
        broken.append(f"chain {index} ({chain.name}), its end: {type(error).__name__}: {error}")
    finally:
        chain.clean_up()
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shoal", type=os.path.abspath)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--chain", type=int)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    # A shell ignores SIGINT in background jobs, and nohup SIGHUP; children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    counts, lock, broken = collections.Counter(), threading.Lock(), []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        chains = [options.chain] if options.chain is not None else range(options.first, -(-options.faults // LENGTH))
        stop = lambda: sum(counts.values()) >= options.faults - options.first * LENGTH
        for result in pool.map(lambda i: play(options, i, pathlib.Path(temporary), counts, lock, stop), chains):
            for line in result:
                print(line, flush=True)
            broken += result
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    print(f"{sum(counts.values()):6} faults in {time.monotonic() - begin:.0f} s (seed {options.seed}): {len(broken)} broken promises")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
