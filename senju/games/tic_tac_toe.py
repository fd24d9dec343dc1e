"""Tic-tac-toe: the smallest complete game, and the one to read first.

Squares and actions are 0 to 8, row by row from the top left; their names are a1 (top left) to
c3 (bottom right). Seat 0 plays X and moves first.
"""

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Observations, Outcomes, States
from senju.games.svg import grid_svg
from senju.kernels import ZERO, allow, compiled

SIDE, SQUARES = 3, 9
EMPTY = np.int8(-1)  # a square holds EMPTY or the seat that marked it

STATE = np.dtype([("board", np.int8, SQUARES), ("num_moves", np.int8), ("is_over", np.bool_)])

_ROWS = np.arange(SQUARES).reshape(SIDE, SIDE)
LINES = np.array([*_ROWS, *_ROWS.T, [0, 4, 8], [2, 4, 6]], np.int64)  # [line, 3]


@compiled
def _reset(states: States, rows: NDArray[np.int64]) -> None:
    for row in rows:
        states[row]["board"][:] = EMPTY
        states[row]["num_moves"] = 0
        states[row]["is_over"] = False


@compiled
def _observe(
    states: States, observation: NDArray[np.uint8], legal: NDArray[np.uint64], seats: NDArray[np.int8]
) -> None:
    for row in range(states.shape[0]):
        board, mover = states[row]["board"], states[row]["num_moves"] % 2
        seats[row, 0] = mover
        legal[row, 0, 0] = ZERO
        for square in range(SQUARES):
            mark, line, column = board[square], square // SIDE, square % SIDE
            observation[row, 0, 0, line, column] = mark == mover
            observation[row, 0, 1, line, column] = mark == 1 - mover
            if mark == EMPTY and not states[row]["is_over"]:
                allow(legal[row, 0], square)


@compiled
def _has_line(board: NDArray[np.int8], mark: int) -> bool:
    for line in range(LINES.shape[0]):
        if board[LINES[line, 0]] == mark and board[LINES[line, 1]] == mark and board[LINES[line, 2]] == mark:
            return True
    return False


@compiled
def _step(
    states: States,
    actions: NDArray[np.int32],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> int:
    for row in range(states.shape[0]):
        square = actions[row, 0]
        if not 0 <= square < SQUARES or states[row]["is_over"]:
            return row
        if states[row]["board"][square] != EMPTY:
            return row
    for row in range(states.shape[0]):
        board, mover = states[row]["board"], states[row]["num_moves"] % 2
        board[actions[row, 0]] = mover
        states[row]["num_moves"] += 1
        has_won = _has_line(board, mover)
        rewards[row, mover] = 1.0 if has_won else 0.0
        rewards[row, 1 - mover] = -1.0 if has_won else 0.0
        is_over = has_won or states[row]["num_moves"] == SQUARES
        states[row]["is_over"] = is_over
        terminated[row] = is_over
        truncated[row] = False
    return -1


class TicTacToe(Game):
    """Three in a row on a 3×3 board wins; a full board is a draw."""

    name = "tic_tac_toe"
    num_seats = 2
    num_actions = SQUARES
    longest_game = SQUARES
    observation_shape = (2, SIDE, SIDE)  # the mover's marks, the other's marks
    state_dtype = STATE
    is_zero_sum = True

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Clear the boards; the game has no chance, so the keys are unused."""
        _reset(states, rows)

    def observe(self, states: States, out: Observations) -> None:
        _observe(states, *out)

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        self.refuse(_step(states, actions, *out), actions)

    def action_name(self, action: int) -> str:
        """Column letter and row number: a1 is the top left square.

        >>> TicTacToe().action_name(5)
        'c2'
        """
        return f"{'abc'[action % SIDE]}{action // SIDE + 1}"

    def board_text(self, state: np.void) -> str:
        marks = ["XO·"[int(mark)] for mark in state["board"]]
        lines = [f"{i + 1} " + " ".join(marks[3 * i : 3 * i + 3]) for i in range(SIDE)]
        return "\n".join([*lines, "  a b c"])

    def board_svg(self, state: np.void) -> str:
        cells = state["board"].reshape(SIDE, SIDE)
        return grid_svg(cells, {0: "X", 1: "O"}, ["a", "b", "c"], ["1", "2", "3"])
