"""The content of every candidate of `replay.py`: the same fields, sizes and number of decisions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CAPACITY = 204_800  # decisions
TURN = 2_048  # decisions that are added at a time
CORRECTION, EXPONENT = 0.4, 0.6  # of priorities


class Size(NamedTuple):
    """How large a position is."""

    observation: tuple[int, ...]  # bytes
    legal_words: int  # 64 actions each
    num_actions: int


SIZES = {"connect_four": Size((2, 6, 7), 1, 7), "shogi": Size((48, 9, 9), 35, 2187)}

Fields = dict[str, NDArray[np.generic]]


def decisions(size: Size, count: int, seed: int) -> Fields:
    """Decisions with their next positions, in the form for buffers that store both positions."""
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.integers(0, 2, (count, *size.observation), np.uint8),
        "next_obs": rng.integers(0, 2, (count, *size.observation), np.uint8),
        "legal": rng.integers(0, 2**62, (count, size.legal_words), np.int64),
        "next_legal": rng.integers(0, 2**62, (count, size.legal_words), np.int64),
        "act": rng.integers(0, size.num_actions, count, np.int32),
        "ret": rng.normal(size=count).astype(np.float32),
        "factor": np.full(count, 0.9, np.float32),
    }


def errors(count: int) -> NDArray[np.float32]:
    """Errors as a learner would find them; any values will do."""
    return np.abs(np.random.default_rng(1).normal(size=count)).astype(np.float32)
