"""Parts of every command: consoles, JSON output, error messages, and settings from options."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from senju.config import Settings, merged, parse_assignment, read_yaml
from senju.errors import ConfigError, SenjuError
from senju.trust import require_trust, trusting

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def say(text: str, console: Console | None = None) -> None:
    """Print a line without breaking it, so that paths and commands can be copied."""
    (console or out).print(text, highlight=False, soft_wrap=True)


def print_json(result: Any) -> None:
    """Print a result as one JSON document; NaN and infinity become null.

    If the output cannot encode a character, all characters beyond ASCII are escaped.
    """
    finite = json.loads(json.dumps(result), parse_constant=lambda _: None)
    text = json.dumps(finite, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = json.dumps(finite, indent=2, ensure_ascii=True)
    print(text, flush=True)  # for a reader at the other end of a pipe


def print_error(error: object) -> None:
    """Print an error message to standard error."""
    say(f"[bold red]error:[/] {escape(str(error))}", err)


def new_app(about: Callable[..., None], *commands: Callable[..., None]) -> typer.Typer:
    """A program of these commands; `about` has its help text and the options before a command."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
    )
    app.callback()(about)
    for command in commands:
        app.command()(_with_friendly_errors(command))
    return app


def _with_friendly_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with senju's own errors as one message: exit code 2 for bad input, 1 for any other error.

    With its option --trust, code that a run or file names is loaded although it is not installed.
    """

    @wraps(command)
    def run(**options: Any) -> None:
        try:
            with trusting(options.get("trust", False)):
                command(**options)
        except SenjuError as error:
            print_error(error)
            raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None

    return run


def settings_from(config_file: Path | None, assignments: list[str] | None, **options: Any) -> Settings:
    """Settings of a YAML file, then of `--set`, then of other options."""
    layers: list[Settings] = []
    if config_file is not None:
        layers = [read_yaml(config_file)]
        require_trust(config_file, layers)
    layers += [parse_assignment(text) for text in assignments or []]
    given = {key: value for key, value in options.items() if value is not None}
    return merged(*layers, given)


@contextmanager
def measuring(is_silent: bool) -> Iterator[Callable[[str], None]]:
    """A function that shows the progress of a measurement; before its first call, nothing is shown."""
    status = err.status("")

    def announce(text: str) -> None:
        if not is_silent:
            status.update(escape(text))
            status.start()

    try:
        yield announce
    finally:
        status.stop()


def require_file_name(option: str, path: Path, *suffixes: str) -> None:
    """Refuse a file to write whose name has another suffix, or whose folder does not exist."""
    if path.suffix.lower() not in suffixes:
        raise ConfigError(f"{option} {path}: expected a name that ends in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{option} {path}: there is no folder {path.parent}; make it first")


def command_text(command: str, path: Path | str) -> str:
    """A command with a path for the user to type; the program is named as it was called."""
    called = sys.argv[0]
    program = called if called.endswith("senju") and shutil.which("senju") is None else "senju"
    return f"[bold]{program} {command} {escape(str(path))}[/]"
