"""Connect Four against a plain twin over thousands of moves, and on boards made by hand."""

import random

import numpy as np
import pytest

from senju.errors import IllegalActionError
from senju.games.connect_four import STATE, ConnectFour
from senju.games.connect_four_board import CELLS, COLUMNS, HEIGHT
from senju.games.game import Outcomes, States
from senju.kernels import unpack_legal
from tests.facts import mentions

Cell = tuple[int, int]  # column, height; both from 0, left and bottom

DIRECTIONS = {"across": (1, 0), "up": (0, 1), "rising": (1, 1), "falling": (1, -1)}
DRAWN_GAME = "245731244747335274131422653175515367126666"  # columns as people count them
WON_BY_THE_LAST_STONE = "651321276666621441177175445557574433223233"


class Twin:
    """The slow twin: a dictionary of cells, and lines looked for one by one."""

    def __init__(self) -> None:
        self.stones: dict[Cell, int] = {}
        self.winner: int | None = None

    @property
    def mover(self) -> int:
        return len(self.stones) % 2

    @property
    def is_over(self) -> bool:
        return self.winner is not None or len(self.stones) == CELLS

    def height(self, column: int) -> int:
        return sum((column, height) in self.stones for height in range(HEIGHT))

    def moves(self) -> list[int]:
        return [] if self.is_over else [c for c in range(COLUMNS) if self.height(c) < HEIGHT]

    def drop(self, column: int) -> None:
        seat = self.mover
        self.stones[column, self.height(column)] = seat
        if any(all(self.stones.get(cell) == seat for cell in line) for line in LINES):
            self.winner = seat

    def planes(self) -> list[list[list[int]]]:
        from_the_top = range(HEIGHT - 1, -1, -1)
        return [
            [[int(self.stones.get((c, h)) == seat) for c in range(COLUMNS)] for h in from_the_top]
            for seat in (self.mover, 1 - self.mover)
        ]

    def rewards(self) -> list[float]:
        return {None: [0.0, 0.0], 0: [1.0, -1.0], 1: [-1.0, 1.0]}[self.winner]


def all_lines() -> list[list[Cell]]:
    lines = [
        [(column + i * across, height + i * up) for i in range(4)]
        for column in range(COLUMNS)
        for height in range(HEIGHT)
        for across, up in DIRECTIONS.values()
    ]
    return [line for line in lines if all(0 <= c < COLUMNS and 0 <= h < HEIGHT for c, h in line)]


LINES = all_lines()


def state_of(own: list[Cell], others: list[Cell], mover: int) -> States:
    """One row; only the parity of the move count matters to the rules, so stones may be few."""
    states = np.zeros(1, STATE)
    for seat, cells in ((mover, own), (1 - mover, others)):
        for column, height in cells:
            states["stones"][0, seat] |= np.uint64(1 << (7 * column + height))
    states["num_moves"] = mover
    return states


def drop(states: States, column: int) -> Outcomes:
    game = ConnectFour()
    outcomes = game.new_outcomes(1)
    game.step(states, np.array([[column]], np.int32), outcomes)
    return outcomes


def play(columns: str) -> tuple[States, Outcomes]:
    """A game from its first move on; columns as people count them."""
    game = ConnectFour()
    states, outcomes = game.new_states(1), game.new_outcomes(1)
    game.reset(states, np.arange(1), np.zeros(1, np.uint64))
    for column in columns:
        game.step(states, np.array([[int(column) - 1]], np.int32), outcomes)
    return states, outcomes


def legal_columns(states: States) -> list[int]:
    game = ConnectFour()
    observations = game.new_observations(len(states))
    game.observe(states, observations)
    return np.flatnonzero(unpack_legal(observations.legal[0, 0], COLUMNS)).tolist()


