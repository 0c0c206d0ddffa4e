"""Reads event files of `shoal train --set tensorboard=true` with the tensorboard package. Usage: tensorboard_test.py SHOAL

Exit status 77: that package is not installed."""

import csv
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    sys.exit(77)

shoal = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    run = pathlib.Path(folder, "run")
    train = [shoal, "train", "cartpole-ppo", "--quiet", "--out", run, "--steps", "2048", "--set", "sampler.horizon=16",
             "--set", "tensorboard=true", "--set", "schedule_steps=10000", "--set", "stop_return=inf"]
    subprocess.run(train, check=True, timeout=60)
    early = (run / "model.ckpt").read_bytes()
    subprocess.run([shoal, "train", "--quiet", "--resume", run, "--steps", "3072"], check=True, timeout=60)
    (run / "model.ckpt").write_bytes(early)  # as if the last part had been killed: its rows are trained again
    subprocess.run([shoal, "train", "--quiet", "--resume", run, "--steps", "4096"], check=True, timeout=60)

    with open(run / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
    tags = {tag.split("/")[1]: tag for tag in events.Tags()["scalars"]}
    (text,) = events.Tensors("settings")[-1:]
    config = (run / "config.toml").read_text()

assert config in text.tensor_proto.string_val[0].decode(), text
assert {tag.split("/")[0] for tag in tags.values()} == {"rollout", "train", "time"}, tags
assert (tags["return_mean"], tags["sps"], tags["policy_loss"]) == ("rollout/return_mean", "time/sps", "train/policy_loss")
assert set(tags) == set(rows[0]) - {"steps"}, set(tags) ^ set(rows[0])
for column, tag in tags.items():
    expected = [(int(row["steps"]), float(row[column])) for row in rows if not math.isnan(float(row[column]))]
    found = [(event.step, event.value) for event in events.Scalars(tag)]
    assert [step for step, _ in found] == [step for step, _ in expected], (tag, found, expected)
    for (_, a), (_, b) in zip(found, expected):
        assert math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5), (tag, a, b)
print(f"{len(tags)} curves of {len(rows)} points, equal to progress.csv")
