"""One row's bytes: the key, the turn, and the agents' cells."""

from typing import Any

import numpy as np

from senju.games.gridworld.core import layout as at
from senju.games.gridworld.core.layout import NONE, Row, WorldSizes
from senju.kernels import ZERO, compiled

STEP_Y = np.array([-1, 0, 1, 0], np.int64)  # by direction: up, right, down, left
STEP_X = np.array([0, 1, 0, -1], np.int64)


@compiled
def read_key(row: Row) -> Any:
    """The row's key: the first 8 bytes, little-endian."""
    key = ZERO
    for index in range(8):
        key |= np.uint64(row[index]) << np.uint64(8 * index)
    return key


@compiled
def write_key(row: Row, key: np.uint64) -> None:
    """Write the row's key."""
    for index in range(8):
        row[index] = np.uint8((key >> np.uint64(8 * index)) & np.uint64(255))


@compiled
def read_turn(row: Row) -> Any:
    """The number of turns played."""
    turn = np.int64(0)
    for index in range(4):
        turn |= np.int64(row[at.TURN_AT + index]) << (8 * index)
    return turn


@compiled
def write_turn(row: Row, turn: int) -> None:
    """Write the number of turns played."""
    for index in range(4):
        row[at.TURN_AT + index] = (turn >> (8 * index)) & 255


@compiled
def agent_at(row: Row, sizes: WorldSizes, y: int, x: int) -> int:
    """The seat of the agent in a cell, NONE if there is none."""
    for seat in range(sizes[at.AGENTS]):
        if row[sizes[at.Y_AT] + seat] == y and row[sizes[at.X_AT] + seat] == x:
            return seat
    return NONE
