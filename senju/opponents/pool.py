"""The pool: who may be drawn as an opponent, with what odds, and what came of it.

Snapshots of the learner's past get numbers that count up and never come back. One that leaves the pool
is drawn no more, and its weights stay where they are until the last game against it is over: nothing
that is in use is ever written over.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from senju.collect.orders import Orders
from senju.collect.seating import CURRENT, Failure
from senju.collect.slots import Rollout
from senju.config import Part
from senju.errors import CheckpointError, OpponentError
from senju.kernels import compiled
from senju.models.weights import Weights
from senju.opponents.table import OpponentSpec

logger = logging.getLogger(__name__)

_MEMORY = 0.98  # how much of an older result counts after each update, when odds are made from results
_LEFT_FOR_EASY = 0.01
_NEXT_OLDER = 0.8  # how often a snapshot is drawn for each time that the next newer one is


class OpponentsConfig(Part):
    """Who sits in the other seats, with `collect.seating=opponents`."""

    snapshot_interval: int = Field(
        20, ge=0, description="Updates between snapshots of the learner; 0: none are taken."
    )
    size: int = Field(16, ge=1, le=4096, description="Snapshots in the pool.")
    when_full: Literal["spread", "oldest"] = Field(
        "spread",
        description="Which snapshot leaves: one that keeps the rest spread over time, or the oldest.",
    )
    fixed: tuple[str, ...] = Field(
        (),
        description="Opponents besides: random, minimax:DEPTH, a run, RUN@UPDATE, package.module:function.",
    )
    fixed_share: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Share of the fixed ones in games against others, where there are snapshots too.",
    )
    self_share: float = Field(
        0.8, ge=0, le=1, description="Share of the games that the learner plays against itself."
    )
    choose: Literal["uniform", "newest", "harder"] = Field(
        "uniform", description="Which snapshots are drawn more often."
    )
    in_play: int = Field(
        4, ge=1, le=4096, description="Opponents that new games of a shard choose from in one rollout."
    )
    epsilon: float = Field(
        0.05, ge=0, le=1, description="Share of random moves of opponents that play by action values."
    )
    on_failure: Literal["stop", "drop"] = Field(
        "stop", description="Whether an opponent that raises or cheats ends the run, or leaves it."
    )

    @property
    def num_places(self) -> int:
        """Places for snapshots: of those in the pool, and of those that left while games go on."""
        return self.size + max(2, self.size // 2) if self.snapshot_interval else 0


@dataclass
class Member:
    """An opponent with what it did so far, seen by the learner."""

    number: int
    name: str
    place: int  # of its weights; -1 where it needs none
    update: int  # when it was taken; -1: a fixed one
    is_drawn: bool = True  # whether new games may draw it
    left_at: int = -1  # the first version whose orders leave it out; -1: none was published yet
    wins: int = 0
    draws: int = 0
    losses: int = 0
    recent_games: float = 0.0
    recent_score: float = 0.0  # wins and half the draws

    @property
    def games(self) -> int:
        """Finished games against it."""
        return self.wins + self.draws + self.losses

    @property
    def expected_score(self) -> float:
        """The learner's score against it of late; a half where nothing is known."""
        return (self.recent_score + 1.0) / (self.recent_games + 2.0)


@compiled
def _count_results(
    rewards: NDArray[np.float32],  # [time, row, seat]
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    bootstrap: NDArray[np.float32],  # [time, row, seat]
    seated: NDArray[np.int32],  # [time, row, seat]
    current: int,
    ids: NDArray[np.int32],
    totals: NDArray[np.float64],  # [row, seat], of the games under way
    counts: NDArray[np.int64],  # [opponent, 3]: wins, draws and losses of the learner
) -> None:
    """Compare each opponent's rewards with the learner's in every game that ended.

    A game that was cut off because somebody failed leads to nothing that is known, and counts for nobody.
    """
    num_steps, num_rows, num_seats = rewards.shape
    for row in range(num_rows):
        for time in range(num_steps):
            own = -1
            for seat in range(num_seats):
                totals[row, seat] += rewards[time, row, seat]
                if seated[time, row, seat] == current:
                    own = seat
            if not (terminated[time, row] or truncated[time, row]):
                continue
            is_cut_off = truncated[time, row] and np.isnan(bootstrap[time, row]).all()
            for seat in range(num_seats):
                opponent = seated[time, row, seat]
                if opponent != current and own >= 0 and not is_cut_off:
                    margin = totals[row, own] - totals[row, seat]
                    result = 0 if margin > 0.0 else (1 if margin == 0.0 else 2)
                    for index in range(ids.shape[0]):
                        if ids[index] == opponent:
                            counts[index, result] += 1
            totals[row] = 0.0


