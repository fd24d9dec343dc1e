"""Agents that share a world, as tables: how they fare while they learn, and what they get in the end."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from senju.cli.quantities import UNKNOWN, count_text, figure_text
from senju.training.agent import Agent
from senju.training.episodes import EpisodesResult
from senju.training.run import Run
from senju.training.run_config import RunConfig

BARS = "▁▂▃▄▅▆▇█"
MOST_ROWS = 12  # of a table that is drawn again and again
LOSSES = ("loss", "value_loss")  # of DQN, of PPO


def reward_text(reward: object) -> str:
    """A reward with as many digits as it deserves.

    >>> reward_text(12.345), reward_text(-0.031), reward_text(1234.0), reward_text(None)
    ('12.3', '-0.03', '1,234', '—')
    """
    if not isinstance(reward, int | float) or math.isnan(reward):
        return UNKNOWN
    return f"{reward:,.0f}" if abs(reward) >= 1000 else f"{reward:.{1 if abs(reward) >= 10 else 2}f}"


def spread_text(reward: float, interval: Sequence[float]) -> str:
    """A reward with half the width of its interval."""
    return f"{reward_text(reward)} [dim]± {reward_text((interval[1] - interval[0]) / 2)}[/]"


def ratio_text(ratio: float) -> str:
    """How many times as much; a dash where that means nothing."""
    return UNKNOWN if math.isnan(ratio) or ratio < 0 else f"{ratio:.1f} ×"


def who_text(run: Run) -> str:
    """Who learns in a run, in words: `2 agents by dqn with the model mlp (31,234 weights each)`."""
    groups: dict[tuple[str, str, int], int] = {}
    for seat, model in zip(run.config.seat_settings, run.new_models(), strict=True):
        weights = sum(parameter.numel() for parameter in model.parameters())
        how = f"by {seat.algorithm['name']}" if seat.learns else "without learning"
        group = (how, seat.model["name"], weights)
        groups[group] = groups.get(group, 0) + 1
    return " and ".join(
        f"{count} agent{'s' * (count > 1)} {how} with the model {model} "
        f"({weights:,} weights{' each' * (count > 1)})"
        for (how, model, weights), count in groups.items()
    )


def _algorithm_text(name: str, learns: bool) -> str:
    """How an agent learns, if it does."""
    return escape(name) if learns else "[dim]does not learn[/]"


class AgentsBoard:
    """The agents of a run in training, with what is known of each."""

    def __init__(self, config: RunConfig) -> None:
        self._seats = config.seat_settings
        self._metrics: dict[str, float] = {}  # the newest of each, since not all are trained every time
        self.results: list[EpisodesResult] = []

    def see(self, metrics: Mapping[str, float]) -> None:
        """An update is done."""
        self._metrics |= metrics

    def line(self) -> str:
        """What they get in training, for where there is no terminal."""
        shown = [reward_text(self._known(seat.seat, "reward_per_game")) for seat in self._seats[:MOST_ROWS]]
        more = ", …" if len(self._seats) > MOST_ROWS else ""
        return f"reward per game {', '.join(shown)}{more}"

    def table(self) -> Table:
        """A row for each agent."""
        table = Table(box=None, padding=(0, 2))
        for name in ("agent", "algorithm"):
            table.add_column(name, header_style="bold", no_wrap=True)
        for name in ("reward per game", "measured", "random", "loss", "random moves", "trainings"):
            table.add_column(name, header_style="bold", justify="right", no_wrap=True)
        table.add_column("so far", header_style="bold", no_wrap=True)
        for seat in self._seats[:MOST_ROWS]:
            table.add_row(*self._row(seat.seat))
        if len(self._seats) > MOST_ROWS:
            table.add_row(f"[dim]and {len(self._seats) - MOST_ROWS} more[/]")
        return table

    def _row(self, number: int) -> list[str]:
        seat, last = self._seats[number], self.results[-1] if self.results else None
        loss = next((loss for name in LOSSES if (loss := self._known(number, name)) is not None), None)
        epsilon = self._known(number, "epsilon")
        return [
            seat.name,
            _algorithm_text(seat.algorithm["name"], seat.learns),
            reward_text(self._known(number, "reward_per_game")),
            spread_text(last.rewards[number], last.intervals[number]) if last else UNKNOWN,
            reward_text(last.random.rewards[number]) if last and last.random else UNKNOWN,
            UNKNOWN if loss is None else figure_text(loss),
            UNKNOWN if epsilon is None else figure_text(epsilon),
            count_text(self._known(number, "trainings")),
            f"[cyan]{self._bars(number)}[/]",
        ]

    def _known(self, number: int, name: str) -> float | None:
        return self._metrics.get(f"agent_{number}/{name}")

    def _bars(self, number: int) -> str:
        """What it got in the last measurings, on a scale that all agents share."""
        shown = self.results[-30:]
        rewards = [reward for result in shown for reward in result.rewards]
        low, width = min(rewards, default=0.0), max(rewards, default=0.0) - min(rewards, default=0.0)
        scale = (len(BARS) - 1) / (width or 1.0)
        return "".join(BARS[round(scale * (result.rewards[number] - low))] for result in shown)


def episodes_table(run: Run, result: EpisodesResult, title: str) -> Table:
    """What each agent gets, beside what random players get in its seat."""
    table = Table(title=escape(title), title_justify="left")
    for name in ("agent", "algorithm"):
        table.add_column(name)
    for name in ("per episode (95 %)", "played at random", "ratio"):
        table.add_column(name, justify="right")
    assert result.random is not None
    for seat in run.config.seat_settings:
        number = seat.seat
        table.add_row(
            seat.name,
            _algorithm_text(seat.algorithm["name"], seat.learns),
            spread_text(result.rewards[number], result.intervals[number]),
            spread_text(result.random.rewards[number], result.random.intervals[number]),
            ratio_text(result.ratio(number)),
        )
    table.add_section()
    overall, random = (spread_text(r.overall, r.overall_interval) for r in (result, result.random))
    table.add_row("mean of all", "", overall, random, ratio_text(result.overall_ratio))
    return table


def agents_as_dicts(run: Run, agents: Sequence[Agent], result: EpisodesResult) -> list[dict[str, Any]]:
    """The same for machines."""
    assert result.random is not None
    return [
        {
            "agent": agent.name,
            "seat": seat.seat,
            "algorithm": seat.algorithm["name"],
            "episodes": result.episodes,
            "reward": result.rewards[seat.seat],
            "interval": list(result.intervals[seat.seat]),
            "random": result.random.rewards[seat.seat],
            "random_interval": list(result.random.intervals[seat.seat]),
            "ratio": result.ratio(seat.seat),
        }
        for seat, agent in zip(run.config.seat_settings, agents, strict=True)
    ]
