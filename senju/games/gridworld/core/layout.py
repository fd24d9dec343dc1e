"""A world for the kernels: tables of numbers, and offsets in a row's bytes.

The kernels see the states as bytes, [row, byte], and read everything else from the tables. So the same
machine code serves every world, of every size.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# streams of random words: the third number of the counter, after the turn and the cell (or a count)
MARK, AGENT, SCATTER, SPAWN = 1, 2, 64, 256
KIND_DRAWN = 64  # added to a spawn's stream to choose among its kinds
MOST_RULES = 64  # spawns, and scatters

Row = NDArray[np.uint8]  # the bytes of one row's state
WorldSizes = NDArray[np.int64]

NONE: Final = -1  # no such direction, beam, plane, kind

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