def test_thousands_of_random_moves_agree_with_the_twin() -> None:
    game, chance, num_rows = ConnectFour(), random.Random(1), 64
    states = game.new_states(num_rows)
    game.reset(states, np.arange(num_rows), np.zeros(num_rows, np.uint64))
    observations, outcomes = game.new_observations(num_rows), game.new_outcomes(num_rows)
    twins = [Twin() for _ in range(num_rows)]
    for _ in range(120):
        game.observe(states, observations)
        legal = unpack_legal(observations.legal[:, 0], COLUMNS)
        for row, twin in enumerate(twins):
            assert np.flatnonzero(legal[row]).tolist() == twin.moves()
            assert observations.seats[row, 0] == twin.mover
            assert observations.observation[row, 0].tolist() == twin.planes()
        actions = [chance.choice(twin.moves()) for twin in twins]
        game.step(states, np.array(actions, np.int32)[:, None], outcomes)
        for twin, action in zip(twins, actions, strict=True):
            twin.drop(action)
        assert outcomes.rewards.tolist() == [twin.rewards() for twin in twins]
        assert outcomes.terminated.tolist() == [twin.is_over for twin in twins]
        assert not outcomes.truncated.any()
        ended = np.flatnonzero(outcomes.terminated)
        game.reset(states, ended, np.zeros(len(ended), np.uint64))
        for row in ended.tolist():
            twins[row] = Twin()


def test_positions_after_each_move_are_as_many_as_published() -> None:
    """Positions n moves from the start, games that ended included (OEIS A212693)."""
    game = ConnectFour()
    states, counts = game.new_states(1), [1]
    while len(counts) <= 8:
        observations = game.new_observations(len(states))
        game.observe(states, observations)
        rows, actions = np.nonzero(unpack_legal(observations.legal[:, 0], COLUMNS))
        children = states[rows]
        game.step(children, actions.astype(np.int32)[:, None], game.new_outcomes(len(children)))
        alike = children.view(np.dtype((np.void, STATE.itemsize)))
        states = children[np.unique(alike, return_index=True)[1]]
        counts.append(len(states))
    assert counts == [1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275]


def test_there_are_69_lines() -> None:
    assert len(LINES) == 69


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_line_wins_whichever_stone_comes_last(direction: str, seat: int) -> None:
    across, up = DIRECTIONS[direction]
    tried = 0
    for line in LINES:
        if (line[1][0] - line[0][0], line[1][1] - line[0][1]) != (across, up):
            continue
        for last in line[-1:] if direction == "up" else line:
            column, height = last
            own = [cell for cell in line if cell != last]
            below = [(column, h) for h in range(height) if (column, h) not in own]
            states = state_of(own, below, seat)
            outcomes = drop(states, column)
            assert outcomes.rewards[0].tolist() == ([1.0, -1.0] if seat == 0 else [-1.0, 1.0])
            assert outcomes.terminated.tolist() == [True]
            assert states["is_over"].tolist() == [True]
            tried += 1
    assert tried == {"across": 96, "up": 21, "rising": 48, "falling": 48}[direction]


def test_three_and_a_gap_do_not_win() -> None:
    for line in LINES:
        for missing in line:
            *own, (column, height) = [cell for cell in line if cell != missing]
            below = [(column, h) for h in range(height) if (column, h) not in own]
            outcomes = drop(state_of(own, below, 0), column)
            assert outcomes.rewards[0].tolist() == [0.0, 0.0]


def over_the_edge() -> list[tuple[list[Cell], Cell]]:
    """Four stones that follow each other in memory, or at sight of a torn board, but in no line."""
    cases: list[tuple[list[Cell], Cell]] = []
    for column in range(COLUMNS - 1):  # from the top of a column to the bottom of the next
        for above in (1, 2, 3):
            top = [(column, HEIGHT - 1 - i) for i in range(above)]
            bottom = [(column + 1, i) for i in range(4 - above)]
            cases.append((top + bottom[:-1], bottom[-1]))
    for height in range(HEIGHT - 1):  # from the right edge to the left edge, one row up, down or level
        for row in (height - 1, height, height + 1):
            left = [(i, row) for i in range(2)]
            if row >= 0:
                cases.append(([(5, height), (6, height), left[0]], left[1]))
    for start in range(COLUMNS - 3):  # diagonals that leave at the top and come in again at the bottom
        rising = [(start + i, (HEIGHT - 2 + i) % HEIGHT) for i in range(4)]
        falling = [(start + i, (1 - i) % HEIGHT) for i in range(4)]
        cases += [(rising[:-1], rising[-1]), (falling[:-1], falling[-1])]
    for height in range(HEIGHT - 3):  # diagonals that leave at the right and come in at the left
        rising = [((COLUMNS - 2 + i) % COLUMNS, height + i) for i in range(4)]
        falling = [((COLUMNS - 2 + i) % COLUMNS, height + 3 - i) for i in range(4)]
        cases += [(rising[:-1], rising[-1]), (falling[:-1], falling[-1])]
    return cases


