"""Starting episodes: the map, things and agents scattered over it."""

import numpy as np
from numpy.typing import NDArray

from senju.games.gridworld.core import layout as at
from senju.games.gridworld.core.changes import new_scratch, spawn_things
from senju.games.gridworld.core.layout import Row, Tables, write_key, write_turn
from senju.kernels import below, compiled, random_word


@compiled
def _draw_first(key: np.uint64, stream: int, count: int, items: NDArray[np.int64]) -> None:
    """Move `count` random items to the front: the first steps of a Fisher-Yates shuffle."""
    num_items = items.shape[0]
    for index in range(count):
        word = random_word(key, 0, index, stream, 0)
        other = index + np.int64(below(word, num_items - index))
        items[index], items[other] = items[other], items[index]


@compiled
def _scatter(row: Row, key: np.uint64, tables: Tables, cells: NDArray[np.int64]) -> None:
    num_cells = tables.sizes[at.HEIGHT] * tables.sizes[at.WIDTH]
    for rule in range(tables.scatters.shape[0]):
        scatter, room = tables.scatters[rule], 0
        first = tables.sizes[at.GRID_AT] + scatter[at.SCATTER_LAYER] * num_cells
        for cell in range(num_cells):
            if row[first + cell] == scatter[at.SCATTER_ONTO]:
                cells[room] = cell
                room += 1
        count = min(scatter[at.COUNT], room)
        _draw_first(key, at.SCATTER + rule, count, cells[:room])
        for index in range(count):
            row[first + cells[index]] = scatter[at.SCATTERED]


@compiled
def _is_free(row: Row, tables: Tables, cell: int) -> bool:
    """Whether no scattered thing in a cell blocks an agent."""
    num_cells = tables.sizes[at.HEIGHT] * tables.sizes[at.WIDTH]
    for layer in range(tables.sizes[at.LAYERS]):
        if not tables.kinds[row[tables.sizes[at.GRID_AT] + layer * num_cells + cell], at.IS_PASSABLE]:
            return False
    return True


@compiled
def _place_agents(row: Row, key: np.uint64, tables: Tables, cells: NDArray[np.int64]) -> None:
    sizes = tables.sizes
    num_agents, width = sizes[at.AGENTS], sizes[at.WIDTH]
    for seat in range(num_agents):
        cells[seat] = seat
        row[sizes[at.MARKED_AT] + seat] = 0
        row[sizes[at.FACING_AT] + seat] = 0
    _draw_first(key, at.MARK, sizes[at.NUM_MARKED], cells[:num_agents])
    for index in range(sizes[at.NUM_MARKED]):
        row[sizes[at.MARKED_AT] + cells[index]] = 1
    num_free = 0
    for start in tables.starts:
        cells[num_free] = start
        num_free += _is_free(row, tables, start)
    starts = cells[:num_free]
    _draw_first(key, at.AGENT, num_agents, starts)
    for seat in range(num_agents):
        row[sizes[at.Y_AT] + seat] = starts[seat] // width
        row[sizes[at.X_AT] + seat] = starts[seat] % width


@compiled
def reset_rows(
    states: NDArray[np.uint8], rows: NDArray[np.int64], keys: NDArray[np.uint64], tables: Tables
) -> None:
    """Start an episode in each of `rows`, with a first round of spawning."""
    sizes, scratch = tables.sizes, new_scratch(tables)
    cells = np.empty(sizes[at.HEIGHT] * sizes[at.WIDTH], np.int64)
    for index in range(rows.shape[0]):
        row, key = states[rows[index]], keys[index]
        write_key(row, key)
        write_turn(row, 0)
        row[sizes[at.GRID_AT] : sizes[at.GRID_AT] + tables.map.shape[0]] = tables.map
        _scatter(row, key, tables, cells)
        _place_agents(row, key, tables, cells)
        spawn_things(row, tables, scratch)
