"""The tasks of a tournament: chunks of games of each pair, each with its own seed, until the pair is clear.

Chunk k of a pair counts when all chunks before it are finished. So the result does not depend on which worker
plays a chunk, or on the order of completion.
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
from senju.opponents.score import NO_GAMES, Z95, Interval, Score, wilson_interval

SMALLEST_CHUNK = 20  # games; even
MOST_CHECKS = 10  # of whether a pair's result is clear
ERROR = 0.05  # probability that a pair of equal players is called clear


@dataclass(frozen=True)
class TournamentSettings:
    """Everything that decides a tournament's result, besides its participants."""

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
        return max(SMALLEST_CHUNK, 2 * math.ceil(self.games / MOST_CHECKS / 2))

    @property
    def num_chunks(self) -> int:
        """Chunks of a pair."""
        return math.ceil(self.games / self.chunk_games)

    @cached_property
    def quantile(self) -> float:
        """The quantile of the standard normal distribution for intervals.

        With many checks, one of them finds a difference sooner or later, even between equal players. So the
        error is divided among the checks (Bonferroni): together they are as reliable as one 95 % interval.
        """
        checks = self.num_chunks if self.early_stop else 1
        return NormalDist().inv_cdf(1 - ERROR / checks / 2)

    def interval(self, score: Score) -> Interval:
        """The interval of the mean; with 95 %, it holds at all checks together."""
        # Wilson's formula depends on the level and the games by quantile² / games alone
        return wilson_interval(score.mean, score.games * (Z95 / self.quantile) ** 2)


class MatchTask(NamedTuple):
    """A chunk of games between two participants, given by their indices."""

    first: int
    second: int
    chunk: int
    games: int
    seed: int


class TournamentProgress(NamedTuple):
    """Progress of a tournament; `games_at_most` falls when a pair ends early."""

    games_done: int
    games_at_most: int
    pairs_done: int
    num_pairs: int


@dataclass
class Pair:
    """The chunks of two participants so far."""

    finished: dict[int, Score] = field(default_factory=dict)  # by chunk
    taken: set[int] = field(default_factory=set)  # chunks given out
    score: Score = NO_GAMES
    num_counted: int = 0  # chunks from the first on
    is_over: bool = False


class TournamentSchedule:
    """Hands out tasks and takes results, in any order."""

    def __init__(self, names: Sequence[str], settings: TournamentSettings) -> None:
        self.names, self.settings = names, settings
        self.pairs = {indices: Pair() for indices in combinations(range(len(names)), 2)}

    @property
    def is_over(self) -> bool:
        """Whether every pair is decided or played out."""
        return all(pair.is_over for pair in self.pairs.values())

    @property
    def num_open(self) -> int:
        """The largest number of tasks that may still have to be played."""
        chunks = self.settings.num_chunks
        return sum(chunks - len(pair.finished) for pair in self.pairs.values() if not pair.is_over)

    def next_task(self) -> MatchTask | None:
        """The next task; None if all tasks that may be needed are being played.

        First come chunks that are needed for certain, then those that are needed if the chunks before them
        leave the pair open.
        """
        ranks = []
        for (first, second), pair in self.pairs.items():
            given = pair.finished.keys() | pair.taken
            chunks = range(0 if pair.is_over else self.settings.num_chunks)
            chunk = next((chunk for chunk in chunks if chunk not in given), None)
            if chunk is not None:
                ranks.append((chunk - pair.num_counted, chunk, first, second))
        if not ranks:
            return None
        _, chunk, first, second = min(ranks)
        self.pairs[first, second].taken.add(chunk)
        return self.task(first, second, chunk)

    def task(self, first: int, second: int, chunk: int) -> MatchTask:
        """A task with its games and its seed, which depends on names, chunk and settings alone."""
        size = self.settings.chunk_games
        games = min(size, self.settings.games - chunk * size)
        key = json.dumps([self.settings.seed, self.names[first], self.names[second], chunk])
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") >> 1  # below 2^63
        return MatchTask(first, second, chunk, games, seed)

    def finish(self, task: MatchTask, score: Score) -> None:
        """Take a result, which may end the pair."""
        pair = self.pairs[task.first, task.second]
        pair.finished[task.chunk] = score
        while not pair.is_over and pair.num_counted in pair.finished:
            pair.score = pair.score.plus(pair.finished[pair.num_counted])
            pair.num_counted += 1
            is_clear = self.settings.early_stop and self.settings.interval(pair.score).excludes_half
            pair.is_over = is_clear or pair.num_counted == self.settings.num_chunks

    @property
    def progress(self) -> TournamentProgress:
        """Finished games and pairs."""
        over = [pair.score.games for pair in self.pairs.values() if pair.is_over]
        running = [pair.finished.values() for pair in self.pairs.values() if not pair.is_over]
        done = sum(over) + sum(score.games for scores in running for score in scores)
        at_most = sum(over) + len(running) * self.settings.games
        return TournamentProgress(done, at_most, len(over), len(self.pairs))
