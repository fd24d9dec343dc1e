"""The opponent pool: which opponents new games may draw, how probably, and the scores against them.

Snapshots of the learner's past get numbers that count up and are never used again. New games do not draw a
snapshot that left the pool, but its weights stay in memory until the last game against it is over: weights
in use are never overwritten.
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
from senju.config import Part, Proportion
from senju.errors import CheckpointError, OpponentError
from senju.kernels import compiled
from senju.models.weights import Weights
from senju.opponents.opponent_players import OpponentSpec
from senju.opponents.score import NO_GAMES, Score

logger = logging.getLogger(__name__)

_DECAY = 0.98  # of older results with each update, for probabilities by results
_MIN_WEIGHT = 0.01  # of an opponent that always loses
_AGE_DECAY = 0.8  # the probability of a snapshot divided by that of the next newer one


class OpponentsConfig(Part):
    """The opponents in the other seats, with `collect.seating=opponents`."""

    snapshot_interval: int = Field(
        20, ge=0, description="Updates between snapshots of the learner; 0: none are taken."
    )
    size: int = Field(16, ge=1, le=4096, description="Snapshots in the pool.")
    when_full: Literal["spread", "oldest"] = Field(
        "spread",
        description="Which snapshot leaves: one that keeps the rest spread over time, or the oldest.",
    )
    fixed: tuple[str, ...] = Field(
        (), description="Other opponents: random, minimax:DEPTH, a run, RUN@UPDATE, package.module:function."
    )
    fixed_share: Proportion = Field(
        0.25, description="Share of the fixed opponents, where there are snapshots too."
    )
    self_share: Proportion = Field(
        0.8, description="Share of the games that the learner plays against itself."
    )
    choose: Literal["uniform", "newest", "harder"] = Field(
        "uniform", description="Which snapshots are drawn more often."
    )
    in_play: int = Field(
        4, ge=1, le=4096, description="Opponents that new games of a shard choose from in one rollout."
    )
    epsilon: Proportion = Field(
        0.05, description="Share of random moves of opponents that play by action values."
    )
    on_failure: Literal["stop", "drop"] = Field(
        "stop", description="Whether an opponent that raises or moves illegally ends the run, or is dropped."
    )

    @property
    def num_weight_slots(self) -> int:
        """Snapshots whose weights fit: those in the pool, and those that left while games use them."""
        return self.size + max(2, self.size // 2) if self.snapshot_interval else 0


_COUNTS = ("wins", "draws", "losses")


@dataclass
class PoolOpponent:
    """An opponent, and the learner's results against it."""

    number: int
    name: str
    weight_index: int  # of its weights in the backend; -1 if it needs none
    update: int  # of the snapshot; -1: a fixed opponent
    is_drawn: bool = True  # whether new games may draw it
    left_at: int = -1  # the first version whose orders leave it out; -1: none was published yet
    score: Score = NO_GAMES  # of the learner against it
    recent_games: float = 0.0  # decayed
    recent_score: float = 0.0  # decayed points of the learner

    @property
    def expected_score(self) -> float:
        """The learner's recent score against it; a half before the first game."""
        return (self.recent_score + 1.0) / (self.recent_games + 2.0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = asdict(self)
        return plain | dict(zip(_COUNTS, plain.pop("score"), strict=False))

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "PoolOpponent":
        """The opponent that `as_dict` described."""
        plain = dict(saved)
        return cls(score=Score(*(plain.pop(name, 0) for name in _COUNTS)), **plain)


@compiled
def _count_results(
    rewards: NDArray[np.float32],  # [time, row, seat]
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    bootstrap: NDArray[np.float32],  # [time, row, seat]
    seated: NDArray[np.int32],  # [time, row, seat]
    current: int,
    ids: NDArray[np.int32],
    totals: NDArray[np.float64],  # [row, seat], of the running games
    counts: NDArray[np.int64],  # [opponent, 3]: wins, draws and losses of the learner
) -> None:
    """Count the result of each game that ended, unless an opponent's failure ended it."""
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


def _most_redundant(ordinals: Sequence[int]) -> int:
    """The index of the snapshot to drop, so that the others stay spread over the whole past.

    Snapshots are numbered 1, 2, 3, … by age. The newest quarter, with the one about to be added, always
    stays. Of the others, the one whose number can be halved least often is dropped; of several, the oldest.
    So multiples of some power of two stay and, beginning with the oldest, those of the next power. With n
    snapshots, k of them the newest, neighbours are at most 2 / (n - k + 1) of the whole past apart.

    >>> _most_redundant([4, 6, 8, 10, 12])
    1
    """
    num_newest = max(1, len(ordinals) // 4)
    others = ordinals[: len(ordinals) - num_newest + 1]
    halvings = [ordinal & -ordinal for ordinal in others]
    return halvings.index(min(halvings))


class OpponentPool:
    """Opponents, probabilities and scores; `orders` describes them for the workers.

    pool.count_results(rollouts, failures)
    opponents = pool.add_snapshot(update, weights)       # if one is due
    backend.publish(weights, version, pool.orders(version, epsilons), opponents)
    """

    def __init__(
        self,
        config: OpponentsConfig,
        fixed: Sequence[OpponentSpec],
        totals_shape: tuple[int, int, int],  # shards, rows, seats
    ) -> None:
        self.config = config
        self.opponents: list[PoolOpponent] = []
        # scores of the first number against the second, as long as the first is in the pool
        self.results: dict[tuple[int, int], Score] = {}
        self.weights: dict[int, Weights] = {}
        self.totals = np.zeros(totals_shape)
        index = config.num_weight_slots
        for number, spec in enumerate(fixed, start=1):
            self.opponents.append(PoolOpponent(number, spec.description, index if spec.is_agent else -1, -1))
            index += spec.is_agent
        self._fixed_ones = tuple(self.opponents)
        # the number of the learner's next snapshot, for which the learner's games until then count
        self.next_number = len(fixed) + 1

    @property
    def snapshots(self) -> list[PoolOpponent]:
        """Snapshots that new games may draw, oldest first."""
        return [opponent for opponent in self.opponents if opponent.update >= 0 and opponent.is_drawn]

    @property
    def fixed(self) -> list[PoolOpponent]:
        """Fixed opponents that new games may draw."""
        return [opponent for opponent in self.opponents if opponent.update < 0 and opponent.is_drawn]

    def count_results(
        self, rollouts: Sequence[Rollout], failures: Iterable[Failure] = ()
    ) -> dict[str, float]:
        """Count finished games, drop opponents that failed, and free weights that no game uses any more.

        `rollouts` has one of every shard. Returns the number of games against opponents and the learner's
        score in them, as metrics.
        """
        ids = np.array([opponent.number for opponent in self.opponents], np.int32)
        counts = np.zeros((len(ids), 3), np.int64)
        for rollout in rollouts:
            rewards, bootstrap, seated = map(rollout.of_all_seats, ("rewards", "bootstrap", "seated"))
            ends = (rollout.data.terminated, rollout.data.truncated)
            totals = self.totals[rollout.shard]
            _count_results(rewards, *ends, bootstrap, seated, CURRENT, ids, totals, counts)
        for opponent, new in zip(self.opponents, counts.tolist(), strict=True):
            self._count(opponent, Score(*new))
        for failure in failures:
            self._drop(failure)
        self._forget(rollouts)
        total = Score(*counts.sum(axis=0).tolist())
        metrics = {"pool_size": float(len(self.snapshots)), "opponent_games": float(total.games)}
        return metrics | ({"opponent_score": total.mean} if total.games else {})

    def _count(self, opponent: PoolOpponent, new: Score) -> None:
        opponent.score = opponent.score.plus(new)
        opponent.recent_games = opponent.recent_games * _DECAY + new.wins + new.draws + new.losses
        opponent.recent_score = opponent.recent_score * _DECAY + new.wins + 0.5 * new.draws
        if new.games:
            pair = (self.next_number, opponent.number)
            self.results[pair] = self.results.get(pair, NO_GAMES).plus(new)

    def _drop(self, failure: Failure) -> None:
        opponent = next((o for o in self.opponents if o.number == failure.opponent and o.is_drawn), None)
        if opponent is None:  # dropped already: it failed in another shard too, or in a running game
            return
        others = [each for each in (*self.fixed, *self.snapshots) if each is not opponent]
        if not others and not self.config.snapshot_interval:
            raise OpponentError(f"{failure.what}; it was the last opponent, so training cannot continue")
        if self.config.on_failure == "stop":
            raise OpponentError(f"{failure.what}; opponents.on_failure=drop would go on without it")
        opponent.is_drawn = False
        logger.warning("%s; training goes on without it", failure.what)

    def _forget(self, rollouts: Sequence[Rollout]) -> None:
        """Free the weights of a snapshot when every shard began a rollout without it and no game uses it."""
        oldest = min(rollout.version for rollout in rollouts)
        in_use: set[int] = set()
        for rollout in rollouts:
            slot = rollout.data
            is_running = ~(slot.terminated[-1] | slot.truncated[-1])
            in_use.update(np.unique(rollout.of_all_seats("seated")[-1][is_running]).tolist())
        for opponent in list(self.opponents):
            has_left = not opponent.is_drawn and 0 <= opponent.left_at <= oldest
            if has_left and opponent.update >= 0 and opponent.number not in in_use:
                self.opponents.remove(opponent)
                del self.weights[opponent.number]
        numbers = {self.next_number, *(opponent.number for opponent in self.opponents)}
        self.results = {pair: score for pair, score in self.results.items() if pair[0] in numbers}

    def is_due(self, update: int) -> bool:
        """Whether a snapshot is to be taken after that update."""
        interval = self.config.snapshot_interval
        return interval > 0 and update % interval == 0

    def add_snapshot(self, update: int, weights: Weights) -> dict[int, Weights]:
        """Take a snapshot if one is due; return its weights by their index, to be published."""
        if not self.is_due(update):
            return {}
        taken = {opponent.weight_index for opponent in self.opponents}
        free = [index for index in range(self.config.num_weight_slots) if index not in taken]
        if not free:
            logger.warning(
                "no snapshot is taken after update %d: running games use all %d slots for weights; set a "
                "larger opponents.snapshot_interval, or collect.max_game_length",
                update,
                self.config.num_weight_slots,
            )
            return {}
        if len(self.snapshots) == self.config.size:
            dropped = self._snapshot_to_drop()
            dropped.is_drawn = False
            logger.info("the snapshot of %s leaves the pool for that of update %d", dropped.name, update)
        opponent = PoolOpponent(self.next_number, f"update {update}", free[0], update)
        self.next_number += 1
        self.opponents.append(opponent)
        self.weights[opponent.number] = weights.copy()
        return {opponent.weight_index: self.weights[opponent.number]}

    def _snapshot_to_drop(self) -> PoolOpponent:
        snapshots = self.snapshots
        if self.config.when_full == "oldest":
            return snapshots[0]
        ordinals = [opponent.update // self.config.snapshot_interval for opponent in snapshots]
        return snapshots[_most_redundant(ordinals)]

    def orders(self, version: int, epsilons: tuple[float, ...]) -> Orders:
        """The active opponents and their probabilities, for the workers."""
        for opponent in self.opponents:
            if not opponent.is_drawn and opponent.left_at < 0:
                opponent.left_at = version
        probabilities = self._probabilities()
        return Orders(
            version=version,
            epsilons=epsilons,
            ids=tuple(opponent.number for opponent in self.opponents),
            weight_indices=tuple(opponent.weight_index for opponent in self.opponents),
            probabilities=tuple(probabilities.get(opponent.number, 0.0) for opponent in self.opponents),
        )

    def _probabilities(self) -> dict[int, float]:
        """The share of each group, divided among its opponents by their weights."""
        fixed, snapshots = self.fixed, self.snapshots
        share = self.config.fixed_share if snapshots else 1.0
        groups = ((fixed, share), (snapshots, 1.0 - share if fixed else 1.0))
        probabilities: dict[int, float] = {}
        for opponents, part in groups:
            weights = self._weights_of(opponents)
            total = sum(weights)
            probabilities |= {o.number: part * w / total for o, w in zip(opponents, weights, strict=True)}
        return probabilities

    def _weights_of(self, opponents: Sequence[PoolOpponent]) -> list[float]:
        """How much more often one opponent is drawn than another.

        "harder" weighs by the square of the points that the learner loses, as in prioritised fictitious
        self-play (Vinyals 2019, f_hard with p = 2). Opponents that always lose keep a small weight, so that
        the pool notices when one becomes hard again.
        """
        if self.config.choose == "harder":
            return [(1.0 - opponent.expected_score) ** 2 + _MIN_WEIGHT for opponent in opponents]
        if self.config.choose == "newest" and any(opponent.update >= 0 for opponent in opponents):
            return [_AGE_DECAY ** (len(opponents) - 1 - rank) for rank in range(len(opponents))]
        return [1.0] * len(opponents)

    def as_dict(self) -> dict[str, Any]:
        """All but the weights, for JSON."""
        return {
            "next": self.next_number,
            "opponents": [opponent.as_dict() for opponent in self.opponents],
            "results": [[*pair, *score[:3]] for pair, score in sorted(self.results.items())],
        }

    def _fits(self, opponent: PoolOpponent, weights: dict[int, Weights]) -> bool:
        """Whether a snapshot has weights and an index for snapshots, and a fixed opponent its own."""
        if opponent.number > len(self._fixed_ones):
            return opponent.weight_index < self.config.num_weight_slots and opponent.number in weights
        return any(
            (opponent.number, opponent.weight_index) == (o.number, o.weight_index) for o in self._fixed_ones
        )

    def load(self, saved: dict[str, Any], weights: dict[int, Weights], totals: NDArray[np.float64]) -> None:
        """Restore what `as_dict` described."""
        opponents = [PoolOpponent.from_dict(opponent) for opponent in saved["opponents"]]
        wrong = [o for o in opponents if o.weight_index >= 0 and not self._fits(o, weights)]
        if wrong or saved["next"] <= max((o.number for o in opponents), default=0):
            what = (
                f"opponent {wrong[0].number} with weight index {wrong[0].weight_index}"
                if wrong
                else f"next={saved['next']}"
            )
            raise CheckpointError(f"the saved pool has {what}, which does not fit the run's settings")
        self.next_number, self.opponents = saved["next"], opponents
        self.results = {(first, second): Score(*counts) for first, second, *counts in saved["results"]}
        self.weights = dict(weights)
        self.totals[:] = totals
