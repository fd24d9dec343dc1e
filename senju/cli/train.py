"""`senju train`: train an agent, or go on with one."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from senju.cli.agents import episodes_table
from senju.cli.console import (
    JsonOption,
    SetOption,
    TrustOption,
    friendly_errors,
    out,
    print_json,
    program,
    settings_from,
)
from senju.cli.display import TrainingDisplay
from senju.cli.results import judgement_text, match_table
from senju.cli.several import train_together
from senju.config import merged
from senju.errors import ConfigError
from senju.training.api import prepare, train_run
from senju.training.interrupt import stop_on_signals
from senju.training.monitor import read_events, shards_set_aside
from senju.training.opponent_options import opponents_settings
from senju.training.run import Run
from senju.training.run_config import known_presets
from senju.training.run_folder import REWARDS, STRENGTH
from senju.training.several.api import prepare_several
from senju.training.several.folder import MAX_AGENTS, is_of_several
from senju.training.several.shares import parse_devices
from senju.training.stages import explain
from senju.training.trainer import Listener
from senju.trust import trusting


def train(
    game: Annotated[str | None, typer.Argument(help="A game's name, or package.module:Class.")] = None,
    run: Annotated[
        Path | None, typer.Option(help="Folder of the new run; runs/GAME-DATE by default.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help=f"Another preset of the game than its usual one: {known_presets()}.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in a YAML file.", exists=False)] = None,
    assignments: SetOption = None,
    steps: Annotated[int | None, typer.Option(help="Short for --set total_steps=N.")] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set seed=N.")] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(help="Short for --set algorithm.name=NAME; takes its own preset if any."),
    ] = None,
    opponents: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Train against others: pool (its own past), random, minimax:DEPTH, a run, RUN@UPDATE, "
            "package.module:function; with commas between.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Worker processes that play (0: one per core); the result is the same.", min=0),
    ] = None,
    agents: Annotated[
        int | None,
        typer.Option(
            help="Train so many independent runs side by side; --workers is for each. (Agents in one world: "
            "--set game.num_agents=N.)",
            min=1,
            max=MAX_AGENTS,
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Where to learn: cpu, or cuda:0,cuda:1 for agents in turn."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with this run, or with all agents in this folder.")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="With --resume: from this checkpoint.")] = None,
    max_updates: Annotated[
        int | None, typer.Option(help="Stop (and save) after so many updates; --resume goes on.", min=1)
    ] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train an agent; Ctrl-C finishes the step and saves.

    Settings come from the defaults, the game's preset (--preset), --config, and --set, in this order.
    """
    with friendly_errors(), trusting(trust):
        chosen = {"name": algorithm} if algorithm else None
        given = settings_from(None, assignments, total_steps=steps, seed=seed, algorithm=chosen)
        against = opponents_settings(opponents) if opponents is not None else {}
        settings = merged(settings_from(config, None), against, given)  # --set may change what a list implies
        places = parse_devices(devices) if devices is not None else []
        if agents is not None or (resume is not None and is_of_several(resume)):
            _refuse_checkpoint(checkpoint, resume)
            runs = prepare_several(game, agents, places, run, resume, settings, workers, preset)
            train_together(runs, max_updates, as_json)
            return
        if places:
            settings = merged(settings, {"device": _only(places)})
        _train_one(
            prepare(game, run, resume, checkpoint, settings, workers, preset),
            checkpoint,
            max_updates,
            as_json,
        )


def _only(devices: list[str]) -> str:
    if len(devices) > 1:
        raise ConfigError(f"one agent learns on one device, not on {len(devices)}; --agents trains several")
    return devices[0]


def _refuse_checkpoint(checkpoint: str | None, resume: Path | None) -> None:
    if checkpoint is not None:
        one = f"{resume}/agent_1" if resume is not None else "a run"
        raise ConfigError(
            f"--checkpoint {checkpoint} is of one run; go on from it with --resume {one}, that agent alone"
        )


def _train_one(prepared: Run, checkpoint: str | None, max_updates: int | None, as_json: bool) -> None:
    with stop_on_signals() as stop:
        if as_json:
            finished = train_run(prepared, stop, Listener(), checkpoint, max_updates)
        else:
            with TrainingDisplay(out) as display:
                finished = train_run(prepared, stop, display, checkpoint, max_updates)
    if as_json:
        print_json(_summary(prepared, finished))
    else:
        _show_end(prepared, display, finished)
    if stop.is_set:
        raise typer.Exit(stop.exit_code)


def _summary(run: Run, finished: bool) -> dict[str, object]:
    metrics, evaluations = run.metrics, run.evaluations
    last = evaluations[-1]["update"] if evaluations else None
    episodes = {"episodes": run.episodes[-1:]} if run.config.is_independent else {}
    return {
        "run": str(run.path),
        "finished": finished,
        "update": metrics[-1]["update"] if metrics else 0,
        "steps": metrics[-1]["steps"] if metrics else 0,
        "seconds": metrics[-1]["seconds"] if metrics else 0.0,
        "metrics": metrics[-1] if metrics else {},
        "evaluations": [record for record in evaluations if record["update"] == last],
        "explanation": explain(_total_stages(run)),
        "set_aside": shards_set_aside(run.path),
        **episodes,
    }


def _total_stages(run: Run) -> dict[str, float]:
    totals: dict[str, float] = {}
    for record in run.metrics:
        for name, seconds in record["stages"].items():
            totals[name] = totals.get(name, 0.0) + seconds
    return totals


def _show_end(run: Run, display: TrainingDisplay, finished: bool) -> None:
    path = escape(str(run.path))
    if not finished:
        out.print(
            f"\nStopped and saved. Go on with: [bold]{program()} train --resume {path}[/]",
            highlight=False,
            soft_wrap=True,
        )
        return
    latest = [results[-1] for results in display.results.values()]
    out.print()
    if latest:
        out.print(match_table(latest, "How strong it became"))
    if display.agents is not None and display.agents.results:
        out.print(episodes_table(run, display.agents.results[-1], "What they get in the end"))
    for result in latest:
        if result.judgement is not None:
            out.print(judgement_text(result.judgement), highlight=False)
    metrics = run.metrics
    if metrics:
        speed = f"{metrics[-1]['steps']:,} steps in {metrics[-1]['seconds']:.0f} s"
        out.print(f"{speed}; {explain(_total_stages(run))}.", highlight=False)
    lost = shards_set_aside(run.path)
    if lost:
        out.print(
            f"[bold red]{lost} shards failed and were set aside;[/] see {path}/events.jsonl", soft_wrap=True
        )
    helped = sum(event["kind"].startswith("learner_") for event in read_events(run.path))
    if helped:
        out.print(
            f"[yellow]{helped} times a learner failed, was lost or hung and was replaced;[/] "
            f"see {path}/events.jsonl",
            highlight=False,
            soft_wrap=True,
        )
    _show_pictures(run)
    game = run.config.game["name"]
    if run.config.is_independent:
        after = f"Measure them again: [bold]{program()} evaluate {path}[/]"
    else:
        after = f"Play against it: [bold]{program()} play {game} --run {path}[/]"
    out.print(after, highlight=False, soft_wrap=True)


def _show_pictures(run: Run) -> None:
    """Where they are, of those that there are."""
    pictures = [("Strength over time", STRENGTH), ("Rewards over time", REWARDS)]
    films = [record["film"] for record in run.episodes[-1:] if record["film"]]
    pictures += [("An episode at the end", film) for film in films]
    for what, name in pictures:
        if (run.path / name).exists():
            out.print(f"{what}: {escape(str(run.path / name))}", highlight=False, soft_wrap=True)
