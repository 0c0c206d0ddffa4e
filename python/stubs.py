"""Writes the type stubs of the package: of the core from its docstrings, of classes and functions with their settings.

Usage: python stubs.py FOLDER, with the package on the path. FOLDER gets _core.pyi, algos.pyi, parts.pyi and
settings.pyi.
"""

import ast
import inspect
import keyword
import pathlib
import re
import sys
import textwrap
import types
from collections.abc import Collection

from shoal import _core, algos, parts, settings

CORE_IMPORTS = """\
import builtins
import collections.abc
import os
import pathlib
import typing
from typing import Any

import torch
"""
SETTING_IMPORTS = "from collections.abc import Sequence\nfrom typing import Literal, TypedDict, Unpack\n"
GENERIC = {"dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]"}


def block(head: str, text: str | None, body: str = "") -> str:
    """A definition with this docstring."""
    text = inspect.cleandoc(text or "").replace("\\", "\\\\").replace('"""', "'''")
    if text:
        text = f'"""{text}' + ("\n" if "\n" in text or text.endswith('"') else "") + '"""\n'
    return f"{head}:\n" + textwrap.indent(text + body or "...\n", "    ")


# The core: pybind11 writes the signatures of functions into their docstrings.


def core_type(text: str) -> str:
    text = text.replace("shoal._core.", "").replace("os.PathLike", "os.PathLike[str]")
    text = re.sub(r"\bset\[", "builtins.set[", text)  # Config has a method of this name
    text = re.sub(r"\bobject\b", "Any", text)
    return re.sub(r"\b(dict|list|tuple)\b(?!\[)", lambda found: GENERIC[found[1]], text)


def core_function(name: str, function: object, method: bool = False) -> str:
    overloads = re.findall(
        rf"^(?:\d+\. )?{name}\((.*)\) -> (.*)\n((?:(?!\d+\. ).*\n)*)", f"{function.__doc__}\n", re.MULTILINE
    )
    text = ""
    for arguments, result, doc in overloads:
        if method:
            arguments = re.sub(r"^\w+: [\w.]+", "self", arguments)
        text += "@typing.overload\n" if len(overloads) > 1 else ""
        text += block(f"def {name}({core_type(arguments)}) -> {core_type(result)}", doc)
    return text


def core_property(name: str, value: property) -> str:
    result = core_type(value.fget.__doc__.strip().rpartition("-> ")[2])
    return "@property\n" + block(f"def {name}(self) -> {result}", value.__doc__)


def core_class(cls: type) -> str:
    body = "".join(f"{name}: {kind.__name__}\n" for name, kind in vars(cls).get("__annotations__", {}).items())
    for name, value in vars(cls).items():
        if isinstance(value, property):
            body += core_property(name, value)
        elif callable(value) and (name == "__init__" or not name.startswith("_")):
            body += core_function(name, value, method=True)
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base.__module__ != "pybind11_builtins")
    return block(f"class {cls.__name__}({bases})", cls.__doc__, body)


def core_stub(module: types.ModuleType) -> str:
    text = CORE_IMPORTS + "\n__version__: str\n"
    for name, value in vars(module).items():
        if isinstance(value, type):
            text += core_class(value)
        elif callable(value):
            text += core_function(name, value)
    return text


# Settings as keywords.

# Those that a keyword may also give by other types than that of the setting.
WIDER = {"gymnasium.kwargs": "str | dict[str, Any]", "init_from": "str | os.PathLike[str]"}


def keywords(algo: str | None, tables: Collection[str] | None, also: Collection[str] = ()) -> dict[str, str]:
    """Name and type of each keyword that gives a setting of these tables (None: all), or one of `also`.

    algo: the algorithm, if it is known; otherwise a name may be a setting of any.
    """
    types: dict[str, set[str]] = {}
    full: dict[str, set[str]] = {}
    described = _core.setting_docs(settings.make_config(algo=algo))
    algos = [algo] if algo else [name for name, _ in _core.algos()]
    for order in (("", *algos), *((table,) for table in settings.TABLES)):  # as key_of() looks it up
        found: dict[str, set[str]] = {}
        for key, _, _, type_, _ in described:
            table, _, name = key.rpartition(".")
            type_ = WIDER.get(key, type_)
            if table in order and (tables is None or table in tables or key in also):
                full[key.replace(".", "__")] = {type_}
                if table != "gymnasium":
                    found.setdefault(name, set()).add(type_)
        types = found | types
    types |= full | {short: full[key.replace(".", "__")] for short, key in settings.SHORT.items() if key in full}
    return {name: " | ".join(sorted(each)) for name, each in types.items() if not keyword.iskeyword(name)}


