"""Tests of scripts/results.py. Usage: results_test.py SHOAL [unittest arguments]"""

import csv
import json
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import tomllib
import unittest

SHOAL = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
SWEEP = """
seeds = [1, 2, 3]
[all]
steps = 4096
stop_return = "off"
[variant.first]
base = "cartpole-ppo"
[variant.second]
base = "cartpole-a2c"
"""
TABLE = """
title = "Poles"
row = "preset"
text = "Two of them."
[goal]
second = 9
first = 600
[published.first]
Somebody = 1234.5
"""


class ResultsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def results(self, script, *words):
        return subprocess.run([sys.executable, script, words[0], SHOAL, *map(str, words[1:])], capture_output=True, text=True, timeout=200,
                              check=True).stdout

    def test_the_page_is_what_the_results_say(self):
        self.results(ROOT / "scripts" / "results.py", "report", "--out", self.dir)
        page = (self.dir / "results.md").read_text()
        self.assertEqual(page, (ROOT / "docs" / "results.md").read_text(), "run: scripts/results.py report SHOAL")
        curves = re.findall(r"\((results/.*\.png)\)", page)
        self.assertTrue(curves)
        for film in re.findall(r"\((films/.*\.gif)\)", page):
            self.assertTrue((ROOT / "results" / "zoo" / pathlib.Path(film).with_suffix(".safetensors").name).exists(), film)
        for docs in self.dir, ROOT / "docs":
            self.assertEqual({f"results/{file.name}" for file in (docs / "results").iterdir()}, set(curves))

    def test_the_zoo_has_the_best_seeds(self):
        for kept in (ROOT / "results").glob("*/*/runs.json"):
            returns = {seed: run["greedy"]["mean_return"] for seed, run in json.loads(kept.read_text()).items() if "greedy" in run}
            if not returns:
                continue  # no seed has ended yet
            with (ROOT / "results" / "zoo" / f"{kept.parent.name}.safetensors").open("rb") as file:
                (size,) = struct.unpack("<Q", file.read(8))
                config = tomllib.loads(json.loads(file.read(size))["__metadata__"]["config"])
            self.assertEqual(returns[str(config["seed"])], max(returns.values()), kept)

    def test_tables_name_variants_of_their_sweeps(self):
        for file in (ROOT / "results").glob("*/sweep.toml"):
            variants = set(tomllib.loads(file.read_text())["variant"])
            table = tomllib.loads((file.parent / "table.toml").read_text())
            named = {*table.get("goal", {}), *table.get("published", {}), *(kept.parent.name for kept in file.parent.glob("*/runs.json"))}
            self.assertTrue(named)
            self.assertLessEqual(named, variants)

    def test_trained_kept_and_reported(self):
        script = self.dir / "scripts" / "results.py"
        script.parent.mkdir()
        shutil.copy(ROOT / "scripts" / "results.py", script)
        table = self.dir / "results" / "poles"
        table.mkdir(parents=True)
        (table / "sweep.toml").write_text(SWEEP)
        (table / "table.toml").write_text(TABLE)
        runs = self.dir / "runs"
        subprocess.run([SHOAL, "launch", table / "sweep.toml", "--out", runs], check=True, capture_output=True, timeout=100)
        out = self.results(script, "collect", "poles", runs, "--commit", "abc")
        self.assertEqual(len(out.splitlines()), 6)
        self.assertEqual(self.results(script, "collect", "poles", runs, "--commit", "abc"), "", "nothing is new")

        kept = json.loads((table / "first" / "runs.json").read_text())
        self.assertEqual(list(kept), ["1", "2", "3"])
        greedy = subprocess.run([SHOAL, "eval", runs / "first-2", "--json"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(kept["2"]["greedy"]["mean_return"], json.loads(greedy)["mean_return"])
        self.assertNotEqual(kept["2"]["sampled"], kept["2"]["greedy"])
        best = max(kept, key=lambda seed: kept[seed]["greedy"]["mean_return"])
        weights = self.dir / "weights.safetensors"
        subprocess.run([SHOAL, "export", runs / f"first-{best}", "--half", "--out", weights], check=True, capture_output=True)
        self.assertEqual((self.dir / "results" / "zoo" / "first.safetensors").read_bytes(), weights.read_bytes())
        with (runs / "first-2" / "progress.csv").open() as full, (table / "first" / "2.csv").open() as thin:
            full, thin = list(csv.DictReader(full)), list(csv.DictReader(thin))
        self.assertEqual(thin[-1], {column: full[-1][column] for column in thin[-1]})

        config = runs / "first-1" / "config.toml"
        right = config.read_text()
        summary = runs / "first-1" / "summary.json"
        summary.write_text(summary.read_text().replace('"steps": 4096', '"steps": 4095'))
        self.assertIn("first-1: left out, it has 4095 steps and results/poles/first/runs.json has 4096",
                      self.results(script, "collect", "poles", runs, "--commit", "abc"))
        self.assertEqual(kept, json.loads((table / "first" / "runs.json").read_text()))
        summary.write_text(summary.read_text().replace('"steps": 4095', '"steps": 4097'))
        config.write_text(right.replace("clip = 0.25", "clip = 0.3"))
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.results(script, "collect", "poles", runs, "--commit", "abc")
        self.assertIn("has ppo.clip = 0.3, but", refused.exception.stderr)
        self.assertIn('name = "auto"', right)
        config.write_text(right.replace('name = "auto"', 'name = "mlp"'))
        summary.write_text(summary.read_text().replace('"ended_by": "steps"', '"ended_by": "signal"'))
        shutil.copytree(table / "first", self.dir / "first")
        self.results(script, "collect", "poles", runs, "--commit", "abc")
        (self.dir / "docs").mkdir()
        self.results(script, "report")
        row = next(line for line in (self.dir / "docs" / "results.md").read_text().splitlines() if line.startswith("| `first`"))
        cells = [f"{first:.1f} and {second:.1f}" for first, second in
                 ([kept[seed]["final_return"] for seed in "23"], [kept[seed]["greedy"]["mean_return"] for seed in "23"])]
        self.assertIn(f"| `first` | 2 of 3 | 4,096 | {cells[0]} | {cells[1]} |", row)
        shutil.rmtree(table / "first")
        shutil.move(self.dir / "first", table / "first")

        self.results(script, "report")
        page = (self.dir / "docs" / "results.md").read_text()
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
        self.assertEqual([row[0] for row in rows], ["`second`", "`first`"], "in the order of the goals")
        self.assertEqual(rows[0][-3:], ["9.0", "3 of 3", ""])
        self.assertEqual(rows[1][-3:], ["600.0", "0 of 3", "1,234"])
        returns = [kept[seed]["greedy"]["mean_return"] for seed in kept]
        half = 4.303 * statistics.stdev(returns) / 3**0.5
        self.assertEqual(rows[1][4], f"{statistics.mean(returns):.1f} ± {half:.1f}")
        self.assertTrue((self.dir / "docs" / "results" / "poles-first.png").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