def _least_missed(ordinals: Sequence[int]) -> int:
    """Whose leaving keeps those that stay spread over the whole past; they are numbered 1, 2, 3, … by age.

    With the one that comes, the newest quarter stay whatever they are. Of the others those leave first that
    can be halved least often, and the oldest of these first: what stays are the multiples of some power of
    two, and from the oldest on those of the next one. So of n, k of them being the newest, no two
    neighbours are further apart than 2 / (n - k + 1) of the whole past.

    >>> _least_missed([4, 6, 8, 10, 12])
    1
    """
    num_newest = max(1, len(ordinals) // 4)
    others = ordinals[: len(ordinals) - num_newest + 1]
    halvings = [ordinal & -ordinal for ordinal in others]
    return halvings.index(min(halvings))


class OpponentPool:
    """Members, odds and results. `orders` is what whoever plays is told of it.

    pool.see(rollouts, failures)                         # what came of the last games
    for place, weights in pool.grow(update, weights):    # where a snapshot is due
        backend.publish_opponent(place, weights)
    backend.publish(weights, version, pool.orders(version, epsilon))
    """

    def __init__(
        self,
        config: OpponentsConfig,
        fixed: Sequence[OpponentSpec],
        totals_shape: tuple[int, int, int],  # shards, rows, seats
    ) -> None:
        self.config = config
        self.members: list[Member] = []
        # wins, draws and losses of the first number, for as long as it is in the pool
        self.results: dict[tuple[int, int], list[int]] = {}
        self.weights: dict[int, Weights] = {}
        self.totals = np.zeros(totals_shape)
        self._num_fixed = len(fixed)
        place = config.num_places
        for number, spec in enumerate(fixed, start=1):
            self.members.append(Member(number, spec.description, place if spec.is_agent else -1, -1))
            place += spec.is_agent
        self._fixed_ones = tuple(self.members)
        self._next = len(fixed) + 1

    @property
    def snapshots(self) -> list[Member]:
        """Those that new games may draw, oldest first."""
        return [member for member in self.members if member.update >= 0 and member.is_drawn]

    @property
    def fixed(self) -> list[Member]:
        """Fixed opponents that new games may draw."""
        return [member for member in self.members if member.update < 0 and member.is_drawn]

    @property
    def upcoming(self) -> int:
        """The number that the learner will have as a snapshot; its games until then count as that one's."""
        return self._next

    def see(self, rollouts: Sequence[Rollout], failures: Iterable[Failure] = ()) -> dict[str, float]:
        """Count the games that ended, drop who failed, and forget who left and sits nowhere any more.

        There is one rollout of every shard that is played. Returns the learner's games against others, and
        its score in them, as metrics.
        """
        ids = np.array([member.number for member in self.members], np.int32)
        counts = np.zeros((len(ids), 3), np.int64)
        for rollout in rollouts:
            slot, totals = rollout.data, self.totals[rollout.shard]
            seen = (slot.rewards, slot.terminated, slot.truncated, slot.bootstrap, slot.seated)
            _count_results(*seen, CURRENT, ids, totals, counts)
        for member, (wins, draws, losses) in zip(self.members, counts.tolist(), strict=True):
            self._count(member, wins, draws, losses)
        for failure in failures:
            self._drop(failure)
        self._forget(rollouts)
        wins, draws, losses = counts.sum(axis=0).tolist()
        games = wins + draws + losses
        metrics = {"pool_size": float(len(self.snapshots)), "opponent_games": float(games)}
        return metrics | ({"opponent_score": (wins + 0.5 * draws) / games} if games else {})

    def _count(self, member: Member, wins: int, draws: int, losses: int) -> None:
        member.wins += wins
        member.draws += draws
        member.losses += losses
        member.recent_games = member.recent_games * _MEMORY + wins + draws + losses
        member.recent_score = member.recent_score * _MEMORY + wins + 0.5 * draws
        if wins or draws or losses:
            total = self.results.setdefault((self.upcoming, member.number), [0, 0, 0])
            for index, count in enumerate((wins, draws, losses)):
                total[index] += count

    def _drop(self, failure: Failure) -> None:
        member = next((m for m in self.members if m.number == failure.opponent and m.is_drawn), None)
        if member is None:  # in several shards at once, or in a game that was under way when it was dropped
            return
        others = [each for each in (*self.fixed, *self.snapshots) if each is not member]
        if not others and not self.config.snapshot_interval:
            raise OpponentError(f"{failure.what}; it was the last opponent, and there is none to go on with")
        if self.config.on_failure == "stop":
            raise OpponentError(f"{failure.what}; opponents.on_failure=drop would go on without it")
        member.is_drawn = False
        logger.warning("%s; training goes on without it", failure.what)

    def _forget(self, rollouts: Sequence[Rollout]) -> None:
        """A place is free when every shard began a rollout without it, and no game against it goes on."""
        oldest = min(rollout.version for rollout in rollouts)
        in_use: set[int] = set()
        for rollout in rollouts:
            slot = rollout.data
            is_running = ~(slot.terminated[-1] | slot.truncated[-1])
            in_use.update(np.unique(slot.seated[-1][is_running]).tolist())
        for member in list(self.members):
            has_left = not member.is_drawn and 0 <= member.left_at <= oldest
            if has_left and member.update >= 0 and member.number not in in_use:
                self.members.remove(member)
                del self.weights[member.number]
        here = {self.upcoming, *(member.number for member in self.members)}
        self.results = {pair: counts for pair, counts in self.results.items() if pair[0] in here}

    def is_due(self, update: int) -> bool:
        """Whether a snapshot is to be taken after that update."""
        interval = self.config.snapshot_interval
        return interval > 0 and update % interval == 0

    def grow(self, update: int, weights: Weights) -> list[tuple[int, Weights]]:
        """Take a snapshot if one is due; return what is to be published, and where."""
        if not self.is_due(update):
            return []
        taken = {member.place for member in self.members}
        free = [place for place in range(self.config.num_places) if place not in taken]
        if not free:
            logger.warning(
                "no snapshot is taken after update %d: all %d places are in use by games under way; a larger "
                "opponents.snapshot_interval, or collect.max_game_length, would leave some free",
                update,
                self.config.num_places,
            )
            return []
        if len(self.snapshots) == self.config.size:
            leaver = self._who_leaves()
            leaver.is_drawn = False
            logger.info("%s leaves the pool for that of update %d", leaver.name, update)
        member = Member(self._next, f"update {update}", free[0], update)
        self._next += 1
        self.members.append(member)
        self.weights[member.number] = weights.copy()
        return [(member.place, self.weights[member.number])]

    def _who_leaves(self) -> Member:
        snapshots = self.snapshots
        if self.config.when_full == "oldest":
            return snapshots[0]
        ordinals = [member.update // self.config.snapshot_interval for member in snapshots]
        return snapshots[_least_missed(ordinals)]

    def orders(self, version: int, epsilon: float) -> Orders:
        """What whoever plays is told."""
        for member in self.members:
            if not member.is_drawn and member.left_at < 0:
                member.left_at = version
        odds = self._odds()
        return Orders(
            version=version,
            epsilon=epsilon,
            ids=tuple(member.number for member in self.members),
            places=tuple(member.place for member in self.members),
            odds=tuple(odds.get(member.number, 0.0) for member in self.members),
        )

    def _odds(self) -> dict[int, float]:
        """The share of each group, shared out by weights in it."""
        fixed, snapshots = self.fixed, self.snapshots
        share = self.config.fixed_share if snapshots else 1.0
        groups = ((fixed, share), (snapshots, 1.0 - share if fixed else 1.0))
        odds: dict[int, float] = {}
        for members, part in groups:
            weights = self._weights_of(members)
            total = sum(weights)
            odds |= {m.number: part * w / total for m, w in zip(members, weights, strict=True)}
        return odds

    def _weights_of(self, members: Sequence[Member]) -> list[float]:
        """How much more often one is drawn than another.

        Harder ones by the square of what the learner does not score against them, as in prioritised
        fictitious self-play (Vinyals 2019, f_hard with p = 2). A little is left for those that are always
        beaten: whoever is never met is never found to have become hard again.
        """
        if self.config.choose == "harder":
            return [(1.0 - member.expected_score) ** 2 + _LEFT_FOR_EASY for member in members]
        if self.config.choose == "newest" and any(member.update >= 0 for member in members):
            return [_NEXT_OLDER ** (len(members) - 1 - rank) for rank in range(len(members))]
        return [1.0] * len(members)

    def as_dict(self) -> dict[str, Any]:
        """All but the weights, for JSON."""
        return {
            "next": self._next,
            "members": [asdict(member) for member in self.members],
            "results": [[*pair, *counts] for pair, counts in sorted(self.results.items())],
        }

    def _may_lie(self, member: Member, weights: dict[int, Weights]) -> bool:
        """Whether a snapshot lies among the snapshots and has its weights, or a fixed one where it was."""
        if member.number > self._num_fixed:
            return member.place < self.config.num_places and member.number in weights
        return any((member.number, member.place) == (m.number, m.place) for m in self._fixed_ones)

    def load(self, saved: dict[str, Any], weights: dict[int, Weights], totals: NDArray[np.float64]) -> None:
        """Go on from what was saved."""
        members = [Member(**member) for member in saved["members"]]
        wrong = [m for m in members if m.place >= 0 and not self._may_lie(m, weights)]
        if wrong or saved["next"] <= max((m.number for m in members), default=0):
            what = f"opponent {wrong[0].number} in place {wrong[0].place}" if wrong else "an opponent to come"
            raise CheckpointError(f"the saved pool has {what}, which does not fit the run's settings")
        self._next, self.members = saved["next"], members
        self.results = {(first, second): counts for first, second, *counts in saved["results"]}
        self.weights = dict(weights)
        self.totals[:] = totals
