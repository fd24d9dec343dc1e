"""A Connect Four solver: the exact result of each move, for positions of 14 stones or more.

The search answers the question "can this seat force a win?"; if neither seat can, the position is a
draw. Proven answers go into a transposition table, which is kept between calls.

Bits are those of `connect_four`; heights count from 0, and seat 0 moves first. A threat of a seat is
an empty cell where its stone would complete four.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from senju.errors import IllegalPositionError
from senju.games.connect_four_board import CELLS, COLUMNS, has_four
from senju.games.game import ILLEGAL, States
from senju.kernels import ONE, ZERO, compiled, popcount

MIN_STONES: Final = 14

# 1 MiB: a larger table saves few nodes and costs more in cache misses than it saves; below 2**32, since an
# entry is found by a product of two 32-bit numbers
TABLE_ENTRIES: Final = 2**17

_WIN, _DRAW, _LOSS = 1, 0, -1
_NO, _YES, _OPEN = 0, 1, 2  # a node's answer
_NO_WINNER = -1

_BOTTOM = np.uint64(sum(1 << (7 * column) for column in range(COLUMNS)))
_BOARD = np.uint64(int(_BOTTOM) * 0b111111)
_LOWER_OF_PAIR = np.uint64(int(_BOTTOM) * 0b010101)  # heights 0, 2, 4
_UPPER_OF_PAIR = np.uint64(int(_BOTTOM) * 0b101010)  # heights 1, 3, 5
_COLUMN = tuple(np.uint64(0b111111 << (7 * column)) for column in range(COLUMNS))
_FROM_CENTRE = tuple(_COLUMN[column] for column in (3, 2, 4, 1, 5, 0, 6))

_TWO, _THREE = np.uint64(2), np.uint64(3)
# steps to the next cell of a line
_UP, _RIGHT, _DOWN_RIGHT, _UP_RIGHT = np.uint64(1), np.uint64(7), np.uint64(6), np.uint64(8)

# a table entry is a position's key above three bits, one for each outcome not yet ruled out
_OUTCOME_BITS = np.uint64(3)
_OUTCOMES = np.uint64(0b111)
_SEAT_WINS = (np.uint64(0b001), np.uint64(0b100))  # the middle bit is the draw
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio (Fibonacci hashing)
_FULL_BUT_TWO = np.uint64(CELLS - 2)
_32 = np.uint64(32)
_SCORE_SHIFT = np.uint64(56)  # a move's score stands above its cell, in one word


@compiled
def _completions(stones: np.uint64, step: np.uint64) -> Any:
    """The cells that complete four in one direction, at any position of the line."""
    two, three = step * _TWO, step * _THREE
    after_pair = (stones << step) & (stones << two)
    before_pair = (stones >> step) & (stones >> two)
    return (after_pair & ((stones << three) | (stones >> step))) | (
        before_pair & ((stones >> three) | (stones << step))
    )


@compiled
def _threats(stones: np.uint64, filled: np.uint64) -> Any:
    """The threats of the seat that has these stones."""
    upwards = (stones << _UP) & (stones << _TWO) & (stones << _THREE)
    sideways = _completions(stones, _RIGHT)
    sloping = _completions(stones, _DOWN_RIGHT) | _completions(stones, _UP_RIGHT)
    return (upwards | sideways | sloping) & (_BOARD ^ filled)


@compiled
def _playable(filled: np.uint64) -> Any:
    """The lowest empty cell of each column."""
    return (filled + _BOTTOM) & _BOARD


@compiled
def _safe_moves(mover: np.uint64, filled: np.uint64) -> Any:
    """The moves after which the other seat cannot complete four at once."""
    moves, threats = _playable(filled), _threats(mover ^ filled, filled)
    forced = moves & threats
    if forced != ZERO:
        if forced & (forced - ONE) != ZERO:
            return ZERO
        moves = forced
    return moves & ~(threats >> _UP)


@compiled
def _answer_by_pairing(seat: int, stones_0: np.uint64, stones_1: np.uint64) -> int:
    """Answer the question without search, if pairing the cells decides it.

    Seat 1 can always answer on top of seat 0's stone, so it gets the upper cell of every untouched
    pair (Allis 1988, claimeven). The number of columns in which only the lower cell of a pair is
    taken is even when seat 0 is to move; seat 1 answers a stone in one of these columns with a stone
    in another. Either seat may get the upper cells of these columns.
    """
    empty = _BOARD ^ (stones_0 | stones_1)
    disputed = _playable(stones_0 | stones_1) & _UPPER_OF_PAIR
    if not has_four(stones_0 | (empty & _LOWER_OF_PAIR) | disputed):
        if seat == 0:
            return _NO
        if has_four(stones_1 | ((empty & _UPPER_OF_PAIR) ^ disputed)):
            return _YES
    if seat == 1 and not has_four(stones_1 | empty):
        return _NO
    return _OPEN


@compiled
def _slot(key: np.uint64, num_entries: int) -> Any:
    return (((key * _SPREAD) >> _32) * np.uint64(num_entries)) >> _32


@compiled
def _possible_outcomes(table: NDArray[np.uint64], key: np.uint64) -> Any:
    """The outcomes of a position that the table does not rule out."""
    entry = table[_slot(key, table.shape[0])]
    return entry & _OUTCOMES if entry >> _OUTCOME_BITS == key else _OUTCOMES


@compiled
def _remember(table: NDArray[np.uint64], key: np.uint64, seat: int, verdict: int) -> None:
    """Store a proven answer; it replaces the old entry."""
    outcomes = _SEAT_WINS[seat]
    if verdict == _NO:
        outcomes = _possible_outcomes(table, key) & ~outcomes
    table[_slot(key, table.shape[0])] = (key << _OUTCOME_BITS) | outcomes


@compiled
def _verdict(
    seat: int, to_move: int, mover: np.uint64, filled: np.uint64, moves: np.uint64, table: NDArray[np.uint64]
) -> int:
    """The answer as far as it is known without trying a move."""
    if moves == ZERO:
        return _NO if to_move == seat else _YES
    if popcount(filled) >= _FULL_BUT_TWO:
        return _NO  # neither of the last two stones completes four
    stones_0 = mover if to_move == 0 else mover ^ filled
    verdict = _answer_by_pairing(seat, stones_0, stones_0 ^ filled)
    if verdict != _OPEN:
        return verdict
    outcomes = _possible_outcomes(table, mover + filled)
    if outcomes & _SEAT_WINS[seat] == ZERO:
        return _NO
    return _YES if outcomes == _SEAT_WINS[seat] else _OPEN


@compiled
def _sort_moves(mover: np.uint64, filled: np.uint64, moves: np.uint64, line: NDArray[np.uint64]) -> int:
    """Write the moves, best last: by the threats they create, then by closeness to the centre."""
    count = 0
    for column in _FROM_CENTRE:
        move = moves & column
        if move == ZERO:
            continue
        score = popcount(_threats(mover | move, filled))
        index = count
        while index > 0 and line[index - 1] >> _SCORE_SHIFT >= score:
            line[index] = line[index - 1]
            index -= 1
        line[index] = (score << _SCORE_SHIFT) | move
        count += 1
    return count


@compiled
def _can_win(seat: int, mover: np.uint64, filled: np.uint64, table: NDArray[np.uint64]) -> bool:
    """Whether a seat can force a win; the mover must not be able to complete four at once.

    Depth first, with an explicit stack, since recursion can defeat Numba's disk cache. A node ends
    with the first answer its mover wants, or else with the answer of its last move.
    """
    lines = np.empty((CELLS, COLUMNS), np.uint64)  # [ply, move]
    num_untried = np.zeros(CELLS, np.int64)
    movers, boards = np.empty(CELLS, np.uint64), np.empty(CELLS, np.uint64)
    ply, to_move = 0, int(popcount(filled)) & 1
    while True:
        moves = _safe_moves(mover, filled)
        verdict = _verdict(seat, to_move, mover, filled, moves, table)
        if verdict == _OPEN:
            movers[ply], boards[ply] = mover, filled
            num_untried[ply] = _sort_moves(mover, filled, moves, lines[ply])
        else:
            while True:
                if ply == 0:
                    return verdict == _YES
                ply, to_move = ply - 1, 1 - to_move
                wanted = _YES if to_move == seat else _NO
                if verdict != wanted and num_untried[ply] > 0:
                    break
                _remember(table, movers[ply] + boards[ply], seat, verdict)
        num_untried[ply] -= 1
        move = lines[ply, num_untried[ply]] & _BOARD
        mover, filled = movers[ply] ^ boards[ply], boards[ply] | move
        ply, to_move = ply + 1, 1 - to_move


@compiled
def _winner(mover: np.uint64, filled: np.uint64, table: NDArray[np.uint64]) -> int:
    """The seat that wins with perfect play."""
    if filled == _BOARD:
        return _NO_WINNER
    to_move = int(popcount(filled)) & 1
    if _threats(mover, filled) & _playable(filled) != ZERO:
        return to_move
    for seat in range(2):
        if _can_win(seat, mover, filled, table):
            return seat
    return _NO_WINNER


@compiled
def _move_value(mover: np.uint64, filled: np.uint64, move: np.uint64, table: NDArray[np.uint64]) -> int:
    if move == ZERO:
        return ILLEGAL
    if move & _threats(mover, filled) != ZERO:
        return _WIN
    winner = _winner(mover ^ filled, filled | move, table)
    if winner == _NO_WINNER:
        return _DRAW
    return _WIN if winner == int(popcount(filled)) & 1 else _LOSS


@compiled
def _write_values(
    movers: NDArray[np.uint64],
    boards: NDArray[np.uint64],
    table: NDArray[np.uint64],
    values: NDArray[np.int8],  # [row, column]
) -> None:
    for row in range(movers.shape[0]):
        mover, filled = movers[row], boards[row]
        moves = _playable(filled)
        for column in range(COLUMNS):
            values[row, column] = _move_value(mover, filled, moves & _COLUMN[column], table)


@compiled
def _mark_finished(movers: NDArray[np.uint64], boards: NDArray[np.uint64], marks: NDArray[np.bool_]) -> None:
    for row in range(movers.shape[0]):
        mover, filled = movers[row], boards[row]
        marks[row] |= filled == _BOARD or has_four(mover) or has_four(mover ^ filled)


class Solver:
    """Computes the result of every move with perfect play; the table is kept between calls.

    >>> from senju.games import make_game
    >>> states = make_game("connect_four").new_states(1)
    >>> states["stones"], states["num_moves"] = (0x802A14100, 0x1005408280), 14
    >>> Solver().values(states)
    array([[-1,  0,  1, -2,  1,  1, -1]], dtype=int8)
    """

    def __init__(self) -> None:
        self._table = np.zeros(TABLE_ENTRIES, np.uint64)

    def can_solve(self, states: States) -> NDArray[np.bool_]:
        """Which rows have enough stones."""
        return np.asarray(states["num_moves"] >= MIN_STONES)

    def values(self, states: States) -> NDArray[np.int8]:
        """[row, column]: the mover's result, 1, 0 or -1, or `ILLEGAL` if the column is full.

        Raises IllegalPositionError if a game is over or has fewer than `MIN_STONES` stones.
        """
        stones = states["stones"]
        boards = stones[:, 0] | stones[:, 1]
        movers = np.where(states["num_moves"] & 1, stones[:, 1], stones[:, 0])
        _refuse_bad_rows(states, movers, boards)
        values = np.empty((len(states), COLUMNS), np.int8)
        _write_values(movers, boards, self._table, values)
        return values


def _refuse_bad_rows(states: States, movers: NDArray[np.uint64], boards: NDArray[np.uint64]) -> None:
    """Raise for the first row that cannot be solved; an impossible one would also spoil the table."""
    num_moves = states["num_moves"].astype(np.int64)
    num_stones = np.bitwise_count(states["stones"]).astype(np.int64)  # [row, seat]
    impossible = (num_stones[:, 0] != (num_moves + 1) // 2) | (num_stones[:, 1] != num_moves // 2)
    impossible |= np.bitwise_count(boards) != num_moves  # two stones in one cell
    impossible |= (boards & ~_BOARD != ZERO) | (boards & (boards + _BOTTOM) != ZERO)  # or in the air
    finished = states["is_over"].copy()
    _mark_finished(movers, boards, finished)
    for bad, problem in (
        (impossible, "expected stones without gaps, placed in turn; got {state}"),
        (num_moves < MIN_STONES, f"expected {MIN_STONES} stones or more; got {{num_moves}}"),
        (finished, "expected a running game; this one ended after {num_moves} moves"),
    ):
        if bad.any():
            row = int(bad.argmax())
            what = problem.format(state=states[row], num_moves=num_moves[row])
            raise IllegalPositionError(f"Connect Four solver: row {row}: {what}")
