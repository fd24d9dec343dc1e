"""`senju reproduce`: plays a failing shard alone, in this process."""

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from senju.backends.reproduction import Reproduction
from senju.cli.console import err, out, print_json, say
from senju.cli.options import JsonOption, TrustOption
from senju.cli.tables import facts_table
from senju.trials.replay import replay


def reproduce(
    file: Annotated[Path, typer.Argument(help="The file that was written when the shard was set aside.")],
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a failing shard alone in this process, and show what goes wrong.

    If the interpreter itself crashes, its stack is shown. Ctrl-C shows where a shard hangs.
    """
    found = Reproduction.load(file)
    if not as_json:
        _show_file(file, found)
    sys.stdout.flush()  # a crash would lose the output
    try:
        with err.status("playing the rollout again"):
            error = replay(found)
    except KeyboardInterrupt:
        if not as_json:
            err.print_exception(show_locals=False)
        raise
    text = None if error is None else f"{type(error).__name__}: {error}"
    stack = "".join(traceback.format_exception(error)) if error else ""
    if as_json:
        print_json(
            {
                "file": str(file),
                "game": found.plan.game,
                "shard": found.shard,
                "rollout": found.turn,
                "version": found.version,
                "seed": found.plan.seed,
                "cause": found.cause,
                "failed": text is not None,
                "error": text,
                "traceback": stack,
            }
        )
    elif text is None:
        out.print("[green]It finished without failing[/]: the cause lies outside the shard.")
    else:
        say(escape(stack.rstrip()))
        say(f"[red]It failed again:[/] {escape(text)}")
    if text is not None:
        raise typer.Exit(1)


def _show_file(file: Path, found: Reproduction) -> None:
    plan = found.plan
    first = found.shard * plan.games_per_shard
    rows = {
        "game": escape(str(plan.game["name"])),
        "model": escape(", ".join(dict.fromkeys(str(policy.model["name"]) for policy in plan.policies))),
        "shard": f"{found.shard} (rows {first} to {first + plan.games_per_shard - 1})",
        "rollout": f"{found.turn}, of {plan.rollout_steps} steps",
        "weights version": str(found.version),
        "seed": str(plan.seed),
    }
    if plan.evaluation is not None:
        rows["evaluated on"] = escape(plan.evaluation.device)
    out.print(facts_table(rows, str(file)))
    out.print("[bold]The recorded failure:[/]")
    say(escape(found.cause.rstrip()))
    out.print("[bold]The result now:[/]")