def test_no_line_runs_over_an_edge() -> None:
    cases = over_the_edge()
    assert len(cases) == 46
    for seat in (0, 1):
        for own, (column, height) in cases:
            below = [(column, h) for h in range(height) if (column, h) not in own]
            outcomes = drop(state_of(own, below, seat), column)
            assert outcomes.rewards[0].tolist() == [0.0, 0.0], (own, column, height)
            assert outcomes.terminated.tolist() == [False]


def test_full_column_is_not_legal_and_is_refused() -> None:
    states, _ = play("444444")
    assert legal_columns(states) == [0, 1, 2, 4, 5, 6]
    before = states.tobytes()
    with pytest.raises(
        IllegalActionError, match=mentions("connect_four", "row 0", "action 3 (4)", "not legal")
    ):
        drop(states, 3)
    assert states.tobytes() == before


@pytest.mark.parametrize("column", [-1, 7, 64, 2**31 - 1, -(2**31)])
def test_column_off_the_board_is_refused(column: int) -> None:
    states, _ = play("4")
    with pytest.raises(IllegalActionError, match=f"action {column} \\(not an action\\)"):
        drop(states, column)


def test_one_bad_row_stops_all_rows() -> None:
    game = ConnectFour()
    states = np.concatenate([play("12")[0], play("444444")[0], play("12")[0]])
    before = states.tobytes()
    with pytest.raises(IllegalActionError, match="row 1: action 3"):
        game.step(states, np.full((3, 1), 3, np.int32), game.new_outcomes(3))
    assert states.tobytes() == before


def test_won_game_takes_no_more_stones() -> None:
    states, outcomes = play("1212121")
    assert outcomes.rewards.tolist() == [[1.0, -1.0]]
    assert legal_columns(states) == []
    with pytest.raises(IllegalActionError, match="connect_four: row 0: action"):
        drop(states, 5)


def test_full_board_without_a_line_is_a_draw() -> None:
    before, running = play(DRAWN_GAME[:-1])
    assert running.terminated.tolist() == [False]
    assert legal_columns(before) == [int(DRAWN_GAME[-1]) - 1]
    states, outcomes = play(DRAWN_GAME)
    assert outcomes.rewards.tolist() == [[0.0, 0.0]]
    assert outcomes.terminated.tolist() == [True]
    assert outcomes.truncated.tolist() == [False]
    assert legal_columns(states) == []


def test_very_last_stone_can_win() -> None:
    before, running = play(WON_BY_THE_LAST_STONE[:-1])
    assert running.terminated.tolist() == [False]
    assert before["num_moves"].tolist() == [CELLS - 1]
    _, outcomes = play(WON_BY_THE_LAST_STONE)
    assert outcomes.rewards.tolist() == [[-1.0, 1.0]]
    assert outcomes.terminated.tolist() == [True]


def test_columns_are_counted_from_one() -> None:
    game = ConnectFour()
    assert [game.action_name(action) for action in range(COLUMNS)] == list("1234567")
    assert game.parse_action(" 7 ") == 6
    with pytest.raises(IllegalActionError, match=r"'8'.*1, 2, 3, 4, 5, 6, 7"):
        game.parse_action("8")


def test_board_text_shows_stones_where_they_lie() -> None:
    states, _ = play("44534")
    assert ConnectFour().board_text(states[0]).splitlines() == [
        "· · · · · · ·",
        "· · · · · · ·",
        "· · · · · · ·",
        "· · · X · · ·",
        "· · · O · · ·",
        "· · O X X · ·",
        "1 2 3 4 5 6 7",
    ]


def test_board_svg_draws_a_disc_for_each_stone() -> None:
    states, _ = play("44534")
    picture = ConnectFour().board_svg(states[0])
    assert (picture.count('fill="#d64541"'), picture.count('fill="#f4c430"')) == (3, 2)
