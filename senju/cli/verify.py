"""`senju verify`: checks that any number of workers gives the same bytes, for any game."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from senju.cli.console import out, say, settings_from
from senju.cli.options import ConfigOption, GameArgument, JsonOption, SeedSetting, SettingsOption, TrustOption
from senju.cli.quantities import count_text
from senju.cli.tables import plain_table
from senju.cli.trials import (
    game_or_default,
    heading,
    names,
    numbers,
    print_record,
    quiet_about_lost_workers,
    trial_progress,
)
from senju.config import Settings, merged
from senju.runs.run_config import RunConfig
from senju.trials.differences import Difference
from senju.trials.equality import Verdict, candidates
from senju.trials.equality import verify as compare_with_serial
from senju.trials.scale import SMALL, scaled_config


def verify(
    game: GameArgument = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers to try.")] = "1,2,3",
    backends: Annotated[str, typer.Option(help="Backends to try.")] = "serial,threads,processes",
    updates: Annotated[int, typer.Option(help="Updates to compare.", min=1)] = 5,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill -9 a random worker process in each update.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="Evaluate and learn on this device, as a run with it does: cuda, cuda:1 or cpu."),
    ] = None,
    config: ConfigOption = None,
    assignments: SettingsOption = None,
    seed: SeedSetting = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check that rollouts and weights are equal, byte for byte, on every backend.

    Each backend runs beside the serial one, each with its own learner. Unless settings say otherwise, a few
    small shards are played.
    """
    with quiet_about_lost_workers() if kill else nullcontext():
        counts = numbers(workers)
        scale = SMALL._replace(num_shards=max(SMALL.num_shards, max(counts) + 1))
        settings = merged(_on_device(device), settings_from(config, assignments, seed=seed))
        resolved = scaled_config(game_or_default(game, settings), scale, settings)
        field = candidates(names(backends, "--backends"), counts)
        verdicts: list[Verdict] = []
        with trial_progress(as_json) as progress:
            task = progress.add_task("", total=len(field) * updates)
            for index, candidate in enumerate(field):
                progress.update(task, description=candidate.name, completed=index * updates)
                verdict = compare_with_serial(
                    resolved, candidate, updates, kill=kill, on_update=lambda _: progress.advance(task)
                )
                verdicts.append(verdict)
    is_equal = all(verdict.is_equal for verdict in verdicts)
    if as_json:
        records = [
            {**asdict(verdict), "candidate": verdict.candidate._asdict(), "is_equal": verdict.is_equal}
            for verdict in verdicts
        ]
        print_record(resolved, updates=updates, is_equal=is_equal, candidates=records)
    else:
        _show_verdicts(resolved, verdicts)
    if not is_equal:
        raise typer.Exit(1)


def _on_device(device: str | None) -> Settings:
    """Settings that evaluate and learn on a device."""
    if device is None:
        return {}
    precision = "float32" if device == "cpu" else "bfloat16"
    return {"device": device, "collect": {"evaluate_on": "device", "precision": precision}}


def _show_verdicts(config: RunConfig, verdicts: list[Verdict]) -> None:
    out.print(f"{heading(config)}, seed {config.seed}: each compared with the serial backend.")
    out.print(_verdicts_table(verdicts))
    for verdict in verdicts:
        if verdict.difference is not None:
            where = difference_text(verdict.difference, verdict.updates)
            say(f"[red]✗[/] {verdict.candidate.name}: {escape(where)}")
    say(_conclusion(verdicts))


def _verdicts_table(verdicts: list[Verdict]) -> Table:
    has_kills = any(verdict.kills for verdict in verdicts)
    of_kills = ("killed", "recovered") if has_kills else ()
    table = plain_table(("", "result", "updates", "bytes", *of_kills, "weights", "time"), gap=1)
    for verdict in verdicts:
        kills = [count_text(verdict.kills), count_text(verdict.recovered)] if has_kills else []
        table.add_row(
            verdict.candidate.name,
            "[green]equal[/]" if verdict.is_equal else "[red]different[/]",
            count_text(verdict.updates),
            count_text(verdict.num_bytes),
            *kills,
            verdict.digest,
            f"{verdict.seconds:.1f} s",
        )
    return table


def difference_text(difference: Difference, update: int | None = None) -> str:
    """Where two results differ, and both values."""
    where = [] if update is None else [f"update {update}"]
    where += [] if difference.shard is None else [f"shard {difference.shard}"]
    where.append(difference.place)
    where += [] if difference.byte is None else [f"byte {difference.byte}"]
    return f"{', '.join(where)}: {difference.expected} expected, {difference.found} found"


def _conclusion(verdicts: list[Verdict]) -> str:
    different = [verdict for verdict in verdicts if not verdict.is_equal]
    if not different:
        return "[green]Equal, byte for byte.[/]"
    if any(verdict.candidate.backend == "serial" for verdict in different):
        return (
            "Two runs in one process differ already: the game or the model depends on something besides its "
            "state, its settings and the keys it is given (a counter, the clock, random numbers of its own)."
        )
    return (
        "Two runs in one process are equal or were not tried: the game or the model depends on the worker "
        "that plays it (a process number, a variable of the module, the clock, random numbers of its own)."
    )
