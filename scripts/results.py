#!/usr/bin/env python3
"""The tables of docs/results.md: copies the results of trainings, and writes the page.

results.py collect SHOAL TABLE RUNS --commit TEXT
    Copies summaries and curves of the runs of `shoal launch results/TABLE/sweep.toml --out RUNS`, also of unfinished ones.
    A run that has ended is evaluated on 100 episodes of fresh seeds, greedily and with sampled actions, unless that is
    already done. The policy of the best seed goes into results/zoo/.
results.py report SHOAL [--out FOLDER]
    Writes results.md and the folder results/ with the curves, into docs/ or FOLDER. The page shows the films of docs/films/,
    named like the policies of results/zoo/.

A table is a folder of results/: sweep.toml, the file for launch; table.toml, its title, its text, published scores, and
together, for a column which variants to draw over it in one figure; for each variant of the sweep config.toml, runs.json
(one entry for each seed), and SEED.csv, the thinned progress.csv.
"""

import argparse
import csv
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ["steps", "seconds", "episodes", "return_mean", "eval_return"]
ROWS = 100
EVALUATIONS = {"greedy": [], "sampled": ["--sample"]}
# Student's t: half of a 95 % interval in standard errors, for 3, 4, ... seeds.
T = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]


def thinned(path):
    """About ROWS rows of a progress.csv, evenly spaced, with the last one and all evaluations, and before them the header."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return []
    every = -(-len(rows) // ROWS)
    kept = [row for i, row in enumerate(rows) if i % every == every - 1 or i == len(rows) - 1 or row.get("eval_return", "") not in ("", "nan")]
    header = [column for column in COLUMNS if column in rows[0]]
    return [header] + [[row[column] for column in header] for row in kept]


def evaluation(shoal, run, flags):
    line = subprocess.run([shoal, "eval", run, "--episodes", "100", "--json", *flags], check=True, capture_output=True, text=True)
    return {key: value for key, value in json.loads(line.stdout).items() if key != "infos"}


def settings_of(config):
    """The text of a config.toml without its comments."""
    return "".join(re.sub(r"\s+#.*", "", line) for line in config.read_text().splitlines(keepends=True) if not line.startswith("#"))


# Settings that change no result.
FREE = {"seed", "device", "threads", "log_steps", "checkpoint_seconds", "checkpoint_steps", "keep_checkpoints",
        "sampler.kind", "sampler.workers", "sampler.groups", "sampler.pin", "sampler.cores"}


def require_same_settings(config, kept):
    """The seeds of a row have the same settings."""

    def settings(table, prefix=""):
        for key, value in table.items():
            yield from settings(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]

    new, old = (dict(settings(tomllib.loads(file.read_text()))) for file in (config, kept))
    for key in sorted((new.keys() & old.keys()) - FREE):
        named = key == "model.name" and "auto" in (new[key], old[key])  # "auto" was spelled out by some versions
        if new[key] != old[key] and not named:
            raise SystemExit(f"{config} has {key} = {new[key]}, but {kept} has {old[key]}; remove the other seeds first")


def collect(options):
    table = ROOT / "results" / options.table
    variants = tomllib.loads((table / "sweep.toml").read_text())["variant"]
    found = {variant: {run.name.removeprefix(variant + "-"): run for run in options.runs.glob(variant + "-*/")} for variant in variants}
    for variant, runs in found.items():
        runs = {seed: run for seed, run in sorted(runs.items()) if seed.isdigit() and (run / "config.toml").exists()}
        if any([collect_run(options, table / variant, seed, run) for seed, run in runs.items()]):
            export_best(options, table / variant, runs)


def export_best(options, folder, runs):
    entries = {seed: entry["greedy"]["mean_return"] for seed, entry in json.loads((folder / "runs.json").read_text()).items() if "greedy" in entry}
    best = max(entries, key=lambda seed: (entries[seed], -int(seed)), default=None)
    if best not in runs:
        return
    (ROOT / "results" / "zoo").mkdir(exist_ok=True)
    out = ROOT / "results" / "zoo" / f"{folder.name}.safetensors"
    subprocess.run([options.shoal, "export", runs[best], "--half", "--out", out], check=True, stdout=subprocess.DEVNULL)


def collect_run(options, folder, seed, run):
    """Whether there was something new."""
    if not (run / "summary.json").exists():
        print(f"{run.name}: no summary.json yet, left out", flush=True)
        return False
    summary = json.loads((run / "summary.json").read_text())
    kept = folder / "runs.json"
    entries = json.loads(kept.read_text()) if kept.exists() else {}
    entry = {key: summary[key] for key in ("final_return", "steps", "episodes", "seconds", "ended_by")}
    before = entries.get(seed, {})
    if entry.items() <= before.items():
        return False
    if entry["steps"] < before.get("steps", 0):
        print(f"{run.name}: left out, it has {entry['steps']} steps and {kept.relative_to(ROOT)} has {before['steps']}; "
              "delete that entry to replace it", flush=True)
        return False
    entry["commit"] = options.commit
    if entries.keys() - {seed}:
        require_same_settings(run / "config.toml", folder / "config.toml")
    if entry["ended_by"] in ("steps", "stop_return"):
        entry |= {name: evaluation(options.shoal, run, flags) for name, flags in EVALUATIONS.items()}
    folder.mkdir(exist_ok=True)
    entries[seed] = entry
    if int(seed) == min(map(int, entries)):
        (folder / "config.toml").write_text(settings_of(run / "config.toml"))
    with (folder / f"{seed}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(thinned(run / "progress.csv"))
    kept.write_text(json.dumps({key: entries[key] for key in sorted(entries, key=int)}, indent=1) + "\n")
    print(f"{folder.name}, seed {seed}: {number(entry['final_return'])} after {entry['steps']} steps", flush=True)
    return True


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def interval(values):
    """Mean and 95 % interval over seeds, or both values of two; of those that have the value."""
    values = [value for value in values if value is not None]
    if len(values) < 3:
        return " and ".join(map(number, values))
    half = T[min(len(values) - 3, len(T) - 1)] * statistics.stdev(values) / len(values) ** 0.5
    return f"{number(statistics.mean(values))} ± {number(half)}"


def plot(shoal, folders, flags, out):
    """For each variant the mean of the seeds with its interval. The command reads run folders, which are put together here."""
    with tempfile.TemporaryDirectory() as temporary:
        runs = []
        for folder in folders:
            for progress in sorted(folder.glob("*.csv"), key=lambda path: int(path.stem)):
                run = pathlib.Path(temporary) / folder.name / progress.stem
                run.mkdir(parents=True)
                shutil.copy(folder / "config.toml", run)
                shutil.copy(progress, run / "progress.csv")
                runs.append(run)
        subprocess.run([shoal, "plot", *runs, *flags, "--out", out], check=True, stdout=subprocess.DEVNULL)


def variants_of(folder, table):
    """The variants that have results, in the order of table.toml, then by name."""
    order = list(table.get("goal", {})) + list(table.get("published", {}))
    found = [path.parent for path in folder.glob("*/runs.json")]
    return sorted(found, key=lambda path: (order.index(path.name) if path.name in order else len(order), path.name))


def write_table(shoal, folder, out):
    table = tomllib.loads((folder / "table.toml").read_text())
    goals, published = table.get("goal", {}), table.get("published", {})
    peers = list(dict.fromkeys(peer for scores in published.values() for peer in scores))
    heads = [table["row"], "seeds", "steps", "last 100 episodes", "greedy", "sampled", "seconds"]
    heads += (["goal", "reached by"] if goals else []) + peers
    lines = [f"## {table['title']}", "", table["text"].strip(), "", f"    shoal launch results/{folder.name}/sweep.toml --out runs/{folder.name}", "",
             f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    curves = []
    for variant in variants_of(folder, table):
        runs = json.loads((variant / "runs.json").read_text()).values()
        ended = [run for run in runs if "greedy" in run]
        shown = ended or runs
        steps = sorted({run["steps"] for run in shown})
        goal = goals.get(variant.name)
        cells = [f"`{variant.name}`" if table["row"] == "preset" else variant.name,
                 str(len(runs)) if len(ended) == len(runs) else f"{len(ended)} of {len(runs)}",
                 f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}", interval([run["final_return"] for run in shown])]
        cells += [interval([run[name]["mean_return"] for run in ended]) for name in EVALUATIONS]
        cells.append(number(statistics.median(run["seconds"] for run in shown)))
        if goals:
            reached = sum(run["greedy"]["mean_return"] >= goal for run in ended) if goal is not None else 0
            cells += ["" if goal is None else number(goal), "" if goal is None else f"{reached} of {len(shown)}"]
        cells += [number(published[variant.name][peer]) if peer in published.get(variant.name, {}) else "" for peer in peers]
        lines.append(f"| {' | '.join(cells)} |")
        name = f"results/{folder.name}-{variant.name}.png"
        flags = ["--title", f"{variant.name}: mean return of the last 100 episodes"] + ([] if goal is None else ["--goal", str(goal)])
        plot(shoal, [variant], flags, out / name)
        curves.append(f"![{variant.name}: {cells[3]} at the end]({name})")
    for x, names in table.get("together", {}).items():
        name = f"results/{folder.name}-by-{x}.png"
        together = [folder / variant for variant in names]
        plot(shoal, together, ["--title", f"{table['title']}: mean return of the last 100 episodes", "--x", x], out / name)
        lines += ["", f"![Returns by {x}: {', '.join(variant.name for variant in together)}]({name})"]
    commits = sorted({run["commit"] for path in folder.glob("*/runs.json") for run in json.loads(path.read_text()).values()})
    return lines + ["", f"Trained with the program of commit {', '.join(commits)}.", "", *curves, ""]


PAGE = """# Results

