"""An episode as an animated GIF."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from senju.errors import ConfigError
from senju.games.game import States
from senju.games.gridworld.pictures import AGENT_COLOURS, FLOOR, INK, IT, painted
from senju.games.gridworld.world import Gridworld

CELL = 12  # pixels


def write_gif(
    game: Gridworld,
    states: Sequence[np.void] | States,
    path: Path | IO[bytes],
    *,
    cell: int = CELL,
    milliseconds: int = 120,
) -> None:
    """Write one frame for each state, `milliseconds` apart; the last one lasts a second."""
    if not len(states):
        raise ConfigError(f"{game.name}: states is empty; expected at least one state")
    if cell < 5:
        raise ConfigError(f"cell={cell}: expected at least 5 pixels")
    colours = palette(game)
    frames = [Image.fromarray(frame(game, state, cell)) for state in states]
    for picture in frames:
        picture.putpalette(bytes.fromhex("".join(colour.removeprefix("#") for colour in colours)))
    durations = [milliseconds] * (len(frames) - 1) + [1000]
    frames[0].save(path, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)


def palette(game: Gridworld) -> list[str]:
    """The colours: empty cells, kinds and beams by number, ink, the mark of "it", and agents."""
    return [FLOOR, *game.names.colours[1:], INK, IT, *AGENT_COLOURS]


def frame(game: Gridworld, state: np.void, cell: int = CELL) -> NDArray[np.uint8]:
    """[y, x]: one frame, as indices into the palette."""
    below, above = painted(game.declared, game.names, state)
    picture = below.repeat(cell, axis=0).repeat(cell, axis=1)
    margin = cell // 4
    small = np.zeros((cell, cell), np.bool_)
    small[margin : cell - margin, margin : cell - margin] = True
    tops = above.repeat(cell, axis=0).repeat(cell, axis=1)
    is_top = (tops > 0) & np.tile(small, below.shape)
    picture[is_top] = tops[is_top]
    for seat in range(game.declared.num_agents):
        y, x = int(state["y"][seat]) * cell, int(state["x"][seat]) * cell
        _draw_agent(game, state, seat, picture[y : y + cell, x : x + cell])
    return picture


def _draw_agent(game: Gridworld, state: np.void, seat: int, square: NDArray[np.uint8]) -> None:
    """A disc with a bar in the direction it faces; on a coloured square if it is "it"."""
    ink = len(game.names.kinds)
    cell, middle = len(square), (len(square) - 1) / 2
    y, x = np.mgrid[:cell, :cell] - middle
    if state["marked"][seat]:
        square[:] = ink + 1
    square[y * y + x * x <= (0.45 * cell) ** 2] = ink + 2 + seat % len(AGENT_COLOURS)
    is_bar = (np.abs(x) < cell / 8) & (y < 0)
    square[np.rot90(is_bar, -int(state["facing"][seat]))] = ink
