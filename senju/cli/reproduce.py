"""`senju reproduce`: a failing shard, alone and in this process."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from senju.cli.console import (
    JsonOption,
    TrustOption,
    err,
    friendly_errors,
    out,
    print_json,
)
from senju.trials.replay import Replay, Reproduction, replay
from senju.trust import trusting

INTERRUPTED = 130  # what a shell expects of a program ended by Ctrl-C


def reproduce(
    file: Annotated[Path, typer.Argument(help="The file that was written when the shard was set aside.")],
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a shard that failed alone in this process, and show what goes wrong.

    Where the interpreter itself crashes, its stack is shown. Ctrl-C shows where a shard hangs.
    """
    with friendly_errors(), trusting(trust):
        found = Reproduction.load(file)
    if not as_json:
        _show_file(file, found)
    sys.stdout.flush()  # a crash would take it along
    try:
        with err.status("playing the rollout again"):
            result = replay(found)
    except KeyboardInterrupt:
        if not as_json:
            err.print_exception(show_locals=False)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(_record(file, found, result))
    elif result.error is None:
        out.print("[green]It finished without failing[/]: what went wrong did not lie in the shard alone.")
    else:
        out.print(escape(result.traceback.rstrip()), highlight=False, soft_wrap=True)
        out.print(f"[red]It failed again:[/] {escape(result.error)}", highlight=False, soft_wrap=True)
    if result.error is not None:
        raise typer.Exit(1)


def _show_file(file: Path, found: Reproduction) -> None:
    plan = found.plan
    first = found.shard * plan.games_per_shard
    rows = {
        "game": str(plan.game["name"]),
        "model": str(plan.model["name"]),
        "shard": f"{found.shard} (rows {first} to {first + plan.games_per_shard - 1})",
        "rollout": f"{found.turn}, of {plan.rollout_steps} steps",
        "weights version": str(found.version),
        "seed": str(plan.seed),
    }
    table = Table(show_header=False, title=escape(str(file)), title_justify="left")
    for name, text in rows.items():
        table.add_row(name, escape(text))
    out.print(table)
    out.print("[bold]What happened then:[/]")
    out.print(escape(found.cause.rstrip()), highlight=False, soft_wrap=True)
    out.print("[bold]What happens now:[/]")


def _record(file: Path, found: Reproduction, result: Replay) -> dict[str, Any]:
    return {
        "file": str(file),
        "game": found.plan.game,
        "shard": found.shard,
        "rollout": found.turn,
        "version": found.version,
        "seed": found.plan.seed,
        "cause": found.cause,
        "failed": result.error is not None,
        "error": result.error,
        "traceback": result.traceback,
    }
