"""What is to be played: pairs in chunks of games, each with its own seed, until a pair is clear.

Decisions look at chunks in their order: chunk k of a pair counts when all before it are in. So the result
is the same whoever plays what, and in whatever order it comes back.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

from senju.errors import ConfigError
from senju.training.evaluation import Z95, Interval, wilson_interval

SMALLEST_CHUNK = 20  # games; even
MOST_LOOKS = 10  # at a pair's results, to see whether they are clear
ERROR = 0.05  # of a pair: how often it may be called clear, though both are equal


@dataclass(frozen=True)
class ArenaSettings:
    """What decides the result of an arena, besides who takes part."""

    games: int = 200  # of each pair, at most; even
    seed: int = 0
    opening_plies: int | None = None  # random plies before each pair of games; None: as the players need
    early_stop: bool = True  # whether a pair ends when it is clear who is stronger

    def __post_init__(self) -> None:
        if self.games < 2 or self.games % 2:
            raise ConfigError(
                f"games={self.games}: expected an even number above zero, since colours are swapped in pairs"
            )

    @property
    def chunk_games(self) -> int:
        """Games of a chunk; the last one may have fewer."""
        return max(SMALLEST_CHUNK, 2 * math.ceil(self.games / MOST_LOOKS / 2))

    @property
    def num_chunks(self) -> int:
        """Chunks of a pair."""
        return math.ceil(self.games / self.chunk_games)

    @cached_property
    def quantile(self) -> float:
        """Of the standard normal distribution, for intervals.

        Looking often finds a difference sooner or later where there is none. So the error is divided
        over the looks (Bonferroni): together they err as seldom as one interval of 95 % would.
        """
        looks = self.num_chunks if self.early_stop else 1
        return NormalDist().inv_cdf(1 - ERROR / looks / 2)

    def interval(self, score: float, games: int) -> Interval:
        """Of a score, holding at all looks together with 95 %."""
        # Wilson's formula knows the level and the games by quantile² / games alone
        effective = games * (Z95 / self.quantile) ** 2
        return wilson_interval(score, effective)


class Counts(NamedTuple):
    """How games ended, from the first player's side."""

    wins: int = 0
    draws: int = 0
    losses: int = 0
    wins_moving_first: int = 0
    losses_moving_first: int = 0

    @property
    def games(self) -> int:
        """Games played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Wins and half the draws as a share of the games; a half where nothing was played."""
        return (self.wins + 0.5 * self.draws) / self.games if self.games else 0.5

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def of_second(self) -> "Counts":
        """The same games from the other side."""
        wins, losses = self.losses - self.losses_moving_first, self.wins - self.wins_moving_first
        return Counts(self.losses, self.draws, self.wins, wins, losses)


NOTHING = Counts()


class Task(NamedTuple):
    """A chunk of games between two participants, by their places."""

    first: int
    second: int
    chunk: int
    games: int
    seed: int


class Progress(NamedTuple):
    """How far an arena is; `games_at_most` falls when a pair ends early."""

    games_done: int
    games_at_most: int
    pairs_done: int
    num_pairs: int


@dataclass
class _Pair:
    first: int
    second: int
    finished: dict[int, Counts] = field(default_factory=dict)  # by chunk
    taken: set[int] = field(default_factory=set)  # chunks being played
    counts: Counts = NOTHING
    num_counted: int = 0  # chunks from the first on
    is_over: bool = False


class Schedule:
    """Hands out tasks and takes results, in any order."""

    def __init__(self, names: Sequence[str], settings: ArenaSettings) -> None:
        self.names, self.settings = names, settings
        self.pairs = {pair: _Pair(*pair) for pair in combinations(range(len(names)), 2)}

    @property
    def is_over(self) -> bool:
        """Whether every pair is."""
        return all(pair.is_over for pair in self.pairs.values())

    @property
    def num_open(self) -> int:
        """Tasks that may have to be played, at most."""
        chunks = self.settings.num_chunks
        return sum(chunks - len(pair.finished) for pair in self.pairs.values() if not pair.is_over)

    def take(self) -> Task | None:
        """The next task; None where all that may be needed is being played.

        First what is needed for certain, then what will be if the chunks before it leave the pair open.
        """
        best: tuple[int, int, int, int] | None = None
        for pair in self.pairs.values():
            if pair.is_over:
                continue
            busy = pair.finished.keys() | pair.taken
            chunk = next((k for k in range(self.settings.num_chunks) if k not in busy), None)
            if chunk is not None:
                rank = (chunk - pair.num_counted, chunk, pair.first, pair.second)
                best = rank if best is None else min(best, rank)
        if best is None:
            return None
        _, chunk, first, second = best
        self.pairs[first, second].taken.add(chunk)
        return self.task(first, second, chunk)

    def task(self, first: int, second: int, chunk: int) -> Task:
        """A task with its games and its seed, which depends on nothing but what the task is."""
        size = self.settings.chunk_games
        games = min(size, self.settings.games - chunk * size)
        key = json.dumps([self.settings.seed, self.names[first], self.names[second], chunk])
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") >> 1  # below 2^63
        return Task(first, second, chunk, games, seed)

    def give_back(self, task: Task) -> None:
        """Whoever played it is gone."""
        self.pairs[task.first, task.second].taken.discard(task.chunk)

    def finish(self, task: Task, counts: Counts) -> None:
        """Take a result; the pair may be over by it."""
        pair = self.pairs[task.first, task.second]
        pair.taken.discard(task.chunk)
        pair.finished[task.chunk] = counts
        while not pair.is_over and pair.num_counted in pair.finished:
            pair.counts = pair.counts.plus(pair.finished[pair.num_counted])
            pair.num_counted += 1
            is_clear = self.settings.early_stop and self.is_separated(pair.counts)
            pair.is_over = is_clear or pair.num_counted == self.settings.num_chunks

    def is_separated(self, counts: Counts) -> bool:
        """Whether the interval leaves out one half."""
        low, high = self.settings.interval(counts.score, counts.games)
        return not low <= 0.5 <= high

    @property
    def progress(self) -> Progress:
        """How far it is."""
        pairs = self.pairs.values()
        done = sum(self._games_of(pair) for pair in pairs)
        at_most = sum(pair.counts.games if pair.is_over else self.settings.games for pair in pairs)
        return Progress(done, at_most, sum(pair.is_over for pair in pairs), len(pairs))

    def _games_of(self, pair: _Pair) -> int:
        """Games played; of a pair that is over, those that count."""
        if pair.is_over:
            return pair.counts.games
        return sum(counts.games for counts in pair.finished.values())
