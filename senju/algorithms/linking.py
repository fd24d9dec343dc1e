"""Linking: finds what each decision led to, n decisions of its seat later (n-step returns).

Rollouts are read in the order they were played, step by step. A decision waits until it is known what it led
to, possibly for some rollouts; meanwhile the rewards of its seat are added up, also those that come with
another seat's move. Its window ends

- where the game ends: the factor is 0;
- where the game was truncated: the truncated position counts with its value for the seat to move there,
  with the opposite sign if that is the other seat of a zero-sum game. If the position was not kept, or its
  value for this seat is unknown, the decision is never ready;
- at the seat's n-th decision after it;
- before a random move of the learner (the cut of Watkins 1989): at the seat's own position there or, in a
  zero-sum game of turns, at the other seat's, with the opposite sign. Otherwise the values would be those
  of a game against a player who blunders.

What a decision leads to is always newer than the decision, so it stays in the ring as long. A decision whose
rollout left the ring while it waited is dropped.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import RingShape, Slot
from senju.kernels import compiled, inlined

NOTHING, UNKNOWN = -1, -2  # instead of a position to bootstrap from: the game ended; not known

OUTCOME = np.dtype(
    [
        ("following", np.int64),  # the position to bootstrap from; NOTHING where the game ended
        ("factor", np.float32),  # of the value of that position
        ("reward", np.float32),  # the sum before that position, discounted
    ],
    align=True,
)
_ENTRY = np.dtype([("sum", np.float64), ("frame", np.int64), ("turn", np.int64)], align=True)


class Steps(NamedTuple):
    """The columns of a rollout that linking looks at; the same names and axes as in a slot."""

    seats: NDArray[np.int8]
    explored: NDArray[np.bool_]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_at: NDArray[np.int32]
    final_seats: NDArray[np.int8]


class Waiting(NamedTuple):
    """A shard's decisions whose outcome is not known yet: a queue for each seat."""

    entries: NDArray[np.void]  # [row, seat, n] of _ENTRY
    first: NDArray[np.int64]  # [row, seat], where the oldest is
    counts: NDArray[np.int64]  # [row, seat]


class Links(NamedTuple):
    """What the decisions of all rollouts in a ring led to.

    A segment is one slot of one shard. A frame is a decision's index in the ring, counted over all
    segments. Truncated positions have the indices after the last frame.
    """

    turns: NDArray[np.int64]  # [segment], which rollout lies there; -1: none that may be drawn from
    num_ready: NDArray[np.int64]  # [segment]
    ready: NDArray[np.int32]  # [segment, frames of it], which are ready, counted from its first
    outcomes: NDArray[np.void]  # [frame] of OUTCOME


@inlined
def _finish(
    turns: NDArray[np.int64],
    num_ready: NDArray[np.int64],
    ready: NDArray[np.int32],
    outcomes: NDArray[np.void],
    entry: np.void,
    following: int,
    factor: float,
) -> None:
    """Mark a decision as ready, unless its rollout was overwritten."""
    frame, size = entry["frame"], ready.shape[1]
    segment = frame // size
    if turns[segment] != entry["turn"]:
        return
    outcome = outcomes[frame]
    outcome["following"], outcome["factor"], outcome["reward"] = following, factor, entry["sum"]
    ready[segment, num_ready[segment]] = frame - segment * size
    num_ready[segment] += 1


@inlined
def _reward(waiting: Waiting, row: int, seat: int, reward: float, powers: NDArray[np.float64]) -> None:
    """Credit a seat's waiting decisions, the newest in full."""
    count, longest = waiting.counts[row, seat], waiting.entries.shape[2]
    newest = waiting.first[row, seat] + count - 1
    for age in range(count):
        waiting.entries[row, seat, (newest - age) % longest]["sum"] += powers[age] * reward


@inlined
def _end(
    waiting: Waiting,
    links: Links,
    row: int,
    seat: int,
    following: int,
    sign: float,  # 0: the game ended
    powers: NDArray[np.float64],
) -> None:
    """End the windows of all waiting decisions of a seat at one position."""
    first, count, longest = waiting.first[row, seat], waiting.counts[row, seat], waiting.entries.shape[2]
    if following != UNKNOWN:
        for index in range(count):
            entry = waiting.entries[row, seat, (first + index) % longest]
            factor = sign * powers[count - index]
            _finish(links.turns, links.num_ready, links.ready, links.outcomes, entry, following, factor)
    waiting.counts[row, seat] = 0


@inlined
def _view(final_seats: NDArray[np.int8], final: int, seat: int, is_zero_sum: bool) -> tuple[int, float]:
    """The acting index at which a truncated position has a value for a seat, or -1; and the sign."""
    num_acting = final_seats.shape[1]
    if final < 0:
        return -1, 0.0
    for acting_index in range(num_acting):
        if final_seats[final, acting_index] == seat:
            return acting_index, 1.0
    if is_zero_sum and num_acting == 1 and final_seats[final, 0] >= 0:
        return 0, -1.0
    return -1, 0.0


