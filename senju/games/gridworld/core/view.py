"""What agents see: for each kind a plane of zeros and ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.gridworld.core.layout import (
    AGENT_PLANE,
    AGENTS,
    BEAM_LAYER,
    COLUMN_PLANE,
    GRID_AT,
    HEIGHT,
    IT_PLANE,
    LAYERS,
    MARK_PLANE,
    MARKED_AT,
    NONE,
    OUTSIDE,
    PLANE,
    RADIUS,
    ROW_PLANE,
    SELF_PLANE,
    VIEW_HEIGHT,
    VIEW_WIDTH,
    WIDTH,
    X_AT,
    Y_AT,
    Row,
    Sizes,
    Tables,
)
from senju.kernels import compiled


@compiled
def _see_things(row: Row, tables: Tables, top: Any, left: Any, planes: NDArray[np.uint8]) -> None:
    """Everything within the view, whose upper left corner is given in cells of the map."""
    sizes, plane_of = tables.sizes, tables.kinds[:, PLANE]
    height, width, view_width = sizes[HEIGHT], sizes[WIDTH], sizes[VIEW_WIDTH]
    area = sizes[VIEW_HEIGHT] * view_width
    num_layers = sizes[LAYERS] + (sizes[BEAM_LAYER] != NONE)
    first_y, end_y = max(top, 0), min(top + sizes[VIEW_HEIGHT], height)
    first_x, end_x = max(left, 0), min(left + view_width, width)
    for layer in range(num_layers):
        for y in range(first_y, end_y):
            place = sizes[GRID_AT] + (layer * height + y) * width
            seen = (y - top) * view_width - left
            for x in range(first_x, end_x):
                plane = plane_of[row[place + x]]
                if plane != NONE:
                    planes[plane * area + seen + x] = 1


@compiled
def _see_beyond(tables: Tables, top: Any, left: Any, planes: NDArray[np.uint8]) -> None:
    """What lies outside the map looks like the kind that the world declares."""
    sizes = tables.sizes
    if sizes[OUTSIDE] == NONE or tables.kinds[sizes[OUTSIDE], PLANE] == NONE:
        return
    view_height, view_width = sizes[VIEW_HEIGHT], sizes[VIEW_WIDTH]
    first = tables.kinds[sizes[OUTSIDE], PLANE] * view_height * view_width
    for y in range(view_height):
        is_beyond = not 0 <= top + y < sizes[HEIGHT]
        for x in range(view_width):
            if is_beyond or not 0 <= left + x < sizes[WIDTH]:
                planes[first + y * view_width + x] = 1


@compiled
def _see_agents(row: Row, sizes: Sizes, top: Any, left: Any, planes: NDArray[np.uint8]) -> None:
    """All agents within the view, oneself too."""
    view_height, view_width = sizes[VIEW_HEIGHT], sizes[VIEW_WIDTH]
    for seat in range(sizes[AGENTS]):
        y, x = row[sizes[Y_AT] + seat] - top, row[sizes[X_AT] + seat] - left
        if 0 <= y < view_height and 0 <= x < view_width:
            is_it = sizes[IT_PLANE] != NONE and row[sizes[MARKED_AT] + seat] != 0
            plane = sizes[IT_PLANE] if is_it else sizes[AGENT_PLANE]
            planes[(plane * view_height + y) * view_width + x] = 1


@compiled
def _see_oneself(row: Row, sizes: Sizes, seat: int, planes: NDArray[np.uint8]) -> None:
    """Where oneself is, and whether oneself is it."""
    y, x = np.int64(row[sizes[Y_AT] + seat]), np.int64(row[sizes[X_AT] + seat])
    area = sizes[VIEW_HEIGHT] * sizes[VIEW_WIDTH]
    if sizes[SELF_PLANE] != NONE:
        planes[sizes[SELF_PLANE] * area + y * sizes[VIEW_WIDTH] + x] = 1
    if sizes[MARK_PLANE] != NONE:
        first = sizes[MARK_PLANE] * area
        planes[first : first + area] = row[sizes[MARKED_AT] + seat]
    if sizes[ROW_PLANE] != NONE:
        planes[sizes[ROW_PLANE] * area + y] = 1
        planes[sizes[COLUMN_PLANE] * area + x] = 1


@compiled
def observe_rows(
    states: NDArray[np.uint8],
    tables: Tables,
    observation: NDArray[np.uint8],  # [row, seat, plane * row * column]
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
) -> None:
    """Write what every agent of every row sees."""
    sizes = tables.sizes
    radius = sizes[RADIUS]
    for index in range(states.shape[0]):
        row = states[index]
        for seat in range(sizes[AGENTS]):
            planes = observation[index, seat]
            planes[:] = 0
            top, left = np.int64(0), np.int64(0)
            if radius != NONE:
                top = np.int64(row[sizes[Y_AT] + seat]) - radius
                left = np.int64(row[sizes[X_AT] + seat]) - radius
                _see_beyond(tables, top, left, planes)
            _see_things(row, tables, top, left, planes)
            _see_agents(row, sizes, top, left, planes)
            _see_oneself(row, sizes, seat, planes)
            seats[index, seat] = seat
            legal[index, seat] = tables.legal
