"""`senju bench`: how fast each stage is alone, how fast all are in turn, and what more workers bring."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from senju.cli.console import (
    JsonOption,
    SetOption,
    TrustOption,
    friendly_errors,
    out,
    print_json,
    settings_from,
)
from senju.cli.quantities import share_text, size_text
from senju.cli.trials import ConfigOption, GameArgument, game_or_default, numbers, plain_table, trial_progress
from senju.machine import Machine, available_cores, inspect_machine, processor_name
from senju.training.run_config import RunConfig
from senju.trials.scale import scaled_config, shared_evenly
from senju.trials.speed import STAGES_PER_ENTRANT, Entrant, Results, Summary, entrants, race, summarise
from senju.trials.spreads import Spread
from senju.trust import trusting

MUCH_BUSY = 0.5  # cores that other programs use


def bench(
    game: GameArgument = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers to measure.")] = "1,2,4,8",
    backend: Annotated[str, typer.Option(help="What workers are: processes or threads.")] = "processes",
    mode: Annotated[
        Literal["sync", "async"] | None, typer.Option(help="Short for --set collect.mode=MODE.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time for each figure of each repeat.", min=0.05)] = 1.0,
    repeats: Annotated[int, typer.Option(help="How often all take their turn.", min=1)] = 3,
    config: ConfigOption = None,
    assignments: SetOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure collecting, learning, publishing and all in turn, for the serial backend and for workers.

    All play the same shards. They take turns within each repeat, so that ratios are of figures that
    stood close in time. A step is one decision.
    """
    with friendly_errors(), trusting(trust):
        counts = numbers(workers)
        settings = settings_from(config, assignments, collect={"mode": mode} if mode else None)
        resolved = scaled_config(game_or_default(game, settings), shared_evenly(counts), settings)
        field = entrants(resolved, backend, counts)
        machine = inspect_machine()  # before anything is measured: busy cores are others'
        with trial_progress(as_json) as progress:
            total = repeats * len(field) * len(STAGES_PER_ENTRANT)
            display = _Display(progress, progress.add_task("", total=total), repeats)
            results = race(resolved, field, seconds, repeats, display.show)
        summaries = summarise(field, results)
    if as_json:
        print_json(_record(resolved, machine, summaries, results))
        return
    _show(resolved, summaries, repeats)
    for line in _notes(resolved, machine, summaries):
        out.print(line, highlight=False, soft_wrap=True)


class _Display:
    def __init__(self, progress: Progress, task: TaskID, repeats: int) -> None:
        self._progress, self._task, self._repeats = progress, task, repeats
        self._begun = -1

    def show(self, repeat: int, entrant: Entrant, stage: str) -> None:
        """A stage begins."""
        self._begun += 1
        text = f"repeat {repeat + 1} of {self._repeats}: {entrant.name}, {stage}"
        self._progress.update(self._task, description=text, completed=self._begun)


def _record(
    config: RunConfig, machine: Machine, summaries: list[Summary], results: Results
) -> dict[str, Any]:
    return {
        "game": config.game["name"],
        "machine": asdict(machine),
        "entrants": [_summary_record(summary) for summary in summaries],
        "repeats": {name: [asdict(figures) for figures in repeats] for name, repeats in results.items()},
        "config": config.model_dump(mode="json"),
    }


def _summary_record(summary: Summary) -> dict[str, Any]:
    """A summary as JSON has it: spreads by the names of their figures."""
    values = {name: getattr(summary, name) for name in Summary.__dataclass_fields__}
    return {
        name: value._asdict() if isinstance(value, Spread | Entrant) else value
        for name, value in values.items()
    }


def _show(config: RunConfig, summaries: list[Summary], repeats: int) -> None:
    plan = config.plan
    spreads = f"medians of {repeats} repeats and their ranges" if repeats > 1 else "measured once"
    out.print(
        f"[bold]{escape(config.game['name'])}[/], {plan.num_shards} shards of {plan.games_per_shard} games, "
        f"{plan.rollout_steps} steps an update, model {escape(config.model['name'])}, {config.collect.mode}, "
        f"{available_cores()} cores ({escape(processor_name())}); {spreads}.",
        highlight=False,
    )
    for table in (_stages_alone, _end_to_end, _costs, _collecting_stages):
        out.print(table(summaries), "")


def _stages_alone(summaries: list[Summary]) -> Table:
    columns = ("", "collecting", "÷ serial", "efficiency", "learning")
    table = plain_table(columns, "Each stage alone, steps a second")
    for one in summaries:
        table.add_row(
            one.entrant.name,
            _rate(one.collecting),
            _ratio(one.collecting_over_serial),
            _share(one.efficiency),
            _rate(one.learning),
        )
    return table


def _end_to_end(summaries: list[Summary]) -> Table:
    columns = ("", "end to end", "÷ serial", "stages allow", "reached")
    table = plain_table(columns, "Collecting, learning and publishing in turn, steps a second")
    for one in summaries:
        table.add_row(
            one.entrant.name,
            _rate(one.end_to_end),
            _ratio(one.end_to_end_over_serial),
            _rate(one.allowed),
            _share(one.reached),
        )
    return table


def _costs(summaries: list[Summary]) -> Table:
    columns = ("", "ready after", "publishing", "memory of all", "of a worker")
    table = plain_table(columns, "What it takes")
    for one in summaries:
        table.add_row(
            one.entrant.name,
            f"{one.start_seconds.median:.2f} s",
            f"{1000 * one.publish_seconds.median:.3f} ms",
            size_text(one.memory_bytes.median or None),
            size_text(one.worker_bytes.median or None),
        )
    return table


def _collecting_stages(summaries: list[Summary]) -> Table:
    names = list(dict.fromkeys(name for one in summaries for name in one.collecting_stages))
    table = plain_table(["", *names], "Where collecting goes")
    for one in summaries:
        total = sum(one.collecting_stages.values()) or 1.0
        shares = (one.collecting_stages.get(name) for name in names)
        table.add_row(one.entrant.name, *("" if s is None else share_text(s / total) for s in shares))
    return table


def _rate(spread: Spread) -> str:
    return f"{spread.median:,.0f}" + _ends(spread, f"{spread.min:,.0f}..{spread.max:,.0f}")


def _ratio(spread: Spread) -> str:
    return f"{spread.median:.2f}" + _ends(spread, f"{spread.min:.2f}..{spread.max:.2f}")


def _share(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return share_text(spread.median) + _ends(spread, f"{100 * spread.min:.0f}..{100 * spread.max:.0f}")


def _ends(spread: Spread, text: str) -> str:
    """The ends on a line of their own, where they are apart."""
    return f"\n[dim]{text}[/]" if spread.min < spread.max else ""


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
