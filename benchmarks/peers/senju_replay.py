"""Senju's replay, measured as the peers are.

echo '{"batch": 32, "seconds": 1}' | PYTHONPATH=. python benchmarks/peers/senju_replay.py shogi uniform
"""

import sys

import numpy as np
from meter import Loop, serve
from numpy.typing import NDArray
from replay_content import CAPACITY, CORRECTION, EXPONENT, SIZES, TURN, errors

from senju.algorithms.replay import Priorities, Replay
from senju.collect.slots import NO_CLOCK, Ring, RingShape, Rollout, Slot
from senju.games import make_game

GAME, KIND = sys.argv[1:3]
NUM_SHARDS, NUM_STEPS, NUM_ROWS, N_STEP = 4, 32, 64, 3
SHAPE = RingShape(NUM_SHARDS, NUM_STEPS, NUM_ROWS, CAPACITY // (NUM_SHARDS * TURN), keeps_final=True)


def fill(slot: Slot, rng: np.random.Generator) -> None:
    """A rollout of two seats in turn, in which one step in thirty ends a game."""
    slot.observation[:] = rng.integers(0, 2, slot.observation.shape, np.uint8)
    slot.legal[:] = rng.integers(0, 2**62, slot.legal.shape, np.uint64)
    slot.actions[:] = rng.integers(0, SIZES[GAME].num_actions, slot.actions.shape)
    slot.seats[:] = (np.arange(NUM_STEPS) % 2)[:, None, None]
    slot.terminated[:] = rng.random(slot.terminated.shape) < 1 / 30
    slot.rewards[slot.terminated] = (1.0, -1.0)
    slot.final_at.fill(-1)


class Filled:
    """A replay that is full, and stays full."""

    def __init__(self) -> None:
        self.ring = Ring(make_game(GAME), SHAPE)
        priorities = Priorities(EXPONENT) if KIND == "prioritised" else None
        self.replay = Replay(self.ring, 1, N_STEP, 0.9, is_zero_sum=True, priorities=priorities)
        self.spare = Ring(make_game(GAME), RingShape(1, NUM_STEPS, NUM_ROWS, keeps_final=True)).slot(0, 0)
        self.turn, self.shard, self.step = 0, 0, 0
        rng = np.random.default_rng(0)
        fill(self.spare, rng)
        for _ in range(SHAPE.num_shards * SHAPE.kept):
            fill(self.ring.slot(self.shard, self.turn), rng)
            self.add()
        assert len(self.replay) > 0.95 * CAPACITY

    def add(self) -> None:
        """Add the next rollout, which is already in the ring."""
        self.ring.complete(self.shard, self.turn)
        slot = self.ring.slot(self.shard, self.turn)
        self.replay.add([Rollout(self.shard, 0, (slot,), NO_CLOCK, self.turn)])
        self.shard = (self.shard + 1) % NUM_SHARDS
        self.turn += self.shard == 0

    def copy_and_add(self) -> None:
        """Add a rollout that must first be copied into the ring."""
        self.ring.open(self.shard, self.turn)
        for column, value in zip(self.ring.slot(self.shard, self.turn), self.spare, strict=True):
            column[:] = value
        self.add()

    def sample(self, found: NDArray[np.float32]) -> None:
        """Draw, and learn priorities where there are any."""
        sample = self.replay.sample(len(found), self.step, CORRECTION)
        if KIND == "prioritised":
            self.replay.learn_priorities(sample.frames, found)
        self.step += 1


def make_loop(batch: int) -> Loop:
    """A turn is one batch."""
    found = errors(batch)

    def play(num_turns: int) -> int:
        for _ in range(num_turns):
            if KIND == "add":
                filled.add()
            elif KIND == "copy_and_add":
                filled.copy_and_add()
            else:
                filled.sample(found)
        return 0

    return Loop(play, batch)


if __name__ == "__main__":
    filled = Filled()
    serve(make_loop, ["numba", "numpy"])
