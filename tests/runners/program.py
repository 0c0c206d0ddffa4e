"""The program that a test is about, and folders for what it writes. Importing this takes the program from the command line of
the test, where it is the first argument."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SHOAL = os.path.abspath(sys.argv.pop(1))


def shoal(*arguments, program=SHOAL, status=0, timeout=100, stdout=subprocess.PIPE, **options):
    """Runs the program to its end; another exit status is a failure (None: any will do)."""
    done = subprocess.run([program, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=timeout, **options)
    if status not in (None, done.returncode):
        raise AssertionError(f"{arguments}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return done


# Rollouts of 512 steps; only the number of steps ends a run.
SHORT = ["--set", "stop_return=off", "--set", "checkpoint_seconds=1000", "--set", "sampler.horizon=16", "--set", "sampler.kind=parallel-gpu",
         "--set", "sampler.workers=1"]


def train(out, *arguments):
    """Trains the preset cartpole-ppo with SHORT."""
    return shoal("train", "cartpole-ppo", "--out", out, *SHORT, *arguments)


class FolderTest(unittest.TestCase):
    """A test with a folder of its own, dir."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)


class SharedFolderTest(unittest.TestCase):
    """Tests with one folder, dir."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = pathlib.Path(temporary.name)
