"""`senju profile`: where the time goes, serially and with workers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
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
from senju.cli.quantities import share_text
from senju.cli.trials import ConfigOption, GameArgument, game_or_default, trial_progress
from senju.machine import available_cores
from senju.training.run_config import RunConfig
from senju.training.stages import GROUPS
from senju.trials.profiling import Profile, write_timeline
from senju.trials.profiling import profile as profile_updates
from senju.trials.rig import SERIAL, backend_settings
from senju.trials.scale import scaled_config, shared_evenly
from senju.trust import trusting

BAR = 12  # characters of a whole bar


def profile(
    game: GameArgument = None,
    workers: Annotated[int | None, typer.Option(help="Workers; one per core by default.", min=1)] = None,
    updates: Annotated[int, typer.Option(help="Updates to time.", min=1)] = 10,
    backend: Annotated[str, typer.Option(help="What workers are: processes or threads.")] = "processes",
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the timelines; profiles/GAME by default.")
    ] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time the stages of training, serially and with workers; write the timelines of both.

    timeline.svg is a picture; timeline.json opens in chrome://tracing and ui.perfetto.dev.
    """
    with friendly_errors(), trusting(trust):
        count = workers or available_cores()
        settings = settings_from(config, assignments)
        resolved = scaled_config(game_or_default(game, settings), shared_evenly([count]), settings)
        parts = [SERIAL, backend_settings(resolved, backend, count)]
        profiles: list[Profile] = []
        with trial_progress(as_json) as progress:
            task = progress.add_task("", total=len(parts) * updates)
            for part in parts:
                progress.update(task, description=part["name"])
                profiles.append(
                    profile_updates(resolved, part, updates, lambda update: progress.advance(task))
                )
        place = folder or Path("profiles") / resolved.game["name"].rpartition(":")[2]
        names = ("timeline-serial", "timeline")
        files = [write_timeline(one, place, name) for one, name in zip(profiles, names, strict=True)]
    if as_json:
        print_json(_record(resolved, profiles, files))
    else:
        _show(resolved, profiles, files)


def _record(config: RunConfig, profiles: list[Profile], files: list[tuple[Path, Path]]) -> dict[str, Any]:
    return {
        "game": config.game["name"],
        "cores": available_cores(),
        "speed_up": profiles[1].steps_per_second / profiles[0].steps_per_second,
        "profiles": [
            {
                "backend": one.backend,
                "num_workers": one.num_workers,
                "start_seconds": one.start_seconds,
                "seconds": one.seconds,
                "steps": one.steps,
                "steps_per_second": one.steps_per_second,
                "stages": one.stages,
                "busy_shares": list(one.busy_shares),
                "events": [event._asdict() for event in one.events],
                "explanation": one.explanation,
                "trace": str(trace),
                "picture": str(picture),
            }
            for one, (trace, picture) in zip(profiles, files, strict=True)
        ],
        "config": config.model_dump(mode="json"),
    }


def _show(config: RunConfig, profiles: list[Profile], files: list[tuple[Path, Path]]) -> None:
    plan = config.plan
    out.print(
        f"[bold]{escape(config.game['name'])}[/], {plan.num_shards} shards of {plan.games_per_shard} games, "
        f"{plan.rollout_steps} steps an update, model {escape(config.model['name'])}, {config.collect.mode}.",
        highlight=False,
    )
    out.print(_stage_table(profiles))
    for one in profiles:
        ratio = one.steps_per_second / profiles[0].steps_per_second
        compared = "" if one is profiles[0] else f" ({ratio:.2f} × serial)"
        out.print(
            f"[bold]{one.name}[/]: {one.steps_per_second:,.0f} steps/s{compared}, {one.explanation}.",
            highlight=False,
            soft_wrap=True,
        )
    busy = ", ".join(share_text(share) for share in profiles[1].busy_shares)
    out.print(f"Workers played {busy} of the time; they were ready after {profiles[1].start_seconds:.1f} s.")
    for one, (trace, picture) in zip(profiles, files, strict=True):
        out.print(
            f"Timeline of {one.name}: {escape(str(picture))}, {escape(str(trace))}",
            highlight=False,
            soft_wrap=True,
        )


def _stage_table(profiles: list[Profile]) -> Table:
    """Every stage in the order of its group; all bars have one measure."""
    table = Table()
    table.add_column("milliseconds an update", no_wrap=True)
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
    known = {name for _, name in groups}
    groups += [("other", name) for name in names if name not in known]
    return [(group if group.startswith(name) else f"{group}: {name}", name) for group, name in groups]
