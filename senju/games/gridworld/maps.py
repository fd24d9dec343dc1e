"""Maps: drawing simple ones, and reading letters into layers of kinds."""

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.games.gridworld.rules import NOTHING_LETTER

LARGEST_SIDE = 255  # positions are bytes


def walled(height: int, width: int, wall: str = "#", floor: str = NOTHING_LETTER) -> str:
    """A room of that size, walls included.

    >>> print(walled(3, 5))
    #####
    #...#
    #####
    """
    if height < 3 or width < 3:
        raise ConfigError(f"a walled map of {height}×{width} has no free cell; make it at least 3×3")
    return "\n".join([wall * width, *[wall + floor * (width - 2) + wall] * (height - 2), wall * width])


def lines_of(name: str, text: str) -> list[str]:
    """The lines of a map, all of one length; empty lines before and after it do not count."""
    lines = text.strip("\n").split("\n")
    width = len(lines[0])
    if not width:
        raise ConfigError(f"{name}: the map is empty")
    for number, line in enumerate(lines, 1):
        if len(line) != width:
            raise ConfigError(
                f"{name}: line {number} of the map has {len(line)} cells, the first has {width}; "
                "all lines must be of one length"
            )
    if max(len(lines), width) > LARGEST_SIDE:
        raise ConfigError(
            f"{name}: the map is {len(lines)}×{width}; sides of at most {LARGEST_SIDE} cells fit"
        )
    return lines


def read_map(
    name: str, texts: tuple[str, ...], ids: dict[str, int], layer_of: NDArray[np.uint8], num_layers: int
) -> NDArray[np.uint8]:
    """[layer, row, column]: the kinds that the letters stand for; later texts lie over earlier ones."""
    drawings = [lines_of(name, text) for text in texts]
    shape = (len(drawings[0]), len(drawings[0][0]))
    grid = np.zeros((num_layers, *shape), np.uint8)
    for lines in drawings:
        if (len(lines), len(lines[0])) != shape:
            raise ConfigError(
                f"{name}: maps of {shape[0]}×{shape[1]} and {len(lines)}×{len(lines[0])} "
                "cannot lie over each other"
            )
        for y, line in enumerate(lines):
            for x, letter in enumerate(line):
                kind = kind_of(name, letter, ids, f"line {y + 1}, column {x + 1}")
                if kind:
                    grid[layer_of[kind], y, x] = kind
    return grid


def kind_of(name: str, letter: str, ids: dict[str, int], where: str) -> int:
    """The kind a letter of a map stands for."""
    if letter not in ids:
        known = ", ".join(ids)
        raise ConfigError(f"{name}: {letter!r} in {where} of the map stands for no kind; known are {known}")
    return ids[letter]
