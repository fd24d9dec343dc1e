"""Tic-tac-toe against a plain twin on every position there is, and what people read of it."""

from typing import NamedTuple

import numpy as np
import pytest

from senju.errors import IllegalActionError
from senju.games.game import Outcomes, States
from senju.games.tic_tac_toe import EMPTY, STATE, TicTacToe
from senju.kernels import unpack_legal

Board = str  # nine of X, O and ·, row by row from the top

LINES = ["abc", "def", "ghi", "adg", "beh", "cfi", "aei", "ceg"]  # squares as letters


class Position(NamedTuple):
    """The slow twin: a string, and rules in the words of the game."""

    board: Board

    @property
    def mover(self) -> str:
        return "XO"[(9 - self.board.count("·")) % 2]

    @property
    def winner(self) -> str | None:
        for line in LINES:
            marks = {self.board["abcdefghi".index(square)] for square in line}
            if marks in ({"X"}, {"O"}):
                return marks.pop()
        return None

    @property
    def is_over(self) -> bool:
        return self.winner is not None or "·" not in self.board

    def moves(self) -> list[int]:
        return [] if self.is_over else [i for i, mark in enumerate(self.board) if mark == "·"]

    def play(self, square: int) -> "Position":
        return Position(self.board[:square] + self.mover + self.board[square + 1 :])

    def planes(self) -> list[list[int]]:
        other = "XO"[self.mover == "X"]
        return [[int(mark == seat) for mark in self.board] for seat in (self.mover, other)]

    def rewards(self) -> list[float]:
        winner = self.winner
        return [0.0, 0.0] if winner is None else [1.0, -1.0] if winner == "X" else [-1.0, 1.0]


def all_positions() -> list[Position]:
    positions, generation = [], {Position("·" * 9)}
    while generation:
        positions += sorted(generation)
        generation = {position.play(move) for position in generation for move in position.moves()}
    return positions


POSITIONS = all_positions()


def states_of(positions: list[Position]) -> States:
    states = np.zeros(len(positions), STATE)
    for state, position in zip(states, positions, strict=True):
        state["board"] = ["XO·".index(mark) for mark in position.board]
        state["board"][state["board"] == 2] = EMPTY
        state["num_moves"] = 9 - position.board.count("·")
        state["is_over"] = position.is_over
    return states


def step(states: States, actions: list[int]) -> Outcomes:
    game = TicTacToe()
    outcomes = game.new_outcomes(len(states))
    game.step(states, np.array(actions, np.int32)[:, None], outcomes)
    return outcomes


def test_number_of_positions_is_the_published_one() -> None:
    winners = [position.winner for position in POSITIONS if position.is_over]
    assert len(POSITIONS) == 5478
    assert [winners.count("X"), winners.count("O"), winners.count(None)] == [626, 316, 16]


def test_every_position_is_seen_as_the_twin_sees_it() -> None:
    game = TicTacToe()
    observations = game.new_observations(len(POSITIONS))
    game.observe(states_of(POSITIONS), observations)
    legal = unpack_legal(observations.legal[:, 0], 9)
    for row, position in enumerate(POSITIONS):
        assert np.flatnonzero(legal[row]).tolist() == position.moves()
        assert observations.observation[row, 0].reshape(2, 9).tolist() == position.planes()
        assert observations.seats[row, 0] == "XO".index(position.mover)


def test_every_move_leads_where_the_twin_says() -> None:
    moves = [(position, move) for position in POSITIONS for move in position.moves()]
    states = states_of([position for position, _ in moves])
    outcomes = step(states, [move for _, move in moves])
    after = [position.play(move) for position, move in moves]
    assert states.tobytes() == states_of(after).tobytes()
    assert outcomes.rewards.tolist() == [position.rewards() for position in after]
    assert outcomes.terminated.tolist() == [position.is_over for position in after]
    assert not outcomes.truncated.any()


def test_every_illegal_move_is_refused_and_changes_nothing() -> None:
    game, outcomes = TicTacToe(), TicTacToe().new_outcomes(1)
    for position in POSITIONS[::7]:
        state = states_of([position])
        before = state.tobytes()
        for move in set(range(-1, 10)) - set(position.moves()):
            with pytest.raises(IllegalActionError, match=f"tic_tac_toe: row 0: action {move} "):
                game.step(state, np.array([[move]], np.int32), outcomes)
        assert state.tobytes() == before


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("line", LINES)
def test_every_line_wins_whichever_mark_comes_last(line: str, seat: int) -> None:
    squares = ["abcdefghi".index(square) for square in line]
    for last in squares:
        states = states_of([Position("·" * 9)])
        states["board"][0, squares] = seat
        states["board"][0, last] = EMPTY
        states["num_moves"] = 4 + seat
        outcomes = step(states, [last])
        assert outcomes.rewards.tolist() == ([[1.0, -1.0]] if seat == 0 else [[-1.0, 1.0]])
        assert outcomes.terminated.tolist() == [True]


def test_last_mark_can_win() -> None:
    outcomes = step(states_of([Position("XOXOXOOX·")]), [8])
    assert outcomes.rewards.tolist() == [[1.0, -1.0]]
    assert outcomes.terminated.tolist() == [True]


def test_full_board_without_a_line_is_a_draw() -> None:
    outcomes = step(states_of([Position("XOXXOOOX·")]), [8])
    assert outcomes.rewards.tolist() == [[0.0, 0.0]]
    assert outcomes.terminated.tolist() == [True]


def test_reset_clears_the_chosen_boards_only() -> None:
    states = states_of([Position("XOXOXOXO·")] * 3)
    untouched = states[1].tobytes()
    TicTacToe().reset(states, np.array([0, 2]), np.zeros(2, np.uint64))
    empty = states_of([Position("·" * 9)]).tobytes()
    assert [states[row].tobytes() for row in range(3)] == [empty, untouched, empty]


def test_squares_are_named_by_column_and_row() -> None:
    game = TicTacToe()
    assert [game.action_name(action) for action in range(9)] == [
        "a1",
        "b1",
        "c1",
        "a2",
        "b2",
        "c2",
        "a3",
        "b3",
        "c3",
    ]


def test_board_text_shows_marks_and_names() -> None:
    state = states_of([Position("X··OX····")])[0]
    assert TicTacToe().board_text(state) == "1 X · ·\n2 O X ·\n3 · · ·\n  a b c"


def test_board_svg_shows_every_mark() -> None:
    picture = TicTacToe().board_svg(states_of([Position("X··OX····")])[0])
    assert (picture.count(">X<"), picture.count(">O<")) == (2, 1)