Every figure of this page is computed by `scripts/results.py report` from the files in
[`results`](../results). The command below the text of a table trains it again, `scripts/results.py
collect` copies summaries and curves to these files, and `report` writes this page.

*Last 100 episodes* is the mean return of the last 100 training episodes. *Greedy* and *sampled* are
means of 100 evaluation episodes of seeds that training never has, with the most likely action and
with actions drawn as in training, the same initial states for all seeds. All three are means over
seeds with a 95 % confidence interval (Student's t), or the values of both seeds where there are two.
The interval covers the variation between trainings, not that of the evaluation episodes. *Seconds*
are the median of one run. Runs that did not reach a goal are in the tables. Where runs have not come
to their end, *seeds* says how many have, and the other columns are of those, if there are any.
"""

FILMS = """## Films

The policies of the best seeds come with Shoal; `shoal zoo` lists them. These are greedy episodes, or
their first seconds, as `shoal play zoo:half-cheetah-sac --max-steps 60 --video film.gif` makes them.
"""


def report(options):
    out = options.out
    (out / "results").mkdir(parents=True, exist_ok=True)
    for old in (out / "results").glob("*.png"):
        old.unlink()
    lines = [PAGE]
    for folder in sorted({path.parents[1] for path in (ROOT / "results").glob("*/*/runs.json")}):
        lines += write_table(options.shoal, folder, out)
    films = sorted((ROOT / "docs" / "films").glob("*.gif"))
    lines += [FILMS, *(f"![{film.stem}, playing](films/{film.name})" for film in films)]
    (out / "results.md").write_text("\n".join(lines).rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    keep = commands.add_parser("collect", help="keep the runs of a sweep in results/")
    keep.add_argument("shoal", type=pathlib.Path, help="the command")
    keep.add_argument("table", help="folder of results/")
    keep.add_argument("runs", type=pathlib.Path, help="folder of the runs")
    keep.add_argument("--commit", required=True, help="of the program that trained them")
    keep.set_defaults(run=collect)
    page = commands.add_parser("report", help="write docs/results.md")
    page.add_argument("shoal", type=pathlib.Path, help="the command")
    page.add_argument("--out", type=pathlib.Path, default=ROOT / "docs", help="folder of results.md; default: docs")
    page.set_defaults(run=report)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
