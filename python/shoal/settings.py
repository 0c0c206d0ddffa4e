"""Settings of a run from keyword arguments."""

from __future__ import annotations

import difflib
import inspect
import json
import keyword
import os
import tomllib
from collections.abc import Callable, Container
from typing import Any, Unpack

from . import _core
from .envs import env_id, is_callable_id

# Settings as keywords: without `env` and `algo`, all, and those of vector environments. The type stub lists them.
Settings = RunSettings = EnvSettings = dict[str, Any]

# Keywords with another name than their setting.
SHORT = {"env": "env.id", "model": "model.name", "asynchronous": "sampler.asynchronous"}
# The tables in which a keyword without a dot is looked up, after the settings without a table and the algorithm's own.
TABLES = ("sampler", "model", "agent", "off_policy", "replay", "env", "atari", "async", "gymnasium")

# The tables of the settings that a vector environment takes, and single ones.
ENV_SETTINGS = (("env", "atari", "gymnasium"), ("sampler.pin", "sampler.step_limit", "sampler.reset_limit"))


def to_text(value: Any) -> str:
    """The value as TOML, strings without quotes."""
    if hasattr(value, "tolist"):  # of NumPy or torch
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json.dumps(each) if isinstance(each, str) else to_text(each) for each in value) + "]"
    if isinstance(value, dict):
        return json.dumps(value)
    return repr(value)


def from_toml(text: str) -> Any:
    """The value that a setting's text stands for."""
    return tomllib.loads(f"x = {text}")["x"]


def key_of(name: str, config: _core.Config) -> str:
    """The setting that a keyword names: `clip` and `ppo__clip` are "ppo.clip"."""
    known = config.keys()
    key = SHORT.get(name, name.replace("__", "."))
    if key in known or "." in key:
        return key
    tables = (config.algo, *TABLES)
    found = next((f"{table}.{key}" for table in tables if f"{table}.{key}" in known), None)
    if found is None:
        names: dict[str, str] = {}
        for table in ("", *tables):
            for each in sorted(known):
                if table_of(each) == table:
                    names.setdefault(each.rpartition(".")[2], each)
        near = [*_core.setting_names_of(key), *difflib.get_close_matches(key, names, n=1)]
        advice = next(
            (f"the nearest is {names[each]!r}" for each in near if each in names), "print(make_config()) shows all"
        )
        raise _core.Error(f"unknown setting {name!r}; {advice}")
    return found


def apply(config: _core.Config, keywords: dict[str, Any]) -> _core.Config:
    """Changes these settings of `config`, and returns it. Keywords that are None change nothing."""
    if keywords.get("algo") is not None:  # it decides what other keywords mean
        config.set("algo", keywords["algo"])
    if callable(keywords.get("env")) and not is_callable_id(config.env_id):
        config.set("gymnasium.kwargs", "")  # of the environment that the callable replaces
    given: dict[str, str] = {}
    for name, value in keywords.items():
        if value is not None:
            key = key_of(name, config)
            if given.setdefault(key, name) != name:
                raise _core.Error(f"found {given[key]!r} and {name!r}, which are both {key}; give one of them")
            config.set(key, env_id(value) if name == "env" else to_text(value))
    return config


def require_used(
    config: _core.Config,
    keywords: dict[str, Any],
    user: str,
    taken: tuple[Container[str], Container[str]],
    advice: str,
) -> None:
    """Raises Error for a keyword whose setting, such as "ppo.clip", is not taken.

    taken: the tables of the settings that the user takes, and single settings.
    """
    tables, single = taken
    for name, value in keywords.items():
        if value is not None and table_of(key := key_of(name, config)) not in tables and key not in single:
            raise _core.Error(f"{name}: found the setting {key}, which {user} does not use; {advice}")


def require_type(kind: type, what: str, value: Any, expected: str) -> None:
    """Raises TypeError for a value that is not of this kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{what}: found {value!r}, expected {expected}")


def table_of(key: str) -> str:
    return key.rpartition(".")[0]


Base = str | os.PathLike[str] | _core.Config


def make_config(base: Base | None = None, **settings: Unpack[RunSettings]) -> _core.Config:
    """Settings that start from others. `print()` shows all.

    base: the name of a preset, the path of a TOML file, or settings, of which a copy is changed; None: the defaults
        of each setting.
    settings: any that `shoal list settings` prints. The table may be left out: `clip=0.1` is "ppo.clip" if the
    algorithm is PPO. With it, the dot is written `__`: `ppo__clip=0.1`, or `**{"ppo.clip": 0.1}`.

    Raises Error for an unknown key or a value of the wrong type.
    """
    if base is None or isinstance(base, _core.Config):
        config = _core.Config() if base is None else _core.as_base(base)
    else:
        given = {"env.id": settings.get("env"), "algo": settings.get("algo")}
        texts = [(key, env_id(value)) for key, value in given.items() if value is not None]
        config = _core.preset_or_file(os.fspath(base), texts)
    before = config.env_id
    apply(config, settings)
    if settings.get("stop_return") is None:
        _core.forget_stop_return(config, before)
    return config


def default_config(
    env: str | Callable[..., Any], algo: str | None = None, **settings: Unpack[Settings]
) -> _core.Config:
    """The settings with which `shoal train --env ID` begins: those tuned for this kind of task, and for the algorithm.

    env: an id, or a callable that returns a gymnasium.Env. It is made to see its spaces.
    algo: the algorithm; None: the one that the kind of task names.
    settings: see make_config().

    Raises Error for an unknown algorithm, environment or setting.
    """
    settings = {"env": env_id(env), "algo": algo, **settings}
    return apply(_core.default_config(make_config(None, **settings), algo or ""), settings)


def describe(cls: type, *tables: str, algo: str | None = None, takes: tuple[Any, ...] = (None,)) -> None:
    """Adds the settings of these tables to the class: to its docstring and, as keywords, to its signature.

    takes: the tables of all settings that it takes, None for all, and single settings beside them; for its type stub.
    """
    cls.__takes__ = (algo, *takes)  # type: ignore[attr-defined]
    lines: list[str] = []
    keywords: dict[str, inspect.Parameter] = {}
    for key, value, doc, annotation, expected in _core.setting_docs(make_config(algo=algo)):
        table, _, name = key.rpartition(".")
        if table not in tables:
            continue
        name = next((short for short, long in SHORT.items() if long == key), name)
        lines.append(f"{name} = {value}: {doc}{' (' + expected + ')' if expected else ''}")
        if name.isidentifier() and not keyword.iskeyword(name):
            default = from_toml(value)
            keywords.setdefault(
                name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )
    cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", *lines])
    given = inspect.signature(cls)
    rest = [each for each in given.parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
    known = [each for each in given.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    extra = [each for name, each in keywords.items() if name not in given.parameters]
    cls.__signature__ = given.replace(parameters=[*known, *extra, *rest])  # type: ignore[attr-defined]
