"""Observations: for each kind a plane of zeros and ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.games.gridworld.core import layout as at
from senju.games.gridworld.core.layout import NONE, Row, Tables, WorldSizes
from senju.kernels import compiled


@compiled
def _see_things(row: Row, tables: Tables, top: Any, left: Any, planes: NDArray[np.uint8]) -> None:
    """Write the things within the view, whose upper left corner is given in cells of the map."""
    sizes, plane_of = tables.sizes, tables.kinds[:, at.PLANE]
    height, width, view_width = sizes[at.HEIGHT], sizes[at.WIDTH], sizes[at.VIEW_WIDTH]
    area = sizes[at.VIEW_HEIGHT] * view_width
    num_layers = sizes[at.LAYERS] + (sizes[at.BEAM_LAYER] != NONE)
    first_y, end_y = max(top, 0), min(top + sizes[at.VIEW_HEIGHT], height)
    first_x, end_x = max(left, 0), min(left + view_width, width)
    for layer in range(num_layers):
        for y in range(first_y, end_y):
            place = sizes[at.GRID_AT] + (layer * height + y) * width
            seen = (y - top) * view_width - left
            for x in range(first_x, end_x):
                plane = plane_of[row[place + x]]
                if plane != NONE:
                    planes[plane * area + seen + x] = 1


@compiled
def _see_beyond(tables: Tables, top: Any, left: Any, planes: NDArray[np.uint8]) -> None:
    """Write cells outside the map as the kind that the world declares."""
    sizes = tables.sizes
    if sizes[at.OUTSIDE] == NONE or tables.kinds[sizes[at.OUTSIDE], at.PLANE] == NONE:
        return
    view_height, view_width = sizes[at.VIEW_HEIGHT], sizes[at.VIEW_WIDTH]
    first = tables.kinds[sizes[at.OUTSIDE], at.PLANE] * view_height * view_width
    for y in range(view_height):
        is_beyond = not 0 <= top + y < sizes[at.HEIGHT]
        for x in range(view_width):
            if is_beyond or not 0 <= left + x < sizes[at.WIDTH]:
                planes[first + y * view_width + x] = 1


@compiled
def _see_agents(row: Row, sizes: WorldSizes, top: Any, left: Any, planes: NDArray[np.uint8]) -> None:
    """Write all agents within the view, including the agent itself."""
    view_height, view_width = sizes[at.VIEW_HEIGHT], sizes[at.VIEW_WIDTH]
    for seat in range(sizes[at.AGENTS]):
        y, x = row[sizes[at.Y_AT] + seat] - top, row[sizes[at.X_AT] + seat] - left
        if 0 <= y < view_height and 0 <= x < view_width:
            is_it = sizes[at.IT_PLANE] != NONE and row[sizes[at.MARKED_AT] + seat] != 0
            plane = sizes[at.IT_PLANE] if is_it else sizes[at.AGENT_PLANE]
            planes[(plane * view_height + y) * view_width + x] = 1


@compiled
def _see_itself(row: Row, sizes: WorldSizes, seat: int, planes: NDArray[np.uint8]) -> None:
    """Write the agent's own position, and whether it is "it"."""
    y, x = np.int64(row[sizes[at.Y_AT] + seat]), np.int64(row[sizes[at.X_AT] + seat])
    area = sizes[at.VIEW_HEIGHT] * sizes[at.VIEW_WIDTH]
    if sizes[at.SELF_PLANE] != NONE:
        planes[sizes[at.SELF_PLANE] * area + y * sizes[at.VIEW_WIDTH] + x] = 1
    if sizes[at.MARK_PLANE] != NONE:
        first = sizes[at.MARK_PLANE] * area
        planes[first : first + area] = row[sizes[at.MARKED_AT] + seat]
    if sizes[at.ROW_PLANE] != NONE:
        planes[sizes[at.ROW_PLANE] * area + y] = 1
        planes[sizes[at.COLUMN_PLANE] * area + x] = 1


@compiled
def observe_rows(
    states: NDArray[np.uint8],
    tables: Tables,
    observation: NDArray[np.uint8],  # [row, seat, plane * row * column]
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
) -> None:
    """Write the observations of every agent in every row."""
    sizes = tables.sizes
    radius = sizes[at.RADIUS]
    for index in range(states.shape[0]):
        row = states[index]
        for seat in range(sizes[at.AGENTS]):
            planes = observation[index, seat]
            planes[:] = 0
            top, left = np.int64(0), np.int64(0)
            if radius != NONE:
                top = np.int64(row[sizes[at.Y_AT] + seat]) - radius
                left = np.int64(row[sizes[at.X_AT] + seat]) - radius
                _see_beyond(tables, top, left, planes)
            _see_things(row, tables, top, left, planes)
            _see_agents(row, sizes, top, left, planes)
            _see_itself(row, sizes, seat, planes)
            seats[index, seat] = seat
            legal[index, seat] = tables.legal
