"""`senju soak`: does training give the same result while its workers are disturbed?"""

from dataclasses import asdict
from time import monotonic
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress

from senju.cli.console import err, out, say, settings_from
from senju.cli.options import MAX_SEED, ConfigOption, GameArgument, JsonOption, SettingsOption, TrustOption
from senju.cli.quantities import count_text, duration_text, size_text
from senju.cli.tables import facts_table
from senju.cli.trials import game_or_default, print_record, quiet_about_lost_workers, trial_progress
from senju.cli.verify import difference_text
from senju.runs.interrupt import stop_on_signals
from senju.runs.run_config import RunConfig
from senju.trials.scale import SMALL, scaled_config
from senju.trials.soak import SOAK_BACKEND, Growth, SoakProgress, SoakReport
from senju.trials.soak import soak as train_disturbed

PLAIN_INTERVAL = 30.0  # seconds between lines where there is no terminal


def soak(
    game: GameArgument = None,
    duration: Annotated[float, typer.Option(help="Seconds of disturbances.", min=1)] = 3600.0,
    seed: Annotated[int, typer.Option(help="Seed of the run and the disturbances.", min=0, max=MAX_SEED)] = 0,
    workers: Annotated[
        int, typer.Option(help="Workers at the start; resizing goes up to one more.", min=1)
    ] = 2,
    config: ConfigOption = None,
    assignments: SettingsOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train while workers are killed, hung, paused, resized and reset; compare with an undisturbed run.

    The same number of updates is then computed serially, which may take as long again. Ctrl-C ends the
    disturbances early.
    """
    with quiet_about_lost_workers():
        settings = settings_from(config, assignments)
        backend = SOAK_BACKEND | {"num_workers": workers}
        base = {"threads": 1, "seed": seed, "backend": backend}
        scale = SMALL._replace(num_shards=max(SMALL.num_shards, workers + 2))
        resolved = scaled_config(game_or_default(game, settings), scale, base, settings)
        with stop_on_signals() as stop, trial_progress(as_json) as progress:
            display = _SoakDisplay(progress, duration, is_silent=as_json)
            report = train_disturbed(resolved, duration, seed, display.show, stop)
    if as_json:
        print_record(resolved, seed=seed, **_record(report))
    else:
        _show_report(resolved, report)
    if report.leftovers or not report.is_equal:
        raise typer.Exit(1)
    if stop.is_set:
        raise typer.Exit(stop.exit_code)


class _SoakDisplay:
    """A bar for the disturbances and one for the check; plain lines where there is no terminal."""

    def __init__(self, progress: Progress, duration: float, is_silent: bool) -> None:
        self._progress, self._writes_lines = progress, not is_silent and not err.is_terminal
        self._disturbing = progress.add_task("starting", total=duration)
        self._checking = progress.add_task("checking", total=None, visible=False)
        self._last_line = monotonic()

    def show(self, now: SoakProgress) -> None:
        """Redraw, or now and then write a line."""
        done, recovered = sum(now.statistics.disturbances.values()), now.statistics.recovered
        text = f"{now.stage}: {now.updates:,} updates, {done:,} disturbances, {recovered:,} recovered"
        if now.stage == "disturbing":
            workers = f"{text}, {now.workers} workers"
            self._progress.update(self._disturbing, description=workers, completed=now.seconds)
            self._progress.update(self._checking, total=now.updates)
        else:
            self._progress.update(self._checking, completed=now.updates, visible=True)
        if self._writes_lines and monotonic() - self._last_line >= PLAIN_INTERVAL:
            self._last_line = monotonic()
            say(f"{duration_text(now.seconds)} {text}", err)


def _record(report: SoakReport) -> dict[str, Any]:
    statistics = report.statistics
    return {
        **asdict(statistics),
        "own_memory": {**statistics.own_memory._asdict(), "growth": statistics.own_memory.bytes},
        "worker_memory": {**statistics.worker_memory._asdict(), "growth": statistics.worker_memory.bytes},
        "recovered": statistics.recovered,
        "leftovers": report.leftovers,
        "is_equal": report.is_equal,
        "first_different_update": report.first_different_update,
        "difference": asdict(report.difference) if report.difference else None,
    }


def _show_report(config: RunConfig, report: SoakReport) -> None:
    statistics = report.statistics
    left = [f"{kind.replace('_', ' ')}: {', '.join(found)}" for kind, found in report.leftovers.items()]
    events = [f"{kind.replace('_', ' ')} {count}" for kind, count in statistics.events.items()]
    verdict = "[green]equal to an undisturbed serial run[/]" if report.is_equal else "[red]different[/]"
    rows = {
        "time": duration_text(statistics.seconds),
        "updates": count_text(statistics.updates),
        **{f"{kind}s": count_text(count) for kind, count in statistics.disturbances.items()},
        "recovered": f"{count_text(statistics.recovered)} ({', '.join(events) or 'no events'})",
        "memory of this process": _growth_text(statistics.own_memory),
        "memory of a worker": _growth_text(statistics.worker_memory),
        "left behind": f"[red]{escape('; '.join(left))}[/]" if left else "[green]nothing[/]",
        "weights and states": verdict,
    }
    out.print(facts_table(rows, f"{config.game['name']} under disturbances"))
    if not report.is_equal:
        first = report.first_different_update
        text = f"The weights differ from update {first} on." if first else "The weights agree."
        if report.difference is not None:
            text += f" At the end: {escape(difference_text(report.difference))}"
        say(f"[red]✗[/] {text}")


def _growth_text(growth: Growth) -> str:
    """The memory in the first and in the last quarter of the time."""
    change = f"{growth.bytes / 2**20:+.1f} MiB"
    return f"{size_text(growth.first)} at first, {size_text(growth.last)} at last ({change})"
