"""Senju and cshogi play the same games, and agree on every legal move, check, mate and declaration."""

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import KING, KNIGHT, NUM_ACTIONS, PAWN, START_SFEN, Ending
from senju.games.shogi.pieces import attackers, in_view, king_square, side_of
from senju.kernels import unpack_legal
from tests.games.shogi.lockstep import Lockstep
from tests.games.shogi.sparse import cornered_king, entered_king, open_position

LONG_TESTS = "SENJU_LONG_TESTS"  # set it to 1 for the tests that take minutes
PAWN_DROP = 20 * 81
RANKS = np.arange(81) % 9
NEEDED = {"27": np.array([28, 27]), "24": np.array([31, 31])}  # points, by side
LIMITS_OF_DECLARATION = (
    *("exactly the points", "one point short", "exactly ten pieces", "nine pieces"),
    *("king outside", "in check"),
)

Seen = Counter[str]


def play_random_games(num_games: int, seed: int, rows: int = 500) -> Seen:
    """Whole games from the start position, compared at every ply."""
    chance, seen, game = np.random.default_rng(seed), Counter[str](), Shogi()
    for first in range(0, num_games, rows):
        num_rows = min(rows, num_games - first)
        pair = Lockstep(game, [START_SFEN] * num_rows)
        while len(pair):
            compare_and_count(pair, seen)
            if pair.states["ply"][0] % 16 == 0:
                pair.compare_text(int(chance.integers(len(pair))))
            pair.keep(pair.can_go_on())
            if len(pair):
                pair.play(pair.at_random(chance))
        seen["games"] += num_rows
    return seen


def compare_and_count(pair: Lockstep, seen: Seen) -> None:
    pair.compare()
    seen["positions"] += len(pair)
    seen["moves"] += len(pair.moves)
    is_check, is_stuck = pair.states["is_check"] == 1, pair.counts == 0
    seen["checks"] += int(np.count_nonzero(is_check))
    seen["mates"] += int(np.count_nonzero(is_stuck & is_check))
    seen["stalemates"] += int(np.count_nonzero(is_stuck & ~is_check))


def seen_by_mover(pair: Lockstep) -> NDArray[np.uint8]:
    """All boards in the mover's view: its own pieces below 16, the other's from 17 on."""
    boards, is_white = pair.states["board"], pair.states["side"] == 1
    turned = np.where(boards == 0, 0, boards ^ 16)[:, ::-1]
    return np.where(is_white[:, None], turned, boards)


