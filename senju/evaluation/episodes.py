"""Whole episodes with an agent in each seat: the rewards of every seat, and one episode to show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.evaluation.matches import ChooseActions, Games
from senju.games.game import Game, Observations, States
from senju.games.rows import Stream, choose_at_random
from senju.opponents.players import AgentPlayer, PlayerBatch
from senju.opponents.score import Z95, Interval
from senju.runs.agent import Agent

AT_ONCE = 256  # episodes side by side, to bound memory
LONGEST = 10_000  # turns of an episode, if neither the world nor the run limits it


@dataclass(frozen=True)
class EpisodesResult:
    """The rewards of each seat in whole episodes."""

    episodes: int
    rewards: tuple[float, ...]  # mean per episode, of every seat
    intervals: tuple[Interval, ...]  # 95 %, of those means
    overall: float  # the mean over all seats
    overall_interval: Interval
    turns: float  # mean length
    positions: States = field(repr=False, compare=False)  # of the first episode, from its start to its end
    random: "EpisodesResult | None" = None  # the same worlds, played at random

    def ratio(self, seat: int) -> float:
        """A seat's reward divided by a random player's; NaN unless the latter is surely above 0."""
        if self.random is not None and self.random.intervals[seat].low > 0:
            return self.rewards[seat] / self.random.rewards[seat]
        return math.nan

    @property
    def overall_ratio(self) -> float:
        """The mean reward of all seats divided by that of random players; NaN as for a single seat."""
        if self.random is not None and self.random.overall_interval.low > 0:
            return self.overall / self.random.overall
        return math.nan

    def as_dict(self) -> dict[str, Any]:
        """Everything but the positions, for JSON."""
        found: dict[str, Any] = {
            "episodes": self.episodes,
            "rewards": list(self.rewards),
            "intervals": [list(interval) for interval in self.intervals],
            "overall": self.overall,
            "overall_interval": list(self.overall_interval),
            "turns": self.turns,
        }
        if self.random is not None:
            random = self.random.as_dict()
            found["random"] = random["rewards"]
            found |= {f"random_{name}": random[name] for name in ("intervals", "overall", "overall_interval")}
        return found


def play_episodes(
    game: Game,
    agents: Sequence[Agent] | None,
    num_episodes: int,
    seed: int = 0,
    *,
    max_length: int = 0,
    random: EpisodesResult | None = None,
) -> EpisodesResult:
    """Play episodes with agent i in seat i; without agents, all seats act at random.

    Agents that learned action values take the best one. Agents that learned a policy draw from it: training
    raised the reward of drawn actions, and where a world is seen only in part, always taking the likeliest
    action may walk in circles. `random` is the result without agents, if it is known already. The episodes
    have random numbers of their own, so none repeats one of training. `max_length` cuts episodes as training
    does.
    """
    if num_episodes < 2:
        raise ConfigError(
            f"episodes={num_episodes}: expected 2 or more, since an interval needs at least two"
        )
    if agents is not None and len(agents) != game.num_seats:
        raise ConfigError(f"{game.name} has {game.num_seats} seats, but {len(agents)} agents were given")
    choose: ChooseActions = _at_random if agents is None else _Agents(game, agents)
    numbers = np.arange(num_episodes, dtype=np.uint32)
    batches = [Games(game, numbers[i : i + AT_ONCE], seed) for i in range(0, num_episodes, AT_ONCE)]
    positions, *_ = [_play(games, choose, max_length or LONGEST) for games in batches]
    if agents is not None and random is None:
        random = play_episodes(game, None, num_episodes, seed, max_length=max_length)
    totals = np.concatenate([games.totals for games in batches])
    return EpisodesResult(
        episodes=num_episodes,
        rewards=tuple(totals.mean(axis=0).tolist()),
        intervals=tuple(mean_interval(totals[:, seat]) for seat in range(game.num_seats)),
        overall=float(totals.mean()),
        overall_interval=mean_interval(totals.mean(axis=1)),
        turns=float(np.concatenate([games.lengths for games in batches]).mean()),
        positions=np.concatenate(positions),
        random=random if agents is not None else None,
    )


def _play(games: Games, choose: ChooseActions, longest: int) -> list[States]:
    """Play all games to their ends; return the positions of the first one."""
    positions = [games.rows.states[:1].copy()]
    while games.is_running.any() and games.num_steps < longest:
        is_first_running = games.is_running[0]
        games.step(choose)
        if is_first_running:
            positions.append(games.rows.states[:1].copy())
    return positions


def _at_random(batch: PlayerBatch, episodes: NDArray[np.int64]) -> NDArray[np.int32]:
    actions = np.zeros(batch.observations.seats.shape, np.int32)
    legal = batch.observations.legal
    choose_at_random(legal, batch.clock, batch.seed, int(Stream.SECOND_PLAYER), actions)
    return actions


class _Agents:
    """Each agent acts in its own seat, by the observation of that seat alone."""

    def __init__(self, game: Game, agents: Sequence[Agent]) -> None:
        self._players = [
            AgentPlayer(game.seat_view, agent.model, agent.name, temperature=1.0, acting=agent.acting)
            for agent in agents
        ]

    def __call__(self, batch: PlayerBatch, episodes: NDArray[np.int64]) -> NDArray[np.int32]:
        seen, rows = batch.observations, np.arange(len(batch.clock))
        actions = np.zeros(seen.seats.shape, np.int32)
        for seat, player in enumerate(self._players):
            is_own = seen.seats == seat
            acts = is_own.any(axis=1)
            places = np.where(acts, is_own.argmax(axis=1), min(seat, is_own.shape[1] - 1))
            observation, legal = (array[rows, places][:, None] for array in seen[:2])
            if is_own.shape[1] == 1:  # seats take turns: what the others see is not shown
                observation[~acts] = 0
            own = Observations(observation, legal, np.where(acts[:, None], 0, -1).astype(np.int8))
            stream = int(Stream.FIRST_PLAYER) + (seat << 8)
            chosen = player.choose(batch._replace(observations=own, stream=stream))
            actions[rows[acts], places[acts]] = chosen[acts, 0]
        return actions


def mean_interval(values: NDArray[np.float64]) -> Interval:
    """Student's interval of a mean.

    >>> [round(bound, 2) for bound in mean_interval(np.array([1.0, 2.0, 3.0, 4.0]))]
    [0.45, 4.55]
    """
    mean, count = float(values.mean()), len(values)
    reach = student95(count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
    return Interval(mean - reach, mean + reach)


def student95(freedom: int) -> float:
    """The quantile of a two-sided 95 % interval by Student's t (Abramowitz and Stegun, 26.7.5).

    >>> [round(student95(freedom), 2) for freedom in (3, 9, 99)]  # exactly 3.18, 2.26, 1.98
    [3.18, 2.26, 1.98]
    """
    z = Z95
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))
