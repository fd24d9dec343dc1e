"""One row's bytes: the key, the turn, and who stands where."""

from typing import Any

import numpy as np

from senju.games.gridworld.core.layout import AGENTS, NONE, TURN_AT, X_AT, Y_AT, Row, Sizes
from senju.kernels import ZERO, compiled

STEP_Y = np.array([-1, 0, 1, 0], np.int64)  # by direction: up, right, down, left
STEP_X = np.array([0, 1, 0, -1], np.int64)


@compiled
def read_key(row: Row) -> Any:
    """The row's key, whose bytes stand first, the lowest foremost."""
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
    """How many turns have been played."""
    turn = np.int64(0)
    for index in range(4):
        turn |= np.int64(row[TURN_AT + index]) << (8 * index)
    return turn


@compiled
def write_turn(row: Row, turn: int) -> None:
    """Write the number of turns played."""
    for index in range(4):
        row[TURN_AT + index] = (turn >> (8 * index)) & 255


@compiled
def agent_at(row: Row, sizes: Sizes, y: int, x: int) -> int:
    """The seat of the agent in a cell, NONE where nobody stands."""
    for seat in range(sizes[AGENTS]):
        if row[sizes[Y_AT] + seat] == y and row[sizes[X_AT] + seat] == x:
            return seat
    return NONE
