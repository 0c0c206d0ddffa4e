"""flat_memory_test.py SHOAL PRESET SECONDS [KEY=VALUE...]: trains the preset with these settings for SECONDS. After the first minute, in which buffers take
their size, neither the agent process nor a worker may grow by more than a megabyte."""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

WARM_UP, INTERVAL, ALLOWED = 60, 5, 1 << 10  # seconds, seconds, kilobytes


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise SystemExit(f"process {pid} has ended")


def workers(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


shoal, preset, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
settings = [part for word in sys.argv[4:] for part in ("--set", word)]
with tempfile.TemporaryDirectory() as folder:
    run = subprocess.Popen([shoal, "train", preset, "--out", folder, "--quiet", *settings])
    try:
        time.sleep(WARM_UP)
        before = {pid: resident(pid) for pid in [run.pid, *workers(run.pid)]}
        most = dict(before)
        end = time.monotonic() + seconds - WARM_UP
        while time.monotonic() < end:
            time.sleep(INTERVAL)
            most = {pid: max(size, resident(pid)) for pid, size in most.items()}
        run.send_signal(signal.SIGTERM)
        run.wait(60)
    finally:
        run.kill()
for pid, size in before.items():
    print(f"{'agent' if pid == run.pid else 'worker'}: {size} kB after {WARM_UP} s, at most {most[pid]} kB later")
assert len(before) > 1, "no worker"
if any(most[pid] - size > ALLOWED for pid, size in before.items()):
    sys.exit(f"grown by more than {ALLOWED} kB in {seconds:.0f} s")
