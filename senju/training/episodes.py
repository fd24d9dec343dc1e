"""Whole episodes where each seat has an agent of its own: what every one gets, and one to look at."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.collect.exploration import best_actions, sample_actions
from senju.collect.independent import require_seats_at_once
from senju.collect.rollout import Actor
from senju.errors import ConfigError
from senju.games.game import Game, Observations, States
from senju.games.rows import Rows, Stream, choose_at_random
from senju.training.agent import Agent
from senju.training.evaluation import FIRST_PAIR, Z95, Interval

AT_ONCE = 256  # episodes side by side, to bound memory
LONGEST = 10_000  # turns after which an episode is cut that neither the world nor the run ends

Choose = Callable[[Observations, NDArray[np.void], np.uint64], NDArray[np.int32]]


@dataclass(frozen=True)
class EpisodesResult:
    """What each seat got in whole episodes."""

    episodes: int
    rewards: tuple[float, ...]  # mean per episode, of every seat
    intervals: tuple[Interval, ...]  # 95 %, of those means
    overall: float  # the mean over all seats
    overall_interval: Interval
    turns: float  # mean length
    positions: States = field(repr=False, compare=False)  # of the first episode, from its start to its end
    random: "EpisodesResult | None" = None  # the same worlds, played at random

    def ratio(self, seat: int) -> float:
        """How many times the random policy's reward a seat got; NaN where that one is not surely above 0."""
        if self.random is None or self.random.intervals[seat].low <= 0:
            return math.nan
        return self.rewards[seat] / self.random.rewards[seat]

    @property
    def overall_ratio(self) -> float:
        """The same of all seats together."""
        if self.random is None or self.random.overall_interval.low <= 0:
            return math.nan
        return self.overall / self.random.overall

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
            told = self.random.as_dict()
            found["random"] = told["rewards"]
            found["random_intervals"] = told["intervals"]
            found["random_overall"] = told["overall"]
            found["random_overall_interval"] = told["overall_interval"]
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
    """Play episodes with agent i in seat i, or at random where there are no agents.

    Agents that learned action values take the best one. Those that learned a policy draw from it: it is
    the drawn actions whose reward was learned to be high, and in a world seen in part the likeliest
    action alone may walk in circles. `random` is what this gave without agents, where it is known
    already. Chance has rows of its own, so that no episode is one of training. `max_length` cuts
    episodes as training does.
    """
    require_seats_at_once(game)
    if num_episodes < 2:
        raise ConfigError(f"episodes={num_episodes}: expected 2 or more, since one alone tells no interval")
    if agents is not None and len(agents) != game.num_seats:
        raise ConfigError(f"{game.name} has {game.num_seats} seats, and {len(agents)} agents came for them")
    choose: Choose = _at_random if agents is None else _Agents(game, agents, min(num_episodes, AT_ONCE))
    batches = [
        _Episodes(game, range(first, min(first + AT_ONCE, num_episodes)), seed, choose)
        for first in range(0, num_episodes, AT_ONCE)
    ]
    for batch in batches:
        batch.play(max_length or LONGEST)
    if agents is not None and random is None:
        random = play_episodes(game, None, num_episodes, seed, max_length=max_length)
    totals = np.concatenate([batch.totals for batch in batches])
    return EpisodesResult(
        episodes=num_episodes,
        rewards=tuple(totals.mean(axis=0).tolist()),
        intervals=tuple(mean_interval(totals[:, seat]) for seat in range(game.num_seats)),
        overall=float(totals.mean()),
        overall_interval=mean_interval(totals.mean(axis=1)),
        turns=float(np.concatenate([batch.turns for batch in batches]).mean()),
        positions=np.concatenate(batches[0].positions),
        random=random if agents is not None else None,
    )


class _Episodes:
    """Episodes side by side; those that ended stand still."""

    def __init__(self, game: Game, numbers: range, seed: int, choose: Choose) -> None:
        self.game, self.choose = game, choose
        self.rows = Rows(game, FIRST_PAIR + np.asarray(numbers, np.uint32), seed)
        self.running = np.ones(len(numbers), np.bool_)
        self.totals = np.zeros((len(numbers), game.num_seats))
        self.turns = np.zeros(len(numbers), np.int64)
        self.positions = [self.rows.states[:1].copy()]

    def play(self, longest: int) -> None:
        """Play all of them to their ends."""
        for turn in range(longest):
            if not self.running.any():
                return
            self._play_turn(turn)

    def _play_turn(self, turn: int) -> None:
        rows, game = np.flatnonzero(self.running), self.game
        states, clock = self.rows.states[rows], self.rows.clock[rows]
        clock["step"] = turn
        seen, outcomes = game.new_observations(len(rows)), game.new_outcomes(len(rows))
        game.observe(states, seen)
        game.step(states, self.choose(seen, clock, self.rows.seed), outcomes)
        self.rows.states[rows] = states
        self.totals[rows] += outcomes.rewards
        self.turns[rows] += 1
        if self.running[0]:
            self.positions.append(states[:1])
        self.running[rows] = ~(outcomes.terminated | outcomes.truncated)


def _at_random(seen: Observations, clock: NDArray[np.void], seed: np.uint64) -> NDArray[np.int32]:
    actions = np.zeros(seen.seats.shape, np.int32)
    choose_at_random(seen.legal, clock, seed, int(Stream.SECOND_PLAYER), actions)
    return actions


class _Agents:
    """Each agent acts in its own seat, by what is seen from there alone."""

    def __init__(self, game: Game, agents: Sequence[Agent], num_rows: int) -> None:
        self._agents = [(agent.acting, Actor(game.seat_view, agent.model, num_rows)) for agent in agents]

    def __call__(self, seen: Observations, clock: NDArray[np.void], seed: np.uint64) -> NDArray[np.int32]:
        actions = np.zeros(seen.seats.shape, np.int32)
        for seat, (acting, actor) in enumerate(self._agents):
            own = np.zeros((len(clock), 1), np.int32)
            observation, legal = (np.ascontiguousarray(array[:, seat, None]) for array in seen[:2])
            seats = np.where(seen.seats[:, seat, None] == seat, 0, -1).astype(np.int8)
            logits, _ = actor.evaluate_first(observation)
            if acting.by == "action_values":
                best_actions(logits, legal, seats, own)
            else:
                stream = int(Stream.FIRST_PLAYER) + (seat << 8)
                sample_actions(
                    logits, legal, seats, clock, seed, stream, own, np.zeros(own.shape, np.float32)
                )
            actions[:, seat] = own[:, 0]
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
