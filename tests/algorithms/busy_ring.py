"""A ring whose every row describes itself, and writers that never wait.

Every number of a row follows from (shard, turn, time, row): a row that is torn, or made of two, is found out.
As a program it is one writer: python -m tests.algorithms.busy_ring DESCRIPTOR SHARD
It imports no torch, so that it starts soon.
"""

import mmap
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import Ring, RingShape
from senju.kernels import compiled
from tests.collect.toy_games import Bandit

NUM_WRITERS = 4
SHAPE = RingShape(NUM_WRITERS, num_steps=16, num_rows=16, kept=12, ahead=1)
NUM_BYTES = 1 << 23  # of memory that writers and readers share

_LEGAL, _ACTION, _REWARD, _END = np.uint64(1000), np.uint64(2000), np.uint64(3000), np.uint64(4000)
# where the parts of a key begin; the shard has the first bits
_TURN, _TIME, _ROW = np.uint64(8), np.uint64(40), np.uint64(48)


class BusyGame(Bandit):
    """Only its shape counts: one seat, observations of 512 bytes, legal masks of 4 words."""

    name = "busy_game"
    num_actions = 256
    observation_shape = (512,)


class Carver:
    """Cuts arrays from a block of memory; equal calls give equal places."""

    def __init__(self, block: mmap.mmap) -> None:
        self._block, self._offset = block, 0

    def __call__(self, shape: tuple[int, ...] | int, dtype: Any, /) -> NDArray[Any]:
        array = np.ndarray(shape, dtype, self._block, self._offset)
        self._offset += -(-array.nbytes // 64) * 64
        return array


class BusyRing(NamedTuple):
    """What writers and readers share."""

    ring: Ring
    orders: NDArray[np.int64]  # [0]: 1 stops the writers
    progress: NDArray[np.int64]  # [shard], how many rollouts were written


def busy_ring(block: mmap.mmap) -> BusyRing:
    """The same ring for each process that opens the same block."""
    carve = Carver(block)
    return BusyRing(Ring(BusyGame(), SHAPE, carve), carve(8, np.int64), carve((NUM_WRITERS,), np.int64))


@compiled
def _word(key: np.uint64, number: np.uint64) -> np.uint64:
    """A hash: Steele et al. 2014, splitmix64."""
    word = key + number * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def _write(
    shard: int,
    turn: int,
    observation: NDArray[np.uint64],  # [time, row, words]
    legal: NDArray[np.uint64],  # [time, row, words]
    actions: NDArray[np.int32],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
) -> None:
    for time in range(actions.shape[0]):
        for row in range(actions.shape[1]):
            key = np.uint64(shard) | np.uint64(turn) << _TURN
            key |= np.uint64(time) << _TIME | np.uint64(row) << _ROW
            observation[time, row, 0] = key
            for index in range(1, observation.shape[2]):
                observation[time, row, index] = _word(key, np.uint64(index))
            for index in range(legal.shape[2]):
                legal[time, row, index] = _word(key, _LEGAL + np.uint64(index))
            actions[time, row] = np.int64(_word(key, _ACTION) >> np.uint64(33))
            rewards[time, row] = np.int64(_word(key, _REWARD) >> np.uint64(56))
            terminated[time, row] = _word(key, _END) >> np.uint64(60) == np.uint64(0)


@compiled
def _is_whole(observation: NDArray[np.uint64], legal: NDArray[np.uint64]) -> bool:
    for index in range(1, observation.shape[0]):
        if observation[index] != _word(observation[0], np.uint64(index)):
            return False
    for index in range(legal.shape[0]):
        if legal[index] != _word(observation[0], _LEGAL + np.uint64(index)):
            return False
    return True


@compiled
def find_wrong(
    observation: NDArray[np.uint64],
    legal: NDArray[np.uint64],
    actions: NDArray[np.int32],
    returns: NDArray[np.float32],
    next_observation: NDArray[np.uint64],
    next_legal: NDArray[np.uint64],
    factors: NDArray[np.float32],
    num_steps: int,
    gamma: float,
) -> int:
    """How many rows do not hold together: the two positions of each, and all that stands between them."""
    wrong = 0
    for each in range(actions.shape[0]):
        key, after = observation[each, 0], next_observation[each, 0]
        is_right = _is_whole(observation[each], legal[each]) and _is_whole(
            next_observation[each], next_legal[each]
        )
        is_right &= actions[each] == np.int64(_word(key, _ACTION) >> np.uint64(33))
        is_right &= returns[each] == np.int64(_word(key, _REWARD) >> np.uint64(56))
        has_ended = _word(key, _END) >> np.uint64(60) == np.uint64(0)
        is_right &= factors[each] == (0.0 if has_ended else gamma)
        expected = key
        if not has_ended:
            expected += np.uint64(1) << _TIME
            if (expected >> _TIME) & np.uint64(0xFF) == np.uint64(num_steps):
                expected = (expected & ~(np.uint64(0xFF) << _TIME)) + (np.uint64(1) << _TURN)
        wrong += not (is_right and after == expected)
    return wrong


def write(busy: BusyRing, shard: int) -> None:
    """Write rollout after rollout, until asked to stop."""
    ring, turn = busy.ring, 0
    while not busy.orders[0]:
        slot = ring.slot(shard, turn)
        ring.open(shard, turn)
        rows = (slot.observation[:, :, 0].view(np.uint64), slot.legal[:, :, 0])
        _write(shard, turn, *rows, slot.actions[..., 0], slot.rewards[..., 0], slot.terminated)
        ring.complete(shard, turn)
        turn += 1
        busy.progress[shard] = turn


if __name__ == "__main__":
    descriptor, number = int(sys.argv[1]), int(sys.argv[2])
    with mmap.mmap(descriptor, NUM_BYTES) as memory:
        write(busy_ring(memory), number)
