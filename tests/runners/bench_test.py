"""Lines of `shoal bench` and shoal-bench, and mistakes of the latter. Usage: bench_test.py SHOAL SHOAL_BENCH [unittest arguments]"""

import json
import os
import sys
import unittest

from program import FolderTest, shoal

SHOAL_BENCH = os.path.abspath(sys.argv.pop(1))
BAD_BENCHES = [
    (["ring", "--item", "vector"], "vectors"),
    (["service", "--experiment", "parameters", "--max-staleness", "2"], "--mode no_batch"),
    (["service", "--mode", "no_batch", "--max-staleness", "2"], "--experiment parameters"),
    (["service", "--experiment", "parameters", "--mode", "no_batch", "--max-staleness", "-2"], "--max-staleness: found -2"),
]


def shoal_bench(*arguments, **options):
    return shoal(*arguments, program=SHOAL_BENCH, **options)


class BenchTest(FolderTest):
    def test_mistakes(self):
        for arguments, word in BAD_BENCHES:
            with self.subTest(" ".join(arguments)):
                done = shoal_bench(*arguments, status=2, cwd=self.dir)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertEqual(list(self.dir.iterdir()), [], "something was written")

    def test_bench_line(self):
        for sampler in ("serial", "parallel-cpu", "parallel-gpu"):
            done = shoal("bench", "sample", "--sampler", sampler, "--runs", "2", "--seconds", "0.05", "--json")
            line = json.loads(done.stdout)
            self.assertEqual((line["bench"], line["peer"], line["unit"]), ("sample_cartpole", "shoal", "env steps/s"))
            self.assertEqual(line["config"]["T"], 128)
            self.assertEqual(len(line["runs"]), 2)
            self.assertTrue(0 < line["min"] <= line["median"] <= line["max"])
            self.assertGreater(min(line["environments_alone"], line["acting_alone"], line["share_of_bound"]), 0)

    def test_bench_line_with_settings(self):
        settings = ("--set", "sampler.horizon=7", "--set", "sampler.envs=6", "--set", "sampler.groups=2")
        done = shoal("bench", "sample", *settings, "--runs", "1", "--seconds", "0.05", "--json")
        config = json.loads(done.stdout)["config"]
        self.assertEqual((config["T"], config["envs"], config["groups"]), (7, 6, 2))

    def test_bench_of_asynchronous_samplers(self):
        for sampler in ("serial", "parallel-cpu", "parallel-gpu"):
            done = shoal("bench", "sample", "--asynchronous", "--sampler", sampler, "--runs", "2", "--seconds", "0.05", "--json")
            line = json.loads(done.stdout)
            self.assertTrue(line["config"]["asynchronous"])
            self.assertGreater(min(line["environments_alone"], line["acting_alone"], line["share_of_bound"]), 0)

    def test_bench_lines_of_the_parts(self):
        for command, bench in [(["replay", "--size", "100000"], "replay"), (["ring"], "queue_ipc"), (["act", "--batch", "4"], "act"),
                               (["act", "--network", "mlp", "--precision", "bf16"], "act"),
                               (["update", "--hidden", "16", "--batch", "32"], "update_sac")]:
            done = shoal_bench(*command, "--runs", "2", "--seconds", "0.05", "--json")
            line = json.loads(done.stdout)
            self.assertEqual((line["bench"], line["peer"], len(line["runs"])), (bench, "shoal", 2))
            self.assertTrue(0 < line["min"] <= line["median"] <= line["max"])
            self.assertGreater(line["bound"], 0)

    def test_bench_of_convolutions(self):
        done = shoal_bench("convolution", "--batch", "2", "--runs", "1")
        rows = done.stdout.splitlines()[1:]
        self.assertEqual(len(rows), 3)
        for row in rows:
            library, own, ratio = map(float, row[24:].split())
            self.assertGreater(min(library, own, ratio), 0)

    def test_bench_act_takes_several_batches(self):
        done = shoal_bench("act", "--network", "mlp", "--batch", "2", "8", "--runs", "2", "--seconds", "0.02", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["config"]["batch"] for line in lines], [2, 8])
        for line in lines:
            self.assertAlmostEqual(line["share_of_bound"], line["bound"] / line["latency_us"], places=3)

    def test_bench_line_of_the_parameter_server(self):
        def line_of(clients, *more):
            done = shoal_bench("service", "--experiment", "parameters", "--clients", clients, "--runs", "2", "--seconds", "0.05", *more)
            return json.loads(done.stdout) if "--json" in more else done.stdout

        line = line_of("2", "--json")
        self.assertEqual((line["bench"], line["unit"], line["config"]["mode"]), ("batch_rpc", "updates/s", "batch"))
        self.assertNotIn("staleness", line)
        alone = line_of("1", "--mode", "no_batch", "--json")
        self.assertEqual(alone["staleness"], {"mean": 0, "most": 0, "refused": 0})
        line = line_of("3", "--mode", "no_batch", "--max-staleness", "1", "--json")
        self.assertEqual(line["config"]["max_staleness"], 1)
        self.assertTrue(0 <= line["staleness"]["mean"] <= line["staleness"]["most"] <= 1, line)
        # The last of three gradients of the same parameters is two updates stale.
        self.assertGreater(line["staleness"]["refused"], 0)
        self.assertIn(" refused", line_of("2", "--mode", "no_batch"))


if __name__ == "__main__":
    unittest.main()
