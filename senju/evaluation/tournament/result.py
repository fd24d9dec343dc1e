"""The result of a tournament: ratings, scores of all pairs, and cycles."""

import json
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from senju.evaluation.tournament.participants import Participant
from senju.evaluation.tournament.tasks import TournamentSchedule
from senju.opponents.ratings import Ratings, fit_ratings
from senju.opponents.score import Interval, Score

RESULTS = "results.json"
_DIGITS = 2  # of ratings in files: the last bits depend on the machine's mathematics


class PairResult(NamedTuple):
    """Two participants, from the side of the first."""

    score: Score
    interval: Interval  # of the mean score; with 95 %, it holds at all checks together
    is_over: bool

    @property
    def is_separated(self) -> bool:
        """Whether it is clear who is stronger."""
        return self.interval.excludes_half

    @property
    def is_won(self) -> bool:
        """Whether the first is clearly stronger."""
        return self.interval.low > 0.5

    def of_second(self) -> "PairResult":
        """The same pair from the side of the second."""
        low, high = self.interval
        return PairResult(self.score.of_second(), Interval(1.0 - high, 1.0 - low), self.is_over)


@dataclass(frozen=True)
class TournamentResult:
    """A tournament as far as it was played; participants are given by index."""

    game: str
    participants: Sequence[Participant]
    schedule: TournamentSchedule
    folder: Path

    @property
    def names(self) -> list[str]:
        """The names of the participants, in the order given."""
        return [each.name for each in self.participants]

    @cached_property
    def pairs(self) -> dict[tuple[int, int], PairResult]:
        """The results of all pairs, by indices, the smaller one first."""
        interval = self.schedule.settings.interval
        return {
            indices: PairResult(pair.score, interval(pair.score), pair.is_over)
            for indices, pair in self.schedule.pairs.items()
        }

    @property
    def is_finished(self) -> bool:
        """Whether every pair was played to its end."""
        return all(pair.is_over for pair in self.pairs.values())

    @cached_property
    def ratings(self) -> Ratings:
        """The ratings of the participants, in the order given."""
        return fit_ratings(self.names, {indices: pair.score for indices, pair in self.pairs.items()})

    @property
    def ranking(self) -> list[int]:
        """Indices by rating, the strongest first."""
        return sorted(range(len(self.names)), key=lambda index: -self.ratings[index].mean)

    def between(self, first: int, second: int) -> PairResult:
        """The result of the first against the second."""
        return self.pairs[first, second] if first < second else self.pairs[second, first].of_second()

    @cached_property
    def cycles(self) -> list[list[str]]:
        """Names of players that beat each other in a circle: each clearly beats the next."""
        players = range(len(self.names))
        beats = {
            first: {other for other in players if other != first and self.between(first, other).is_won}
            for first in players
        }
        return [[self.names[index] for index in cycle] for cycle in find_cycles(beats)]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON; nothing in it depends on how many workers played."""
        return {
            "game": self.game,
            "settings": asdict(self.schedule.settings),
            "is_finished": self.is_finished,
            "participants": [
                {
                    "description": each.description,
                    "name": rating.name,
                    "rating": round(rating.mean, _DIGITS),
                    "deviation": round(rating.deviation, _DIGITS),
                    "games": rating.games,
                }
                for each, rating in zip(self.participants, self.ratings, strict=True)
            ],
            "pairs": [self._pair_as_dict(*indices) for indices in self.pairs],
            "cycles": self.cycles,
        }

    def _pair_as_dict(self, first: int, second: int) -> dict[str, Any]:
        pair = self.pairs[first, second]
        return {
            "first": self.names[first],
            "second": self.names[second],
            "games": pair.score.games,
            **pair.score._asdict(),
            "score": pair.score.mean,
            "interval": list(pair.interval),
            "is_separated": pair.is_separated,
            "is_over": pair.is_over,
            "probability_stronger": round(self.ratings.probability_stronger(first, second), 4),
        }

    def as_json(self) -> str:
        """`as_dict` as the text of a file."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"


def find_cycles(beats: Mapping[int, Set[int]]) -> list[list[int]]:
    """The shortest cycle of each group in which every player beats every other, directly or through others.

    No rating can express a cycle: A beats B, B beats C, and C beats A.

    >>> find_cycles({0: {1}, 1: {2}, 2: {0, 3}, 3: {4}, 4: set()})
    [[0, 1, 2]]
    """
    paths = {player: _shortest_paths(beats, player) for player in beats}
    cycles: list[list[int]] = []
    seen: set[int] = set()
    for player in sorted(beats):
        if player in seen or player not in paths[player]:
            continue
        group = sorted(other for other in paths[player] if player in paths[other])
        seen.update(group)
        cycles.append(min((paths[member][member] for member in group), key=len))  # the first of equals
    return cycles


def _shortest_paths(beats: Mapping[int, Set[int]], start: int) -> dict[int, list[int]]:
    """The path to each player that `start` beats, directly or through others; to itself if it is in a cycle.

    A path does not contain its last player, so that of `start` is a cycle.
    """
    paths: dict[int, list[int]] = {}
    waiting = deque([[start]])
    while waiting:
        path = waiting.popleft()
        for other in sorted(beats[path[-1]] - paths.keys()):
            paths[other] = path
            waiting.append([*path, other])
    return paths
