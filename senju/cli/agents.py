"""Tables of the agents that share a world: progress while they learn, rewards at the end."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from senju.cli.quantities import UNKNOWN, count_text, figure_text, plural, reward_interval_text, reward_text
from senju.cli.tables import BARS, live_table, new_table
from senju.evaluation.episodes import EpisodesResult
from senju.runs.agent import Agent
from senju.runs.run import Run, new_models
from senju.runs.run_config import RunConfig

MOST_ROWS = 12  # of a table that is redrawn
LOSSES = ("loss", "value_loss")  # of DQN, of PPO


def ratio_text(ratio: float) -> str:
    """A ratio, or a dash where it has no meaning."""
    return UNKNOWN if math.isnan(ratio) or ratio < 0 else f"{ratio:.1f} ×"


def learners_text(run: Run) -> str:
    """The learners of a run: ` by ppo with the model mlp (5,002 weights)`, or the agents of each kind."""
    groups: Counter[str] = Counter()
    for learner, model in zip(run.config.learner_settings, new_models(run.game, run.config), strict=True):
        weights = sum(parameter.numel() for parameter in model.parameters())
        how = f"by {learner.algorithm['name']}" if learner.learns else "without learning"
        groups[f"{how} with the model {learner.model['name']} ({weights:,} weights"] += 1
    if not run.config.is_independent:
        return f" {next(iter(groups))})"
    parts = (f"{plural(count, 'agent')} {text}{' each' * (count > 1)})" for text, count in groups.items())
    return f": {' and '.join(parts)}, nothing shared"


def _algorithm_text(name: str, learns: bool) -> str:
    return escape(name) if learns else "[dim]does not learn[/]"


class AgentStats:
    """The agents of a run in training, with the newest metrics of each."""

    def __init__(self, config: RunConfig) -> None:
        self._seats = config.learner_settings
        self._metrics: dict[str, float] = {}  # the newest of each, since not every update trains all agents
        self.results: list[EpisodesResult] = []

    def see(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of an update."""
        self._metrics |= metrics

    def line(self) -> str:
        """The rewards in training, for output without a terminal."""
        shown = [reward_text(self._known(seat.seat, "reward_per_game")) for seat in self._seats[:MOST_ROWS]]
        more = ", …" if len(self._seats) > MOST_ROWS else ""
        return f"reward per game {', '.join(shown)}{more}"

    def table(self) -> Table:
        """A row for each agent."""
        figures = ("reward per game", "measured", "random", "loss", "random moves", "trainings")
        table = live_table(("agent", "algorithm"), figures, no_wrap=True)
        table.add_column("so far", no_wrap=True)
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
            reward_interval_text(last.rewards[number], last.intervals[number]) if last else UNKNOWN,
            reward_text(last.random.rewards[number]) if last and last.random else UNKNOWN,
            UNKNOWN if loss is None else figure_text(loss),
            UNKNOWN if epsilon is None else figure_text(epsilon),
            count_text(self._known(number, "trainings")),
            f"[cyan]{self._bars(number)}[/]",
        ]

    def _known(self, number: int, name: str) -> float | None:
        return self._metrics.get(f"agent_{number}/{name}")

    def _bars(self, number: int) -> str:
        """An agent's rewards in the last evaluations, on a scale that all agents share."""
        shown = self.results[-30:]
        rewards = [reward for result in shown for reward in result.rewards]
        low, width = min(rewards, default=0.0), max(rewards, default=0.0) - min(rewards, default=0.0)
        scale = (len(BARS) - 2) / (width or 1.0)
        return "".join(BARS[1 + round(scale * (result.rewards[number] - low))] for result in shown)


def episodes_table(run: Run, result: EpisodesResult, title: str) -> Table:
    """The reward of each agent, beside that of a random player in its seat."""
    assert result.random is not None
    table = new_table(("agent", "algorithm"), ("per episode (95 %)", "played at random", "ratio"), title)
    for seat in run.config.learner_settings:
        both = (
            reward_interval_text(r.rewards[seat.seat], r.intervals[seat.seat])
            for r in (result, result.random)
        )
        algorithm = _algorithm_text(seat.algorithm["name"], seat.learns)
        table.add_row(seat.name, algorithm, *both, ratio_text(result.ratio(seat.seat)))
    table.add_section()
    both = (reward_interval_text(r.overall, r.overall_interval) for r in (result, result.random))
    table.add_row("mean of all", "", *both, ratio_text(result.overall_ratio))
    return table


def agents_as_dicts(run: Run, agents: Sequence[Agent], result: EpisodesResult) -> list[dict[str, Any]]:
    """The reward of each agent, for JSON."""
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
        for seat, agent in zip(run.config.learner_settings, agents, strict=True)
    ]
