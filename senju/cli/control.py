"""`senju pause`, `resume`, `reset` and `workers`: live control of a run from another terminal."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from senju.cli.console import command_text, err, print_json, say
from senju.cli.options import JsonOption, RunArgument
from senju.cli.quantities import plural
from senju.errors import ConfigError, ControlError
from senju.runs.control import ask

PAUSE_LOOK = 20.0  # seconds until the request for a pause is repeated


def pause(run: RunArgument, as_json: JsonOption = False) -> None:
    """Pause a run after its current update; returns when it is paused."""
    try:
        with err.status("waiting for the end of the current update"):
            answer = _pause_and_wait(run)
    except KeyboardInterrupt:
        again = command_text("resume", run)
        say(f"The run still pauses after its update; to undo that: {again}", err)
        raise
    hint = f"Go on with: {command_text('resume', run)}"
    _print_answer(run, answer, f"Paused after update {answer.get('update')}. {hint}", as_json)


def _pause_and_wait(run: Path) -> dict[str, Any]:
    answer: dict[str, Any] = {"state": "pausing"}
    while answer.get("state") == "pausing":  # one update may take longer than any answer should
        answer = ask(run, "pause", timeout=PAUSE_LOOK + 60, wait=PAUSE_LOOK)
    if answer.get("state") != "paused":
        raise ControlError(f"{run} did not pause: another command resumed or stopped it meanwhile")
    return answer


def resume(run: RunArgument, as_json: JsonOption = False) -> None:
    """Let a paused run go on."""
    answer = ask(run, "resume")
    _print_answer(run, answer, f"Going on after update {answer.get('update')}.", as_json)


def reset(
    run: RunArgument,
    worker: Annotated[
        list[int] | None, typer.Option(help="The worker to replace; may be repeated. Default: all.", min=0)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replace workers by fresh ones; the games go on where they were, and the result stays the same."""
    answer = ask(run, "reset", workers=worker or None)
    replaced = [str(index) for index in answer.get("workers") or []]
    noun = "Worker" if len(replaced) == 1 else "Workers"
    text = f"{noun} {', '.join(replaced)} replaced." if replaced else "No worker replaced."
    _print_answer(run, answer, text, as_json)


def workers(
    run: Annotated[str, typer.Argument(help="The run's folder.")],
    number: Annotated[str, typer.Argument(metavar="N", help="The new number of workers.")],
    as_json: JsonOption = False,
) -> None:
    """Change the number of workers of a run; the result stays the same."""
    folder, num_workers = _folder_and_number(run, number)
    answer = ask(folder, "workers", num_workers=num_workers)
    count = answer.get("workers", num_workers)
    text = f"Going on with {plural(count, 'worker')}"
    text += "." if count == num_workers else f"; {num_workers} were asked for."
    _print_answer(folder, answer, text, as_json)


def _folder_and_number(first: str, second: str) -> tuple[Path, int]:
    """A folder and a number in either order; a folder whose name is a number comes first."""
    is_number = re.compile("[0-9]{1,18}").fullmatch
    folder, number = (first, second) if is_number(second) or not is_number(first) else (second, first)
    if not is_number(number) or int(number) < 1:
        raise ConfigError(
            f"{first!r}, {second!r}: expected a run's folder and a number of workers, 1 or more"
        )
    return Path(folder), int(number)


def _print_answer(run: Path, answer: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json({"run": str(run), **answer})
    else:
        say(text)
