#!/usr/bin/env python3
"""Draws the learning curves of run folders as an SVG that reads well on light and on dark pages.

    scripts/plot_curve.py runs/a runs/b --out curve.svg [--x seconds] [--title TEXT] [--goal 475]

Needs nothing but Python. Each curve is a column of a run's progress.csv against another.
"""
import argparse
import csv
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 48, 52
COLOURS = ["#2f81f7", "#e0762c", "#3fa34d", "#a667d8", "#d4485f", "#2aa5a5"]
STYLE = """
    text { font: 13px sans-serif; fill: #57606a; }
    .title { font-size: 15px; font-weight: 600; fill: #1f2328; }
    .grid { stroke: #8c959f; stroke-opacity: 0.3; }
    .goal { stroke: #8c959f; stroke-dasharray: 5 4; }
    .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
    @media (prefers-color-scheme: dark) { text { fill: #9198a1; } .title { fill: #f0f6fc; } }
"""


def read_run(folder, x, y):
    """The curve's points and the run's seed."""
    file = folder / "progress.csv"
    try:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    except OSError as error:
        sys.exit(f"cannot read {file}: {error.strerror}; name folders that `shoal train` made")
    for column in (x, y):
        if rows and column not in rows[0]:
            sys.exit(f"{file} has no column '{column}'; it has {', '.join(rows[0])}")
    points = [(float(row[x]), float(row[y])) for row in rows]
    points = [p for p in points if all(map(math.isfinite, p))]
    if not points:
        sys.exit(f"{file} holds no numbers to draw yet")
    try:
        seed = json.loads((folder / "summary.json").read_text())["seed"]
    except OSError:
        seed = "?"
    return points, seed


def ticks(low, high, about=5):
    """Round numbers that cover [low, high]."""
    step = 10 ** math.floor(math.log10((high - low) / about))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= about)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def label(number):
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def draw(curves, options):
    xs = [x for points, _ in curves for x, _ in points]
    ys = [y for points, _ in curves for _, y in points] + ([] if options.goal is None else [options.goal])
    # The axis ends where the longest run does; the other one at round numbers.
    low_x, high_x = 0, max(xs)
    y_ticks = ticks(min(ys), max(max(ys), min(ys) + 1e-6))
    x_ticks = [x for x in ticks(low_x, high_x) if x <= high_x]

    def px(x):
        return LEFT + (x - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def py(y):
        return HEIGHT - BOTTOM - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
           f"  <title>{escape(options.title)}</title>", f"  <style>{STYLE}  </style>",
           f'  <text class="title" x="{LEFT}" y="26">{escape(options.title)}</text>']
    for y in y_ticks:
        out.append(f'  <path class="grid" d="M{LEFT} {py(y):.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'  <text x="{LEFT - 8}" y="{py(y) + 4:.1f}" text-anchor="end">{label(y)}</text>')
    for x in x_ticks:
        out.append(f'  <text x="{px(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{label(x)}</text>')
    out.append(f'  <text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
               f"{escape(options.x_label or options.x)}</text>")
    if options.goal is not None:
        out.append(f'  <path class="goal" d="M{LEFT} {py(options.goal):.1f}H{WIDTH - RIGHT}"/>')
    for i, (points, seed) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        path = "L".join(f"{px(x):.1f} {py(y):.1f}" for x, y in points)
        out.append(f'  <path class="curve" stroke="{colour}" d="M{path}"/>')
        out.append(f'  <text x="{WIDTH - RIGHT - 8}" y="{HEIGHT - BOTTOM - 12 - 18 * (len(curves) - 1 - i)}" '
                   f'text-anchor="end" style="fill:{colour}">seed {escape(str(seed))}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN", help="run folders")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the SVG file to write")
    parser.add_argument("--x", default="steps", help="column of progress.csv (default: steps)")
    parser.add_argument("--y", default="return_mean", help="column of progress.csv (default: return_mean)")
    parser.add_argument("--x-label", help="what to write below the axis (default: the column's name)")
    parser.add_argument("--title", default="Mean return of the last 100 episodes")
    parser.add_argument("--goal", type=float, help="draw a dashed line at this return")
    options = parser.parse_args()
    curves = [read_run(run, options.x, options.y) for run in options.runs]
    options.out.write_text(draw(curves, options))


if __name__ == "__main__":
    main()
