"""preset_test.py SHOAL PRESET RETURN SECONDS SEED... [KEY=VALUE...] [--sample]: trains the preset with each seed and these
settings, within SECONDS, and evaluates it on 100 episodes of fresh seeds, whose mean return must be at least RETURN. Of a replay,
the achieved ratio must be the one asked for, within 5 %. --sample: actions are drawn, as in training; the most likely ones repeat
themselves for ever in some games."""
import csv
import json
import subprocess
import sys
import tempfile
import time

sample = [word for word in sys.argv if word == "--sample"]
settings = [part for word in sys.argv if "=" in word for part in ("--set", word)]
shoal, preset, wanted, limit, *seeds = [word for word in sys.argv[1:] if word != "--sample" and "=" not in word]


def ratio_is_kept(folder):
    with open(f"{folder}/progress.csv") as file:
        achieved = list(csv.DictReader(file))[-1].get("replay_ratio")
    if not achieved:
        return True
    with open(f"{folder}/config.toml") as file:
        asked = float(next(line for line in file if line.startswith("replay_ratio")).split("=")[1].split("#")[0])
    print(f"replay ratio: {achieved} of {asked}")
    return abs(float(achieved) / asked - 1) <= 0.05


for seed in seeds:
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        subprocess.run([shoal, "train", preset, "--seed", seed, "--out", folder, "--quiet", *settings], check=True)
        seconds = time.monotonic() - start
        done = subprocess.run([shoal, "eval", folder, "--episodes", "100", "--json", *sample], check=True, capture_output=True)
        kept = ratio_is_kept(folder)
        mean = json.loads(done.stdout)["mean_return"]
    print(f"{preset}, seed {seed}: {mean} on 100 episodes after {seconds:.1f} s of training", flush=True)
    if mean < float(wanted) or seconds > float(limit) or not kept:
        sys.exit(f"wanted {wanted} within {limit} s")
