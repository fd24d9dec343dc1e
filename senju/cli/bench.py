"""`senju bench`: how fast each stage is alone, how fast all are in turn, and what more workers bring."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from senju.cli.console import out, say, settings_from
from senju.cli.options import (
    BackendOption,
    ConfigOption,
    GameArgument,
    JsonOption,
    SettingsOption,
    TrustOption,
)
from senju.cli.quantities import share_text, size_text
from senju.cli.tables import plain_table
from senju.cli.trials import game_or_default, heading, numbers, print_record, trial_progress
from senju.machine import Machine, available_cores, inspect_machine, processor_name
from senju.runs.run_config import RunConfig
from senju.trials.scale import scaled_config, shared_evenly
from senju.trials.speed import STAGES_PER_ENTRANT, Entrant, Spread, Summary, entrants, measure_all, summarise

MUCH_BUSY = 0.5  # cores that other programs use


def bench(
    game: GameArgument = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers to measure.")] = "1,2,4,8",
    backend: BackendOption = "processes",
    mode: Annotated[
        Literal["sync", "async"] | None, typer.Option(help="Short for --set collect.mode=MODE.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time for each figure of each repeat.", min=0.05)] = 1.0,
    repeats: Annotated[int, typer.Option(help="How often everything is measured.", min=1)] = 3,
    config: ConfigOption = None,
    assignments: SettingsOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure collecting, learning, publishing and all in turn, for the serial backend and for workers.

    All play the same shards. They take turns within each repeat, so that ratios compare figures that were
    measured close in time. A step is one decision.
    """
    counts = numbers(workers)
    settings = settings_from(config, assignments, collect={"mode": mode} if mode else None)
    resolved = scaled_config(game_or_default(game, settings), shared_evenly(counts), settings)
    field = entrants(resolved, backend, counts)
    machine = inspect_machine()  # before anything is measured: other programs keep these cores busy
    with trial_progress(as_json) as progress:
        task = progress.add_task("", total=repeats * len(field) * len(STAGES_PER_ENTRANT))
        done = count()

        def show(repeat: int, entrant: Entrant, stage: str) -> None:
            text = f"repeat {repeat + 1} of {repeats}: {entrant.name}, {stage}"
            progress.update(task, description=text, completed=next(done))

        results = measure_all(resolved, field, seconds, repeats, show)
    summaries = summarise(field, results)
    if as_json:
        print_record(
            resolved,
            machine=asdict(machine),
            entrants=[_as_dicts(summary) for summary in summaries],
            repeats={name: [asdict(figures) for figures in measured] for name, measured in results.items()},
        )
    else:
        _show_speeds(resolved, machine, summaries, repeats)


def _as_dicts(summary: Summary) -> dict[str, Any]:
    """A summary for JSON: spreads by the names of their figures."""
    tuples = {name: value for name, value in vars(summary).items() if isinstance(value, Spread | Entrant)}
    return vars(summary) | {name: value._asdict() for name, value in tuples.items()}


def _show_speeds(config: RunConfig, machine: Machine, summaries: list[Summary], repeats: int) -> None:
    spreads = f"medians of {repeats} repeats and their ranges" if repeats > 1 else "measured once"
    processor = f"{available_cores()} cores ({escape(processor_name())})"
    out.print(f"{heading(config)}, {config.collect.mode}, {processor}; {spreads}.")
    for title, columns in TABLES.items():
        rows = ([one.entrant.name, *(text(one) for text in columns.values())] for one in summaries)
        out.print(plain_table(["", *columns], title, rows=rows), "")
    out.print(_collecting_stages(summaries), "")
    for line in _notes(config, machine, summaries):
        say(line)


def _text(spread: Spread | None, digits: int = 0, factor: float = 1.0, unit: str = "") -> str:
    """The median and, on a second line, minimum and maximum if they differ."""
    if spread is None:
        return ""
    middle, low, high = (f"{factor * figure:,.{digits}f}" for figure in spread)
    return f"{middle}{unit}" + (f"\n[dim]{low}..{high}[/]" if spread.min < spread.max else "")


# by the table's title and the column's title: the text for one entrant
TABLES: dict[str, dict[str, Callable[[Summary], str]]] = {
    "Each stage alone, steps a second": {
        "collecting": lambda one: _text(one.collecting),
        "÷ serial": lambda one: _text(one.collecting_over_serial, digits=2),
        "efficiency": lambda one: _text(one.efficiency, factor=100, unit=" %"),
        "learning": lambda one: _text(one.learning),
    },
    "Collecting, learning and publishing in turn, steps a second": {
        "end to end": lambda one: _text(one.end_to_end),
        "÷ serial": lambda one: _text(one.end_to_end_over_serial, digits=2),
        "stages allow": lambda one: _text(one.allowed),
        "reached": lambda one: _text(one.reached, factor=100, unit=" %"),
    },
    "What it takes": {
        "ready after": lambda one: f"{one.start_seconds.median:.2f} s",
        "publishing": lambda one: f"{1000 * one.publish_seconds.median:.3f} ms",
        "memory of all": lambda one: size_text(one.memory_bytes.median or None),
        "of a worker": lambda one: size_text(one.worker_bytes.median or None),
    },
}


def _collecting_stages(summaries: list[Summary]) -> Table:
    names = list(dict.fromkeys(name for one in summaries for name in one.collecting_stages))
    table = plain_table(["", *names], "Where collecting goes")
    for one in summaries:
        total = sum(one.collecting_stages.values()) or 1.0
        shares = (one.collecting_stages.get(name) for name in names)
        table.add_row(one.entrant.name, *("" if s is None else share_text(s / total) for s in shares))
    return table


def _notes(config: RunConfig, machine: Machine, summaries: list[Summary]) -> list[str]:
    workers = [one.entrant.num_workers for one in summaries if one.entrant.num_workers]
    single = "one worker" if 1 in workers else "the serial backend with one thread"
    overlaps = config.collect.mode == "async" and config.device != "cpu"
    allow = "the slower of the two, since they overlap" if overlaps else "their times add up"
    notes = [
        "[dim]Collecting ÷ serial with one thread; end to end ÷ serial with as many threads.[/]",
        f"[dim]Efficiency: collecting ÷ (workers × that of {single}). What the stages allow: {allow}.[/]",
    ]
    cores = available_cores()
    if any(number > cores for number in workers):
        notes.append(f"[yellow]•[/] More workers than the {cores} cores here take turns on them.")
    if machine.busy_cores is not None and machine.busy_cores > MUCH_BUSY:
        notes.append(
            f"[yellow]•[/] Other programs kept about {machine.busy_cores:.1f} cores busy before it began; "
            "figures of several math threads suffer most."
        )
    return notes
