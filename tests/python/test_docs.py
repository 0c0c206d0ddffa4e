"""The Python blocks of docs/python.md and of the README run, one after the other, and the examples."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import gymnasium
except ImportError:
    gymnasium = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@unittest.skipUnless(gymnasium, "needs Gymnasium")
class DocsTest(unittest.TestCase):
    def test_the_programs_of_the_pages_run(self):
        names = {}
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            self.addCleanup(os.chdir, before)
            for page in ("docs/python.md", "README.md"):
                blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
                self.assertTrue(blocks, page)
                for block in blocks:
                    exec(compile(block, page, "exec"), names)
            os.chdir(before)

    def test_the_examples_run(self):
        examples = sorted((ROOT / "examples/python").glob("*.py"))
        self.assertEqual(len(examples), 5)
        for example in examples:
            with self.subTest(example.name):
                with tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run(
                        [sys.executable, example, "1024"], timeout=100, text=True, capture_output=True, cwd=folder
                    )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.strip())
