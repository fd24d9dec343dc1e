"""Opponents in short form: `pool,minimax:2`, a function, or a list of both."""

from collections.abc import Iterable, Mapping
from typing import Any

from senju.config import Settings, merged
from senju.errors import ConfigError

POOL = "pool"  # snapshots of the learner's own past


def opponents_settings(given: Any) -> Settings:
    """The settings that a text with commas, a function or a list of both stands for.

    Without `pool`, the learner takes no snapshots and does not play against itself.

    >>> opponents_settings("pool, minimax:2")
    {'collect': {'seating': 'opponents'}, 'opponents': {'fixed': ['minimax:2']}}
    """
    listed = given if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]
    names = [name.strip() for each in listed for name in _described(each).split(",")]
    expected = "expected pool, random, minimax:2 and the like, separated by commas"
    if not any(names):
        raise ConfigError(f"opponents={given!r} names no opponent; {expected}")
    if not all(names):
        raise ConfigError(f"opponents={given!r}: number {names.index('') + 1} is empty; {expected}")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"opponents={given!r}: {name!r} is listed twice; name each only once")
    chosen: Settings = {"fixed": [name for name in names if name != POOL]}
    if POOL not in names:
        chosen |= {"snapshot_interval": 0, "self_share": 0.0}
    return {"collect": {"seating": "opponents"}, "opponents": chosen}


def with_opponents(settings: Settings) -> Settings:
    """The same settings; opponents in short form are replaced by the settings they stand for."""
    given = settings.get("opponents")
    if given is None or isinstance(given, Mapping):
        return settings
    rest = {part: value for part, value in settings.items() if part != "opponents"}
    return merged(rest, opponents_settings(given))


def _described(opponent: Any) -> str:
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
