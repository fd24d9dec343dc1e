"""The names that a world declares, checked, and their numbers."""

import re
import string
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from senju.config import nearest
from senju.errors import ConfigError
from senju.games.gridworld.rules import NOTHING, NOTHING_LETTER, WorldRules

LARGEST_SIDE = 255  # cells; positions are bytes
MOST_AGENTS = 128  # seats are signed bytes, from 0
VIEW_RADIUS = "Cells seen to each side; null shows the whole map."  # description of the setting
MOST_KINDS = 200  # with beams; a cell is a byte, and a GIF has 256 colours, agents included
# planes of agents, in their order
OWN_PLANES = ("agent", "it", "self", "is it", "row", "column")
_SYMBOLS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_MORE_SYMBOLS = "".join(map(chr, range(0x100, 0x180)))  # Latin letters with marks


@dataclass(frozen=True)
class Names:
    """Kinds, agents and planes of one world, by name and by number."""

    kinds: tuple[str, ...]  # by id: nothing, the declared kinds, the beams
    letters: tuple[str, ...]  # by id
    colours: tuple[str, ...]  # by id; "" for nothing
    layers: tuple[int, ...]  # by id
    num_layers: int  # without the beams' layer, which is the last
    symbols: str  # by seat: agents in text boards
    map: NDArray[np.uint8]  # [layer, row, column], with the beams' layer
    planes: tuple[str, ...]  # names of the observation's planes
    view_shape: tuple[int, int, int]  # planes, rows, columns

    def kind(self, name: str, where: str) -> int:
        """The number of a kind; `where` is for the error message."""
        if name not in self.kinds:
            raise ConfigError(f"{where}: unknown kind {name!r}; {nearest(name, self.kinds)}")
        return self.kinds.index(name)


def names_of(rules: WorldRules) -> Names:
    """The names of a world; raises ConfigError if one is invalid."""
    _check_counts(rules)
    kinds = (NOTHING, *[kind.name for kind in rules.kinds], *[beam.name for beam in rules.beams])
    letters = (NOTHING_LETTER, *[k.letter for k in rules.kinds], *[beam.letter for beam in rules.beams])
    colours = ("", *[k.colour for k in rules.kinds], *[beam.colour for beam in rules.beams])
    _check_distinct("kind", kinds)
    _check_distinct("letter", letters)
    _check_distinct("action", [action.name for action in rules.actions])
    _check_drawing(kinds, letters, colours)
    num_layers = 1 + max((kind.layer for kind in rules.kinds), default=0)
    layers = (0, *[kind.layer for kind in rules.kinds], *[num_layers] * len(rules.beams))
    texts = (rules.map,) if isinstance(rules.map, str) else rules.map
    drawn = letters[: 1 + len(rules.kinds)]
    grid = _read_map(texts, drawn, layers, num_layers + bool(rules.beams))
    symbols = "".join(symbol for symbol in _SYMBOLS + _MORE_SYMBOLS if symbol not in letters)
    planes, side = plane_names(rules), None if rules.view.radius is None else 2 * rules.view.radius + 1
    height, width = (side, side) if side else grid.shape[1:]
    view_shape = (len(planes), height, width)
    return Names(
        kinds, letters, colours, layers, num_layers, symbols[: rules.num_agents], grid, planes, view_shape
    )


def plane_names(rules: WorldRules) -> tuple[str, ...]:
    """The names of the observation's planes, in their order."""
    view = rules.view
    planes = [kind.name for kind in rules.kinds if kind.is_visible] + [beam.name for beam in rules.beams]
    position = view.shows_position
    is_shown = (True, rules.tag is not None, view.radius is None, view.shows_mark, position, position)
    return (*planes, *[plane for plane, shown in zip(OWN_PLANES, is_shown, strict=True) if shown])


def _lines_of(text: str) -> list[str]:
    """The lines of a map, all of the same length; empty lines before and after it are ignored."""
    lines = text.strip("\n").split("\n")
    width = len(lines[0])
    if not width:
        raise ConfigError("the map is empty")
    for number, line in enumerate(lines, 1):
        if len(line) != width:
            raise ConfigError(
                f"line {number} of the map has {len(line)} cells, the first has {width}; "
                "all lines must have the same length"
            )
    if max(len(lines), width) > LARGEST_SIDE:
        raise ConfigError(f"the map is {len(lines)}×{width}; expected at most {LARGEST_SIDE} cells per side")
    return lines


def _read_map(
    texts: tuple[str, ...], letters: tuple[str, ...], layers: tuple[int, ...], num_layers: int
) -> NDArray[np.uint8]:
    """[layer, row, column]: the kinds of the letters; later texts are laid over earlier ones."""
    drawings = [_lines_of(text) for text in texts]
    shape = (len(drawings[0]), len(drawings[0][0]))
    grid = np.zeros((num_layers, *shape), np.uint8)
    for lines in drawings:
        if (len(lines), len(lines[0])) != shape:
            raise ConfigError(
                f"maps of {shape[0]}×{shape[1]} and {len(lines)}×{len(lines[0])} cells; "
                "all maps of a world must have the same size"
            )
        for y, line in enumerate(lines):
            for x, letter in enumerate(line):
                if letter not in letters:
                    raise ConfigError(
                        f"unknown letter {letter!r} in line {y + 1}, column {x + 1} of the map; "
                        f"known are {', '.join(letters)}"
                    )
                kind = letters.index(letter)
                if kind:
                    grid[layers[kind], y, x] = kind
    return grid


def _check_counts(rules: WorldRules) -> None:
    if not 1 <= rules.num_agents <= MOST_AGENTS:
        raise ConfigError(f"num_agents={rules.num_agents}; expected 1 to {MOST_AGENTS}")
    if not 1 <= rules.max_turns < 2**31:
        raise ConfigError(f"max_turns={rules.max_turns}; expected at least 1")
    if len(rules.actions) < 2:
        raise ConfigError(f"{len(rules.actions)} actions; declare at least 2, such as MOVES")
    if len(rules.kinds) + len(rules.beams) > MOST_KINDS:
        raise ConfigError(
            f"{len(rules.kinds)} kinds and {len(rules.beams)} beams; expected at most {MOST_KINDS} together"
        )
    for kind in rules.kinds:
        if not 0 <= kind.layer < 16:
            raise ConfigError(f"kind {kind.name}: layer={kind.layer}; expected 0 to 15")


def _check_distinct(what: str, words: tuple[str, ...] | list[str]) -> None:
    for index, word in enumerate(words):
        if word in words[:index]:
            raise ConfigError(f"{what} {word!r} is declared twice, or reserved for {NOTHING!r}")


def _check_drawing(kinds: tuple[str, ...], letters: tuple[str, ...], colours: tuple[str, ...]) -> None:
    for kind, letter, colour in zip(kinds[1:], letters[1:], colours[1:], strict=True):
        if kind in OWN_PLANES or not kind.strip():
            raise ConfigError(f"kind {kind!r}: the name is empty, or reserved for a plane of agents")
        if len(letter) != 1 or letter.isspace():
            raise ConfigError(f"kind {kind}: letter {letter!r}; expected one letter, no space")
        if not re.fullmatch("#[0-9a-fA-F]{6}", colour):
            raise ConfigError(f"kind {kind}: colour {colour!r}; expected one such as '#2f7fd0'")
