"""`senju train --agents N`: independent runs side by side, and a comparison of their results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from senju.cli.arena import show_arena
from senju.cli.console import command_text, friendly_errors, out, print_error, print_json, say
from senju.cli.multi_run_display import MultiRunDisplay, OutputOnly, cores_text
from senju.cli.quantities import UNKNOWN, plural, reward_interval_text, reward_text, score_text, share_text
from senju.cli.tables import new_table
from senju.runs.interrupt import StopRequest, stop_on_signals
from senju.runs.run import Run
from senju.training.multi_run.api import describe_failure
from senju.training.multi_run.comparison import Comparison, compare, play_each_other, save_comparison
from senju.training.multi_run.group import Trainee, seat_agents, train_agents


def train_together(runs: Sequence[Run], max_updates: int | None, as_json: bool) -> None:
    """Train prepared runs side by side, compare them, and exit with a code that reports failures."""
    folder, agents = runs[0].path.parent, seat_agents(runs)
    with friendly_errors(), stop_on_signals() as stop:
        if as_json:
            train_agents(agents, stop, OutputOnly(), max_updates)
        else:
            _show_start(folder, agents)
            with MultiRunDisplay(out, agents) as display:
                train_agents(agents, stop, display, max_updates)
        comparison = _compare(folder, agents, stop, as_json)
    if as_json:
        print_json(comparison)
    failed = [agent for agent in agents if agent.state == "failed"]
    for agent in failed:
        print_error(describe_failure(agent))
    if not as_json:
        _show_next(folder, comparison)
    if stop.is_set or failed:
        raise typer.Exit(stop.exit_code or 1)


def _compare(folder: Path, agents: Sequence[Trainee], stop: StopRequest, as_json: bool) -> Comparison:
    """Compare the agents; saved before they play each other, so that a failure there loses nothing."""
    comparison = compare(folder, agents)
    save_comparison(folder, comparison)
    if not as_json:
        out.print()
        out.print(*comparison_tables(comparison), sep="\n")
    result = play_each_other(folder, agents, stop)
    if result is not None:
        if not as_json:
            show_arena(result)
        comparison = compare(folder, agents, result)
        save_comparison(folder, comparison)
    return comparison


def _show_start(folder: Path, agents: Sequence[Trainee]) -> None:
    config = agents[0].run.config
    seeds = ", ".join(str(agent.run.config.seed) for agent in agents)
    out.print(
        f"Training [bold]{len(agents)} agents[/] of {escape(config.game['name'])} by "
        f"{config.algorithm['name']} side by side, {config.total_steps:,} steps each, seeds {seeds}."
    )
    if config.is_independent:
        out.print(
            f"Each of them is a run with {len(config.learner_settings)} agents in one world; how many live "
            "in it is a setting of the game."
        )
    say(f"Folder: [bold]{escape(str(folder))}[/]")
    training = [agent for agent in agents if agent.cores]
    cores = sorted({core for agent in training for core in agent.cores})
    if len(training) > len(cores):
        share = f"{len(training)} agents share {plural(len(cores), 'core')}"
        out.print(f"{share}: each has to wait for others.")
    elif training and not out.is_terminal:
        shares = "; ".join(f"{agent.name}: {cores_text(agent.cores)}" for agent in training)
        out.print(f"Cores: {shares}")


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Speed, strength and rewards of each agent, with mean and spread."""
    tables = [_speed_table(comparison)]
    if comparison["strengths"]:
        tables.append(_strength_table(comparison))
    if comparison["rewards"]:
        tables.append(_rewards_table(comparison))
    return tables


def _speed_table(comparison: Comparison) -> Table:
    figures = ("seed", "device", "steps", "seconds", "steps/s")
    table = new_table(("agent", "state"), figures, "How they turned out")
    for row in comparison["agents"]:
        numbers = (f"{row['steps']:,}", f"{row['seconds']:.1f}", f"{row['steps_per_second']:,.0f}")
        table.add_row(row["name"], row["state"], str(row["seed"]), row["device"], *numbers)
    table.add_section()
    speed = comparison["steps_per_second"]
    table.add_row("mean", *[""] * 5, f"{speed['mean']:,.0f}" if speed else UNKNOWN)
    return table


def _strength_table(comparison: Comparison) -> Table:
    opponents = [f"against {escape(opponent)}" for opponent in comparison["strengths"]]
    table = new_table(["agent", *opponents], title="How strong they became: score (95 % interval)")
    for row in comparison["agents"]:
        found = (row["strengths"].get(name) for name in comparison["strengths"])
        table.add_row(row["name"], *(score_text(s["score"], s["interval"]) if s else UNKNOWN for s in found))
    table.add_section()
    spreads = comparison["strengths"].values()
    table.add_row("mean", *(share_text(spread["mean"], 1) for spread in spreads))
    if len(comparison["agents"]) > 1:
        texts = (f"{share_text(spread['low'], 1)} to {share_text(spread['high'], 1)}" for spread in spreads)
        table.add_row("lowest, highest", *texts)
    return table


def _rewards_table(comparison: Comparison) -> Table:
    figures = ("per episode (95 %)", "played at random", "lowest and highest seat")
    table = new_table(["agent"], figures, "What they get: reward per episode, the mean of all seats")
    for row in comparison["agents"]:
        table.add_row(row["name"], *_rewards_texts(row["rewards"]))
    table.add_section()
    table.add_row("mean", reward_text(comparison["rewards"]["mean"]))
    return table


def _rewards_texts(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return [UNKNOWN] * 3
    seats = " to ".join(map(reward_text, (min(found["rewards"]), max(found["rewards"]))))
    overall = reward_interval_text(found["overall"], found["overall_interval"])
    return [overall, reward_text(found["random_overall"]), seats]


def _show_next(folder: Path, comparison: Comparison) -> None:
    if not comparison["finished"]:
        has_failed = any(row["state"] == "failed" for row in comparison["agents"])
        saved = "" if has_failed else "Stopped and saved. "
        say(f"\n{saved}Go on with: {command_text('train --resume', folder)}")
        return
    which = "the strongest" if comparison["strongest"] else "the first"
    run = Run(folder / (comparison["strongest"] or comparison["agents"][0]["name"]))
    if run.config.is_independent:
        say(f"Measure the first: {command_text('evaluate', run.path)}")
    else:
        command = f"play {run.config.game['name']} --run"
        say(f"Play against {which}: {command_text(command, run.path)}")
