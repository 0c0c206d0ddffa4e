"""Tests of scripts/gpu_check.py without a GPU. Usage: gpu_check_test.py BUILD [unittest arguments]"""

import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.py"
PARTS = ["Machine", "Kernels", "Captured beside eager updates", "Samples beside the CPU's",
         "Resumed beside whole runs", "Two ranks", "Rates beside bounds",
         "Training cartpole-ppo"]


def has_gpu():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def check(self, script, *arguments):
        return subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True, timeout=150,
                              cwd=self.dir)

    def rows(self):
        """Part to result, from the page."""
        lines = (self.dir / "gpu_check.md").read_text().splitlines()
        cells = [[c.strip() for c in line.split("|")] for line in lines if line.startswith("| ")]
        return {row[1]: row[2] for row in cells if row[1] in PARTS}

    def test_everything_but_the_gpu(self):
        done = self.check(SCRIPT, "--device", "cpu", "--build", BUILD, "--minutes", 2, "--preset", "cartpole-ppo")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(list(self.rows()), PARTS)
        for part, result in self.rows().items():
            self.assertEqual(result, "pass", f"{part}: {done.stdout}")
        page = (self.dir / "gpu_check.md").read_text()
        for text in ("captured beside eager", "updates/s", "| steps | seconds |"):
            self.assertIn(text, page)

    @unittest.skipIf(has_gpu(), "there is a GPU")
    def test_says_that_there_is_no_gpu(self):
        done = self.check(SCRIPT, "--build", BUILD)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("no GPU was found", done.stderr)

    def test_a_part_that_fails_does_not_stop_the_others(self):
        programs = self.dir / "build" / "bin"
        programs.mkdir(parents=True)
        (programs.parent / "build.ninja").touch()
        for name, lines in {"shoal": "[ $1 = --version ] && echo 1 && exit\necho broken\nexit 3",
                            "shoal_bench": "echo broken\nexit 3",
                            "kernels_test": "echo '[       OK ] a test'"}.items():
            (programs / name).write_text(f"#!/bin/sh\n{lines}\n")
            (programs / name).chmod(0o755)
        done = self.check(SCRIPT, "--device", "cpu", "--build", programs.parent, "--minutes", 0.2, "--preset", "cartpole-ppo")
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = self.rows()
        self.assertEqual(rows["Kernels"], "pass")
        self.assertEqual(rows["Captured beside eager updates"], "skipped")
        for part in ("Two ranks", "Rates beside bounds", "Training cartpole-ppo"):
            self.assertEqual(rows[part], "**fail**")
        self.assertIn("broken", (self.dir / "gpu_check.md").read_text())

    def test_what_is_packed_runs_elsewhere(self):
        packed = self.dir / "packed"
        done = self.check(SCRIPT, "--build", BUILD, "--pack", packed)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("gpu_check.py", "revision", "bin/shoal", "bin/captured_graphs_test"):
            self.assertTrue((packed / name).exists(), name)
        torch = next(pathlib.Path(line.split("=> ")[1].split(" (")[0]).parent.parent
                     for line in subprocess.run(["ldd", packed / "bin" / "shoal"], capture_output=True,
                                                text=True).stdout.splitlines() if "libtorch_cpu.so" in line)
        done = self.check(packed / "gpu_check.py", "--device", "cpu", "--torch", torch, "--minutes", 0.01)
        self.assertIn("Machine: pass", done.stdout, done.stderr)
        shutil.rmtree(packed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
