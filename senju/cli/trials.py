"""What the commands that try the engine out share: lists of numbers, progress, tables, a quieter log."""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from senju.cli.console import err
from senju.config import Settings, shown
from senju.errors import ConfigError

DEFAULT_GAME = "connect_four"

GameArgument = Annotated[str | None, typer.Argument(help="A game's name, or package.module:Class.")]
ConfigOption = Annotated[Path | None, typer.Option(help="Settings in a YAML file.", exists=False)]


def game_or_default(game: str | None, settings: Settings) -> str | None:
    """The game to try: the one given, the one of the settings (None: it is found there), or Connect Four."""
    return game or (None if "game" in settings else DEFAULT_GAME)


def numbers(text: str, option: str = "--workers") -> list[int]:
    """A list of counts as typed.

    >>> numbers("1,2, 4")
    [1, 2, 4]
    """
    words = _words(text)
    if not words or not all(re.fullmatch("0*[1-9][0-9]{0,8}", word) for word in words):
        raise ConfigError(f"{option} {shown(text)}: expected numbers from 1 on, as in 1,2,4")
    return list(dict.fromkeys(int(word) for word in words))


def names(text: str, option: str) -> list[str]:
    """A list of names as typed."""
    words = _words(text)
    if not words:
        raise ConfigError(f"{option} {text!r}: expected names, as in serial,threads")
    return list(dict.fromkeys(words))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def trial_progress(as_json: bool) -> Progress:
    """A bar on standard error that goes when it is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=as_json,
    )


def plain_table(columns: Iterable[str], title: str | None = None, gap: int = 2) -> Table:
    """A table without lines, so that figures fit into 80 columns; the first column is text."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, gap, 0, 0))
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left", header_style="dim", no_wrap=True)
    return table


@contextmanager
def expected_losses() -> Iterator[None]:
    """Leave out the log's warnings of lost workers while workers are lost on purpose."""
    log = logging.getLogger("senju.backends")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
