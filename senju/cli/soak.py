"""`senju soak`: does training survive what may happen to its workers, unchanged?"""

from dataclasses import asdict
from time import monotonic
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from senju.cli.console import (
    MAX_SEED,
    JsonOption,
    SetOption,
    TrustOption,
    err,
    friendly_errors,
    out,
    print_json,
    settings_from,
)
from senju.cli.quantities import count_text, duration_text, size_text
from senju.cli.trials import ConfigOption, GameArgument, expected_losses, game_or_default, trial_progress
from senju.cli.verify import difference_text
from senju.training.interrupt import stop_on_signals
from senju.training.run_config import RunConfig
from senju.trials.endurance import SOAK_BACKEND, Growth, Moment, SoakReport
from senju.trials.endurance import soak as train_disturbed
from senju.trials.scale import SMALL, scaled_config
from senju.trust import trusting

PLAIN_INTERVAL = 30.0  # seconds between lines where there is no terminal


def soak(
    game: GameArgument = None,
    duration: Annotated[float, typer.Option(help="Seconds of disturbances.", min=1)] = 3600.0,
    seed: Annotated[int, typer.Option(help="Of the run and of the disturbances.", min=0, max=MAX_SEED)] = 0,
    workers: Annotated[int, typer.Option(help="Workers at first; resizing goes one further.", min=1)] = 2,
    config: ConfigOption = None,
    assignments: SetOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train while workers are killed, hung, paused, resized and reset at random; compare with a quiet run.

    The same number of updates is then computed serially, which may take as long again. Ctrl-C ends the
    disturbances early.
    """
    with friendly_errors(), trusting(trust), expected_losses():
        settings = settings_from(config, assignments)
        backend = SOAK_BACKEND | {"num_workers": workers}
        base = {"threads": 1, "seed": seed, "backend": backend}
        scale = SMALL._replace(num_shards=max(SMALL.num_shards, workers + 2))
        resolved = scaled_config(game_or_default(game, settings), scale, base, settings)
        with stop_on_signals() as stop, trial_progress(as_json) as progress:
            display = _Display(progress, err, duration, is_silent=as_json)
            report = train_disturbed(resolved, duration, seed, display.show, stop)
    if as_json:
        print_json(_record(resolved, seed, report))
    else:
        _show(resolved, report)
    if report.leftovers or not report.is_equal:
        raise typer.Exit(1)
    if stop.is_set:
        raise typer.Exit(stop.exit_code)


class _Display:
    """A bar for the disturbances and one for the check; plain lines where there is no terminal."""

    def __init__(self, progress: Progress, console: Console, duration: float, is_silent: bool) -> None:
        self._progress, self._console, self._is_silent = progress, console, is_silent
        self._disturbing = progress.add_task("starting", total=duration)
        self._checking = progress.add_task("checking", total=None, visible=False)
        self._last_line = monotonic()

    def show(self, moment: Moment) -> None:
        """Redraw, or now and then write a line."""
        done = sum(moment.disturbances.values())
        text = f"{moment.stage}: {moment.updates:,} updates, {done:,} disturbances, {moment.healed:,} healed"
        if moment.stage == "disturbing":
            workers = f"{text}, {moment.workers} workers"
            self._progress.update(self._disturbing, description=workers, completed=moment.seconds)
            self._progress.update(self._checking, total=moment.updates)
        else:
            self._progress.update(
                self._checking, description="checking", completed=moment.updates, visible=True
            )
        if self._is_silent or self._console.is_terminal or monotonic() - self._last_line < PLAIN_INTERVAL:
            return
        self._last_line = monotonic()
        self._console.print(f"{duration_text(moment.seconds)} {text}", highlight=False)


def _record(config: RunConfig, seed: int, report: SoakReport) -> dict[str, Any]:
    ordeal = report.ordeal
    return {
        "game": config.game["name"],
        "seed": seed,
        **asdict(ordeal),
        "own_memory": _growth_record(ordeal.own_memory),
        "worker_memory": _growth_record(ordeal.worker_memory),
        "healed": ordeal.healed,
        "leftovers": report.leftovers,
        "is_equal": report.is_equal,
        "first_different_update": report.first_different_update,
        "difference": asdict(report.difference) if report.difference else None,
        "config": config.model_dump(mode="json"),
    }


def _growth_record(growth: Growth) -> dict[str, int]:
    return {**growth._asdict(), "growth": growth.bytes}


def _show(config: RunConfig, report: SoakReport) -> None:
    ordeal = report.ordeal
    table = Table(show_header=False, title=escape(f"{config.game['name']} under disturbances"))
    table.add_row("time", duration_text(ordeal.seconds))
    table.add_row("updates", count_text(ordeal.updates))
    for kind, count in ordeal.disturbances.items():
        table.add_row(f"{kind}s", count_text(count))
    table.add_row("healed", f"{count_text(ordeal.healed)} ({_counts(ordeal.events)})")
    table.add_row("memory of this process", _growth_text(ordeal.own_memory))
    table.add_row("memory of a worker", _growth_text(ordeal.worker_memory))
    left = [f"{kind.replace('_', ' ')}: {', '.join(found)}" for kind, found in report.leftovers.items()]
    table.add_row("left behind", f"[red]{escape('; '.join(left))}[/]" if left else "[green]nothing[/]")
    verdict = "[green]equal to an undisturbed serial run[/]" if report.is_equal else "[red]different[/]"
    table.add_row("weights and states", verdict)
    out.print(table)
    if not report.is_equal:
        out.print(_difference(report), highlight=False, soft_wrap=True)


def _difference(report: SoakReport) -> str:
    first = report.first_different_update
    text = (
        f"[red]✗[/] The weights differ from update {first} on." if first else "[red]✗[/] The weights agree."
    )
    if report.difference is not None:
        text += f" At the end: {escape(difference_text(report.difference))}"
    return f"[red]✗[/] {text}"


def _counts(events: dict[str, int]) -> str:
    return ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in events.items()) or "no events"


def _growth_text(growth: Growth) -> str:
    """First quarter of the time against the last."""
    change = f"{growth.bytes / 2**20:+.1f} MiB"
    return f"{size_text(growth.first)} at first, {size_text(growth.last)} at last ({change})"
