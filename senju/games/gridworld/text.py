"""Text boards: written for display, and read to set up positions.

#####
#g.0#
#1..#
#####
turn 3 of 100
0 faces up
1 faces right, on apple
"""

import re
import textwrap

import numpy as np

from senju.errors import IllegalPositionError
from senju.games.gridworld.names import Names
from senju.games.gridworld.rules import Direction, WorldRules

_TURN = re.compile(r"turn (\d+)( of \d+)?")
_AGENT = re.compile(r"(\S) faces (up|right|down|left)(, is it)?(?:, on (.+))?")


def board_text(rules: WorldRules, names: Names, state: np.void) -> str:
    """The map, the turn, and for each agent its direction, whether it is "it", and the things beneath it."""
    _, height, width = names.map.shape
    letters = [[_letter(names, state, y, x) for x in range(width)] for y in range(height)]
    notes = [f"turn {state['turn']} of {rules.max_turns}"]
    for seat, (y, x) in enumerate(zip(state["y"].tolist(), state["x"].tolist(), strict=True)):
        letters[y][x] = names.symbols[seat]
        note = f"{names.symbols[seat]} faces {Direction(state['facing'][seat]).name.lower()}"
        note += ", is it" if state["marked"][seat] else ""
        beneath = [names.kinds[kind] for kind in state["grid"][: names.num_layers, y, x] if kind]
        notes.append(note + (f", on {' and '.join(beneath)}" if beneath else ""))
    return "\n".join([*("".join(line) for line in letters), *notes])


def _letter(names: Names, state: np.void, y: int, x: int) -> str:
    """The uppermost thing in a cell, or else a beam."""
    lying = [kind for kind in state["grid"][: names.num_layers, y, x] if kind]
    beams = [kind for kind in state["grid"][names.num_layers :, y, x] if kind]
    shown: int = (lying or beams or [0])[-1]
    return names.letters[shown]


def parse_board(rules: WorldRules, names: Names, text: str, state: np.void) -> None:
    """Set up a state from a text; the key is not changed."""
    _, height, width = names.map.shape
    lines = textwrap.dedent(text).strip().split("\n")
    board, notes = lines[:height], lines[height:]
    if len(board) < height or any(len(line) != width for line in board):
        raise IllegalPositionError(
            f"expected a map of {height} lines of {width} letters, "
            f"got lines of {', '.join(str(len(line)) for line in board)}"
        )
    state["turn"] = 0
    for field in ("grid", "facing", "marked"):
        state[field] = 0
    _read_cells(names, board, state)
    for note in notes:
        _read_note(rules, names, note.strip(), state)


def _read_cells(names: Names, board: list[str], state: np.void) -> None:
    found = []
    for y, line in enumerate(board):
        for x, letter in enumerate(line):
            if letter in names.letters:
                kind = names.letters.index(letter)
                state["grid"][names.layers[kind], y, x] = kind
            elif letter in names.symbols:
                seat = names.symbols.index(letter)
                found.append(letter)
                state["y"][seat], state["x"][seat] = y, x
            else:
                raise IllegalPositionError(
                    f"unknown letter {letter!r} in line {y + 1}, column {x + 1}; "
                    f"known are the kinds {' '.join(names.letters)} and the agents {' '.join(names.symbols)}"
                )
    if sorted(found) != sorted(names.symbols):
        raise IllegalPositionError(
            f"expected each of the agents {' '.join(names.symbols)} once, found {' '.join(found) or 'none'}"
        )


def _read_note(rules: WorldRules, names: Names, note: str, state: np.void) -> None:
    if turn := _TURN.fullmatch(note):
        if not int(turn[1]) <= rules.max_turns:
            raise IllegalPositionError(f"{note!r}: expected at most {rules.max_turns} turns")
        state["turn"] = int(turn[1])
        return
    agent = _AGENT.fullmatch(note)
    if agent is None or agent[1] not in names.symbols:
        raise IllegalPositionError(
            f"cannot read {note!r}; write 'turn 3' or '0 faces up, is it, on {names.kinds[-1]}'"
        )
    seat = names.symbols.index(agent[1])
    state["facing"][seat] = Direction[agent[2].upper()]
    if agent[3] and rules.tag is None:
        raise IllegalPositionError(f'{note!r}: agents are never "it" in this world')
    state["marked"][seat] = bool(agent[3])
    for word in agent[4].split(" and ") if agent[4] else ():
        if word not in names.kinds[1:]:
            raise IllegalPositionError(f"{note!r}: {word!r} is not a kind of this world")
        kind = names.kinds.index(word)
        state["grid"][names.layers[kind], state["y"][seat], state["x"][seat]] = kind
