"""Reading a ring that others may be writing to.

A slot has a sequence number, which changes before a writer begins and after the slot is complete. If it is
the rollout's own number before and after a read, no writer wrote in between (a seqlock).
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from senju.algorithms.linking import NOTHING, Links, Steps
from senju.collect.slots import Ring, Slot, holds_turn
from senju.kernels import compiled, inlined, memory_fence


class Sample(NamedTuple):
    """Decisions to learn from, with the positions they led to."""

    frames: NDArray[np.int64]
    observation: NDArray[Any]  # [sample, *observation_shape]
    legal: NDArray[np.uint64]  # [sample, words]
    actions: NDArray[np.int32]
    returns: NDArray[np.float32]
    next_observation: NDArray[Any]  # the decision's own, where the factor is 0
    next_legal: NDArray[np.uint64]
    factors: NDArray[np.float32]  # of the next position's value: 0 where the game ended
    weights: NDArray[np.float32]  # importance weights; 1 where all are drawn alike


class Outcomes(NamedTuple):
    """What decisions led to, without the positions themselves."""

    following: NDArray[np.int64]  # the positions they led to; the decision's own, where the factor is 0
    actions: NDArray[np.int32]
    returns: NDArray[np.float32]
    factors: NDArray[np.float32]


class _Positions(NamedTuple):
    """The content of a ring by frame; truncated positions have the indices after the last frame."""

    observation: NDArray[np.uint8]  # [frame, bytes]
    legal: NDArray[np.uint64]  # [frame, words]
    actions: NDArray[np.int32]  # [frame]
    final_observation: NDArray[np.uint8]  # [final, bytes]
    final_legal: NDArray[np.uint64]  # [final, words]
    sequence_numbers: NDArray[np.int64]  # [segment]


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _copy_row(typing_context: Any, source: Any, index: Any, target: Any, row: Any) -> Any:
    """Copy a row of a matrix to a row of another of the same width, without checks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def address(matrix: int, number: int) -> tuple[Any, Any]:
            array = context.make_array(signature.args[matrix])(context, builder, arguments[matrix])
            width = builder.extract_value(array.shape, 1)
            return builder.gep(array.data, [builder.mul(arguments[number], width)]), width

        (copied, width), (overwritten, _) = address(0, 1), address(2, 3)
        itemsize = context.get_abi_sizeof(context.get_data_type(source.dtype))
        cgutils.raw_memcpy(builder, overwritten, copied, width, itemsize)
        return context.get_dummy_value()

    return numba.types.void(source, numba.types.int64, target, numba.types.int64), generate


