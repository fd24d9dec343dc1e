"""A world as data for the kernels: tables of numbers, and a row's bytes.

The kernels see the states as bytes, [row, byte], and read everything else from the tables. So the same
machine code serves every world, of every size.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.kernels import ZERO, compiled

# streams of random words: the third number of the counter, after the turn and the cell (or a count)
MARK, AGENT, SCATTER, SPAWN = 1, 2, 64, 256
KIND_DRAWN = 64  # added to a spawn's stream to choose among its kinds
MOST_RULES = 64  # spawns, and scatters

Row = NDArray[np.uint8]  # the bytes of one row's state
WorldSizes = NDArray[np.int64]

NONE: Final = -1  # instead of an index: no direction, beam, plane, kind

# Tables.sizes
HEIGHT, WIDTH, LAYERS, BEAM_LAYER, AGENTS, MAX_TURNS = range(6)
GRID_AT, Y_AT, X_AT, FACING_AT, MARKED_AT = range(6, 11)  # offsets of fields in a row's bytes
VIEW_HEIGHT, VIEW_WIDTH, RADIUS, PLANES, OUTSIDE = range(11, 16)
AGENT_PLANE, IT_PLANE, SELF_PLANE, MARK_PLANE, ROW_PLANE, COLUMN_PLANE = range(16, 22)
NUM_MARKED, NUM_SIZES = 22, 23
TURN_AT = 8  # after the key

# Tables.kinds[kind]
IS_PASSABLE, LEAVES, STOPS_BEAMS, PLANE, KIND_COLUMNS = range(5)
# Tables.actions[action]
DIRECTION, BEAM, ACTION_COLUMNS = range(3)
# Tables.beams[beam]
BEAM_KIND, LENGTH, SIDEWAYS, BEAM_COLUMNS = range(4)
# Tables.spawns[rule]
ONTO, ON_LAYER, NUM_KINDS, UNDER_AGENTS = range(4)
SHARE_KIND, SHARE_OTHER, SHARE_LAYER, OTHER_LAYER, SPAWN_COLUMNS = range(4, 9)
# Tables.scatters[rule]
SCATTERED, SCATTER_ONTO, SCATTER_LAYER, COUNT, SCATTER_COLUMNS = range(5)

STEP_Y = np.array([-1, 0, 1, 0], np.int64)  # by direction: up, right, down, left
STEP_X = np.array([0, 1, 0, -1], np.int64)


class Tables(NamedTuple):
    """The tables of a world."""

    sizes: WorldSizes
    kinds: NDArray[np.int64]  # [kind, column]; kind 0 is nothing, the last ones are beams
    values: NDArray[np.float64]  # [kind]
    actions: NDArray[np.int64]  # [action, column]
    legal: NDArray[np.uint64]  # legal words: all actions
    beams: NDArray[np.int64]  # [beam, column]
    beam_changes: NDArray[np.uint8]  # [beam, kind]: the kind it becomes
    hit_values: NDArray[np.float64]  # [beam]
    spawns: NDArray[np.int64]  # [rule, column]
    spawn_kinds: NDArray[np.uint8]  # [rule, n]
    thresholds: NDArray[np.uint64]  # [rule]: a cell changes if the word's upper 53 bits are below
    limits: NDArray[np.float64]  # [rule]: of the share
    scatters: NDArray[np.int64]  # [rule, column]
    map: NDArray[np.uint8]  # [layer * row * column], with the beams' layer
    starts: NDArray[np.int64]  # the cells where agents may start
    tag_value: NDArray[np.float64]  # one number


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
        turn |= np.int64(row[TURN_AT + index]) << (8 * index)
    return turn


@compiled
def write_turn(row: Row, turn: int) -> None:
    """Write the number of turns played."""
    for index in range(4):
        row[TURN_AT + index] = (turn >> (8 * index)) & 255


@compiled
def agent_at(row: Row, sizes: WorldSizes, y: int, x: int) -> int:
    """The seat of the agent in a cell, NONE if there is none."""
    for seat in range(sizes[AGENTS]):
        if row[sizes[Y_AT] + seat] == y and row[sizes[X_AT] + seat] == x:
            return seat
    return NONE
