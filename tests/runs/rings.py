"""Rings with known content, and checkpoints of them."""

from dataclasses import replace

import numpy as np
import torch

from senju.collect.slots import TRANSIENT, Ring, RingShape
from senju.games.tic_tac_toe import TicTacToe
from senju.runs.checkpoint import Checkpoint, CheckpointFolder
from senju.runs.ring_saving import RingSaver

SHAPE = RingShape(num_shards=2, num_steps=3, num_rows=4, kept=3, ahead=1, keeps_final=True)
LARGE = replace(SHAPE, num_steps=64, num_rows=64)  # a turn of it takes about 350 kB


def new_ring(shape: RingShape = SHAPE) -> Ring:
    return Ring(TicTacToe(), shape)


def play(ring: Ring, turn: int, shards: tuple[int, ...] = (0, 1)) -> None:
    """Write a turn of random bytes, always the same ones."""
    for shard in shards:
        random = np.random.default_rng([turn, shard])
        slot = ring.slot(shard, turn)
        ring.open(shard, turn)
        for column in slot:
            column[:] = random.integers(0, 2 if column.dtype == bool else 100, column.shape)
        if slot.final_at.size:
            taken = random.permutation(slot.final_at.size)[: random.integers(0, len(slot.final_seats) + 1)]
            slot.final_at.fill(-1)
            slot.final_at.reshape(-1)[taken] = np.arange(len(taken))
        ring.complete(shard, turn)


def content(ring: Ring, shard: int, turn: int) -> dict[str, bytes]:
    """All bytes of a rollout that stay."""
    slot = ring.slot(shard, turn)
    num_final = int(slot.final_at.max(initial=-1)) + 1
    return {
        name: (column[:num_final] if name.startswith("final_") and name != "final_at" else column).tobytes()
        for name, column in slot._asdict().items()
        if name not in TRANSIENT
    }


def require_turns(ring: Ring, turns: range | list[int]) -> None:
    """Each of these turns lies complete in the ring, to the last bit, and no other does."""
    played = new_ring(ring.shape)
    for turn in turns:
        play(played, turn)
        for shard in range(2):
            assert content(ring, shard, turn) == content(played, shard, turn)
    assert np.array_equal(ring.sequence_numbers, played.sequence_numbers)


def save(folder: CheckpointFolder, saver: RingSaver, last: int, keep: int = 2) -> None:
    """A checkpoint after the turn `last`, as the trainer saves it."""
    names = saver.finish(max(0, last - SHAPE.kept + 1), last)
    folder.save(last + 1, Checkpoint({"weights": torch.full((5000,), last)}, {"turn": last}, names), keep)
