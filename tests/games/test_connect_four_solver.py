"""The solver against plain search without bitboards, against boards judged by hand, and against itself."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.errors import IllegalPositionError
from senju.games.connect_four import STATE
from senju.games.connect_four_board import CELLS, COLUMNS, HEIGHT
from senju.games.connect_four_solver import ILLEGAL, MIN_STONES, Solver
from senju.games.game import States

Board = tuple[str, ...]  # a string of X and O for each column, from the bottom


def state_of(board: Board) -> np.void:
    state: np.void = np.zeros(1, STATE)[0]
    for column, stones in enumerate(board):
        for height, stone in enumerate(stones):
            state["stones"]["XO".index(stone)] |= np.uint64(1 << (7 * column + height))
    state["num_moves"] = sum(map(len, board))
    return state


def states_of(boards: list[Board]) -> States:
    return np.array([state_of(board) for board in boards], STATE)


def picture(*lines: str) -> Board:
    """A board from its lines, the top one first, `.` for an empty cell."""
    columns = zip(*(line.split() for line in reversed(lines)), strict=True)
    return tuple("".join(column).rstrip(".") for column in columns)


def completes_four(board: Board, column: int) -> bool:
    """Whether the uppermost stone of a column stands in a line of four."""

    def stone(c: int, h: int) -> str:
        return board[c][h] if 0 <= c < COLUMNS and 0 <= h < len(board[c]) else "."

    height = len(board[column]) - 1
    for across, up in ((1, 0), (0, 1), (1, 1), (1, -1)):
        line = "".join(stone(column + i * across, height + i * up) for i in range(-3, 4))
        if board[column][height] * 4 in line:
            return True
    return False


def drop(board: Board, column: int) -> Board:
    stone = "XO"[sum(map(len, board)) % 2]
    return (*board[:column], board[column] + stone, *board[column + 1 :])


def plain_value_of_move(board: Board, column: int, memory: dict[Board, int]) -> int:
    after = drop(board, column)
    return 1 if completes_four(after, column) else -plain_value(after, memory)


def plain_value(board: Board, memory: dict[Board, int]) -> int:
    """What the mover gets, by trying everything."""
    if board not in memory:
        best = 0 if sum(map(len, board)) == CELLS else -1
        for column in range(COLUMNS):
            if best < 1 and len(board[column]) < HEIGHT:
                best = max(best, plain_value_of_move(board, column, memory))
        memory[board] = best
    return memory[board]


def plain_move_values(board: Board) -> list[int]:
    memory: dict[Board, int] = {}
    return [
        plain_value_of_move(board, column, memory) if len(board[column]) < HEIGHT else ILLEGAL
        for column in range(COLUMNS)
    ]


def random_board(num_stones: int, chance: random.Random) -> Board:
    """A position of an unfinished game, reached by random moves."""
    board: Board = ("",) * COLUMNS
    while sum(map(len, board)) < num_stones:
        column = chance.choice([c for c in range(COLUMNS) if len(board[c]) < HEIGHT])
        board = drop(board, column)
        if completes_four(board, column):
            board = ("",) * COLUMNS
    return board


def random_boards(num_boards: int, fewest_stones: int, seed: int) -> list[Board]:
    chance = random.Random(seed)
    return [
        random_board(chance.randint(fewest_stones, fewest_stones + 10), chance) for _ in range(num_boards)
    ]


THREE_IN_A_ROW = picture(
    "X O O . X X O",
    "O O X . X O O",
    "X X X . O O X",
)
MUST_BLOCK = picture(
    "X . . . O . X",
    "X O O . X X O",
    "O O X . X O O",
    "X X X . O O X",
)
OPEN_TWO = picture(
    "X . . . . . O",
    "O . O X . . X",
    "X . O O . . X",
    "O . X X . . O",
)
LAST_COLUMN_IS_LOST = picture(
    ". O O O X O X",
    ". X O X X X O",
    "X X O X O X O",
    "X O X X O O O",
    "O O X O X O X",
    "X X O O X X O",
)
LAST_COLUMN_IS_DRAWN = picture(
    "O O O X X . X",
    "O O X O X . X",
    "X O X X O O O",
    "X X O O X X X",
    "O X O X O O X",
    "X X O O X O O",
)
NO_SAFE_WAITING_MOVE = picture(
    "X O O X X . .",
    "O X O O X O .",
    "O X X X O O .",
    "X X O O X X O",
    "O O X O X X X",
    "O O X O X X O",
)
ONE_MOVE_DRAWS = picture(
    "X . O . O X O",
    "O X X . O O X",
    "X X O . X X O",
    "X O X X O O X",
    "O X O O X O O",
    "O X X O X O X",
)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver()


def move_values(solver: Solver, state: np.void) -> NDArray[np.int8]:
    values: NDArray[np.int8] = solver.values(np.array([state], STATE))[0]
    return values


@pytest.mark.slow
def test_values_agree_with_plain_search(solver: Solver) -> None:
    early = random_boards(200, fewest_stones=26, seed=1)
    late = random_boards(30, fewest_stones=31, seed=2)
    for board in early + late:
        assert move_values(solver, state_of(board)).tolist() == plain_move_values(board), board


def test_completing_four_wins(solver: Solver) -> None:
    assert move_values(solver, state_of(THREE_IN_A_ROW))[3] == 1


def test_every_move_but_the_block_loses(solver: Solver) -> None:
    assert move_values(solver, state_of(MUST_BLOCK)).tolist() == [-1, -1, -1, 1, -1, -1, -1]


def test_making_two_threats_at_once_wins(solver: Solver) -> None:
    assert move_values(solver, state_of(OPEN_TWO))[4] == 1


def test_two_threats_at_once_cannot_be_met(solver: Solver) -> None:
    assert move_values(solver, state_of(drop(OPEN_TWO, 4))).tolist() == [-1] * COLUMNS


@pytest.mark.parametrize(
    ("board", "open_columns"),
    [
        (LAST_COLUMN_IS_LOST, {0: -1}),  # the mover must play below the other's threat
        (LAST_COLUMN_IS_DRAWN, {5: 0}),
        (NO_SAFE_WAITING_MOVE, {5: -1, 6: -1}),  # nothing to block yet, but every order of moves loses
        (ONE_MOVE_DRAWS, {1: 0, 3: -1}),
    ],
)
def test_the_last_cells_are_played_to_the_end(
    solver: Solver, board: Board, open_columns: dict[int, int]
) -> None:
    expected = [open_columns.get(column, ILLEGAL) for column in range(COLUMNS)]
    assert move_values(solver, state_of(board)).tolist() == expected


def test_full_columns_are_illegal_and_no_others(solver: Solver) -> None:
    boards = random_boards(200, fewest_stones=20, seed=3)
    is_full = np.array([[len(stones) == HEIGHT for stones in board] for board in boards])
    values = solver.values(states_of(boards))
    assert np.array_equal(values == ILLEGAL, is_full)
    assert np.isin(values[~is_full], (-1, 0, 1)).all()


def test_best_value_is_what_the_best_move_leaves_the_other(solver: Solver) -> None:
    chance = random.Random(4)
    for num_stones in [MIN_STONES, MIN_STONES + 1, 17, 20] * 3:
        board = random_board(num_stones, chance)
        values = move_values(solver, state_of(board))
        for column in np.flatnonzero(values != ILLEGAL):
            after = drop(board, int(column))
            if not completes_four(after, int(column)):
                assert values[column] == -move_values(solver, state_of(after)).max()


def test_mirrored_boards_have_mirrored_values() -> None:
    boards = random_boards(100, fewest_stones=18, seed=5)
    mirrored = [board[::-1] for board in boards]
    values = Solver().values(states_of(boards))
    assert np.array_equal(Solver().values(states_of(mirrored)), values[:, ::-1])


def test_batch_equals_one_by_one(solver: Solver) -> None:
    states = states_of(random_boards(100, fewest_stones=18, seed=6))
    values = Solver().values(states)
    assert values.dtype == np.int8
    assert np.array_equal(values, [move_values(solver, state) for state in states])


def test_batch_takes_strided_and_read_only_states(solver: Solver) -> None:
    states = states_of(random_boards(20, fewest_stones=20, seed=7))
    values = solver.values(states)
    states.flags.writeable = False
    assert np.array_equal(solver.values(states[::2]), values[::2])


def test_empty_batch_has_no_values(solver: Solver) -> None:
    assert solver.values(np.zeros(0, STATE)).shape == (0, COLUMNS)


def test_used_table_gives_the_answers_of_a_fresh_one() -> None:
    states = states_of(random_boards(60, fewest_stones=16, seed=8))
    used = Solver()
    first = used.values(states)
    assert np.array_equal(used.values(states[::-1]), first[::-1])
    assert np.array_equal(first, [move_values(Solver(), state) for state in states])


@pytest.mark.parametrize("table_entries", [1, 2, 1000])
def test_table_that_is_too_small_gives_right_answers(solver: Solver, table_entries: int) -> None:
    states = states_of(random_boards(60, fewest_stones=22, seed=9))
    small = Solver()
    small._table = np.zeros(table_entries, np.uint64)
    assert np.array_equal(small.values(states), solver.values(states))


def test_too_few_stones_are_refused_by_row_and_number(solver: Solver) -> None:
    chance = random.Random(10)
    boards = [random_board(MIN_STONES, chance), random_board(MIN_STONES - 1, chance)]
    with pytest.raises(IllegalPositionError, match=r"row 1: .*14 stones.*13"):
        solver.values(states_of(boards))


def finished_but_not_marked() -> np.void:
    return state_of(drop(THREE_IN_A_ROW, 3))


def marked_as_finished() -> np.void:
    state = finished_but_not_marked()
    state["is_over"] = True
    return state


def full_board() -> np.void:
    return state_of(drop(drop(LAST_COLUMN_IS_DRAWN, 5), 5))


@pytest.mark.parametrize("finished", [finished_but_not_marked, marked_as_finished, full_board])
def test_finished_games_are_refused(solver: Solver, finished: Callable[[], np.void]) -> None:
    with pytest.raises(IllegalPositionError, match=r"row 0: .*ended after"):
        move_values(solver, finished())


@pytest.mark.parametrize(
    "stones",
    [
        [0b1, 0b1],  # both in one cell
        [0b10, 0],  # in the air
        [1 << 6, 0],  # above the top of its column
        [0, 0b1],  # seat 1 out of turn
    ],
)
def test_impossible_boards_are_refused(solver: Solver, stones: list[int]) -> None:
    state = np.zeros(1, STATE)[0]
    state["stones"], state["num_moves"] = stones, sum(word.bit_count() for word in stones)
    with pytest.raises(IllegalPositionError, match="row 0: expected stones"):
        move_values(solver, state)


def test_wrong_move_count_is_refused(solver: Solver) -> None:
    state = state_of(THREE_IN_A_ROW)
    state["num_moves"] += 2
    with pytest.raises(IllegalPositionError, match="row 0: expected stones"):
        move_values(solver, state)
