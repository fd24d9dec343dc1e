"""Readers of a busy ring that check every row they get."""

import threading

import numpy as np

from senju.algorithms.replay import Replay, Sample
from senju.collect.slots import Ring
from senju.errors import ConfigError
from tests.algorithms.busy_ring import SHAPE, find_wrong

BATCH, DISCOUNT = 256, 0.5


def count_wrong(sample: Sample) -> int:
    """How many rows do not hold together."""
    return find_wrong(
        sample.observation.view(np.uint64),
        sample.legal,
        sample.actions,
        sample.returns,
        sample.next_observation.view(np.uint64),
        sample.next_legal,
        sample.factors,
        SHAPE.num_steps,
        DISCOUNT,
    )


class Reader(threading.Thread):
    """Draws until it has seen enough rows, and counts those that are wrong."""

    def __init__(self, ring: Ring, seed: int, enough: int) -> None:
        super().__init__()
        self.replay = Replay(ring, seed, 1, DISCOUNT, is_zero_sum=False)
        self.enough, self.num_rows, self.num_wrong, self.steps_left = enough, 0, 0, 200 * enough // BATCH

    def run(self) -> None:
        """Follow, draw, check; being left behind by all writers is no fault, but must not go on for ever."""
        while self.num_rows < self.enough and self.steps_left > 0:
            self.steps_left -= 1
            self.look()

    def look(self) -> None:
        """One batch."""
        try:
            self.replay.follow()
            sample = self.replay.sample(BATCH, self.steps_left, is_free_running=True)
        except ConfigError:  # nothing was left
            return
        self.num_rows += BATCH
        self.num_wrong += count_wrong(sample)


class BlindReader(Reader):
    """Looks at the sequence_numbers when it begins a batch, and not again."""

    def __init__(self, ring: Ring, seed: int, enough: int) -> None:
        self._numbers, unseen = ring.sequence_numbers, object.__new__(Ring)
        unseen.shape, unseen.columns, unseen.sequence_numbers = (
            ring.shape,
            ring.columns,
            ring.sequence_numbers.copy(),
        )
        super().__init__(unseen, seed, enough)

    def look(self) -> None:
        """One batch, believed to be whole."""
        self.replay.ring.sequence_numbers[:] = self._numbers
        super().look()
