"""Boards as SVG: a grid of cells, each empty, a disc, or a letter."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

CELL = 40  # pixels
MARGIN = 24
INK, PAPER, GRID = "#222222", "#fdfaf3", "#b9ae97"


def grid_svg(
    cells: NDArray[Any], marks: Mapping[int, str], column_names: Sequence[str], row_names: Sequence[str] = ()
) -> str:
    """A grid; `marks` maps cell values to a letter or a colour (`#rrggbb`, drawn as a disc)."""
    num_rows, num_columns = cells.shape
    width, height = num_columns * CELL + 2 * MARGIN, num_rows * CELL + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
    ]
    for row in range(num_rows):
        for column in range(num_columns):
            x, y = MARGIN + column * CELL, MARGIN + row * CELL
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="none" stroke="{GRID}"/>'
            )
            parts.append(_mark(marks.get(int(cells[row, column]), ""), x + CELL / 2, y + CELL / 2))
    for column, name in enumerate(column_names):
        parts.append(_label(name, MARGIN + (column + 0.5) * CELL, height - 7))
    for row, name in enumerate(row_names):
        parts.append(_label(name, MARGIN / 2, MARGIN + (row + 0.5) * CELL + 4))
    return "\n".join([*filter(None, parts), "</svg>"])


def _mark(mark: str, x: float, y: float) -> str:
    if mark.startswith("#"):
        return f'<circle cx="{x}" cy="{y}" r="{CELL * 0.4}" fill="{mark}" stroke="{INK}"/>'
    if mark:
        return f'<text x="{x}" y="{y + 9}" font-size="26" fill="{INK}">{mark}</text>'
    return ""


def _label(text: str, x: float, y: float) -> str:
    return f'<text x="{x}" y="{y}" font-size="12" fill="{INK}">{text}</text>'
