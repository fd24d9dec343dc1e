"""What came of an arena: ratings, who beats whom, and cycles."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from senju.opponents.ratings import Rating, Ratings, fit_ratings
from senju.training.arena.cycles import find_cycles
from senju.training.arena.participants import Participant
from senju.training.arena.tasks import ArenaSettings, Counts, Schedule
from senju.training.evaluation import Interval

RESULTS = "results.json"
_DIGITS = 2  # of ratings in files: the last bits depend on the machine's mathematics


@dataclass(frozen=True)
class PairResult:
    """Two participants, seen from the first's side."""

    counts: Counts
    interval: Interval  # of the score, holding at all looks together with 95 %
    is_over: bool

    @property
    def games(self) -> int:
        """Games that count."""
        return self.counts.games

    @property
    def score(self) -> float:
        """Wins and half the draws as a share of the games."""
        return self.counts.score

    @property
    def is_separated(self) -> bool:
        """Whether it is clear who is stronger."""
        return not self.interval.low <= 0.5 <= self.interval.high

    @property
    def is_won(self) -> bool:
        """Whether the first is clearly stronger."""
        return self.interval.low > 0.5

    def reversed(self) -> "PairResult":
        """The same from the second's side."""
        low, high = self.interval
        return PairResult(self.counts.of_second(), Interval(1.0 - high, 1.0 - low), self.is_over)


@dataclass(frozen=True)
class ArenaResult:
    """An arena as far as it was played; participants are meant by their places."""

    game: str
    participants: Sequence[Participant]
    settings: ArenaSettings
    pairs: Mapping[tuple[int, int], PairResult]  # the smaller place first
    folder: Path

    @property
    def names(self) -> list[str]:
        """Of the participants, in the order given."""
        return [each.name for each in self.participants]

    @property
    def is_finished(self) -> bool:
        """Whether every pair was played to its end."""
        return all(pair.is_over for pair in self.pairs.values())

    @cached_property
    def ratings(self) -> Ratings:
        """Of the participants, in the order given."""
        return fit_ratings(self.names, {places: pair.counts[:3] for places, pair in self.pairs.items()})

    @property
    def ranking(self) -> list[int]:
        """Places by rating, the strongest first."""
        return sorted(range(len(self.names)), key=lambda place: -self.ratings[place].mean)

    def between(self, first: int, second: int) -> PairResult:
        """How the first fared against the second."""
        if first < second:
            return self.pairs[first, second]
        return self.pairs[second, first].reversed()

    @cached_property
    def cycles(self) -> list[list[str]]:
        """Names of those who clearly beat each other in a circle, each beating the next."""
        everybody = range(len(self.names))
        beats = {
            first: {other for other in everybody if other != first and self.between(first, other).is_won}
            for first in everybody
        }
        return [[self.names[place] for place in cycle] for cycle in find_cycles(beats)]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON; nothing in it depends on how many workers played."""
        return {
            "game": self.game,
            "settings": asdict(self.settings),
            "is_finished": self.is_finished,
            "participants": [
                {"description": each.description, **_rating_as_dict(rating)}
                for each, rating in zip(self.participants, self.ratings, strict=True)
            ],
            "pairs": [self._pair_as_dict(*places) for places in self.pairs],
            "cycles": self.cycles,
        }

    def _pair_as_dict(self, first: int, second: int) -> dict[str, Any]:
        pair = self.pairs[first, second]
        return {
            "first": self.names[first],
            "second": self.names[second],
            "games": pair.games,
            **pair.counts._asdict(),
            "score": pair.score,
            "interval": list(pair.interval),
            "is_separated": pair.is_separated,
            "is_over": pair.is_over,
            "probability_stronger": round(self.ratings.probability_stronger(first, second), 4),
        }

    def as_json(self) -> str:
        """`as_dict` as the text of a file."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"


def _rating_as_dict(rating: Rating) -> dict[str, Any]:
    return {
        "name": rating.name,
        "rating": round(rating.mean, _DIGITS),
        "deviation": round(rating.deviation, _DIGITS),
        "games": rating.games,
    }


def result_of(
    game: str, participants: Sequence[Participant], schedule: Schedule, folder: Path
) -> ArenaResult:
    """What a schedule has come to."""
    settings = schedule.settings
    pairs = {
        places: PairResult(pair.counts, settings.interval(pair.counts.score, pair.counts.games), pair.is_over)
        for places, pair in schedule.pairs.items()
    }
    return ArenaResult(game, participants, settings, pairs, folder)
