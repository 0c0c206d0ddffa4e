"""The progress of a run: its columns, a chart of them, and a display while it trains."""

from __future__ import annotations

import csv
import math
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from .packages import needs


def read_progress(folder: str | os.PathLike[str], newest: bool = False) -> dict[str, list[float]]:
    """The columns of progress.csv, NaN where a cell is empty. {} before its first row. newest: of the last row only."""
    try:
        with open(pathlib.Path(folder) / "progress.csv", newline="") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):  # of a file of weights
        return {}
    lines = text[: text.rfind("\n") + 1].splitlines()  # a last row without its end is incomplete
    first, *rest = [line for line in lines if not line.startswith("#")] or [""]
    header, *rows = csv.reader([first, *(rest[-1:] if newest else rest)])
    cells = [[float(cell) if cell else math.nan for cell in row] for row in rows]
    return {name: [row[i] if i < len(row) else math.nan for row in cells] for i, name in enumerate(header)}


def plot_progress(progress: dict[str, list[float]], columns: tuple[str, ...], x: str, axes: Any, label: str) -> Any:
    with needs("matplotlib", "plot()"):
        from matplotlib import pyplot
    for name in (x, *columns):
        if name not in progress:
            raise ValueError(f"found the column {name!r}, expected one of progress.csv: {', '.join(progress)}")
    axes = axes or pyplot.subplots()[1]
    for name in columns:
        points = [(at, value) for at, value in zip(progress[x], progress[name]) if not math.isnan(value)]
        axes.plot(*zip(*points), label=label if len(columns) == 1 else f"{label} {name}")
    axes.set_xlabel(x)
    axes.set_ylabel(columns[0] if len(columns) == 1 else "")
    axes.legend()
    return axes


class Display:
    """Shows the newest row of a run while the `with` block trains: a line of a terminal, or a bar in a notebook."""

    def __init__(self, folder: str | os.PathLike[str], steps: int, interval: float = 0.5) -> None:
        self._folder, self._steps, self._interval = folder, steps, interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._notebook = _notebook_display()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._show()
        if not self._notebook:
            print(file=sys.stderr)

    def _watch(self) -> None:
        while not self._end.wait(self._interval):
            self._show()

    def _show(self) -> None:
        done, text = describe(read_progress(self._folder, newest=True), self._steps, time.monotonic() - self._began)
        if self._notebook:
            self._notebook(f'<progress value="{done:.4f}" max="1" style="width: 20em"></progress> <code>{text}</code>')
        else:
            print(f"\r{text:79}", end="", file=sys.stderr, flush=True)


def describe(progress: dict[str, list[float]], steps: int, seconds: float) -> tuple[float, str]:
    """The share of the steps that are done, and a line about the newest row."""
    if not progress or not progress["steps"]:
        return 0.0, f"starting, {_clock(seconds)}"
    newest = {name: values[-1] for name, values in progress.items()}
    done = min(newest["steps"] / steps, 1)
    parts = [f"{newest['steps']:,.0f} of {steps:,} steps ({done:.0%})"]
    if not math.isnan(newest.get("return_mean", math.nan)):
        parts.append(f"return {newest['return_mean']:.4g}")
    if newest.get("sps", 0) > 0:
        parts.append(f"{newest['sps']:,.0f} steps/s")
        parts.append(f"{_clock((steps - newest['steps']) / newest['sps'])} left" if done < 1 else _clock(seconds))
    return done, ", ".join(parts)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _notebook_display() -> Callable[[str], None] | None:
    """A function that shows HTML in place of what it showed before; None outside a notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import display, get_ipython

    if getattr(get_ipython(), "kernel", None) is None:
        return None
    handle = display.display(display.HTML(""), display_id=True)
    return lambda html: handle.update(display.HTML(html))
