"""Connect Four on bitboards (`connect_four_board`): 7 columns, 6 rows, four in a line wins.

Actions are the columns; their names are 1 (left) to 7 (right). Seat 0 moves first.
"""

import numpy as np
from numpy.typing import NDArray

from senju.games.connect_four_board import CELLS, COLUMNS, HEIGHT, has_four
from senju.games.connect_four_solver import Solver
from senju.games.game import Game, Observations, Oracle, Outcomes, States
from senju.games.svg import grid_svg
from senju.kernels import ONE, ZERO, compiled

STATE = np.dtype([("stones", np.uint64, 2), ("num_moves", np.uint8), ("is_over", np.bool_)])

_TOP = np.array([1 << (7 * column + HEIGHT - 1) for column in range(COLUMNS)], np.uint64)
_BOTTOM = np.array([1 << (7 * column) for column in range(COLUMNS)], np.uint64)
_COLUMN = np.array([0b111111 << (7 * column) for column in range(COLUMNS)], np.uint64)
# the bit of each cell in the order of the observation: row by row from the top
_CELL_BIT = np.array([7 * c + HEIGHT - 1 - r for r in range(HEIGHT) for c in range(COLUMNS)], np.uint64)


@compiled
def _reset(states: States, rows: NDArray[np.int64]) -> None:
    for row in rows:
        states[row]["stones"][0] = ZERO
        states[row]["stones"][1] = ZERO
        states[row]["num_moves"] = 0
        states[row]["is_over"] = False


@compiled
def _observe(
    states: States,
    observation: NDArray[np.uint8],  # [row, plane * cell]
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
) -> None:
    for row in range(states.shape[0]):
        mover = states[row]["num_moves"] & 1
        own, others = states[row]["stones"][mover], states[row]["stones"][1 - mover]
        seats[row, 0] = mover
        for cell in range(CELLS):
            observation[row, cell] = (own >> _CELL_BIT[cell]) & ONE
        for cell in range(CELLS):
            observation[row, CELLS + cell] = (others >> _CELL_BIT[cell]) & ONE
        open_columns = ZERO
        for column in range(COLUMNS):
            if (own | others) & _TOP[column] == ZERO:
                open_columns |= ONE << np.uint64(column)
        legal[row, 0, 0] = ZERO if states[row]["is_over"] else open_columns


@compiled
def _step(
    states: States,
    actions: NDArray[np.int32],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> int:
    for row in range(states.shape[0]):
        column = actions[row, 0]
        if not 0 <= column < COLUMNS or states[row]["is_over"]:
            return row
        if (states[row]["stones"][0] | states[row]["stones"][1]) & _TOP[column] != ZERO:
            return row
    for row in range(states.shape[0]):
        column = actions[row, 0]
        stones, mover = states[row]["stones"], states[row]["num_moves"] & 1
        # adding the bottom bit carries up to the lowest empty cell of the column
        landing = ((stones[0] | stones[1]) + _BOTTOM[column]) & _COLUMN[column]
        stones[mover] |= landing
        states[row]["num_moves"] += 1
        has_won = has_four(stones[mover])
        rewards[row, mover] = 1.0 if has_won else 0.0
        rewards[row, 1 - mover] = -1.0 if has_won else 0.0
        is_over = has_won or states[row]["num_moves"] == CELLS
        states[row]["is_over"] = is_over
        terminated[row] = is_over
        truncated[row] = False
    return -1


class ConnectFour(Game):
    """Four in a line on a 7×6 board wins; a full board is a draw."""

    name = "connect_four"
    num_seats = 2
    num_actions = COLUMNS
    longest_game = HEIGHT * COLUMNS
    observation_shape = (2, HEIGHT, COLUMNS)  # the mover's stones, the other's stones
    state_dtype = STATE
    is_zero_sum = True

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Clear the boards; the game has no chance, so the keys are unused."""
        _reset(states, rows)

    def observe(self, states: States, out: Observations) -> None:
        flat = out.observation.reshape(len(states), -1)
        _observe(states, flat, out.legal, out.seats)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        self.refuse(_step(states, actions, *out), actions)

    def oracle(self) -> Oracle:
        """An exact solver, for positions with at least 14 stones."""
        return Solver()

    def action_name(self, action: int) -> str:
        """The column, counted from 1."""
        return str(action + 1)

    def board_text(self, state: np.void) -> str:
        """The board with X for seat 0 and O for seat 1."""
        lines = [" ".join("XO·"[mark] for mark in line) for line in _cells(state)]
        return "\n".join([*lines, " ".join(str(column + 1) for column in range(COLUMNS))])

    def board_svg(self, state: np.void) -> str:
        """The board as a picture: seat 0 red, seat 1 yellow."""
        names = [str(column + 1) for column in range(COLUMNS)]
        return grid_svg(_cells(state), {0: "#d64541", 1: "#f4c430"}, names)


def _cells(state: np.void) -> NDArray[np.int64]:
    """The seat at each cell, -1 if empty, row by row from the top."""
    bits = (state["stones"][:, None] >> _CELL_BIT) & ONE  # [seat, cell]
    return np.where(bits[0], 0, np.where(bits[1], 1, -1)).reshape(HEIGHT, COLUMNS)