@compiled
def _link(
    steps: Steps,
    waiting: Waiting,
    links: Links,
    first_frame: int,
    first_final: int,
    turn: int,
    powers: NDArray[np.float64],  # [n + 1], of gamma
    is_zero_sum: bool,
    stops_at_exploration: bool,
) -> None:
    """Walk through a rollout.

    The work at every decision is not in a function of its own: Numba would count references to the arrays
    passed to it, which takes as long as the rest.
    """
    seats, explored, rewards = steps.seats, steps.explored, steps.rewards
    terminated, truncated = steps.terminated, steps.truncated
    entries, first, counts = waiting.entries, waiting.first, waiting.counts
    turns, num_ready, ready, outcomes = links.turns, links.num_ready, links.ready, links.outcomes
    num_steps, num_rows, num_acting = seats.shape
    num_seats, longest = entries.shape[1], entries.shape[2]
    keeps_final = steps.final_at.size > 0
    for time in range(num_steps):
        for row in range(num_rows):
            for acting_index in range(num_acting):
                seat = seats[time, row, acting_index]
                if seat < 0:
                    continue
                frame = first_frame + (time * num_rows + row) * num_acting + acting_index
                if stops_at_exploration and explored[time, row, acting_index]:
                    _end(waiting, links, row, seat, frame, 1.0, powers)
                    if is_zero_sum and num_acting == 1:
                        _end(waiting, links, row, 1 - seat, frame, -1.0, powers)
                if counts[row, seat] == longest:  # the n-th decision before this one leads here
                    oldest = entries[row, seat, first[row, seat]]
                    _finish(turns, num_ready, ready, outcomes, oldest, frame, float(powers[longest]))
                    first[row, seat] = (first[row, seat] + 1) % longest
                    counts[row, seat] -= 1
                entry = entries[row, seat, (first[row, seat] + counts[row, seat]) % longest]
                entry["sum"], entry["frame"], entry["turn"] = 0.0, frame, turn
                counts[row, seat] += 1
            for seat in range(num_seats):
                reward = rewards[time, row, seat]
                if reward != 0.0:
                    _reward(waiting, row, seat, np.float64(reward), powers)
            if terminated[time, row]:
                for seat in range(num_seats):
                    _end(waiting, links, row, seat, NOTHING, 0.0, powers)
            elif truncated[time, row]:
                final = int(steps.final_at[time, row]) if keeps_final else -1
                for seat in range(num_seats):
                    final_index, sign = _view(steps.final_seats, final, seat, is_zero_sum)
                    after = first_final + final * num_acting + final_index if final_index >= 0 else UNKNOWN
                    _end(waiting, links, row, seat, after, sign, powers)


class Linker:
    """Links the rollouts of a ring, shard by shard, each shard's in the order they were played."""

    def __init__(
        self,
        shape: RingShape,
        slot: Slot,
        n_step: int,
        gamma: float,
        is_zero_sum: bool,
        stops_at_exploration: bool = True,
    ) -> None:
        self._depth, self._is_zero_sum = shape.depth, is_zero_sum
        self._stops_at_exploration = stops_at_exploration
        self.segment_size, self._num_finals = slot.seats.size, slot.final_seats.size
        num_segments = shape.num_shards * shape.depth
        self.num_frames = num_segments * self.segment_size
        self._powers = gamma ** np.arange(n_step + 1, dtype=np.float64)
        queues = (shape.num_shards, shape.num_rows, slot.rewards.shape[-1])
        self._waiting = Waiting(
            np.zeros((*queues, n_step), _ENTRY), np.zeros(queues, np.int64), np.zeros(queues, np.int64)
        )
        self.newest = np.full(shape.num_shards, -1, np.int64)  # [shard], the turn linked last; -1: none
        self.links = Links(
            turns=np.full(num_segments, -1, np.int64),
            num_ready=np.zeros(num_segments, np.int64),
            ready=np.zeros((num_segments, self.segment_size), np.int32),
            outcomes=np.zeros(self.num_frames, OUTCOME),
        )

    def segment(self, shard: int, turn: int) -> int:
        """The segment of that rollout."""
        return shard * self._depth + turn % self._depth

    def drop(self, segment: int) -> None:
        """Stop drawing the decisions of a segment."""
        self.links.turns[segment] = -1
        self.links.num_ready[segment] = 0

    def forget(self) -> None:
        """Go back to the state before the first rollout was linked."""
        self.links.turns.fill(-1)
        self.links.num_ready.fill(0)
        self._waiting.counts.fill(0)
        self.newest.fill(-1)

    def link(self, shard: int, turn: int, steps: Steps) -> None:
        """Link the next rollout; if one was left out before it, the waiting decisions are never ready."""
        segment = self.segment(shard, turn)
        self.drop(segment)
        waiting = Waiting(*(column[shard] for column in self._waiting))
        if turn != self.newest[shard] + 1:
            waiting.counts.fill(0)
        self.newest[shard], self.links.turns[segment] = turn, turn
        _link(
            steps,
            waiting,
            self.links,
            segment * self.segment_size,
            self.num_frames + segment * self._num_finals,
            turn,
            self._powers,
            self._is_zero_sum,
            self._stops_at_exploration,
        )
