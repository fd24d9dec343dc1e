"""Opponents as one writes them in a line: `pool,minimax:2`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from senju.config import Settings, merged
from senju.errors import ConfigError

POOL = "pool"  # snapshots of the learner's own past


def opponents_settings(text: str) -> Settings:
    """The settings that a list of opponents stands for.

    Without `pool` there are no snapshots, and no games against itself.

    >>> opponents_settings("pool, minimax:2")
    {'collect': {'seating': 'opponents'}, 'opponents': {'fixed': ['minimax:2']}}
    """
    names = [name.strip() for name in text.split(",")]
    _require_good(names, text)
    chosen: Settings = {"fixed": [name for name in names if name != POOL]}
    if POOL not in names:
        chosen |= {"snapshot_interval": 0, "self_share": 0.0}
    return {"collect": {"seating": "opponents"}, "opponents": chosen}


def _require_good(names: list[str], text: str) -> None:
    expected = "expected pool, random, minimax:2 and the like, with commas between them"
    if not text.strip():
        raise ConfigError(f"opponents={text!r} names nobody; {expected}")
    if not all(names):
        raise ConfigError(f"opponents={text!r}: number {names.index('') + 1} is empty; {expected}")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"opponents={text!r}: {name!r} stands there twice; name each only once")


def with_opponents(settings: Settings) -> Settings:
    """Settings in which `opponents` may be a line, a function or a list of both, spelt out."""
    given = settings.get("opponents")
    if given is None or isinstance(given, Mapping):
        return settings
    several = given if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]
    text = ",".join(map(_described, several))
    rest = {part: value for part, value in settings.items() if part != "opponents"}
    return merged(rest, opponents_settings(text))


def _described(opponent: str | Callable[..., Any]) -> str:
    if isinstance(opponent, str):
        return opponent
    if not callable(opponent):
        raise ConfigError(f"opponent {opponent!r} is neither a name nor a function")
    name = getattr(opponent, "__qualname__", repr(opponent))  # a partial function has none
    if not name.isidentifier():
        raise ConfigError(
            f"opponent {name} cannot be imported by other processes; define it at the top of a module"
        )
    return f"{opponent.__module__}:{name}"
