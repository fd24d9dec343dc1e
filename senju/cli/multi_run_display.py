"""The live display of a multi-run, and its plain version where there is no terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.text import Text

from senju.cli.console import err, say
from senju.cli.display import PLAIN_INTERVAL, LiveDisplay
from senju.cli.quantities import UNKNOWN, count_text, duration_text, score_text, share_text
from senju.cli.tables import new_table
from senju.training.multi_run.group import ENDED, GroupListener, Trainee

COLOURS = {"training": "green", "finished": "green", "failed": "bold red"}


class MultiRunDisplay(LiveDisplay, GroupListener):
    """A row for each agent and one for all, or a line now and then."""

    def __init__(self, console: Console, agents: Sequence[Trainee]) -> None:
        self._agents = agents
        super().__init__(console)  # last, since it draws at once

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        if self.is_line_due(PLAIN_INTERVAL):
            updates = ", ".join(str(agent.update) for agent in agents)
            speed, left = total_speed(agents), duration_text(total_seconds_left(agents))
            self.say(
                f"updates {updates} of {agents[0].total_updates}, {speed:,.0f} steps/s in all, {left} left"
            )

    def on_evaluation(self, agent: Trainee, update: int, result: dict[str, Any]) -> None:
        score = score_text(result["score"], result["interval"])
        self.say(f"{agent.name}, update {update}: against {escape(result['opponent'])} {score}")

    def on_output(self, agent: Trainee, line: str) -> None:
        """Print an agent's output, mostly warnings; on a terminal above the table."""
        show_output(agent, line, self.console if self.console.is_terminal else err)

    def on_end(self, agent: Trainee) -> None:
        self.say(f"{agent.name}: {agent.state} after update {agent.update}")

    def _render(self) -> RenderableType:
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


def show_output(agent: Trainee, line: str, console: Console = err) -> None:
    """Print a line that an agent printed, after its name."""
    say(f"{agent.name}: {escape(line)}", console)


class OutputOnly(GroupListener):
    """Shows only the agents' own output; for `--json`."""

    def on_output(self, agent: Trainee, line: str) -> None:
        show_output(agent, line)


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
    """Seconds until the last agent is done."""
    return max((agent.seconds_left for agent in agents if agent.state == "training"), default=0.0)


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
