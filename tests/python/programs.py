"""Programs in Python that tests run, and the processes that a program has started."""

import os
import subprocess
import sys
import textwrap


def children(pid="self"):
    with open(f"/proc/{pid}/task/{os.getpid() if pid == 'self' else pid}/children") as file:
        return [int(each) for each in file.read().split()]


def run(script: str, timeout=60, **options):
    """Runs a program, and returns it."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        timeout=timeout,
        text=True,
        capture_output=True,
        cwd=os.path.dirname(__file__),
        **options,
    )
