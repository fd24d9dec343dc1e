"""Parts of verify, bench, profile and soak: lists of numbers, progress, headings, a quieter log."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.markup import escape
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from senju.cli.console import print_json
from senju.cli.tables import progress_bar
from senju.config import Settings, shown
from senju.errors import ConfigError
from senju.runs.run_config import RunConfig

DEFAULT_GAME = "connect_four"


def game_or_default(game: str | None, settings: Settings) -> str | None:
    """The given game, or the one in the settings (None: it is found there), or Connect Four."""
    return game or (None if "game" in settings else DEFAULT_GAME)


def numbers(text: str, option: str = "--workers") -> list[int]:
    """A list of counts from the command line.

    >>> numbers("1,2, 4")
    [1, 2, 4]
    """
    words = _words(text)
    if not words or not all(re.fullmatch("0*[1-9][0-9]{0,8}", word) for word in words):
        raise ConfigError(f"{option} {shown(text)}: expected numbers from 1 on, as in 1,2,4")
    return list(dict.fromkeys(int(word) for word in words))


def names(text: str, option: str) -> list[str]:
    """A list of names from the command line."""
    words = _words(text)
    if not words:
        raise ConfigError(f"{option} {text!r}: expected names, as in serial,threads")
    return list(dict.fromkeys(words))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def trial_progress(is_silent: bool) -> Progress:
    """A bar with the percentage and the time so far."""
    return progress_bar(is_silent, TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())


def heading(config: RunConfig) -> str:
    """The game, its scale and its model, as the beginning of a sentence."""
    plan = config.plan
    return (
        f"[bold]{escape(config.game['name'])}[/], {plan.num_shards} shards of {plan.games_per_shard} games, "
        f"{plan.rollout_steps} steps an update, model {escape(config.model['name'])}"
    )


def print_record(config: RunConfig, **results: Any) -> None:
    """Print a trial's results as JSON, with the game and the settings."""
    print_json({"game": config.game["name"], **results, "config": config.model_dump(mode="json")})


@contextmanager
def quiet_about_lost_workers() -> Iterator[None]:
    """Leave out the log's warnings about lost workers while the trial kills workers on purpose."""
    log = logging.getLogger("senju.workers")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
