"""`senju train --agents N`: several agents side by side, and how they turned out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from senju.cli.agents import reward_text, spread_text
from senju.cli.arena import show_arena
from senju.cli.console import err, friendly_errors, out, percent, print_json, program
from senju.cli.quantities import UNKNOWN
from senju.cli.several_display import OutputOnly, SeveralDisplay, cores_text
from senju.training.interrupt import StopRequest, stop_on_signals
from senju.training.run import Run
from senju.training.several.api import describe_failure
from senju.training.several.comparison import Comparison, compare, play_each_other, save_comparison
from senju.training.several.group import Trainee, seat_agents, train_agents


def train_together(runs: Sequence[Run], max_updates: int | None, as_json: bool) -> None:
    """Train prepared runs side by side, compare them, and exit with a code that tells how it went."""
    folder, agents = runs[0].path.parent, seat_agents(runs)
    with friendly_errors(), stop_on_signals() as stop:
        if as_json:
            train_agents(agents, stop, OutputOnly(), max_updates)
        else:
            _show_start(folder, agents)
            with SeveralDisplay(out, agents) as display:
                train_agents(agents, stop, display, max_updates)
        comparison = _compare(folder, agents, stop, as_json)
    if as_json:
        print_json(comparison)
    _show_failures(agents)
    if not as_json:
        _show_next(folder, comparison)
    if stop.is_set or any(agent.state == "failed" for agent in agents):
        raise typer.Exit(stop.exit_code or 1)


def _compare(folder: Path, agents: Sequence[Trainee], stop: StopRequest, as_json: bool) -> Comparison:
    """Kept before the agents meet, so that a failure there does not lose it."""
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
        f"{config.algorithm['name']} side by side, {config.total_steps:,} steps each, seeds {seeds}.",
        highlight=False,
    )
    if config.is_independent:
        out.print(
            f"Each of them is a run with {len(config.seat_settings)} agents in one world; how many live in "
            "it is a setting of the game.",
            highlight=False,
        )
    out.print(f"Folder: [bold]{escape(str(folder))}[/]", highlight=False, soft_wrap=True)
    training = [agent for agent in agents if agent.cores]
    cores = sorted({core for agent in training for core in agent.cores})
    if len(training) > len(cores):
        out.print(
            f"{len(training)} agents share {len(cores)} core{'s' * (len(cores) > 1)}: each has to wait for "
            "others.",
            highlight=False,
        )
    elif training and not out.is_terminal:
        shares = "; ".join(f"{agent.name}: {cores_text(agent.cores)}" for agent in training)
        out.print(f"Cores: {shares}", highlight=False)


def comparison_tables(comparison: Comparison) -> list[Table]:
    """How each agent fared, and how strong each became; with their mean and spread."""
    tables = [_speed_table(comparison)]
    if comparison["strengths"]:
        tables.append(_strength_table(comparison))
    if comparison["rewards"]:
        tables.append(_rewards_table(comparison))
    return tables


def _speed_table(comparison: Comparison) -> Table:
    table = Table(title="How they turned out", title_justify="left")
    for name in ("agent", "state"):
        table.add_column(name)
    for name in ("seed", "device", "steps", "seconds", "steps/s"):
        table.add_column(name, justify="right")
    for row in comparison["agents"]:
        numbers = (f"{row['steps']:,}", f"{row['seconds']:.1f}", f"{row['steps_per_second']:,.0f}")
        table.add_row(row["name"], row["state"], str(row["seed"]), row["device"], *numbers)
    table.add_section()
    speed = comparison["steps_per_second"]
    table.add_row("mean", *[""] * 5, f"{speed['mean']:,.0f}" if speed else UNKNOWN)
    return table


def _strength_table(comparison: Comparison) -> Table:
    table = Table(title="How strong they became: score (95 % interval)", title_justify="left")
    table.add_column("agent", no_wrap=True)
    for opponent in comparison["strengths"]:
        table.add_column(f"against {escape(opponent)}")
    for row in comparison["agents"]:
        strengths = (_strength_text(row["strengths"].get(name)) for name in comparison["strengths"])
        table.add_row(row["name"], *strengths)
    table.add_section()
    spreads = comparison["strengths"].values()
    table.add_row("mean", *(percent(spread["mean"]) for spread in spreads))
    if len(comparison["agents"]) > 1:
        texts = (f"{percent(spread['low'])} to {percent(spread['high'])}" for spread in spreads)
        table.add_row("lowest, highest", *texts)
    return table


def _rewards_table(comparison: Comparison) -> Table:
    table = Table(title="What they get: reward per episode, the mean of all seats", title_justify="left")
    table.add_column("agent", no_wrap=True)
    for name in ("per episode (95 %)", "played at random", "lowest and highest seat"):
        table.add_column(name, justify="right")
    for row in comparison["agents"]:
        table.add_row(row["name"], *_rewards_texts(row["rewards"]))
    table.add_section()
    table.add_row("mean", reward_text(comparison["rewards"]["mean"]))
    return table


def _rewards_texts(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return [UNKNOWN] * 3
    seats = " to ".join(map(reward_text, (min(found["rewards"]), max(found["rewards"]))))
    overall = spread_text(found["overall"], found["overall_interval"])
    return [overall, reward_text(found["random_overall"]), seats]


def _strength_text(strength: dict[str, Any] | None) -> str:
    if strength is None:
        return UNKNOWN
    low, high = strength["interval"]
    return f"{percent(strength['score'])} [dim]({percent(low)} to {percent(high)})[/]"


def _show_failures(agents: Sequence[Trainee]) -> None:
    for agent in agents:
        if agent.state == "failed":
            err.print(
                f"[bold red]error:[/] {escape(describe_failure(agent))}", highlight=False, soft_wrap=True
            )


def _show_next(folder: Path, comparison: Comparison) -> None:
    path, states = escape(str(folder)), [row["state"] for row in comparison["agents"]]
    if not comparison["finished"]:
        saved = "" if "failed" in states else "Stopped and saved. "
        out.print(
            f"\n{saved}Go on with: [bold]{program()} train --resume {path}[/]",
            highlight=False,
            soft_wrap=True,
        )
        return
    first = comparison["strongest"] or comparison["agents"][0]["name"]
    config = Run(folder / first).config
    if config.is_independent:
        out.print(
            f"Measure the first: [bold]{program()} evaluate {path}/{first}[/]",
            highlight=False,
            soft_wrap=True,
        )
        return
    game = config.game["name"]
    out.print(
        f"Play against {'the strongest' if comparison['strongest'] else 'the first'}: "
        f"[bold]{program()} play {game} --run {path}/{first}[/]",
        highlight=False,
        soft_wrap=True,
    )
