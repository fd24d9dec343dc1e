"""Replay: decisions of kept rollouts, drawn to be learned from again.

The rollouts are in the ring that workers write to; nothing is copied. Each position is stored once: it is
what one decision saw and what an earlier one led to. The replay itself stores what each decision led to
(see `linking`) and, if decisions are drawn by priority, the last error of each.

Two kinds of writers are served. A backend's workers never write to a slot whose rollout is still kept:
`add` and `sample` depend on what was added alone, and raise an error if a slot was overwritten nevertheless.
Writers that do not wait are followed by `follow` and read by `sample(..., is_free_running=True)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from senju.algorithms.device_replay import Located, place
from senju.algorithms.linking import Linker
from senju.algorithms.ring_reader import RingReader, Sample
from senju.algorithms.sum_tree import SumTree
from senju.collect.slots import Ring, Rollout
from senju.errors import CheckpointError, ConfigError, ModelError, WorkerError
from senju.kernels import below, compiled, random_word

UNIFORM_STREAM, PRIORITY_STREAM = 64, 65  # beyond those that games use
_NEXT_ROUND = 256  # added to the stream of a draw for the draw that replaces its torn rows


@compiled
def _draw_uniformly(
    ends: NDArray[np.int64],  # [segment], how many decisions are ready in all segments up to it
    ready: NDArray[np.int32],  # [segment, frames of it]
    seed: np.uint64,
    step: int,
    stream: int,
    chosen: NDArray[np.int64],
) -> None:
    """Draw ready decisions by their number, and look each number up: first its segment, then its frame.

    A binary search without branches looks all of them up together: one by one takes three times as long.
    """
    numbers = np.empty(chosen.shape[0], np.int64)
    for each in range(chosen.shape[0]):
        word = random_word(seed, step & 0xFFFFFFFF, step >> 32, each, stream)
        numbers[each], chosen[each] = below(word, np.uint64(ends[-1])), 0
    left = ends.shape[0]  # segments in which the decision may be, from the chosen one on
    while left > 1:
        half = left // 2
        for each in range(chosen.shape[0]):
            chosen[each] += half if ends[chosen[each] + half - 1] <= numbers[each] else 0
        left -= half
    for each in range(chosen.shape[0]):
        segment = chosen[each]
        before = ends[segment - 1] if segment > 0 else 0
        chosen[each] = segment * ready.shape[1] + ready[segment, numbers[each] - before]


class Priorities(NamedTuple):
    """Proportional prioritisation (Schaul 2016): drawn by |error|^exponent, corrected by weights."""

    exponent: float = 0.6
    smallest: float = 1e-3  # added to errors, so that every decision is drawn again some day


class Replay:
    """The decisions in a ring of rollouts that can be learned from.

    replay.add(rollouts)
    sample = replay.sample(batch_size, step)
    """

    def __init__(
        self,
        ring: Ring,
        seed: int,
        n_step: int,
        gamma: float,
        is_zero_sum: bool,
        priorities: Priorities | None = None,
        stops_at_exploration: bool = True,
    ) -> None:
        self.ring, self.priorities = ring, priorities
        self.num_redrawn = 0  # decisions drawn to replace some that were overwritten while they were read
        self.num_collected = 0  # decisions by learning seats, in all rollouts that were added
        self._seed = np.uint64(seed)
        self._reader = RingReader(ring)
        self._linker = Linker(ring.shape, ring.slot(0, 0), n_step, gamma, is_zero_sum, stops_at_exploration)
        self._links = self._linker.links
        self._ends = np.zeros(len(self._links.turns), np.int64)
        self._tree = SumTree(self._linker.num_frames) if priorities else None
        self._largest = 1.0  # the largest weight so far, for decisions that were never learned from

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def newest_turn(self) -> int:
        """The newest turn in the replay; -1: none."""
        return int(self._links.turns.max(initial=-1))

    def add(self, rollouts: Sequence[Rollout]) -> None:
        """Add the newest turns, oldest first; turns that the ring no longer keeps are dropped."""
        newest = max((rollout.turn for rollout in rollouts), default=-1)
        gone = newest - self.ring.shape.kept
        self._drop(np.flatnonzero(self._links.turns <= gone))
        for rollout in rollouts:
            if rollout.turn > gone and not self._take(rollout.shard, rollout.turn):
                number = self.ring.sequence_numbers[rollout.shard, rollout.turn % self.ring.shape.depth]
                raise WorkerError(
                    f"shard {rollout.shard}, turn {rollout.turn}: its slot has the sequence number "
                    f"{number}: it was overwritten before it was learned from. "
                    "A ring whose writers do not wait is read with follow()"
                )
        self._count()

    def follow(self) -> int:
        """Add the rollouts that writers without waiting have completed since; return their number.

        Overwritten rollouts are dropped. If this is called too seldom, rollouts are missed.
        """
        shape, num_taken = self.ring.shape, 0
        self._drop(np.flatnonzero(self.ring.finished_turns.reshape(-1) != self._links.turns))
        for shard in range(shape.num_shards):
            complete = self.ring.complete_turns(shard)
            oldest = complete[-1] - shape.kept + 1 if complete else 0
            segments = np.arange(self._linker.segment(shard, 0), self._linker.segment(shard + 1, 0))
            self._drop(segments[self._links.turns[segments] < oldest])
            for turn in complete:
                if turn >= oldest and turn > self._linker.newest[shard]:
                    num_taken += self._take(shard, turn)
        self._count()
        return num_taken

    def rebuild(self, last_turn: int) -> None:
        """Add the content of the ring up to a turn, as if it had been added turn by turn."""
        self._drop(np.arange(len(self._ends)))
        self._linker.forget()
        for shard in range(self.ring.shape.num_shards):
            for turn in self.ring.complete_turns(shard):
                if last_turn - self.ring.shape.kept < turn <= last_turn:
                    self._take(shard, turn)
        self._count()

    def _take(self, shard: int, turn: int) -> bool:
        """Link a rollout; False if it is missing, or being overwritten."""
        steps = self._reader.steps(shard, turn)
        if steps is None:
            return False
        self._drop(np.array([self._linker.segment(shard, turn)]))
        before = self._links.num_ready.copy()
        self._linker.link(shard, turn, steps)
        self.num_collected += int((steps.seats >= 0).sum())
        for segment in np.flatnonzero(self._links.num_ready > before).tolist():
            self._weigh(segment, before[segment], self._largest)
        return True

    def _drop(self, segments: NDArray[np.int64]) -> None:
        """Stop drawing the decisions of these segments."""
        for segment in segments[self._links.turns[segments] >= 0].tolist():
            self._weigh(segment, 0, 0.0)
            self._linker.drop(segment)

    def _weigh(self, segment: int, first: int, weight: float) -> None:
        """Set the weight of a segment's ready decisions from `first` on, if there are priorities."""
        if self._tree is not None:
            ready = self._links.ready[segment, first : self._links.num_ready[segment]].astype(np.int64)
            self._tree.set(segment * self._linker.segment_size + ready, np.full(len(ready), weight))

    def _count(self) -> None:
        np.cumsum(self._links.num_ready, out=self._ends)

    def sample(self, count: int, step: int, correction: float = 0.0, is_free_running: bool = False) -> Sample:
        """Draw decisions; what is drawn depends on the content, the seed and the step alone.

        `correction` is the exponent of the importance weights (beta): 0 leaves the bias of priorities,
        1 removes it. With `is_free_running`, others are drawn for decisions that were overwritten meanwhile,
        from the new content; without it they raise: a backend's workers never overwrite what is kept.
        """
        frames, weights = np.empty(count, np.int64), np.ones(count, np.float32)
        chances = self._draw(step, 0, frames)
        sample = self._reader.new_sample(frames, weights)
        torn, num_rounds = self._reader.read(self._links, sample, np.arange(count)), 0
        while len(torn):
            if not is_free_running:
                self._refuse_torn(frames[torn])
            self.follow()
            self.num_redrawn += len(torn)
            others, num_rounds = np.empty(len(torn), np.int64), num_rounds + 1
            chances[torn] = self._draw(step, num_rounds, others)
            frames[torn] = others
            torn = self._reader.read(self._links, sample, torn)
        self._correct(weights, chances, correction)
        return sample

    def locate(self, count: int, step: int, correction: float = 0.0) -> Located:
        """The same draw as `sample`, for a ring whose positions a device has and gathers itself."""
        columns = self.ring.on_device
        assert columns is not None, "sample() reads a ring in memory"
        frames, weights = np.empty(count, np.int64), np.ones(count, np.float32)
        chances = self._draw(step, 0, frames)
        outcomes = self._reader.outcomes(self._links, frames)
        both = np.concatenate([frames, outcomes.following])
        segments = self._reader.segments(both)
        places = place(self.ring, self._links.turns, both, segments)
        rows = np.flatnonzero(places < 0)  # the device lacks truncated positions and the oldest turns
        observation, legal = self._reader.positions(both[rows])
        self._refuse_overwritten(both, segments)
        self._correct(weights, chances, correction)
        return Located(
            frames,
            columns.observation.flatten(0, 4),
            columns.legal.flatten(0, 4),
            np.maximum(places, 0).reshape(2, count),
            outcomes.actions,
            outcomes.returns,
            outcomes.factors,
            weights,
            rows,
            observation,
            legal,
        )

    def _correct(self, weights: NDArray[np.float32], chances: NDArray[np.float64], correction: float) -> None:
        """Set the importance weights of decisions that were drawn by priority."""
        if self._tree is not None:
            corrected = chances**-correction
            np.divide(corrected, corrected.max(), out=weights, casting="same_kind")

    def _refuse_overwritten(self, frames: NDArray[np.int64], segments: NDArray[np.int64]) -> None:
        turns = self._links.turns[segments]
        is_torn = self.ring.sequence_numbers.reshape(-1)[segments] != turns + 1
        if is_torn.any():
            self._refuse_torn(segments[is_torn] * self._linker.segment_size)

    def _draw(self, step: int, num_rounds: int, frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw frames; return their probabilities relative to a uniform draw."""
        num_ready, further = len(self), num_rounds * _NEXT_ROUND
        if not num_ready:
            raise ConfigError("nothing to learn from yet: no decision in the replay has an outcome")
        if self._tree is None:
            _draw_uniformly(self._ends, self._links.ready, self._seed, step, UNIFORM_STREAM + further, frames)
            return np.ones(len(frames))
        self._tree.draw(self._seed, step, PRIORITY_STREAM + further, frames)
        return self._tree.weights(frames) * (num_ready / self._tree.total)

    def _refuse_torn(self, frames: NDArray[np.int64]) -> NoReturn:
        segment = int(frames[0]) // self._linker.segment_size
        shard, slot = divmod(segment, self.ring.shape.depth)
        raise WorkerError(
            f"{len(frames)} decisions were overwritten while they were read, one of them in slot {slot} "
            f"of shard {shard}, where turn {self._links.turns[segment]} is kept and the sequence number is "
            f"{self.ring.sequence_numbers.flat[segment]}. "
            "A ring whose writers do not wait is read with is_free_running=True"
        )

    def learn_priorities(self, frames: NDArray[np.int64], errors: NDArray[np.float32]) -> None:
        """Set the priorities of decisions by their errors; decisions that are gone are ignored."""
        assert self._tree is not None, "this replay has no priorities"
        assert self.priorities is not None
        weights = (np.abs(errors).astype(np.float64) + self.priorities.smallest) ** self.priorities.exponent
        if not np.isfinite(weights).all():
            raise ModelError(
                f"{np.count_nonzero(~np.isfinite(weights))} of {len(weights)} errors are not finite: "
                "training has diverged; try a smaller learning_rate"
            )
        self._largest = max(self._largest, float(weights.max(initial=0.0)))
        is_there = self._tree.weights(frames) > 0.0
        self._tree.set(frames[is_there], weights[is_there])

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The priorities, if there are any: linking again cannot restore them."""
        if self._tree is None:
            return {}
        return {"weights": self._tree.all_weights().copy(), "largest": np.array([self._largest])}

    def load_state(self, state: Mapping[str, NDArray[Any]], is_free_running: bool = False) -> None:
        """Go on with saved priorities; `rebuild` comes first.

        Decisions that were overwritten since are ignored. With writers that do not wait, newer decisions may
        have their indices: they begin as decisions that were never learned from.
        """
        if set(state) != set(self.state()):
            raise CheckpointError(
                f"the saved replay has {' and '.join(sorted(state)) or 'no priorities'}, expected "
                f"{' and '.join(sorted(self.state())) or 'none'}; resume with `prioritised` as it was"
            )
        if self._tree is None:
            return
        weights, is_ready = state["weights"], self._tree.all_weights() > 0.0
        if weights.shape == is_ready.shape:
            # a slot with a newer rollout than the newest one added was overwritten
            is_gone = (self._links.turns < 0) & (self.ring.begun_turns.reshape(-1) > self.newest_turn)
            weights = np.where(np.repeat(is_gone, self._linker.segment_size), 0.0, weights)
            if is_free_running:
                weights = np.where(is_ready, np.where(weights > 0.0, weights, state["largest"]), 0.0)
        if weights.shape != is_ready.shape or not np.array_equal(weights > 0.0, is_ready):
            raise CheckpointError(
                f"the saved priorities are of {np.count_nonzero(weights > 0.0)} decisions in {len(weights)} "
                f"entries and the kept rollouts hold {len(self)} in {len(is_ready)}, or in others: "
                "they do not belong together"
            )
        self._tree.set(np.arange(len(weights)), weights)
        self._largest = float(state["largest"][0])
