"""`senju train`: train an agent, or resume its training."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from senju.cli.agents import episodes_table
from senju.cli.console import command_text, measuring, out, print_json, say, settings_from
from senju.cli.display import TrainingDisplay
from senju.cli.multi_run import train_together
from senju.cli.options import ConfigOption, GameArgument, JsonOption, SeedSetting, SettingsOption, TrustOption
from senju.cli.quantities import plural
from senju.cli.tables import show_matches
from senju.config import merged
from senju.errors import ConfigError
from senju.evaluation.opponents import opponents_settings
from senju.opponents.players import KNOWN_OPPONENTS
from senju.runs.interrupt import stop_on_signals
from senju.runs.monitor import read_events
from senju.runs.presets import known_presets
from senju.runs.run import Run
from senju.runs.run_folder import REWARDS, STRENGTH
from senju.runs.stages import explain
from senju.timing import add_seconds
from senju.training.api import prepare
from senju.training.device_memory import train_run
from senju.training.multi_run.api import MAX_AGENTS, is_of_several, prepare_several
from senju.training.multi_run.shares import parse_devices


def train(
    game: GameArgument = None,
    run: Annotated[
        Path | None, typer.Option(help="Folder of the new run; runs/GAME-DATE by default.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help=f"A preset of the game other than its usual one: {known_presets()}.")
    ] = None,
    config: ConfigOption = None,
    assignments: SettingsOption = None,
    steps: Annotated[int | None, typer.Option(help="Short for --set total_steps=N.")] = None,
    seed: SeedSetting = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Short for --set algorithm.name=NAME; takes its own preset if any.")
    ] = None,
    opponents: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help=f"Train against others: pool (its own past), {KNOWN_OPPONENTS}; with commas between.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Worker processes that play (0: one per core); the result is the same.", min=0),
    ] = None,
    agents: Annotated[
        int | None,
        typer.Option(
            help="Train this many independent runs side by side; --workers is for each. (Agents in one "
            "world: --set game.num_agents=N.)",
            min=1,
            max=MAX_AGENTS,
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Where to learn: cpu, or cuda:0,cuda:1 for agents in turn."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Continue this run, or all agents in this folder.")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="With --resume: from this checkpoint.")] = None,
    max_updates: Annotated[
        int | None, typer.Option(help="Stop (and save) after this many updates; --resume continues.", min=1)
    ] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train an agent; Ctrl-C finishes the step and saves.

    Settings come from the defaults, the game's preset (--preset), --config, and --set, in this order.
    """
    chosen = {"name": algorithm} if algorithm else None
    given = settings_from(None, assignments, total_steps=steps, seed=seed, algorithm=chosen)
    against = opponents_settings(opponents) if opponents is not None else {}
    settings = merged(settings_from(config, None), against, given)  # --set may change what a list implies
    device_list = parse_devices(devices) if devices is not None else []
    if agents is not None or (resume is not None and is_of_several(resume)):
        _refuse_checkpoint(checkpoint, resume)
        with measuring(as_json) as announce:
            runs = prepare_several(
                game, agents, device_list, run, resume, settings, workers, preset, announce
            )
        _show_choice(runs[0], as_json)
        train_together(runs, max_updates, as_json)
        return
    if len(device_list) > 1:
        raise ConfigError(
            f"one agent learns on one device, not on {len(device_list)}; --agents trains several"
        )
    settings = merged(settings, {"device": device_list[0]} if device_list else {})
    with measuring(as_json) as announce:
        prepared = prepare(game, run, resume, checkpoint, settings, workers, preset, announce)
    _show_choice(prepared, as_json)
    _train_one(prepared, checkpoint, max_updates, as_json)


def _show_choice(run: Run, as_json: bool) -> None:
    """Say which settings senju chose, and why."""
    if run.config.chosen and not as_json:
        say(escape(run.config.chosen))


def _refuse_checkpoint(checkpoint: str | None, resume: Path | None) -> None:
    if checkpoint is not None:
        one = f"{resume}/agent_1" if resume is not None else "a run"
        raise ConfigError(
            f"--checkpoint {checkpoint} belongs to one run; resume that run alone: --resume {one}"
        )


def _train_one(prepared: Run, checkpoint: str | None, max_updates: int | None, as_json: bool) -> None:
    first_event = len(read_events(prepared.path))  # of this session
    with stop_on_signals() as stop:
        if as_json:
            finished = train_run(prepared, None, checkpoint, stop, max_updates)
            summary = prepared.summary(first_event)
            explanation = explain(_total_stages(prepared), gpu_busy=summary.get("gpu_busy"))
            print_json({**summary, "finished": finished, "explanation": explanation})
        else:
            with TrainingDisplay(out) as display:
                finished = train_run(prepared, display, checkpoint, stop, max_updates)
            _show_end(prepared, display, finished, first_event)
    if stop.is_set:
        raise typer.Exit(stop.exit_code)


def _total_stages(run: Run) -> dict[str, float]:
    totals: dict[str, float] = {}
    for record in run.metrics:
        add_seconds(totals, record["stages"])
    return totals


def _show_end(run: Run, display: TrainingDisplay, finished: bool, first_event: int) -> None:
    if not finished:
        say(f"\nStopped and saved. Go on with: {command_text('train --resume', run.path)}")
        return
    latest = [results[-1] for results in display.results.values()]
    out.print()
    if latest:
        show_matches(latest, "Strength at the end")
    if display.agents is not None and display.agents.results:
        out.print(episodes_table(run, display.agents.results[-1], "Rewards at the end"))
    summary = run.summary(first_event)
    if summary["metrics"]:
        speed = f"{summary['steps']:,} steps in {summary['seconds']:.0f} s"
        out.print(f"{speed}; {explain(_total_stages(run), gpu_busy=summary.get('gpu_busy'))}.")
    details = f"see {escape(str(run.path))}/events.jsonl"
    if summary["set_aside"]:
        count = plural(summary["set_aside"], "shard")
        say(f"[bold red]{count} set aside after repeated failures;[/] {details}")
    if summary["learners_replaced"]:
        count = plural(summary["learners_replaced"], "time")
        say(f"[yellow]{count} a learner failed, died or hung, and was replaced;[/] {details}")
    pictures = [("Strength over time", STRENGTH), ("Rewards over time", REWARDS)]
    pictures += [("An episode at the end", record["film"]) for record in run.episodes[-1:] if record["film"]]
    for title, name in pictures:
        if (run.path / name).exists():
            say(f"{title}: {escape(str(run.path / name))}")
    if run.config.is_independent:
        say(f"Measure them again: {command_text('evaluate', run.path)}")
    else:
        command = f"play {run.config.game['name']} --run"
        say(f"Play against it: {command_text(command, run.path)}")
