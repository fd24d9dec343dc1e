"""Checks of users' arguments, which raise ConfigError with the argument's name."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from senju.config import shown
from senju.errors import ConfigError

MAX_INT64 = 2**63 - 1


def is_whole(value: Any, low: int, high: int = MAX_INT64) -> bool:
    """Whether a value is an integer within bounds; a bool is not.

    >>> is_whole(3, 1), is_whole(0, 1), is_whole(1.5, 1), is_whole(True, 1), is_whole("3", 1)
    (True, False, False, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def require_seed(seed: Any) -> None:
    """Refuse an invalid random seed."""
    if not is_whole(seed, 0):
        raise ConfigError(f"seed={shown(seed)}: expected a whole number from 0 to 2**63 - 1")


def as_path(name: str, value: Any) -> Path:
    """An argument as a path."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"{name}={shown(value)}: expected a path as text or as a pathlib.Path")
    return Path(path)


def require_listener(listener: Any, kind: type) -> None:
    """Refuse a listener that lacks one of the `on_…` methods."""
    for name in vars(kind):
        if listener is not None and name.startswith("on_") and not callable(getattr(listener, name, None)):
            raise ConfigError(
                f"listener={shown(listener)} has no method {name}; expected an instance of a subclass of "
                f"{kind.__module__}.{kind.__qualname__}"
            )
