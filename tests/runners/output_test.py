"""Output that cannot be written, files that are damaged, and limits of the system. Usage: output_test.py SHOAL [unittest arguments]"""

import resource
import unittest

from program import SharedFolderTest, shoal

SHORT = ["--quiet", "--sampler", "serial", "--set", "stop_return=inf", "--set", "sampler.horizon=16", "--set",
         "schedule_steps=0"]


def limit(what, value):
    return lambda: resource.setrlimit(what, (value, value))


class OutputTest(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.dir / "run"
        shoal("train", "cartpole-ppo", "--out", cls.run_folder, *SHORT, "--steps", 1024)

    def assert_told(self, word, status, *arguments, **options):
        errors = shoal(*arguments, status=status, **options).stderr
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertLess(len(errors), 500)
        self.assertIn(word, errors)

    def test_what_cannot_be_printed_is_a_failure(self):
        for arguments in (["--help"], ["--version"], ["list", "settings"], ["check-env", "CartPole-v1", "--steps", 50],
                          ["eval", self.run_folder, "--episodes", 2, "--json"]):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                self.assert_told("cannot write to standard output: ", 1, *arguments, stdout=full)

    def test_a_policy_that_cannot_be_written_leaves_what_was_there(self):
        out = self.dir / "export"
        out.mkdir()
        (out / "policy.pt").write_text("precious")
        self.assert_told("policy.pt: File too large", 1, "export", self.run_folder, "--out", out / "policy.pt",
                         preexec_fn=limit(resource.RLIMIT_FSIZE, 4096))
        self.assertEqual([file.name for file in out.iterdir()], ["policy.pt"])
        self.assertEqual((out / "policy.pt").read_text(), "precious")

    def test_a_chart_that_cannot_be_written_leaves_nothing(self):
        out = self.dir / "charts"
        out.mkdir()
        for name in ("c.png", "c.svg"):
            done = shoal("plot", self.run_folder, "--y", "seconds", "--out", out / name,
                         preexec_fn=limit(resource.RLIMIT_FSIZE, 1024), status=1)
            self.assertIn(f"{name}: File too large", done.stderr)  # fontconfig complains of its cache, too
        self.assertEqual(list(out.iterdir()), [])

    def test_a_training_that_cannot_write_is_not_killed(self):
        self.assert_told("config.toml: File too large", 1, "train", "cartpole-ppo", "--out", self.dir / "small", *SHORT, "--steps", 1024,
                         preexec_fn=limit(resource.RLIMIT_FSIZE, 1024))

    def test_too_little_memory_is_told_even_while_libraries_are_loaded(self):
        told = set()
        for megabytes in range(300, 700, 10):
            done = shoal("--version", preexec_fn=limit(resource.RLIMIT_AS, megabytes * 1_000_000), status=None)
            told.add(done.stderr.split(":")[1] if done.returncode == 1 else done.returncode)
            self.assertIn(done.returncode, (0, 1, 127), f"{megabytes} MB: {done.stderr}")  # 127: the loader's own message
        self.assertLessEqual({127, " LibTorch could not be loaded, probably because memory is limited (`ulimit -v`)", 0}, told)

    def test_too_few_files_are_named(self):
        self.assert_told("cannot be read: Too many open files", 2, "train", "cartpole-ppo", "--out", self.dir / "few", *SHORT,
                         "--steps", 1024, preexec_fn=limit(resource.RLIMIT_NOFILE, 4))

    def test_extreme_toml_is_refused_at_once(self):
        file = self.dir / "x.toml"
        for text, word in ((".".join(["a"] * 50_000) + " = 1", "more than 16 parts"), ("a = " + "[" * 1000, "deep"),
                           ("a" * 1_000_000 + " = 1", "unknown setting 'aaa"), ("#" * 2_000_000, "2000000 bytes"),
                           ("env.id = 'x" + "y" * 500_000 + "'", "...'"), ('env.id = "a\\u0000"', "zero byte")):
            file.write_text(text)
            with self.subTest(text[:20]):
                self.assert_told(word, 2, "train", file, timeout=20)
        self.assert_told("parts", 2, "train", "cartpole-ppo", "--set", "ppo.clip={" + ".".join(["a"] * 50_000) + "=1}")

    def test_a_damaged_progress_file_is_named(self):
        file = self.run_folder / "progress.csv"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        header, *rows = before.splitlines()
        cells = rows[-1].split(",")
        cells[header.split(",").index("seconds")] = "x12"
        file.write_text("\n".join([header, *rows[:-1], ",".join(cells), ""]))
        told = f"progress.csv, line {len(rows) + 1}: seconds is 'x12', expected a number"
        self.assert_told(told, 2, "train", "--resume", self.run_folder, "--steps", 2048, "--set", "schedule_steps=2048")
        self.assert_told(told, 2, "plot", self.run_folder, "--out", self.dir / "no.png")


if __name__ == "__main__":
    unittest.main()
