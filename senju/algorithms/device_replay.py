"""Decisions of a replay whose positions are on a device: drawn by the host, gathered by the device."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from senju.collect.slots import Ring


class Located(NamedTuple):
    """Decisions to learn from, with the places of their positions on the device."""

    frames: NDArray[np.int64]  # [sample]
    observations: Tensor  # [place, *observation_shape], of the whole ring
    legal_words: Tensor  # int64 bits [place, words]
    places: NDArray[np.int64]  # [2, sample], of the decision and of the position it led to
    actions: NDArray[np.int32]
    returns: NDArray[np.float32]
    factors: NDArray[np.float32]
    weights: NDArray[np.float32]
    rows: NDArray[np.int64]  # of the 2 · sample positions, those that the device lacks
    observation: NDArray[Any]  # of these rows
    legal: NDArray[np.uint64]


def place(
    ring: Ring, turns: NDArray[np.int64], frames: NDArray[np.int64], segments: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The index of each frame in the ring's columns on the device; -1 where the device lacks it.

    `turns` [segment] are the turns in the ring. Slots of the device that are written to while the newest turn
    is learned from count as lacking.
    """
    columns = ring.on_device
    assert columns is not None
    shard, turn = segments // ring.shape.depth, turns[segments]
    segment_size = int(np.prod(ring.columns.seats.shape[2:]))
    num_frames = len(turns) * segment_size
    index = turn % columns.turns
    is_there = (frames < num_frames) & (columns.stored[shard, index] == turn)
    is_there &= turn > int(turns.max(initial=-1)) + ring.shape.ahead - columns.turns
    return np.where(is_there, (shard * columns.turns + index) * segment_size + frames % segment_size, -1)
