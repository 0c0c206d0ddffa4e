"""`python -m shoal train ...`: the same program as the command `shoal`."""

import os
import signal
import sys

from ._core import run_command_line


def main() -> int:
    # The command would set it by executing itself again; the package has set it before torch was loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # The command handles Ctrl-C. Python would see it only after the command has returned.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command_line(["shoal", *sys.argv[1:]], [sys.executable, "-m", "shoal"])


if __name__ == "__main__":
    sys.exit(main())
