"""preset_test.py SHOAL PRESET RETURN SECONDS SEED... [--sample]: trains the preset with each seed, within SECONDS, and
evaluates it on 100 episodes of fresh seeds, whose mean return must be at least RETURN. --sample: actions are drawn, as in
training; the most likely ones repeat themselves for ever in some games."""
import json
import subprocess
import sys
import tempfile
import time

sample = [word for word in sys.argv if word == "--sample"]
shoal, preset, wanted, limit, *seeds = [word for word in sys.argv[1:] if word != "--sample"]
for seed in seeds:
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        subprocess.run([shoal, "train", preset, "--seed", seed, "--out", folder, "--quiet"], check=True)
        seconds = time.monotonic() - start
        done = subprocess.run([shoal, "eval", folder, "--episodes", "100", "--json", *sample], check=True, capture_output=True)
        mean = json.loads(done.stdout)["mean_return"]
    print(f"{preset}, seed {seed}: {mean} on 100 episodes after {seconds:.1f} s of training", flush=True)
    if mean < float(wanted) or seconds > float(limit):
        sys.exit(f"wanted {wanted} within {limit} s")
