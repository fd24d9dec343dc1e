"""Counts of all lines of play agree with the published numbers."""

from collections.abc import Callable

import pytest

from senju.games.shogi.layout import START_SFEN
from senju.games.shogi.position import Position
from tests.games.shogi.flips import flip_sfen

# from the middle of a game; from a problem that has the most moves of all positions
MIDDLE_GAME = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w GR5pnsg 1"
MOST_MOVES = "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1"
COUNTS = {
    "start": (START_SFEN, [30, 900, 25_470, 719_731, 19_861_490]),
    "middle game": (MIDDLE_GAME, [207, 28_684, 4_809_015]),
    "most moves": (MOST_MOVES, [593]),
}
COLOURS = {"as given": str, "flipped": flip_sfen}


def perft(sfen: str, depth: int) -> int:
    return Position(sfen).perft(depth)


def perft_by_positions(position: Position, depth: int) -> int:
    """The same in Python, move by move as people play them."""
    actions = position.legal_actions()
    if depth == 1:
        return len(actions)
    total = 0
    for action in actions:
        after = position.copy()
        after.push(action)
        total += perft_by_positions(after, depth - 1)
    return total


@pytest.mark.parametrize("flip", COLOURS.values(), ids=COLOURS)
@pytest.mark.parametrize("name", COUNTS)
def test_lines_of_play_are_as_many_as_published(name: str, flip: Callable[[str], str]) -> None:
    sfen, counts = COUNTS[name]
    assert [perft(flip(sfen), depth) for depth in range(1, len(counts) + 1)] == counts


@pytest.mark.parametrize("sfen", [START_SFEN, MIDDLE_GAME], ids=["start", "middle game"])
def test_the_count_and_positions_agree(sfen: str) -> None:
    position = Position(sfen, max_plies=3)
    assert perft_by_positions(position, 2) == perft(sfen, 2)
