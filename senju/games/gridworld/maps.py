"""Maps: making simple ones, and reading letters into layers of kinds."""

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.games.gridworld.rules import NOTHING_LETTER

LARGEST_SIDE = 255  # positions are bytes
VIEW_RADIUS = "Cells seen to each side; null shows the whole map."


def walled(height: int, width: int, wall: str = "#", floor: str = NOTHING_LETTER) -> str:
    """The map of a walled room; the size includes the walls.

    >>> print(walled(3, 5))
    #####
    #...#
    #####
    """
    if height < 3 or width < 3:
        raise ConfigError(f"a walled map of {height}×{width} has no free cell; expected at least 3×3")
    return "\n".join([wall * width, *[wall + floor * (width - 2) + wall] * (height - 2), wall * width])


def lines_of(name: str, text: str) -> list[str]:
    """The lines of a map, all of the same length; empty lines before and after it are ignored."""
    lines = text.strip("\n").split("\n")
    width = len(lines[0])
    if not width:
        raise ConfigError(f"{name}: the map is empty")
    for number, line in enumerate(lines, 1):
        if len(line) != width:
            raise ConfigError(
                f"{name}: line {number} of the map has {len(line)} cells, the first has {width}; "
                "all lines must have the same length"
            )
    if max(len(lines), width) > LARGEST_SIDE:
        raise ConfigError(
            f"{name}: the map is {len(lines)}×{width}; expected at most {LARGEST_SIDE} cells per side"
        )
    return lines


def read_map(
    name: str, texts: tuple[str, ...], ids: dict[str, int], layer_of: NDArray[np.uint8], num_layers: int
) -> NDArray[np.uint8]:
    """[layer, row, column]: the kinds of the letters; later texts are laid over earlier ones."""
    drawings = [lines_of(name, text) for text in texts]
    shape = (len(drawings[0]), len(drawings[0][0]))
    grid = np.zeros((num_layers, *shape), np.uint8)
    for lines in drawings:
        if (len(lines), len(lines[0])) != shape:
            raise ConfigError(
                f"{name}: maps of {shape[0]}×{shape[1]} and {len(lines)}×{len(lines[0])} cells; "
                "all maps of a world must have the same size"
            )
        for y, line in enumerate(lines):
            for x, letter in enumerate(line):
                kind = kind_of_letter(name, letter, ids, f"line {y + 1}, column {x + 1}")
                if kind:
                    grid[layer_of[kind], y, x] = kind
    return grid


def kind_of_letter(name: str, letter: str, ids: dict[str, int], where: str) -> int:
    """The kind of a letter in a map."""
    if letter not in ids:
        known = ", ".join(ids)
        raise ConfigError(f"{name}: unknown letter {letter!r} in {where} of the map; known are {known}")
    return ids[letter]
