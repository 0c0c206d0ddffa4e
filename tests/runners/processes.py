"""What tests need to know of processes."""

import pathlib


def fields(pid):
    """Those of /proc/PID/stat behind the name, from its state on; none of a process that is gone."""
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ["Z", "0"]


def runs(pid):
    return fields(pid)[0] != "Z"


def children(pid):
    """Those of a process that still run."""
    everybody = [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(child for child in everybody if int(fields(child)[1]) == pid and runs(child))


def family(pid):
    """A process and all that have come from it."""
    return [pid, *(member for child in children(pid) for member in family(child))]
