"""Comparing two runs with `shoal verify`. Usage: verify_test.py SHOAL [unittest arguments]"""

import json
import shutil
import struct
import unittest
import zlib

from program import SharedFolderTest, shoal

# Updates of 512 steps.
TRAIN = ["train", "cartpole-ppo", "--quiet", "--set", "stop_return=inf", "--set", "schedule_steps=10000", "--set", "sampler.kind=parallel-gpu", "--envs", "32",
         "--set", "sampler.horizon=16"]


class Checkpoint:
    """A checkpoint file with changeable elements."""

    def __init__(self, file):
        self.file = file
        data = file.read_bytes()
        length, = struct.unpack_from("<Q", data, 8)
        self.header = json.loads(data[16:16 + length])
        self.bytes = bytearray(data[16 + length:-4])

    def place(self, name):
        """The offset of the bytes of a tensor."""
        sizes = {"Byte": 1, "Bool": 1, "Int": 4, "Long": 8, "Float": 4, "Double": 8, "BFloat16": 2}
        at = 0
        for tensor in self.header["tensors"]:
            if tensor["name"] == name:
                return at
            size = sizes[tensor["type"]]
            for n in tensor["shape"]:
                size *= n
            at += size
        raise KeyError(name)

    def write(self):
        header = json.dumps(self.header).encode()
        data = b"SHOALCK1" + struct.pack("<Q", len(header)) + header + self.bytes
        self.file.write_bytes(data + struct.pack("<I", zlib.crc32(data)))


