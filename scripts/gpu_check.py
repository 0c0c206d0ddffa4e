#!/usr/bin/env python3
"""Runs everything that needs a GPU, in ten minutes at most, and writes what it found as a page of Markdown.

Exit status: 0 if every part passed or had to be skipped, 1 if one failed, 2 if nothing could be run.

On a machine without the build tree, carry a folder there that --pack has filled; a LibTorch 2.11 of CUDA is all it needs:

    scripts/gpu_check.py --pack FOLDER            # here, after scripts/build.sh cuda
    FOLDER/gpu_check.py --torch .../site-packages/torch
"""

import argparse
import concurrent.futures
import contextlib
import csv
import ctypes
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["shoal", "shoal_bench", "kernels_test", "captured_graphs_test"]

# Trained twice, once with a stop at half of the steps: preset, settings.
ON_POLICY = ["--set", "sampler.kind=parallel-gpu", "--envs", 32, "--set", "sampler.horizon=16"]
OFF_POLICY = ["--set", "sampler.kind=parallel-gpu", "--set", "log_steps=0", "--set", "off_policy.replay_ratio=16"]
RESUMED = [("cartpole-ppo", ON_POLICY), ("cartpole-a2c", ON_POLICY),
           ("cartpole-impala", [*ON_POLICY, "--set", "sampler.asynchronous=false"]),
           ("cartpole-memory-ppo", ["--set", "sampler.kind=parallel-gpu"]),
           ("pong-ppo", ["--set", "sampler.kind=parallel-gpu", "--workers", 2]), ("cartpole-dqn", OFF_POLICY),
           ("cartpole-rainbow", OFF_POLICY), ("cartpole-r2d1", OFF_POLICY), ("pendulum-sac", OFF_POLICY),
           ("pendulum-td3", OFF_POLICY), ("pendulum-ddpg", OFF_POLICY)]


class Skipped(Exception):
    """Why a part was not run."""


class Failed(Exception):
    """What went wrong in a part."""


