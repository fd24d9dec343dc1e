"""A turn: the agents act one after another, they tag each other, things spawn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.gridworld.core import layout as at
from senju.games.gridworld.core.changes import new_scratch, spawn_things
from senju.games.gridworld.core.layout import NONE, Row, Tables, WorldSizes, agent_at, read_turn, write_turn
from senju.kernels import compiled

DOWN_RIGHT_UP_LEFT = np.array([2, 1, 0, 3], np.int64)  # the order in which "it" looks for a neighbour


@compiled
def _is_inside(sizes: WorldSizes, y: int, x: int) -> Any:
    return 0 <= y < sizes[at.HEIGHT] and 0 <= x < sizes[at.WIDTH]


@compiled
def _move(row: Row, tables: Tables, seat: int, direction: int) -> Any:
    """Turn and move an agent; return its reward for the things there, or for the thing that blocks it."""
    sizes, kinds = tables.sizes, tables.kinds
    y = row[sizes[at.Y_AT] + seat] + at.STEP_Y[direction]
    x = row[sizes[at.X_AT] + seat] + at.STEP_X[direction]
    row[sizes[at.FACING_AT] + seat] = direction
    if not _is_inside(sizes, y, x):
        return tables.values[sizes[at.OUTSIDE]] if sizes[at.OUTSIDE] != NONE else 0.0
    num_cells = sizes[at.HEIGHT] * sizes[at.WIDTH]
    place = sizes[at.GRID_AT] + y * sizes[at.WIDTH] + x
    for layer in range(sizes[at.LAYERS]):
        kind = row[place + layer * num_cells]
        if not kinds[kind, at.IS_PASSABLE]:
            return tables.values[kind]
    if agent_at(row, sizes, y, x) != NONE:
        return 0.0
    gained = 0.0
    for layer in range(sizes[at.LAYERS]):
        kind = row[place + layer * num_cells]
        gained += tables.values[kind]
        row[place + layer * num_cells] = kinds[kind, at.LEAVES]
    row[sizes[at.Y_AT] + seat] = y
    row[sizes[at.X_AT] + seat] = x
    return gained


@compiled
def _hit(row: Row, tables: Tables, beam: int, y: int, x: int, rewards: NDArray[np.float64]) -> bool:
    """Apply a beam to a cell; False if a thing stops it."""
    sizes = tables.sizes
    if not _is_inside(sizes, y, x):
        return False
    num_cells = sizes[at.HEIGHT] * sizes[at.WIDTH]
    place = sizes[at.GRID_AT] + y * sizes[at.WIDTH] + x
    for layer in range(sizes[at.LAYERS]):
        if tables.kinds[row[place + layer * num_cells], at.STOPS_BEAMS]:
            return False
    for layer in range(sizes[at.LAYERS]):
        row[place + layer * num_cells] = tables.beam_changes[beam, row[place + layer * num_cells]]
    row[place + sizes[at.BEAM_LAYER] * num_cells] = tables.beams[beam, at.BEAM_KIND]
    struck = agent_at(row, sizes, y, x)
    if struck != NONE:
        rewards[struck] += tables.hit_values[beam]
    return True


@compiled
def _fire(row: Row, tables: Tables, seat: int, beam: int, rewards: NDArray[np.float64]) -> None:
    """Fire lanes of cells ahead: the middle one, then left and right of it in turn."""
    sizes = tables.sizes
    y, x = np.int64(row[sizes[at.Y_AT] + seat]), np.int64(row[sizes[at.X_AT] + seat])
    ahead = np.int64(row[sizes[at.FACING_AT] + seat])
    right = (ahead + 1) % 4
    for lane in range(2 * tables.beams[beam, at.SIDEWAYS] + 1):
        aside = (lane + 1) // 2 * (1 if lane % 2 == 0 else -1)  # 0, left 1, right 1, left 2, …
        for distance in range(1, tables.beams[beam, at.LENGTH] + 1):
            reached_y = y + distance * at.STEP_Y[ahead] + aside * at.STEP_Y[right]
            reached_x = x + distance * at.STEP_X[ahead] + aside * at.STEP_X[right]
            if not _hit(row, tables, beam, reached_y, reached_x, rewards):
                break


@compiled
def _tag_neighbour(row: Row, tables: Tables, seat: int) -> None:
    """Pass an agent's mark to the first neighbour without one."""
    sizes = tables.sizes
    for direction in DOWN_RIGHT_UP_LEFT:
        y = row[sizes[at.Y_AT] + seat] + at.STEP_Y[direction]
        x = row[sizes[at.X_AT] + seat] + at.STEP_X[direction]
        neighbour = agent_at(row, sizes, y, x)
        if neighbour != NONE and row[sizes[at.MARKED_AT] + neighbour] == 0:
            row[sizes[at.MARKED_AT] + seat] = 0
            row[sizes[at.MARKED_AT] + neighbour] = 1
            return


@compiled
def _tag(row: Row, tables: Tables, rewards: NDArray[np.float64], was_marked: NDArray[np.uint8]) -> None:
    sizes = tables.sizes
    first, num_agents = sizes[at.MARKED_AT], sizes[at.AGENTS]
    was_marked[:] = row[first : first + num_agents]
    for seat in range(num_agents):
        if was_marked[seat]:
            _tag_neighbour(row, tables, seat)
    for seat in range(num_agents):
        if row[first + seat] == 0:
            rewards[seat] += tables.tag_value[0]


@compiled
def _refused(states: NDArray[np.uint8], actions: NDArray[np.int32], tables: Tables) -> int:
    """The first row that is over or has an invalid action; -1 if all rows can step."""
    for row in range(states.shape[0]):
        if read_turn(states[row]) >= tables.sizes[at.MAX_TURNS]:
            return row
        for seat in range(actions.shape[1]):
            if not 0 <= actions[row, seat] < tables.actions.shape[0]:
                return row
    return -1


@compiled
def _act(row: Row, actions: NDArray[np.int32], tables: Tables, rewards: NDArray[np.float64]) -> None:
    for seat in range(actions.shape[0]):
        direction = tables.actions[actions[seat], at.DIRECTION]
        beam = tables.actions[actions[seat], at.BEAM]
        if direction != NONE:
            rewards[seat] += _move(row, tables, seat, direction)
        elif beam != NONE:
            _fire(row, tables, seat, beam, rewards)


@compiled
def step_rows(
    states: NDArray[np.uint8],
    actions: NDArray[np.int32],
    tables: Tables,
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> int:
    """Play one turn in every row; return -1, or the refused row with no state changed."""
    refused = _refused(states, actions, tables)
    if refused >= 0:
        return refused
    sizes, scratch = tables.sizes, new_scratch(tables)
    num_cells = sizes[at.HEIGHT] * sizes[at.WIDTH]
    gained, was_marked = np.empty(sizes[at.AGENTS]), np.empty(sizes[at.AGENTS], np.uint8)
    for index in range(states.shape[0]):
        row = states[index]
        gained[:] = 0.0
        if sizes[at.BEAM_LAYER] != NONE:
            first = sizes[at.GRID_AT] + sizes[at.BEAM_LAYER] * num_cells
            row[first : first + num_cells] = 0
        _act(row, actions[index], tables, gained)
        if sizes[at.NUM_MARKED] != NONE:
            _tag(row, tables, gained, was_marked)
        turn = read_turn(row) + 1
        write_turn(row, turn)
        spawn_things(row, tables, scratch)
        rewards[index] = gained
        terminated[index] = False
        truncated[index] = turn >= sizes[at.MAX_TURNS]
    return -1