class VerifyTest(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_of("a")

    @classmethod
    def run_of(cls, name, *more, steps=2048):
        shoal(*TRAIN, "--out", cls.dir / name, "--steps", steps, *more)
        return cls.dir / name

    def copy_of_a(self, name):
        shutil.copytree(self.dir / "a", self.dir / name)
        return self.dir / name

    def verify(self, other, status):
        return shoal("verify", self.dir / "a", other, status=status).stdout

    def test_the_same_run_twice_is_the_same(self):
        text = self.verify(self.run_of("twice"), 0)
        self.assertEqual(text.splitlines(), ["settings: the same", "progress.csv: 4 rows are the same, except for the columns of time",
                                             "model.ckpt: the same", "the same"])

    def test_where_a_run_trains_is_no_difference(self):
        text = self.verify(self.run_of("elsewhere", "--sampler", "serial"), 0)
        self.assertIn('settings: sampler.kind is "parallel-gpu" in A and "serial" in B (not counted)', text)

    def test_another_seed_is_told_with_the_first_row_and_tensor(self):
        text = self.verify(self.run_of("seed", "--seed", 2), 1)
        self.assertIn("settings: seed is 1 in A and 2 in B\n", text)
        self.assertRegex(text, r"progress.csv: row 1 \(512 steps\) is the first that differs: \w+ is \S+ in A and \S+ in B; \d+ more")
        self.assertRegex(text, r"model.ckpt: \d+ of \d+ tensors differ; the first: \S+ differs in \d+ of \d+ elements, first in \[")
        self.assertTrue(text.endswith("\ndifferent\n"))

    def test_one_cell_of_one_row_is_found(self):
        run = self.copy_of_a("cell")
        lines = (run / "progress.csv").read_text().splitlines()
        columns, cells = lines[0].split(","), lines[3].split(",")
        at = columns.index("episodes")
        old, cells[at] = cells[at], "7"
        cells[columns.index("sps")] = "1"  # of time: may differ
        lines[3] = ",".join(cells)
        (run / "progress.csv").write_text("\n".join(lines) + "\n")
        text = self.verify(run, 1)
        self.assertIn(f"progress.csv: row 3 (1536 steps) is the first that differs: episodes is {old} in A and 7 in B\n", text)
        self.assertIn("model.ckpt: the same\n", text)

    def test_one_bit_of_one_tensor_is_found(self):
        run = self.copy_of_a("bit")
        checkpoint = Checkpoint(run / "model.ckpt")
        name = next(t["name"] for t in checkpoint.header["tensors"] if len(t["shape"]) == 2 and t["type"] == "Float")
        at = checkpoint.place(name)
        columns = next(t["shape"][1] for t in checkpoint.header["tensors"] if t["name"] == name)
        checkpoint.bytes[at + 4 * (columns + 1)] ^= 1  # the lowest bit of element [1, 1]
        checkpoint.header["counters"]["updates"] += 1
        checkpoint.write()
        text = self.verify(run, 1)
        self.assertIn("progress.csv: 4 rows are the same", text)
        self.assertIn("model.ckpt: 1 of 4 counters differ; the first: updates is 4 in A and 5 in B\n", text)
        self.assertRegex(text, rf"1 of \d+ tensors differ; the first: {name} differs in 1 of \d+ elements, first in \[1, 1\]: (\S+) in A and (?!\1)\S+ in B\n")

    def test_of_a_shorter_run_the_common_part_is_compared(self):
        shorter = self.run_of("shorter", steps=1024)
        text = self.verify(shorter, 3)
        self.assertIn("progress.csv: 4 rows in A and 2 in B; 2 of the same steps are compared\n", text)
        self.assertTrue(text.endswith("\nthe same so far: 2 rows of progress.csv, to step 1024\n"), text)
        self.assertIn("model.ckpt: at 2048 steps in A and 1024 in B, not compared\n", text)
        shoal("train", "--resume", shorter, "--steps", 2048, "--quiet")
        self.assertIn("model.ckpt: the same\n", self.verify(shorter, 0))

    def test_rows_where_a_run_has_ended_are_not_compared(self):
        log = ["--set", "log_steps=1000", "--set", "schedule_steps=8192"]
        a, b = self.run_of("later", *log, steps=3584), self.run_of("earlier", *log, steps=2560)
        self.assertEqual(shoal("verify", a, b, status=3).stdout.splitlines()[-1], "the same so far: 2 rows of progress.csv, to step 2048")
        shoal("train", "--resume", b, "--steps", 3584, "--quiet")
        self.assertIn("model.ckpt: the same\n", shoal("verify", a, b).stdout)

    def test_older_checkpoints_of_as_many_steps_are_compared(self):
        keep = ["--set", "keep_checkpoints=9", "--set", "checkpoint_steps=512"]
        long, short = self.run_of("long", *keep), self.run_of("short", *keep, steps=1024)
        text = shoal("verify", long, short, status=3).stdout
        self.assertIn("checkpoint-000000001024.ckpt: the same\n", text)
        self.assertNotIn("checkpoint-000000002048.ckpt", text)
        self.assertRegex(text, r"the same so far: 2 rows of progress.csv, to step 1024; .*checkpoint-000000001024.ckpt\n$")

    def test_a_run_without_its_last_checkpoint_has_not_come_as_far(self):
        run = self.copy_of_a("unfinished")
        (run / "model.ckpt").unlink()
        self.assertTrue(self.verify(run, 3).endswith("the same so far: 4 rows of progress.csv, to step 2048\n"))

    def test_rows_that_end_before_the_checkpoint_are_missing(self):
        log = ["--set", "log_steps=1000"]
        whole = self.run_of("sparse", *log)
        for name, of, kept, reached, due in (("cut", self.dir / "a", 2, 1024, 2048), ("no rows", self.dir / "a", 0, 0, 2048),
                                             ("cut sparse", whole, 1, 1024, 2048)):
            with self.subTest(name):
                run = self.dir / name
                shutil.copytree(of, run)
                lines = (run / "progress.csv").read_text().splitlines(keepends=True)
                (run / "progress.csv").write_text("".join(lines[:1 + kept]))
                said = f"progress.csv: the rows of B end at step {reached}, expected {due}, for its model.ckpt: rows are missing\n"
                self.assertIn(said, shoal("verify", of, run, status=1).stdout)
                self.assertIn("the rows of A end", shoal("verify", run, run, status=1).stdout)
        (run / "progress.csv").write_text("")
        self.assertIn("rows are missing", shoal("verify", whole, run, status=1).stdout)

    def test_what_is_no_run_is_a_mistake(self):
        self.assertIn("expected a run folder", shoal("verify", self.dir / "a", self.dir, status=2).stderr)
        self.assertIn("B is required", shoal("verify", self.dir / "a", status=2).stderr)
        empty = self.copy_of_a("empty")
        (empty / "progress.csv").write_text("")
        (empty / "model.ckpt").unlink()
        self.assertIn("nothing to compare", shoal("verify", self.dir / "a", empty, status=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
