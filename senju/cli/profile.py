"""`senju profile`: where the time goes, serially and with workers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

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
from senju.cli.quantities import share_text
from senju.cli.tables import new_table
from senju.cli.trials import game_or_default, heading, print_record, trial_progress
from senju.machine import available_cores
from senju.runs.run_config import RunConfig
from senju.runs.stages import GROUPS, KNOWN_STAGES
from senju.trials.profiling import Profile, write_timeline
from senju.trials.profiling import profile as profile_updates
from senju.trials.rig import SERIAL, backend_settings
from senju.trials.scale import scaled_config, shared_evenly

BAR = 12  # characters of a whole bar


def profile(
    game: GameArgument = None,
    workers: Annotated[int | None, typer.Option(help="Workers; one per core by default.", min=1)] = None,
    updates: Annotated[int, typer.Option(help="Updates to time.", min=1)] = 10,
    backend: BackendOption = "processes",
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the timelines; profiles/GAME by default.")
    ] = None,
    config: ConfigOption = None,
    assignments: SettingsOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time the stages of training, serially and with workers; write the timelines of both.

    timeline.svg is a picture; timeline.json opens in chrome://tracing and ui.perfetto.dev.
    """
    count = workers or available_cores()
    settings = settings_from(config, assignments)
    resolved = scaled_config(game_or_default(game, settings), shared_evenly([count]), settings)
    parts = [SERIAL, backend_settings(resolved, backend, count)]
    profiles: list[Profile] = []
    with trial_progress(as_json) as progress:
        task = progress.add_task("", total=len(parts) * updates)
        for part in parts:
            progress.update(task, description=part["name"])
            profiles.append(profile_updates(resolved, part, updates, lambda _: progress.advance(task)))
    target = folder or Path("profiles") / resolved.game["name"].rpartition(":")[2]
    serial, parallel = profiles
    files = [write_timeline(serial, target, "timeline-serial"), write_timeline(parallel, target, "timeline")]
    speed_up = parallel.steps_per_second / serial.steps_per_second
    if as_json:
        records = [_record(one, *written) for one, written in zip(profiles, files, strict=True)]
        print_record(resolved, cores=available_cores(), speed_up=speed_up, profiles=records)
    else:
        _show_profiles(resolved, profiles, files, speed_up)


def _record(profile: Profile, trace: Path, picture: Path) -> dict[str, Any]:
    left_out = ("updates", "gpu", "timeline")
    figures = {name: value for name, value in vars(profile).items() if name not in left_out}
    return {
        **figures,
        **profile.gpu,
        "steps_per_second": profile.steps_per_second,
        "events": [event._asdict() for event in profile.events],
        "trace": str(trace),
        "picture": str(picture),
    }


def _show_profiles(
    config: RunConfig, profiles: list[Profile], files: list[tuple[Path, Path]], speed_up: float
) -> None:
    out.print(f"{heading(config)}, {config.collect.mode}.")
    out.print(_stage_table(profiles))
    for one in profiles:
        compared = "" if one is profiles[0] else f" ({speed_up:.2f} × serial)"
        say(f"[bold]{one.name}[/]: {one.steps_per_second:,.0f} steps/s{compared}, {one.explanation}.")
    busy = ", ".join(share_text(share) for share in profiles[1].busy_shares)
    out.print(f"Workers played {busy} of the time; they were ready after {profiles[1].start_seconds:.1f} s.")
    for one, (trace, picture) in zip(profiles, files, strict=True):
        say(f"Timeline of {one.name}: {escape(str(picture))}, {escape(str(trace))}")


def _stage_table(profiles: list[Profile]) -> Table:
    """Every stage in the order of its group; all bars have the same scale."""
    table = new_table(["milliseconds an update"])
    table.columns[0].no_wrap = True
    for one in profiles:
        table.add_column(one.name, justify="right")
        table.add_column("", min_width=BAR)
    longest = max((spent for one in profiles for spent in one.stages.values()), default=0.0) or 1.0
    for label, name in _labelled({name: None for one in profiles for name in one.stages}):
        cells: list[str] = []
        for one in profiles:
            spent = one.stages.get(name)
            cells.append("" if spent is None else f"{1000 * spent / one.updates:.2f}")
            cells.append(f"[green]{'█' * round(BAR * (spent or 0.0) / longest)}[/]")
        table.add_row(label, *cells)
    return table


def _labelled(stages: Iterable[str]) -> list[tuple[str, str]]:
    """Stages as `group: stage`, group by group."""
    names = list(stages)
    groups = [(group, name) for group, members in GROUPS.items() for name in members if name in names]
    groups += [("other", name) for name in names if name not in KNOWN_STAGES]
    return [(group if group.startswith(name) else f"{group}: {name}", name) for group, name in groups]