def count_gpus():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def output_of(*command):
    """What a program that may be missing prints; empty if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def find_torch(chosen):
    """The `torch` folder to load LibTorch from; none: where the build has it."""
    if chosen:
        return pathlib.Path(chosen)
    found = output_of(sys.executable, "-c", "import torch; print(torch.__path__[0])")
    return pathlib.Path(found) if found else None


class Check:
    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build).resolve()
        self.device = arguments.device
        self.gpu = self.device.startswith("cuda")
        self.gpus = count_gpus() if self.gpu else 0
        self.end = time.monotonic() + 60 * arguments.minutes
        self.seconds = 60 * arguments.minutes
        self.training = arguments.preset
        self.rows, self.sections = [], []
        self.environment = dict(os.environ)
        self.torch = find_torch(arguments.torch) if arguments.torch or not (self.build / "build.ninja").exists() else None
        folders = [self.build / "libraries"]
        if self.torch:
            folders += [self.torch / "lib", *sorted(self.torch.parent.glob("nvidia/*/lib"))]
        existing = [str(f) for f in folders if f.is_dir()]
        if existing:
            before = os.environ.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = ":".join(existing + ([before] if before else []))
        roms = self.build / "roms"
        if roms.is_dir():
            self.environment["SHOAL_ROMS"] = str(roms)

    def left(self):
        return self.end - time.monotonic()

    def program(self, name):
        path = self.build / "bin" / name
        if not path.exists():
            raise Skipped(f"{path} was not built")
        return str(path)

    def run(self, name, *arguments, limit, stop_at_limit=False):
        """Its output and exit status. At the limit it is killed, or told to stop, as by Ctrl-C."""
        command = [self.program(name), *map(str, arguments)]
        shown = " ".join([name, *command[1:]])
        with tempfile.TemporaryFile("w+") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=self.environment,
                                     start_new_session=True)
            try:
                child.wait(max(limit, 1))
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGINT if stop_at_limit else signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(60)
                if not stop_at_limit:
                    log.seek(0)
                    raise Failed(f"`{shown}` took more than {limit:.0f} s\n\n{block(log.read())}")
            finally:
                if child.poll() is None:  # Ctrl-C does not reach a session of its own
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
            log.seek(0)
            return shown, log.read(), child.returncode

    def run_well(self, name, *arguments, limit):
        shown, text, status = self.run(name, *arguments, limit=min(limit, self.left()))
        if status != 0:
            raise Failed(f"`{shown}` ended with status {status}\n\n{block(text)}")
        return shown, text

    def tests(self, name, pattern):
        shown, text = self.run_well(name, f"--gtest_filter={pattern}", "--gtest_color=no", limit=240)
        passed, skipped = text.count("[       OK ]"), text.count("[  SKIPPED ] ")
        if passed == 0:
            raise Skipped(f"`{shown}` ran no test" + (f", {skipped} were skipped" if skipped else ""))
        measured = [line for line in text.splitlines() if line.startswith("captured")]
        return f"{passed} tests passed", "\n".join([f"`{shown}`", "", block("\n".join(measured))] if measured else [f"`{shown}`"])

    # ---- the parts ----

    def kernels(self):
        return self.tests("kernels_test", "*Gpu*:CudaLibrary*" if self.gpu else "*Cpu*")

    def graphs(self):
        return self.tests("captured_graphs_test", "*Captured*Cuda" if self.gpu else "*A2c/StandIn")

    def sampling(self):
        """In a process of its own: its workers are forked before there is a CUDA context."""
        return self.tests("captured_graphs_test", f"*DeviceSamplingTest*{'Cuda' if self.gpu else 'StandIn'}")

    def resumed(self):
        """Whether each algorithm's run is the same to the last bit when it is stopped and resumed."""
        jobs = max(1, len(os.sched_getaffinity(0)) // 3)
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            runs = RESUMED if self.seconds > 120 else RESUMED[:1]
            results = list(pool.map(lambda run: self.resume(pathlib.Path(folder, run[0]), *run), runs))
        different = [f"{preset}: {difference}" for (preset, _), difference in zip(runs, results) if difference]
        if different:
            raise Failed(f"{len(different)} of {len(results)} differ\n\n" + block("\n".join(different)))
        return f"{len(results)} are equal to the last bit", ", ".join(preset for preset, _ in runs)

    def resume(self, folder, preset, settings):
        """How the stopped run differs from the whole one; empty if it does not."""
        common = ["--quiet", "--device", self.device, "--set", "stop_return=inf", "--set", "schedule_steps=10000"]
        whole, stopped = folder / "whole", folder / "stopped"
        train = ["shoal", "train", preset, *common, *settings]
        try:
            self.run_well(*train, "--steps", 6000, "--out", whole, limit=120)
            self.run_well(*train, "--steps", 3001, "--out", stopped, limit=120)
            self.run_well("shoal", "train", "--quiet", "--resume", stopped, "--steps", 6000, limit=120)
        except Failed as failure:
            return str(failure)
        _, text, status = self.run("shoal", "verify", whole, stopped, limit=60)
        return "" if status == 0 else text.strip().replace(str(folder), "").replace("\n", "; ")

    def rates(self):
        """Of sampling, acting and updating, beside their limits."""
        seconds, runs = ("1", "3") if self.seconds > 120 else ("0.02", "1")
        common = ["--device", self.device, "--runs", runs, "--seconds", seconds]
        workers = max(1, len(os.sched_getaffinity(0)) - 1)
        commands = [["shoal", "bench", "sample", "--env", "CartPole-v1", "--workers", workers, "--envs", 16 * workers, *common],
                    ["shoal_bench", "act", "--network", "mlp", "--batch", 64, *common]]
        if self.seconds > 120:
            pong = ["shoal", "bench", "sample", "--env", "ALE/Pong-v5", *common, "--workers", workers, "--envs", 8 * workers]
            commands += [pong, [*pong, "--groups", 2]]
            commands += [["shoal_bench", "act", "--precision", p, "--batch", 32, 256, *common] for p in ("float32", "bf16")]
        commands += [["shoal_bench", "update", "--algo", a, *common] for a in ("sac", "td3", "ddpg")]
        texts, failures = [], []
        for command in commands:
            try:
                shown, text = self.run_well(*command, limit=60)
                texts.append(f"`{shown}`\n\n{block(text)}")
            except Failed as failure:
                failures.append(failure)
                texts.append(str(failure))
        if failures:
            raise Failed(f"{len(failures)} of {len(commands)} commands failed\n\n" + "\n\n".join(texts))
        return f"{len(commands)} measurements", "\n\n".join(texts)

    def ranks(self):
        """Two ranks: each with a GPU of its own by NCCL, or sharing one."""
        short = ["train", "cartpole-ppo", "--quiet", "--ranks", 2, "--steps", 20000, "--set", "schedule_steps=20000",
                 "--set", "stop_return=inf"]
        with tempfile.TemporaryDirectory() as folder:
            nccl = self.gpu and self.gpus >= 2
            device = self.device if nccl or not self.gpu else "cuda:0"
            backend = ["--set", "rank_backend=nccl"] if nccl else []
            shown, _ = self.run_well("shoal", *short, "--out", f"{folder}/run", "--device", device, *backend, limit=90)
            summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
        text = f"`{shown}`: return {summary['final_return']:.1f}, {summary['sps']:.0f} steps/s"
        if nccl:
            return "two ranks by NCCL", text
        why = f"{self.gpus} GPU: NCCL needs one for each rank; the two shared it" if self.gpu else "no NCCL on the CPU"
        return f"two ranks, {why}", text

    def training_run(self):
        """Trains for the rest of the time."""
        limit = self.left() - 5
        if limit < 1:
            raise Skipped("no time was left")
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            shown, text, status = self.run("shoal", "train", self.training, "--device", self.device, "--quiet", "--out", run,
                                           limit=limit, stop_at_limit=True)
            if not (run / "summary.json").exists() or status not in (0, 130):
                raise Failed(f"`{shown}` ended with status {status}\n\n{block(text)}")
            with open(run / "progress.csv", newline="") as file:
                rows = list(csv.DictReader(file))
        if not rows:
            raise Skipped(f"no update was done in {limit:.0f} s")
        points = [rows[i * (len(rows) - 1) // 9] for i in range(10)] if len(rows) > 10 else rows
        columns = ["steps", "seconds", "sps", "return_mean", "share_acting", "share_waiting", "share_learning"]
        table = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        table += ["| " + " | ".join(row[c] for c in columns) + " |" for row in points]
        last = rows[-1]
        return (f"return {last['return_mean']} after {last['steps']} steps, {float(last['seconds']):.0f} s, "
                f"{last['sps']} steps/s", f"`{shown}`\n\n" + "\n".join(table))

    def machine(self):
        lines = [f"{platform.node()}, {platform.platform()}, {len(os.sched_getaffinity(0))} cores",
                 output_of("sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"),
                 output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"),
                 "shoal " + self.run("shoal", "--version", limit=60)[1].strip(),
                 "revision " + (output_of("git", "-C", str(HERE), "rev-parse", "HEAD") or self.packed_revision()),
                 f"build {self.build}" + (f", LibTorch {self.torch}" if self.torch else "")]
        return "described", block("\n".join(line for line in lines if line))

    def packed_revision(self):
        file = self.build / "revision"
        return file.read_text().strip() if file.exists() else "unknown"

    def part(self, title, work):
        start = time.monotonic()
        try:
            result, (figures, details) = "pass", work()
        except Skipped as why:
            result, figures, details = "skipped", str(why), ""
        except Failed as failure:
            result, figures, details = "**fail**", str(failure).splitlines()[0], str(failure)
        except Exception as error:  # a part must not stop the others
            result, figures, details = "**fail**", f"{type(error).__name__}: {error}".splitlines()[0], ""
        took = time.monotonic() - start
        self.rows.append((title, result, figures, took))
        self.sections.append((title, details))
        print(f"{title}: {result.strip('*')} ({figures}), {took:.0f} s", flush=True)
        return result != "**fail**"

    def all_parts(self):
        return [("Machine", self.machine), ("Kernels", self.kernels), ("Captured beside eager updates", self.graphs),
                ("Samples beside the CPU's", self.sampling), ("Resumed beside whole runs", self.resumed),
                ("Two ranks", self.ranks), ("Rates beside bounds", self.rates),
                (f"Training {self.training}", self.training_run)]

    def page(self):
        when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        lines = [f"# GPU check, {self.device}, {when}", "", "| part | result | figures | seconds |", "|---|---|---|---|"]
        lines += [f"| {t} | {r} | {f.replace('|', '/')} | {s:.0f} |" for t, r, f, s in self.rows]
        for title, details in self.sections:
            if details:
                lines += ["", f"## {title}", "", details]
        return "\n".join(lines) + "\n"


def stop(sentence):
    print(f"gpu_check: {sentence}", file=sys.stderr)
    raise SystemExit(2)


def block(text):
    return f"```\n{text.strip()}\n```"


def pack(build, folder):
    """Everything that the check needs besides LibTorch and the system's C library."""
    for name in ("bin", "lib", "libraries", "roms"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    programs = [build / "bin" / name for name in PROGRAMS if (build / "bin" / name).exists()]
    plugins = sorted((build / "lib").glob("shoal_*.so"))
    system = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libutil.so", "libcuda.so", "ld-linux")
    for file in programs:
        shutil.copy2(file, folder / "bin")
    for file in plugins:
        shutil.copy2(file, folder / "lib")
    for file in programs:
        for line in output_of("ldd", str(file)).splitlines():
            name, _, where = line.strip().partition(" => ")
            path = where.split(" (")[0]
            if path.startswith("/") and "/torch/" not in path and "/nvidia/" not in path and not name.startswith(system):
                shutil.copy2(path, folder / "libraries" / name)
    deps = pathlib.Path(os.environ.get("SHOAL_DEPS", pathlib.Path.home() / ".cache/shoal"))
    for rom in deps.glob("ale-*/src/ale/python/roms/pong.bin"):
        shutil.copy2(rom, folder / "roms")
    shutil.copy2(__file__, folder / "gpu_check.py")
    (folder / "revision").write_text(output_of("git", "-C", str(HERE), "rev-parse", "HEAD") + "\n")
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{folder}: {size / 1e6:.0f} MB. There: {folder.name}/gpu_check.py --torch .../site-packages/torch")


def main():
    packed = (HERE / "bin" / "shoal").exists()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda; or cpu, which runs the same but for what needs a GPU")
    parser.add_argument("--build", default=str(HERE if packed else HERE.parent / "build" / "cuda"), help="build folder")
    parser.add_argument("--torch", help="the folder `torch` of the wheel, if it is not where the build found it")
    parser.add_argument("--minutes", type=float, default=10, help="for everything; training takes what is left")
    parser.add_argument("--preset", default="pong-ppo", help="what is trained")
    parser.add_argument("--report", default="gpu_check.md", help="the page")
    parser.add_argument("--pack", metavar="FOLDER", help="copy what is needed to a folder, and run nothing")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not arguments.pack and count_gpus() == 0:
        stop("no GPU was found: the driver reports none; --device cpu runs what needs none")
    build = pathlib.Path(arguments.build)
    if not (build / "bin" / "shoal").exists():
        stop(f"{build}/bin/shoal does not exist: run scripts/build.sh cuda first, or name a build with --build")
    if arguments.pack:
        pack(build.resolve(), pathlib.Path(arguments.pack).resolve())
        return 0
    check = Check(arguments)
    _, version, status = check.run("shoal", "--version", limit=60)
    if status != 0:
        stop(f"{build}/bin/shoal does not start; name LibTorch's folder with --torch: {version.strip()}")
    results = [check.part(title, work) for title, work in check.all_parts()]
    pathlib.Path(arguments.report).write_text(check.page())
    print(f"the page: {arguments.report}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
