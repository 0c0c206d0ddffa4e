"""Whole trainings, and the agents in their folders."""

from __future__ import annotations

import base64
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, Unpack

from . import _core
from .envs import is_callable_id, require_known
from .parts import Agent
from .policy import Policy
from .progress import Display, plot_progress, read_progress
from .settings import Base, RunSettings, apply, default_config, key_of, make_config, require_type


class Film:
    """A video file, which a notebook shows."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = pathlib.Path(file)

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.file.read_bytes()).decode()
        kind = self.file.suffix[1:]
        if kind == "gif":
            return f'<img src="data:image/gif;base64,{data}">'
        return f'<video controls src="data:video/{kind};base64,{data}"></video>'

    def __repr__(self) -> str:
        return f"Film({str(self.file)!r})"


class Run:
    """A trained agent, and its run folder, or its file of weights, which has no progress."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        checkpoint: str = "model.ckpt",
        env: str | Callable[..., Any] | None = None,
    ) -> None:
        path = pathlib.Path(_core.run_or_zoo(os.fspath(folder)))
        if path.is_file() and path.suffix != ".safetensors":
            path, checkpoint = path.parent, path.name
        self.folder, self.checkpoint = path, checkpoint
        config = apply(_core.trained_config(os.fspath(path)), {"env": env})
        require_known(config, folder, f"shoal.load({os.fspath(folder)!r}, env=make)")
        self.agent = Agent._of(_core.Agent(config))
        self.agent._core.load(os.fspath(path), checkpoint)
        self.policy = Policy(self.agent)
        self.policy.spaces  # noqa: B018  (made now, when nobody steps an environment)

    @property
    def config(self) -> _core.Config:
        """The settings of the run."""
        return self.agent.config

    def predict(
        self, observation: Any, mask: Any = None, greedy: bool = True, reward: Any = None, is_first: Any = None
    ) -> Any:
        """Policy.predict() of the run's agent, with a Policy that this run keeps."""
        return self.policy.predict(observation, mask, greedy, reward, is_first)

    def reset(self) -> None:
        """The next observation given to predict() begins an episode."""
        self.policy.reset()

    @property
    def progress(self) -> dict[str, list[float]]:
        """The columns of progress.csv: "steps", "return_mean", ...; NaN where a cell is empty."""
        return read_progress(self.folder)

    def plot(self, *columns: str, x: str = "steps", axes: Any = None) -> Any:
        """Draws columns of progress.csv, "return_mean" without any, with matplotlib, and returns the axes.

        axes: to draw on, so that several runs share a chart.
        """
        return plot_progress(self.progress, columns or ("return_mean",), x, axes, self.folder.name)

    def film(self, file: str | os.PathLike[str], episodes: int = 1, seed: int = 1) -> Film:
        """Plays episodes and films them: .gif, or .mp4, .mkv, .webm or .mov, which need ffmpeg. A notebook shows it.

        A process of its own plays, which cannot make an environment that is a callable.
        """
        if is_callable_id(self.config.env_id):
            raise _core.Error(
                "film(): found a callable as environment, expected an id, which another process can make; train with "
                "'gymnasium:MODULE:ID', or step the environment with predict() and collect what its render() returns"
            )
        flags = ["--checkpoint", self.checkpoint, "--video", file, "--episodes", str(episodes), "--seed", str(seed)]
        command = [sys.executable, "-m", "shoal", "play", self.folder, *flags]
        path = os.pathsep.join([str(pathlib.Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(command, text=True, capture_output=True, env={**os.environ, "PYTHONPATH": path})
        if done.returncode != 0:
            raise _core.Error(done.stderr.strip())
        return Film(file)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.agent!r})"


def train(
    base: Base | None = None,
    out: str | os.PathLike[str] = "",
    resume: bool = False,
    quiet: bool = False,
    progress: bool = False,
    **settings: Unpack[RunSettings],
) -> Run:
    """Trains as `shoal train` does, and returns the run.

    base: a preset, a file of settings or a Config; None: default_config(env), if there is an env. out: the run folder,
        new or empty.
    resume: goes on with the run in `out`, which this function or the command began.
    quiet: prints nothing. progress: shows one line, which is renewed, or a bar in a notebook.
    settings: see make_config(). A warning names those that have no effect in this run, also of a file.

    Ctrl-C during training writes a checkpoint and raises KeyboardInterrupt; SIGTERM and SIGHUP raise SystemExit. The
    run can be resumed.
    """
    if not out:
        raise _core.Error("out: found no run folder; give out='runs/NAME'")
    env = settings.get("env")
    if resume:
        if base is not None:
            raise _core.Error(f"found base={base!r} with resume=True; a resumed run has its own settings")
        config = _core.read_run_config(os.fspath(out))
        if env is None:
            require_known(config, out, f"shoal.train(out={os.fspath(out)!r}, resume=True, env=make)")
        given = {name: key_of(name, config) for name, value in settings.items() if value is not None}
        begun = {key: value for key, value, *_ in _core.setting_docs(config)}
        apply(config, settings)
        now = {key: value for key, value, *_ in _core.setting_docs(config)}
        for name, key in given.items():
            if now[key] != begun[key] and not _core.may_change(key) and not callable(settings[name]):
                raise _core.Error(
                    f"{key} cannot change when a run is resumed; give init_from={os.fspath(out)!r} instead"
                )
        _core.forget_choice(config, set(given.values()))
    elif base is None and env is not None:
        config = default_config(**settings)
    else:
        config = make_config(base, **settings)
    keys = {key_of(name, config) for name, value in settings.items() if value is not None}
    if isinstance(base, (str, os.PathLike)):
        keys |= _core.keys_of_file(os.fspath(base), config)
    for line in _core.without_effect(config, keys).splitlines():
        warnings.warn(line, stacklevel=2)
    with Display(out, config.steps) if progress else contextlib.nullcontext():
        stopped_by = _core.train(config, os.fspath(out), resume, quiet or progress)
    if stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if stopped_by != 0:
        raise SystemExit(128 + stopped_by)
    return Run(out, env=config.env_id if callable(env) else None)


def load(
    folder: str | os.PathLike[str], checkpoint: str = "model.ckpt", env: str | Callable[..., Any] | None = None
) -> Run:
    """Opens a run folder, a checkpoint in one, a .safetensors file, or "zoo:NAME", which `shoal zoo` lists.

    checkpoint: a file in the folder: "model.ckpt" is the newest, "best.ckpt" that of the best evaluation.
    env: of a run with a callable environment, the callable.

    Raises Error if there is no agent that can be used.
    """
    return Run(folder, checkpoint, env)


def evaluate(
    run: Run | Agent, episodes: int = 100, workers: int = 0, seed: int = 1, greedy: bool = True
) -> list[float]:
    """The returns of complete episodes, whose seeds training never uses.

    run: a run or an agent, on the CPU. workers: forked processes, which need the main thread; 0: this process.
    greedy: the most likely actions; otherwise they are drawn as in training.

    Raises WorkerError (without workers Error) if an environment fails, Error if a parameter is not finite, DataError
    for other numbers that are not finite, and KeyboardInterrupt.
    """
    agent = run.agent if isinstance(run, Run) else run
    require_type(Agent, "run", agent, "an agent or a run, such as shoal.load(folder)")
    return _core.evaluate(agent.config, agent._core, episodes, workers, seed, greedy)
