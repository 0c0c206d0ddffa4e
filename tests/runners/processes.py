"""Queries of running processes, and ports for them."""

import contextlib
import itertools
import os
import pathlib
import socket
import time

PORTS = itertools.count(12_000 + os.getpid() % 8_000)  # the system gives none of these to anybody who asks for a free one


def free_port():
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port


def fields(pid):
    """The fields of /proc/PID/stat after the name, from the state on; those of a zombie if the process is gone."""
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ["Z", "0"]


def runs(pid):
    return fields(pid)[0] != "Z"


def everybody():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def children(pid):
    """The running children of a process."""
    return sorted(child for child in everybody() if int(fields(child)[1]) == pid and runs(child))


def family(pid):
    """A process and all its descendants."""
    return [pid, *(member for child in children(pid) for member in family(child))]


def marked(mark):
    """The running processes whose environment contains this text, orphans among them."""
    found = []
    for pid in everybody():
        with contextlib.suppress(OSError):
            if mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes() and runs(pid):
                found.append(pid)
    return found


def wait_until(condition, seconds=60, interval=0.01):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"what was waited for did not come within {seconds} s")
        time.sleep(interval)