def count_pawn_drops(pair: Lockstep, seen: Seen) -> None:
    """Pawns dropped in front of the other's king: which mate and are refused, which only give check."""
    boards, legal = seen_by_mover(pair), unpack_legal(pair.states["legal"], NUM_ACTIONS)
    sides = pair.states["side"]
    in_front = (boards == (KING | 16)).argmax(axis=1) + 1
    own_pawns = (boards == PAWN).reshape(-1, 9, 9).any(axis=2)
    for row in np.flatnonzero(
        (pair.states["hands"][np.arange(len(pair)), sides, 0] > 0) & (in_front % 9 != 0)
    ).tolist():
        square, side = int(in_front[row]), int(sides[row])
        if boards[row, square] or own_pawns[row, square // 9] or pair.states["is_check"][row]:
            continue
        if legal[row, PAWN_DROP + square]:
            seen["checks by a dropped pawn"] += 1
            continue
        seen["mates by a dropped pawn, refused"] += 1
        board = pair.states["board"][row]
        takers = attackers(board, in_view(square, side), 1 - side)
        if takers != [king_square(board, 1 - side)] and takers:
            seen["such mates where a pinned piece could take the pawn"] += 1


def count_declarations(pair: Lockstep, seen: Seen) -> None:
    """How near each row is to a declaration, by a count of points of its own."""
    boards, sides = seen_by_mover(pair), pair.states["side"]
    in_camp = (boards != 0) & (boards < 16) & (boards != KING) & (RANKS < 3)
    hands = pair.states["hands"][np.arange(len(pair)), sides].astype(np.int64)
    is_big = np.isin(boards, [6, 7, 13, 14])
    pieces = in_camp.sum(axis=1)
    points = pieces + 4 * (in_camp & is_big).sum(axis=1) + hands.sum(axis=1) + 4 * hands[:, 5:].sum(axis=1)
    has_entered = ((boards == KING) & (RANKS < 3)).any(axis=1)
    is_check = pair.states["is_check"] == 1
    missing = NEEDED[pair.game.config.declaration][sides] - points  # type: ignore[attr-defined]
    expected = has_entered & ~is_check & (pieces >= 10) & (missing <= 0)
    assert np.array_equal(pair.states["ending"] == Ending.DECLARATION, expected)
    for side, name in enumerate(("Black", "White")):
        here = sides == side
        enough = here & (missing <= 0)
        cases = (
            expected & (missing == 0),
            has_entered & ~is_check & (pieces >= 10) & (missing == 1),
            expected & (pieces == 10),
            has_entered & ~is_check & (pieces == 9) & enough,
            ~has_entered & ~is_check & (pieces >= 10) & enough,
            has_entered & is_check & (pieces >= 10) & enough,
        )
        for case, rows in zip(LIMITS_OF_DECLARATION, cases, strict=True):
            seen[f"{name}: {case}"] += int(np.count_nonzero(rows & here))


def count_pins(pair: Lockstep, seen: Seen) -> None:
    """Pinned pieces, found by removing each piece, and double checks; at game starts only: it is slow."""
    for row in np.flatnonzero(pair.states["ply"] == 0).tolist():
        board, side = pair.states["board"][row].copy(), int(pair.states["side"][row])
        king = king_square(board, side)
        num_checkers = len(attackers(board, king, 1 - side))
        assert (num_checkers > 0) == pair.states["is_check"][row]
        if num_checkers:
            seen["double checks"] += num_checkers > 1
            continue
        for square in np.flatnonzero((board != 0) & (board & 15 != KING)).tolist():
            code = int(board[square])
            board[square] = 0
            if side_of(code) == side and attackers(board, king, 1 - side):
                seen["pinned pieces"] += 1
                seen["pinned knights"] += (code & 15) == KNIGHT
            board[square] = code


def play_from(
    make: Callable[[random.Random], str],
    num_games: int,
    num_plies: int,
    declaration: Literal["27", "24"] = "27",
    count: Callable[[Lockstep, Seen], None] = count_declarations,
) -> Seen:
    """Short games from positions made at random, compared and counted at every ply."""
    chance, seen = random.Random(num_games), Counter[str]()
    draw = np.random.default_rng(num_games)
    game = Shogi(ShogiConfig(max_plies=num_plies, declaration=declaration))
    pair = Lockstep(game, [make(chance) for _ in range(num_games)])
    while len(pair):
        compare_and_count(pair, seen)
        count(pair, seen)
        pair.keep(pair.can_go_on())
        if len(pair):
            pair.play(pair.at_random(draw))
    return seen


def expect_at_least(seen: Seen, numbers: dict[str, int]) -> None:
    """A comparison that never met what it is for proves nothing."""
    for what, number in numbers.items():
        assert seen[what] >= number, f"{what}: {seen[what]} of {number}; all that was seen: {dict(seen)}"


def test_a_few_games_of_each_sort_agree() -> None:
    expect_at_least(play_random_games(30, seed=0), {"games": 30, "checks": 100, "mates": 5})
    for make in (open_position, cornered_king, entered_king):
        expect_at_least(play_from(make, 150, 6), {"positions": 900, "checks": 20})


@pytest.mark.slow
def test_positions_with_few_pieces_agree() -> None:
    expect_at_least(
        play_from(open_position, 2000, 12, count=count_pins),
        {"checks": 1000, "double checks": 40, "pinned pieces": 200, "pinned knights": 5},
    )


@pytest.mark.slow
def test_mates_by_a_dropped_pawn_agree() -> None:
    expect_at_least(
        play_from(cornered_king, 3000, 8, count=count_pawn_drops),
        {
            "checks by a dropped pawn": 1000,
            "mates by a dropped pawn, refused": 100,
            "such mates where a pinned piece could take the pawn": 10,
            "mates": 50,
            "stalemates": 20,
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("declaration", ["27", "24"])
def test_declarations_agree_at_their_limits(declaration: Literal["27", "24"]) -> None:
    seen = play_from(entered_king, 2000, 6, declaration)
    cases = [f"{side}: {case}" for side in ("Black", "White") for case in LIMITS_OF_DECLARATION]
    expect_at_least(seen, dict.fromkeys(cases, 4))


@pytest.mark.slow
def test_a_thousand_random_games_agree_at_every_ply() -> None:
    seen = play_random_games(1_000, seed=1)
    expect_at_least(
        seen, {"games": 1_000, "positions": 250_000, "moves": 10_000_000, "checks": 5_000, "mates": 250}
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.environ.get(LONG_TESTS) != "1", reason=f"takes minutes; set {LONG_TESTS}=1")
def test_fifty_thousand_random_games_agree_at_every_ply() -> None:
    expect_at_least(play_random_games(50_000, seed=2), {"games": 50_000, "mates": 15_000})
    makers = {open_position: 20_000, cornered_king: 20_000, entered_king: 20_000}
    for make, num_games in makers.items():
        expect_at_least(play_from(make, num_games, 16), {"positions": 200_000})
