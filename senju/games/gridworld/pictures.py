"""Worlds as SVG: coloured cells, smaller squares for things that can be taken, agents as discs."""

import numpy as np
from numpy.typing import NDArray

from senju.games.gridworld.names import Names
from senju.games.gridworld.rules import NOTHING, WorldRules

CELL = 20  # pixels
FLOOR, IT, INK = "#f3ead7", "#e01b24", "#222222"
AGENT_COLOURS = ["#1c71d8", "#9141ac", "#e66100", "#26a269", "#63452c", "#c64191", "#12808a", "#5e5c64"]


def painted(rules: WorldRules, names: Names, state: np.void) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """For each cell, the kind that fills it and the kind drawn smaller on top of it; 0 for none."""
    fills = np.arange(len(names.kinds), dtype=np.uint8)  # [kind]: the kind that fills its cell
    tops = np.zeros(len(names.kinds), np.uint8)
    for index, kind in enumerate(rules.kinds, 1):
        if kind.leaves is not None:
            tops[index] = index
            fills[index] = 0 if kind.leaves == NOTHING else names.kinds.index(kind.leaves)
    first_beam = 1 + len(rules.kinds)
    tops[first_beam:], fills[first_beam:] = fills[first_beam:], 0
    below, above = np.zeros(names.map.shape[1:], np.uint8), np.zeros(names.map.shape[1:], np.uint8)
    for layer in state["grid"]:
        below = np.where(fills[layer] > 0, fills[layer], below)
        above = np.where(tops[layer] > 0, tops[layer], above)
    return below, above


def board_svg(rules: WorldRules, names: Names, state: np.void) -> str:
    """The world as an SVG picture."""
    _, rows, columns = names.map.shape
    height, width = rows * CELL, columns * CELL
    below, above = painted(rules, names, state)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="{FLOOR}"/>',
        *_runs(names, below),
        *_squares(names, above),
        *[_agent(names, state, seat) for seat in range(rules.num_agents)],
    ]
    return "\n".join([*parts, "</svg>"])


def _runs(names: Names, below: NDArray[np.uint8]) -> list[str]:
    """One rectangle for each run of equal cells of a row."""
    parts = []
    for y, row in enumerate(below):
        ends = np.flatnonzero(np.diff(row, append=np.int16(-1)))
        start = 0
        for end in (ends + 1).tolist():
            if row[start]:
                parts.append(
                    f'<rect x="{start * CELL}" y="{y * CELL}" width="{(end - start) * CELL}" '
                    f'height="{CELL}" fill="{names.colours[row[start]]}"/>'
                )
            start = end
    return parts


def _squares(names: Names, above: NDArray[np.uint8]) -> list[str]:
    side, margin = CELL // 2, CELL // 4
    return [
        f'<rect x="{x * CELL + margin}" y="{y * CELL + margin}" width="{side}" height="{side}" '
        f'fill="{names.colours[above[y, x]]}"/>'
        for y, x in np.argwhere(above).tolist()
    ]


def _agent(names: Names, state: np.void, seat: int) -> str:
    x, y = (int(state["x"][seat]) + 0.5) * CELL, (int(state["y"][seat]) + 0.5) * CELL
    radius = 0.36 * CELL
    ring = f' stroke="{IT}" stroke-width="3"' if state["marked"][seat] else ""
    colour = AGENT_COLOURS[seat % len(AGENT_COLOURS)]  # they repeat
    turned = f"rotate({90 * int(state['facing'][seat])} {x} {y})"  # the tip points up
    tip = f"{x},{y - 0.5 * CELL} {x - 0.25 * CELL},{y - 0.25 * CELL} {x + 0.25 * CELL},{y - 0.25 * CELL}"
    return (
        f'<polygon points="{tip}" fill="{INK}" transform="{turned}"/>'
        f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"{ring}/>'
        f'<text x="{x}" y="{y + 4}" font-size="11" fill="#ffffff">{names.symbols[seat]}</text>'
    )