@inlined
def _segment_of(positions: _Positions, frame: int) -> int:
    """The segment of the rollout that a position belongs to."""
    num_segments, num_frames = positions.sequence_numbers.shape[0], positions.legal.shape[0]
    if frame < num_frames:
        return int(frame // (num_frames // num_segments))
    return int((frame - num_frames) // (positions.final_legal.shape[0] // num_segments))


@compiled
def _copy_rows(
    source: NDArray[Any],
    finals: NDArray[Any],
    frames: NDArray[np.int64],
    rows: NDArray[np.int64],
    target: NDArray[Any],
) -> None:
    """Copy rows of one column: short loops let the processor wait for many rows at once."""
    for row in rows:
        if frames[row] < source.shape[0]:
            _copy_row(source, frames[row], target, row)
        else:
            _copy_row(finals, frames[row] - source.shape[0], target, row)


@inlined
def _find_overwritten(
    sequence_numbers: NDArray[np.int64], turns: NDArray[np.int64], is_overwritten: NDArray[np.bool_]
) -> int:
    """Mark the segments whose rollout was overwritten; return their number."""
    count = 0
    for segment in range(turns.shape[0]):
        turn = turns[segment]
        is_overwritten[segment] |= turn >= 0 and not holds_turn(sequence_numbers[segment], turn)
        count += is_overwritten[segment]
    return count


@compiled
def _read(
    positions: _Positions,
    links: Links,
    rows: NDArray[np.int64],  # of the sample, to be filled
    sample: Sample,  # whose observations are bytes [row, byte]
    is_torn: NDArray[np.bool_],  # [row]
) -> int:
    """Copy the sample's frames; return how many rows are torn (overwritten meanwhile)."""
    frames, actions, returns, factors = sample.frames, sample.actions, sample.returns, sample.factors
    is_overwritten = np.zeros(links.turns.shape[0], np.bool_)
    after = np.empty(frames.shape[0], np.int64)
    _find_overwritten(positions.sequence_numbers, links.turns, is_overwritten)
    memory_fence()
    outcomes, chosen = links.outcomes, positions.actions
    for row in rows:
        frame = frames[row]
        following = outcomes[frame]["following"]
        after[row] = following if following != NOTHING else frame
        returns[row], factors[row] = outcomes[frame]["reward"], outcomes[frame]["factor"]
        actions[row] = chosen[frame]
    _copy_rows(positions.observation, positions.final_observation, frames, rows, sample.observation)
    _copy_rows(positions.observation, positions.final_observation, after, rows, sample.next_observation)
    _copy_rows(positions.legal, positions.final_legal, frames, rows, sample.legal)
    _copy_rows(positions.legal, positions.final_legal, after, rows, sample.next_legal)
    memory_fence()
    if _find_overwritten(positions.sequence_numbers, links.turns, is_overwritten) == 0:
        return 0
    num_torn = 0
    for row in rows:
        is_torn[row] = is_overwritten[_segment_of(positions, frames[row])]
        is_torn[row] |= is_overwritten[_segment_of(positions, after[row])]
        num_torn += is_torn[row]
    return num_torn


class RingReader:
    """Copies data from a ring, and checks that it was not overwritten meanwhile."""

    def __init__(self, ring: Ring) -> None:
        columns = ring.columns
        self.ring = ring
        self._shape, self._dtype = columns.observation.shape[5:], columns.observation.dtype

    @cached_property
    def _positions(self) -> _Positions:
        columns = self.ring.columns
        return _Positions(
            _by_frame(columns.observation, 5).view(np.uint8),
            _by_frame(columns.legal, 5),
            columns.actions.reshape(-1),
            _by_frame(columns.final_observation, 4).view(np.uint8),
            _by_frame(columns.final_legal, 4),
            self.ring.sequence_numbers.reshape(-1),
        )

    def steps(self, shard: int, turn: int) -> Steps | None:
        """The columns that linking needs; None if the ring does not have the rollout, or no longer."""
        copied = self._copied(shard, turn, Steps._fields)
        return Steps(*copied) if copied is not None else None

    def slot(self, shard: int, turn: int) -> Slot | None:
        """A whole rollout; None if the ring does not have it, or no longer."""
        copied = self._copied(shard, turn, Slot._fields)
        # transient columns are overwritten before the rollout's sequence number changes
        is_passed = self.ring.begun_turns[shard].max() >= turn + self.ring.columns.log_probs.shape[1]
        return Slot(*copied) if copied is not None and not is_passed else None

    def _copied(self, shard: int, turn: int, names: Sequence[str]) -> list[NDArray[Any]] | None:
        if not self.ring.is_complete(shard, turn):
            return None
        slot = self.ring.slot(shard, turn)
        copied = [np.array(getattr(slot, name)) for name in names]
        return copied if self.ring.is_complete(shard, turn) else None

    def new_sample(self, frames: NDArray[np.int64], weights: NDArray[np.float32]) -> Sample:
        """Empty arrays for the rows to be read."""
        count, words = len(frames), self._positions.legal.shape[1]
        return Sample(
            frames,
            np.empty((count, *self._shape), self._dtype),
            np.empty((count, words), np.uint64),
            np.empty(count, np.int32),
            np.empty(count, np.float32),
            np.empty((count, *self._shape), self._dtype),
            np.empty((count, words), np.uint64),
            np.empty(count, np.float32),
            weights,
        )

    def read(self, links: Links, sample: Sample, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fill rows of a sample from their frames; return those that are torn."""
        is_torn = np.zeros(len(sample.frames), np.bool_)
        as_bytes = sample._replace(
            observation=_by_frame(sample.observation, 1).view(np.uint8),
            next_observation=_by_frame(sample.next_observation, 1).view(np.uint8),
        )
        num_torn = _read(self._positions, links, rows, as_bytes, is_torn)
        return np.flatnonzero(is_torn) if num_torn else rows[:0]

    def outcomes(self, links: Links, frames: NDArray[np.int64]) -> Outcomes:
        """What decisions led to; for writers that wait until a rollout is no longer kept."""
        found = links.outcomes[frames]
        following = np.where(found["following"] != NOTHING, found["following"], frames)
        return Outcomes(following, self._positions.actions[frames], found["reward"], found["factor"])

    def positions(self, frames: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """Observations and legal actions of frames, or of truncated positions."""
        num_frames, is_final = len(self._positions.legal), frames >= len(self._positions.legal)
        found = []
        columns = self._positions
        for normal, final in (
            (columns.observation, columns.final_observation),
            (columns.legal, columns.final_legal),
        ):
            rows = np.empty((len(frames), normal.shape[1]), normal.dtype)
            rows[~is_final] = normal[frames[~is_final]]
            rows[is_final] = final[frames[is_final] - num_frames]
            found.append(rows)
        return found[0].view(self._dtype).reshape(len(frames), *self._shape), found[1]

    def segments(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """The segment of each frame, or of each truncated position."""
        num_segments, num_frames = len(self._positions.sequence_numbers), len(self._positions.legal)
        num_finals = max(len(self._positions.final_legal), 1)
        normal = frames // (num_frames // num_segments)
        final = (frames - num_frames) * num_segments // num_finals
        return np.where(frames < num_frames, normal, final)


def _by_frame(column: NDArray[Any], num_axes: int) -> NDArray[Any]:
    """A column as [position, …]: its first `num_axes` axes become one."""
    shape = column.shape
    return column.reshape(math.prod(shape[:num_axes]), math.prod(shape[num_axes:]))
