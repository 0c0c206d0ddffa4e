"""Runs the code cells of notebooks, as Jupyter would, without it."""

import ast
import json
import pathlib
from typing import Any


def cells(file: pathlib.Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]


def run(file: pathlib.Path, replaced: dict[str, str]) -> list[Any]:
    """The value of the last expression of each code cell, or None.

    replaced: parts of the source, such as a number of steps.
    """
    names: dict[str, Any] = {}
    values = []
    for i, source in enumerate(cells(file)):
        for old, new in replaced.items():
            source = source.replace(old, new)
        body = ast.parse(source, f"{file.name}, code cell {i + 1}").body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), f"{file.name}, code cell {i + 1}", "exec"), names)
        values.append(
            eval(compile(ast.Expression(last.value), f"{file.name}, code cell {i + 1}", "eval"), names)
            if last
            else None
        )
    return values
