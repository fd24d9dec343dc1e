"""Spawning: each cell changes by its own random word."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.gridworld.core import layout as at
from senju.games.gridworld.core.layout import NONE, Row, Tables, WorldSizes, agent_at, read_key, read_turn
from senju.kernels import ZERO, below, compiled, philox, random_word

_11 = np.uint64(11)


@compiled
def new_scratch(tables: Tables) -> Any:
    """Scratch arrays for one row: candidate cells, hits, changed positions and their new kinds."""
    num_cells = tables.sizes[at.HEIGHT] * tables.sizes[at.WIDTH]
    most = tables.spawns.shape[0] * num_cells
    return (
        np.empty(num_cells, np.uint32),
        np.empty(num_cells, np.uint8),
        np.empty(most, np.int64),
        np.empty(most, np.uint8),
    )


@compiled
def _count(row: Row, sizes: WorldSizes, layer: int, kind: int) -> int:
    num_cells = sizes[at.HEIGHT] * sizes[at.WIDTH]
    first, total = sizes[at.GRID_AT] + layer * num_cells, 0
    for cell in range(num_cells):
        total += row[first + cell] == kind
    return total


@compiled
def _is_held_back(row: Row, tables: Tables, rule: int) -> Any:
    """Whether a spawn rule waits because its share exceeds the limit."""
    spawn = tables.spawns[rule]
    if spawn[at.SHARE_KIND] == NONE:
        return False
    count = _count(row, tables.sizes, spawn[at.SHARE_LAYER], spawn[at.SHARE_KIND])
    others = _count(row, tables.sizes, spawn[at.OTHER_LAYER], spawn[at.SHARE_OTHER])
    return count > tables.limits[rule] * (count + others)


@compiled
def _qualifies(row: Row, tables: Tables, rule: int, cell: Any) -> bool:
    """Whether a cell of the right kind may change: it has no agent, and no other layer is blocked."""
    sizes, spawn = tables.sizes, tables.spawns[rule]
    width = sizes[at.WIDTH]
    if not spawn[at.UNDER_AGENTS] and agent_at(row, sizes, cell // width, cell % width) != NONE:
        return False
    for layer in range(sizes[at.LAYERS]):
        kind = row[sizes[at.GRID_AT] + layer * sizes[at.HEIGHT] * width + cell]
        if layer != spawn[at.ON_LAYER] and not tables.kinds[kind, at.IS_PASSABLE]:
            return False
    return True


@compiled
def _draw_cells(
    key: np.uint64,
    turn: np.uint64,
    stream: np.uint64,
    threshold: np.uint64,
    cells: NDArray[np.uint32],
    hits: NDArray[np.uint8],
) -> None:
    """Write for each cell whether the upper 53 bits of its word are below the threshold."""
    for index in range(cells.shape[0]):
        word, _ = philox(key, turn, np.uint64(cells[index]), stream, ZERO)
        hits[index] = (word >> _11) < threshold


@compiled
def spawn_things(row: Row, tables: Tables, scratch: Any) -> None:
    """Apply the spawn rules; all rules read the grid as it was before."""
    cells, hits, places, kinds = scratch
    sizes, key, turn = tables.sizes, read_key(row), read_turn(row)
    num_cells = sizes[at.HEIGHT] * sizes[at.WIDTH]
    num_changes = 0
    for rule in range(tables.spawns.shape[0]):
        if _is_held_back(row, tables, rule):
            continue
        spawn = tables.spawns[rule]
        first, onto, count = sizes[at.GRID_AT] + spawn[at.ON_LAYER] * num_cells, spawn[at.ONTO], 0
        for cell in range(num_cells):
            cells[count] = cell
            count += row[first + cell] == onto
        stream = at.SPAWN + rule
        _draw_cells(key, np.uint64(turn), np.uint64(stream), tables.thresholds[rule], cells[:count], hits)
        for index in range(count):
            if hits[index] and _qualifies(row, tables, rule, np.int64(cells[index])):
                chosen = ZERO
                if spawn[at.NUM_KINDS] > 1:
                    word = random_word(key, turn, cells[index], stream + at.KIND_DRAWN, 0)
                    chosen = below(word, spawn[at.NUM_KINDS])
                places[num_changes] = first + cells[index]
                kinds[num_changes] = tables.spawn_kinds[rule, chosen]
                num_changes += 1
    for change in range(num_changes - 1, -1, -1):  # backwards: the first of two rules wins
        row[places[change]] = kinds[change]
