"""`senju tune`: try settings on this machine, and keep the fastest."""

from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer
from rich.markup import escape

from senju.cli.console import command_text, measuring, out, print_json, require_file_name, say, settings_from
from senju.cli.options import ConfigOption, GameArgument, JsonOption, SettingsOption, TrustOption
from senju.cli.tables import plain_table
from senju.cli.trials import game_or_default, heading, trial_progress
from senju.errors import ConfigError, RunFolderError
from senju.files import describe_os_error
from senju.runs.presets import known_presets
from senju.runs.run_config import RunConfig, dump_config, resolve_config
from senju.trials.tuning import LEARNING_SETTINGS, Changes, Trial, Tuner, tuned_config, warnings_about

INTERRUPTED = 130
FIGURES = {"collect": "collecting", "learn": "learning", "end to end": "end_to_end"}
AS_CHOSEN = "as senju train would"


def tune(
    game: GameArgument = None,
    seconds: Annotated[float, typer.Option(help="About how long to try.", min=1.0)] = 60.0,
    to: Annotated[
        Path | None, typer.Option("--out", help="A YAML file to write, for senju train --config FILE.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help=f"A preset other than the game's usual one: {known_presets()}.")
    ] = None,
    config: ConfigOption = None,
    assignments: SettingsOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Try other settings of backend, workers, precision and sizes, and show which are the fastest here.

    Settings that are given stay as they are. Ctrl-C ends the search and shows what was measured so far.
    """
    _require_new_file(to)
    given = settings_from(config, assignments)
    with measuring(as_json) as announce:
        first = resolve_config(game_or_default(game, given), given, variant=preset, announce=announce)
    if first.chosen and not as_json:
        say(escape(first.chosen))
    tuner = Tuner(first, given, seconds)
    was_interrupted = _search(tuner, seconds, as_json)
    best = tuner.best
    if best is None:
        failure = tuner.trials[0].failure if tuner.trials else ""
        if was_interrupted:
            raise typer.Exit(INTERRUPTED)
        raise ConfigError(f"these settings do not run here: {failure}")
    written = tuned_config(best)
    if to is not None:
        _write(to, written)
    warnings = warnings_about(best.changes, first, best.config)
    if as_json:
        _print_result(tuner.trials, best, warnings, to)
    else:
        _show(tuner.trials, best, warnings, to, first)
    if was_interrupted:
        raise typer.Exit(INTERRUPTED)


def _require_new_file(path: Path | None) -> None:
    if path is None:
        return
    require_file_name("--out", path, ".yaml", ".yml")
    if path.exists():
        raise ConfigError(f"--out {path} exists already; choose another name, or remove it first")


def _search(tuner: Tuner, seconds: float, as_json: bool) -> bool:
    """Run the search with a display of its progress; return whether Ctrl-C ended it."""
    began = monotonic()
    with trial_progress(as_json) as progress:
        task = progress.add_task("", total=seconds)

        def show(trial: Trial, stage: str) -> None:
            text = f"{len(tuner.trials)}: {changes_text(trial.changes)}, {stage}"
            progress.update(task, description=escape(text), completed=min(monotonic() - began, seconds))

        try:
            tuner.run(show)
        except KeyboardInterrupt:
            return True
        return False


def _write(path: Path, config: RunConfig) -> None:
    text = f"# Written by senju tune: {config.chosen}.\n{dump_config(config)}"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"--out {path} exists already; choose another name, or remove it first") from None
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {describe_os_error(error)}") from error


def changes_text(changes: Changes) -> str:
    """Settings that differ from the first ones.

    >>> changes_text({"backend": {"name": "threads", "num_workers": 2}, "algorithm.precision": "bfloat16"})
    'backend=threads (2 workers), algorithm.precision=bfloat16'
    """
    return ", ".join(f"{path}={_value_text(value)}" for path, value in changes.items()) or AS_CHOSEN


def _value_text(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return f"{value['name']} ({value['num_workers']} workers)" if "num_workers" in value else value["name"]


def _show(
    trials: list[Trial], best: Trial, warnings: list[str], written: Path | None, first: RunConfig
) -> None:
    out.print(f"{heading(first)}; steps a second, medians and ranges.")
    out.print(
        plain_table(["tried", *FIGURES, "× first", ""], rows=[_row(each, best, trials[0]) for each in trials])
    )
    for warning in warnings:
        say(f"[yellow]•[/] {escape(warning)}.")
    if len(trials) == 1:
        say("No other settings were tried: all are given, or the time was too short.")
    elif not best.changes:
        say("Nothing that was tried is faster.")
    if written is not None:
        say(f"Train with the best: {command_text('train --config', written)}")
    elif best.changes:
        say("Keep the best: call this command again with --out FILE.yaml")


def _row(trial: Trial, best: Trial, first: Trial) -> list[str]:
    marks = "*" * any(path in LEARNING_SETTINGS for path in trial.changes)
    name = escape(changes_text(trial.changes)) + marks
    if not trial.is_measured:
        return [name, "", "", "", "", f"[red]failed:[/] {escape(trial.failure)}"]
    texts = [_spread_text(trial, figure) for figure in FIGURES.values()]
    ratio = f"{trial.speed / first.speed:.2f}" if first.is_measured else ""
    return [name, *texts, ratio, "[green]← best[/]" if trial is best else ""]


def _spread_text(trial: Trial, figure: str) -> str:
    middle, low, high = trial.spread(figure)
    return f"{middle:,.0f}" + (f" [dim]({low:,.0f}..{high:,.0f})[/]" if low < high else "")


def _print_result(trials: list[Trial], best: Trial, warnings: list[str], written: Path | None) -> None:
    print_json(
        {
            "game": best.config.game["name"],
            "trials": [_record(each) for each in trials],
            "best": best.changes,
            "warnings": warnings,
            "written": str(written) if written is not None else None,
            "config": tuned_config(best).model_dump(mode="json"),
        }
    )


def _record(trial: Trial) -> dict[str, Any]:
    figures = {name: trial.spread(name)._asdict() for name in FIGURES.values()} if trial.is_measured else {}
    return {"changes": trial.changes, "failure": trial.failure, "repeats": len(trial.figures), **figures}