def typed_dict(name: str, fields: dict[str, str], without: Collection[str]) -> str:
    body = "".join(f"{key}: {type_} | None\n" for key, type_ in fields.items() if key not in without)
    return block(f"class {name}(TypedDict, total=False)", None, body)


def setting_dicts() -> str:
    """What functions take: those with arguments `env` and `algo`, those without, and vector environments."""
    every = "env: str | Callable[..., Any] | None\nalgo: str | None\n"
    return (
        typed_dict("Settings", keywords(None, None), ("base", "env", "algo"))
        + block("class RunSettings(Settings, total=False)", None, every)
        + typed_dict("EnvSettings", keywords(None, *settings.ENV_SETTINGS), ("env",))
    )


# Modules in Python: their source without values and private names, with the signatures and docstrings that classes have
# at run time.


def rest_of(cls: type) -> str:
    """The settings that a class takes besides those in its signature."""
    return typed_dict(f"{cls.__name__}Settings", keywords(*cls.__takes__), inspect.signature(cls).parameters)


def initializer(cls: type) -> str:
    texts = ["self"]
    for each in inspect.signature(cls).parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        if each.kind is each.VAR_KEYWORD:
            texts.append(f"**{each.name}: Unpack[{cls.__name__}Settings]")
        else:
            default = "" if each.default is each.empty else f" = {each.default!r}"
            texts.append(f"{each.name}: {each.annotation}{default}")
    return block(f"def __init__({', '.join(texts)}) -> None", None)


def definition(node: ast.stmt, namespace: dict[str, object]) -> str:
    """The stub of a statement, empty if it is private."""
    name = getattr(node, "name", "")
    if name.startswith("_") and not name.startswith("__"):
        return ""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return ast.unparse(node) + "\n"
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):  # a union of types
        return ast.unparse(node) + "\n"
    if isinstance(node, ast.AnnAssign):
        target = ast.unparse(node.target)
        return "" if target.startswith("_") else f"{target}: {ast.unparse(node.annotation)}\n"
    if isinstance(node, ast.FunctionDef):
        decorators = "".join(f"@{ast.unparse(each)}\n" for each in node.decorator_list)
        head = f"def {name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
        return decorators + block(head, ast.get_docstring(node))
    if isinstance(node, ast.ClassDef):
        cls = namespace[name]
        own = "__signature__" in vars(cls)
        before, body = (rest_of(cls), initializer(cls)) if own else ("", "")
        for each in node.body:
            if not (own and getattr(each, "name", "") == "__init__"):
                body += definition(each, {})
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return before + block(f"class {name}({bases})", cls.__doc__, body)
    return ""


def python_stub(module: types.ModuleType) -> str:
    namespace = vars(module)
    text, nodes = "", []
    for node in ast.parse(inspect.getsource(module)).body:
        nodes += node.body if isinstance(node, ast.If) else [node]  # imports for the types alone
    for node in nodes:
        if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            text += definition(node, namespace)
    written = {getattr(node, "name", "") for node in nodes}
    for name, cls in namespace.items():  # classes made at run time
        public = name not in written and not name.startswith("_")
        if public and isinstance(cls, type) and cls.__module__ == module.__name__:
            text += rest_of(cls) + block(f"class {name}({cls.__base__.__name__})", cls.__doc__, initializer(cls))
    if hasattr(module, "__all__"):
        text += f"__all__ = {module.__all__!r}\n"
    return SETTING_IMPORTS + text


def main(folder: pathlib.Path) -> None:
    stubs = {"_core": core_stub(_core), "algos": python_stub(algos), "parts": python_stub(parts)}
    stubs["settings"] = python_stub(settings) + setting_dicts()
    for name, text in stubs.items():
        (folder / f"{name}.pyi").write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
