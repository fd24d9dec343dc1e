"""Things that are not agents change: each cell by its own random word."""

from typing import Any

import numpy as np

from senju.games.gridworld.core.draws import draw_cells
from senju.games.gridworld.core.layout import (
    GRID_AT,
    HEIGHT,
    IS_PASSABLE,
    KIND_DRAWN,
    LAYERS,
    NONE,
    NUM_KINDS,
    ON_LAYER,
    ONTO,
    OTHER_LAYER,
    SHARE_KIND,
    SHARE_LAYER,
    SHARE_OTHER,
    SPAWN,
    UNDER_AGENTS,
    WIDTH,
    Row,
    Sizes,
    Tables,
)
from senju.games.gridworld.core.rows import agent_at, read_key, read_turn
from senju.kernels import ZERO, below, compiled, random_word


@compiled
def new_scratch(tables: Tables) -> Any:
    """Room for one row's changes: cells that may change, which do, and what becomes of them."""
    num_cells = tables.sizes[HEIGHT] * tables.sizes[WIDTH]
    most = tables.spawns.shape[0] * num_cells
    return (
        np.empty(num_cells, np.uint32),
        np.empty(num_cells, np.uint8),
        np.empty(most, np.int64),
        np.empty(most, np.uint8),
    )


@compiled
def _count(row: Row, sizes: Sizes, layer: int, kind: int) -> int:
    num_cells = sizes[HEIGHT] * sizes[WIDTH]
    first, total = sizes[GRID_AT] + layer * num_cells, 0
    for cell in range(num_cells):
        total += row[first + cell] == kind
    return total


@compiled
def _is_held_back(row: Row, tables: Tables, rule: int) -> Any:
    """Whether the rule's share is above its limit."""
    spawn = tables.spawns[rule]
    if spawn[SHARE_KIND] == NONE:
        return False
    count = _count(row, tables.sizes, spawn[SHARE_LAYER], spawn[SHARE_KIND])
    others = _count(row, tables.sizes, spawn[OTHER_LAYER], spawn[SHARE_OTHER])
    return count > tables.limits[rule] * (count + others)


@compiled
def _qualifies(row: Row, tables: Tables, rule: int, cell: Any) -> bool:
    """Whether a cell of the right kind may change: nobody stands there, nothing blocks another layer."""
    sizes, spawn = tables.sizes, tables.spawns[rule]
    width = sizes[WIDTH]
    if not spawn[UNDER_AGENTS] and agent_at(row, sizes, cell // width, cell % width) != NONE:
        return False
    for layer in range(sizes[LAYERS]):
        kind = row[sizes[GRID_AT] + layer * sizes[HEIGHT] * width + cell]
        if layer != spawn[ON_LAYER] and not tables.kinds[kind, IS_PASSABLE]:
            return False
    return True


@compiled
def change_things(row: Row, tables: Tables, scratch: Any) -> None:
    """Carry out the rules of spawning; all of them read the grid as it was before."""
    cells, hits, places, kinds = scratch
    sizes, key, turn = tables.sizes, read_key(row), read_turn(row)
    num_cells = sizes[HEIGHT] * sizes[WIDTH]
    num_changes = 0
    for rule in range(tables.spawns.shape[0]):
        if _is_held_back(row, tables, rule):
            continue
        spawn = tables.spawns[rule]
        first, onto, count = sizes[GRID_AT] + spawn[ON_LAYER] * num_cells, spawn[ONTO], 0
        for cell in range(num_cells):
            cells[count] = cell
            count += row[first + cell] == onto
        stream = SPAWN + rule
        draw_cells(key, np.uint64(turn), np.uint64(stream), tables.thresholds[rule], cells[:count], hits)
        for index in range(count):
            if hits[index] and _qualifies(row, tables, rule, np.int64(cells[index])):
                chosen = ZERO
                if spawn[NUM_KINDS] > 1:
                    word = random_word(key, turn, cells[index], stream + KIND_DRAWN, 0)
                    chosen = below(word, spawn[NUM_KINDS])
                places[num_changes] = first + cells[index]
                kinds[num_changes] = tables.spawn_kinds[rule, chosen]
                num_changes += 1
    for change in range(num_changes - 1, -1, -1):  # backwards: of two rules the first one wins
        row[places[change]] = kinds[change]
