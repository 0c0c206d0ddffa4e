"""The program, run where packages of environments are."""

import os
import pathlib
import sys

from program import shoal

PACKAGES = pathlib.Path(__file__).parent / "toy_packages"


def output(*arguments, status=0):
    """What it prints."""
    done = shoal(*arguments, status=status, cwd=PACKAGES, env={**os.environ, "SHOAL_PYTHON": sys.executable})
    return done.stdout + done.stderr
