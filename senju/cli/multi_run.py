"""`senju train --agents N`: independent runs side by side, and a comparison of their results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from senju.cli.arena import show_arena
from senju.cli.console import command_text, err, out, print_error, print_json, say
from senju.cli.display import LiveDisplay
from senju.cli.quantities import (
    UNKNOWN,
    count_text,
    duration_text,
    plural,
    reward_interval_text,
    reward_text,
    score_text,
    share_text,
)
from senju.cli.tables import new_table
from senju.runs.interrupt import StopRequest, stop_on_signals
from senju.runs.run import Run
from senju.training.multi_run.api import describe_failure
from senju.training.multi_run.comparison import Comparison, compare, play_each_other, save_comparison
from senju.training.multi_run.group import ENDED, GroupListener, Trainee, new_trainees, train_agents

COLOURS = {"training": "green", "finished": "green", "failed": "bold red"}


def train_together(runs: Sequence[Run], max_updates: int | None, as_json: bool) -> None:
    """Train prepared runs side by side, compare them, and exit with a code that reports failures."""
    folder, agents = runs[0].path.parent, new_trainees(runs)
    with stop_on_signals() as stop:
        if not as_json:
            _show_start(folder, agents)
        console = Console(quiet=True, force_terminal=False) if as_json else out
        with MultiRunDisplay(console, agents) as display:
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
        out.print("", _speed_table(comparison))
        if comparison["strengths"]:
            out.print(_strength_table(comparison))
        if comparison["rewards"]:
            out.print(_rewards_table(comparison))
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
            f"Each of them is a run with {len(config.learner_settings)} agents in one world; a setting of "
            "the game, such as game.num_agents, decides how many."
        )
    say(f"Folder: [bold]{escape(str(folder))}[/]")
    training = [agent for agent in agents if agent.cores]
    cores = sorted({core for agent in training for core in agent.cores})
    if len(training) > len(cores):
        share = f"{len(training)} agents share {plural(len(cores), 'core')}"
        out.print(f"{share}: agents wait for each other.")
    elif training and not out.is_terminal:
        shares = "; ".join(f"{agent.name}: {cores_text(agent.cores)}" for agent in training)
        out.print(f"Cores: {shares}")


def _speed_table(comparison: Comparison) -> Table:
    figures = ("seed", "device", "steps", "seconds", "steps/s")
    table = new_table(("agent", "state"), figures, "Results")
    for row in comparison["agents"]:
        numbers = (f"{row['steps']:,}", f"{row['seconds']:.1f}", f"{row['steps_per_second']:,.0f}")
        table.add_row(row["name"], row["state"], str(row["seed"]), row["device"], *numbers)
    table.add_section()
    speed = comparison["steps_per_second"]
    table.add_row("mean", *[""] * 5, f"{speed['mean']:,.0f}" if speed else UNKNOWN)
    return table


def _strength_table(comparison: Comparison) -> Table:
    opponents = [f"against {escape(opponent)}" for opponent in comparison["strengths"]]
    table = new_table(["agent", *opponents], title="Strength: score (95 % interval)")
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
    table = new_table(["agent"], figures, "Reward per episode, the mean of all seats")
    for row in comparison["agents"]:
        texts, found = [UNKNOWN] * 3, row["rewards"]
        if found is not None:
            seats = " to ".join(map(reward_text, (min(found["rewards"]), max(found["rewards"]))))
            overall = reward_interval_text(found["overall"], found["overall_interval"])
            texts = [overall, reward_text(found["random_overall"]), seats]
        table.add_row(row["name"], *texts)
    table.add_section()
    table.add_row("mean", reward_text(comparison["rewards"]["mean"]))
    return table


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


class MultiRunDisplay(LiveDisplay, GroupListener):
    """A row for each agent and one for all, or a line now and then."""

    def __init__(self, console: Console, agents: Sequence[Trainee]) -> None:
        self._agents = agents
        super().__init__(console)  # last, since it draws at once

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        if self.is_line_due():
            updates = ", ".join(str(agent.update) for agent in agents)
            speed, left = _speed_and_time_left(agents)
            done = f"updates {updates} of {agents[0].total_updates}"
            self.say(f"{done}, {speed:,.0f} steps/s in all, {left} left")

    def on_evaluation(self, agent: Trainee, update: int, result: dict[str, Any]) -> None:
        score = score_text(result["score"], result["interval"])
        self.say(f"{agent.name}, update {update}: against {escape(result['opponent'])} {score}")

    def on_output(self, agent: Trainee, line: str) -> None:
        """Print an agent's output, mostly warnings; on a terminal above the table."""
        say(f"{agent.name}: {escape(line)}", self.console if self.console.is_terminal else err)

    def on_end(self, agent: Trainee) -> None:
        self.say(f"{agent.name}: {agent.state} after update {agent.update}")

    def get_renderable(self) -> RenderableType:
        """A table with one line for each agent."""
        opponents = dict.fromkeys(name for agent in self._agents for name in agent.strengths)
        figures = ("updates", "steps/s", "left", *map(escape, opponents))
        table = new_table(
            ("agent", "device", "cores", ""), figures, no_wrap=True, box=None, padding=(0, 1), expand=True
        )
        table.columns[3].ratio = 1  # the bar takes the space that is left
        table.add_column("", no_wrap=True)
        for agent in self._agents:
            table.add_row(*_row(agent, list(opponents)))
        table.add_section()
        table.add_row(*_total_row(self._agents, len(opponents)), style="bold")
        return Panel(table, border_style="dim")


def _row(agent: Trainee, opponents: list[str]) -> list[RenderableType]:
    is_running = agent.state not in ENDED
    state = "stopping" if is_running and agent.is_asked_to_stop else agent.state
    strengths = (share_text(agent.strengths.get(name, {}).get("score"), 1) for name in opponents)
    return [
        agent.name,
        agent.run.config.device,
        cores_text(agent.cores),
        ProgressBar(total=agent.total_updates, completed=agent.update),
        f"{agent.update}/{agent.total_updates}",
        count_text(agent.steps_per_second or None),
        duration_text(agent.seconds_left) if is_running and agent.steps_per_second else UNKNOWN,
        *strengths,
        Text(state, style=COLOURS.get(state, "yellow")),
    ]


def _total_row(agents: Sequence[Trainee], num_opponents: int) -> list[RenderableType]:
    done, total = sum(agent.update for agent in agents), sum(agent.total_updates for agent in agents)
    num_ended = sum(agent.state in ENDED for agent in agents)
    speed, left = _speed_and_time_left(agents)
    return [
        "all",
        "",
        cores_text(sorted({core for agent in agents for core in agent.cores})),
        ProgressBar(total=total, completed=done),
        f"{done}/{total}",
        count_text(speed or None),
        left if speed else UNKNOWN,
        *[""] * num_opponents,
        f"{num_ended} of {len(agents)} ended",
    ]


def _speed_and_time_left(agents: Sequence[Trainee]) -> tuple[float, str]:
    """Steps a second of all that train, and the time until the last of them is done."""
    training = [agent for agent in agents if agent.state == "training"]
    left = max((agent.seconds_left for agent in training), default=0.0)
    return sum(agent.steps_per_second for agent in training), duration_text(left)


def cores_text(cores: Sequence[int]) -> str:
    """Numbers of cores, with neighbours joined to ranges.

    >>> cores_text([0, 1, 2, 5]), cores_text([])
    ('0-2,5', '—')
    """
    pieces: list[list[int]] = []
    for core in cores:
        if pieces and core == pieces[-1][-1] + 1:
            pieces[-1].append(core)
        else:
            pieces.append([core])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in pieces) or UNKNOWN
