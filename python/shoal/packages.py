"""Packages that only some functions need."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needs(package: str, what: str) -> Iterator[None]:
    """An ImportError that says what to install, in place of that of this package's import."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package.lower().replace("-", "_"):
            raise
        raise ImportError(f"{what} needs {package}: pip install {package.lower()}") from error
