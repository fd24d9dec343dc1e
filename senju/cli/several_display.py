"""The live display of several agents in training, and its plain version where there is no terminal."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from senju.cli.console import err, percent
from senju.cli.display import PLAIN_INTERVAL, LiveDisplay
from senju.cli.quantities import UNKNOWN, count_text, duration_text
from senju.training.several.group import ENDED, GroupListener, Trainee

COLOURS = {"training": "green", "finished": "green", "failed": "bold red"}


class SeveralDisplay(LiveDisplay, GroupListener):
    """A row for each agent and one for all, or a line now and then."""

    def __init__(self, console: Console, agents: Sequence[Trainee]) -> None:
        self._agents = agents
        super().__init__(console)  # last, since it draws at once

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        """Now and then write a line; the live table looks by itself."""
        if self.console.is_terminal or monotonic() - self._last_line <= PLAIN_INTERVAL:
            return
        self._last_line = monotonic()
        updates = ", ".join(str(agent.update) for agent in agents)
        speed, left = total_speed(agents), duration_text(total_seconds_left(agents))
        self.console.print(
            f"updates {updates} of {agents[0].total_updates}, {speed:,.0f} steps/s in all, {left} left",
            highlight=False,
        )

    def on_evaluation(self, agent: Trainee, update: int, result: dict[str, Any]) -> None:
        """Write the result where there is no table."""
        if not self.console.is_terminal:
            low, high = result["interval"]
            self.console.print(
                f"{agent.name}, update {update}: against {escape(result['opponent'])} "
                f"{percent(result['score'])} ({percent(low)} to {percent(high)})",
                highlight=False,
            )

    def on_output(self, agent: Trainee, line: str) -> None:
        """Pass on what an agent says, warnings above all; on a terminal above the table."""
        show_output(agent, line, self.console if self.console.is_terminal else err)

    def on_end(self, agent: Trainee) -> None:
        """Say so where there is no table."""
        if not self.console.is_terminal:
            self.console.print(f"{agent.name}: {agent.state} after update {agent.update}", highlight=False)

    def _render(self) -> RenderableType:
        opponents = dict.fromkeys(name for agent in self._agents for name in agent.strengths)
        table = Table(box=None, padding=(0, 1), expand=True)
        for name in ("agent", "device", "cores"):
            table.add_column(name, header_style="bold", no_wrap=True)
        table.add_column("", ratio=1)
        for name in ("updates", "steps/s", "left", *map(escape, opponents)):
            table.add_column(name, header_style="bold", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for agent in self._agents:
            table.add_row(*_row(agent, list(opponents)))
        table.add_section()
        table.add_row(*_total_row(self._agents, len(opponents)), style="bold")
        return Panel(table, border_style="dim")


def show_output(agent: Trainee, line: str, console: Console = err) -> None:
    """Print a line of an agent's with its name before it."""
    console.print(f"{agent.name}: {escape(line)}", highlight=False, soft_wrap=True)


class OutputOnly(GroupListener):
    """Nothing but what the agents themselves print; for `--json`."""

    def on_output(self, agent: Trainee, line: str) -> None:
        """Pass it on."""
        show_output(agent, line)


def _row(agent: Trainee, opponents: list[str]) -> list[RenderableType]:
    is_running = agent.state not in ENDED
    state = "stopping" if is_running and agent.is_asked_to_stop else agent.state
    strengths = (
        percent(agent.strengths[name]["score"]) if name in agent.strengths else UNKNOWN for name in opponents
    )
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
    return [
        "all",
        "",
        cores_text(sorted({core for agent in agents for core in agent.cores})),
        ProgressBar(total=total, completed=done),
        f"{done}/{total}",
        count_text(total_speed(agents) or None),
        duration_text(total_seconds_left(agents)) if total_speed(agents) else UNKNOWN,
        *[""] * num_opponents,
        f"{num_ended} of {len(agents)} ended",
    ]


def total_speed(agents: Sequence[Trainee]) -> float:
    """Steps a second of all that train."""
    return sum(agent.steps_per_second for agent in agents if agent.state == "training")


def total_seconds_left(agents: Sequence[Trainee]) -> float:
    """Until the last is done."""
    return max((agent.seconds_left for agent in agents if agent.state == "training"), default=0.0)


def cores_text(cores: Sequence[int]) -> str:
    """Numbers of cores, neighbours drawn together.

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
