"""Slots made by hand, and parts of slots."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.collect.slots import Slot

FINAL = ("final_observation", "final_legal", "final_seats")  # columns that have no rows


def self_play_slot(**columns: NDArray[Any]) -> Slot:
    """A slot of self-play that keeps no truncated positions; all other columns are given."""
    observation, legal, seats = (columns[name] for name in ("observation", "legal", "seats"))
    return Slot(
        **columns,
        explored=np.zeros(seats.shape, np.bool_),
        final_at=np.zeros((0, 0), np.int32),
        final_observation=np.zeros((0, *observation.shape[2:]), observation.dtype),
        final_legal=np.zeros((0, *legal.shape[2:]), np.uint64),
        final_seats=np.zeros((0, *seats.shape[2:]), np.int8),
        seated=np.zeros(columns["rewards"].shape, np.int32),
    )


def some_rows(slot: Slot, rows: Sequence[int]) -> Slot:
    """The slot of a shard that had these rows alone."""
    has_rows = {name: name not in FINAL and column.size for name, column in slot._asdict().items()}
    return Slot(**{name: c[:, list(rows)] if has_rows[name] else c for name, c in slot._asdict().items()})
