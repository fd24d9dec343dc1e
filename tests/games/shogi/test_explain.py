"""Actions in words, and the reason why one is not legal: for each rule, in both colours."""

import cshogi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.errors import IllegalActionError
from senju.games.shogi.explain import (
    Explanation,
    describe_action,
    ending_text,
    explain,
    fault_of_action,
)
from senju.games.shogi.layout import NUM_ACTIONS, Ending
from senju.games.shogi.notation import NotationError, action_of_usi, usi_of_action
from senju.games.shogi.position import Position
from senju.kernels import unpack_legal
from tests.facts import Facts, assert_mentions, mentions
from tests.games.shogi.games import random_game


def test_every_action_has_a_name_of_its_own() -> None:
    assert len({describe_action(action) for action in range(NUM_ACTIONS)}) == NUM_ACTIONS


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (0, "up to 1a"),
        (59, "up to 7f"),
        (81 + 20, "up-left to 3c"),
        (8 * 81 + 20, "knight's jump left to 3c"),
        (19 * 81 + 20, "knight's jump right to 3c, promoting"),
        (17 * 81 + 80, "down-right to 9i, promoting"),
        (26 * 81, "drop a rook on 1a"),
    ],
)
def test_names_are_in_the_mover_s_words(action: int, expected: str) -> None:
    assert describe_action(action) == expected


@pytest.mark.parametrize("action", [-1, NUM_ACTIONS])
def test_invalid_action_has_no_name(action: int) -> None:
    with pytest.raises(NotationError, match="0 to 2186"):
        describe_action(action)
    explanation = explain(Position().state, action)
    assert not explanation.is_legal
    assert_mentions(str(explanation.reason), "0 to 2186")
    assert_mentions(str(explanation), f"action {action}", "not an action")


def test_legal_move_is_explained_in_both_views() -> None:
    position = Position()
    facts = ("7g7f (７六歩(77))", "action 59", "up to 7f", "Black's pawn", "from 7g to 7f", "is legal")
    assert_mentions(str(explain(position.state, 59)), facts)
    position.push(59)
    facts = ("3c3d (３四歩(33))", "action 59", "up to 7f", "White's pawn", "from 3c to 3d", "is legal")
    assert_mentions(str(explain(position.state, 59)), facts, "White's view")


def test_captures_promotions_and_drops_are_described() -> None:
    position = Position("4k4/9/9/4p4/9/9/4R4/9/4K4 b P 1")
    assert_mentions(explained(position, "5g5d").sentence, "Black's rook", "from 5g to 5d", "takes the pawn")
    assert_mentions(explained(position, "P*1e").sentence, "Black drops", "pawn on 1e")
    position = Position("3rk4/9/3P5/9/9/9/9/9/4K4 b - 1")
    assert_mentions(explained(position, "6c6b+").sentence, "Black's pawn", "from 6c to 6b", "promotes")


def explained(position: Position, usi: str) -> Explanation:
    return explain(position.state, action_of_usi(position.state["board"], position.side, usi))


WHY: dict[str, tuple[str, str, Facts]] = {
    "nothing in hand": ("startpos", "P*5e", ("Black", "no pawn")),
    "square occupied": ("4k4/9/9/4p4/9/9/9/9/4K4 b G 1", "G*5d", ("White's pawn on 5d", "in the way")),
    "two pawns": (
        "4k4/9/9/9/9/9/4P4/9/4K4 b P 1",
        "P*5e",
        "two pawns",
    ),
    "two white pawns": ("4k4/9/4p4/9/9/9/9/9/4K4 w p 1", "P*5e", "White's pawn on 5c"),
    "stuck pawn": ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "P*1a", ("pawn on 1a", "never move")),
    "stuck lance": ("4k4/9/9/9/9/9/9/9/4K4 w l 1", "L*1i", ("lance on 1i", "never move")),
    "stuck knight": ("4k4/9/9/9/9/9/9/9/4K4 b N 1", "N*1b", ("knight on 1b", "never move")),
    "mate by a pawn": (
        "7lk/7l1/7G1/9/9/9/9/9/4K4 b P 1",
        "P*1b",
        ("mate", "dropped pawn"),
    ),
    "mate by a white pawn": (
        "4k4/9/9/9/9/9/1g7/1L7/KL7 w p 1",
        "P*9h",
        ("mate", "dropped pawn"),
    ),
    "not where pieces promote": ("startpos", "7i7h+", "7i nor 7h"),
    "gold backwards": ("4k4/9/9/4G4/9/9/9/9/4K4 b - 1", "5d6e", ("Black's gold on 5d", "down-left")),
    "too far": ("startpos", "7g7e", ("Black's pawn on 7g", "up 2 squares")),
    "no knight": ("startpos", "4i3g", ("Black's gold on 4i", "jump", "knight")),
    "onto an own piece": ("startpos", "5i4i", ("Black's gold on 4i", "in the way")),
    "pawn must promote": (
        "4k4/P8/9/9/9/9/9/9/4K4 b - 1",
        "9b9a",
        "promote on 9a",
    ),
    "knight must promote": ("4k4/9/9/N8/9/9/9/9/4K4 b - 1", "9d8b", "promote on 8b"),
    "white knight must promote": (
        "4k4/9/9/9/9/n8/9/9/4K4 w - 1",
        "9f8h",
        "promote on 8h",
    ),
    "lance must promote": ("4k4/9/L8/9/9/9/9/9/4K4 b - 1", "9c9a", "promote on 9a"),
    "gold does not promote": ("4k4/9/G8/9/9/9/9/9/4K4 b - 1", "9c9b+", ("gold", "not promote")),
    "king does not promote": ("4k4/9/K8/9/9/9/9/9/9 b - 1", "9c9b+", ("king", "not promote")),
    "promoted already": (
        "4k4/9/+S8/9/9/9/9/9/4K4 b - 1",
        "9c9b+",
        ("Black's promoted silver on 9c", "already"),
    ),
    "pinned": (
        "k3r4/9/9/9/9/9/4S4/9/4K4 b - 1",
        "5g4f",
        ("Black's silver on 5g", "pinned", "king on 5i", "in check", "White's rook on 5a"),
    ),
    "white pinned": (
        "k8/9/2+s6/9/9/9/6B2/9/4K4 w - 1",
        "7c6c",
        ("White's promoted silver on 7c", "pinned", "king on 9a", "in check", "Black's bishop on 3g"),
    ),
    "check not answered": (
        "k3r4/9/9/9/9/9/9/9/4K3L b P 1",
        "P*9e",
        ("in check", "White's rook on 5a"),
    ),
    "one of two checks answered": (
        "k3r4/9/9/9/b8/9/9/9/4KG3 b - 1",
        "4i5h",
        ("in check", "White's bishop on 9e"),
    ),
    "pinned piece takes the checker": (
        "k3r4/9/9/9/9/9/4S4/3g5/4K4 b - 1",
        "5g6h",
        ("Black's silver on 5g", "pinned", "king on 5i", "in check", "White's rook on 5a"),
    ),
    "king into check": (
        "k2r5/9/9/9/9/9/9/9/4K4 b - 1",
        "5i6i",
        ("king", "in check", "White's rook on 6a"),
    ),
    "king along the line of the check": (
        "k8/9/4r4/9/9/9/9/4K4/9 b - 1",
        "5h5i",
        ("king", "in check", "White's rook on 5c"),
    ),
    "kings side by side": ("9/9/4k4/9/4K4/9/9/9/9 b - 1", "5e5d", ("in check", "White's king on 5c")),
}


@pytest.mark.parametrize("name", WHY)
def test_reason_is_given_for_each_rule(name: str) -> None:
    sfen, usi, expected = WHY[name]
    explanation = explained(Position(sfen), usi)
    assert not explanation.is_legal
    assert explanation.reason is not None
    assert_mentions(explanation.reason, expected)
    with pytest.raises(IllegalActionError, match=mentions(usi, expected)):
        Position(sfen).push_usi(usi)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (9 * 81 + 3, "knight's jump right to 1d"),
        (5 * 81 + 13, "White's pawn on 2c"),
    ],
)
def test_action_without_a_piece_is_explained(action: int, expected: str) -> None:
    explanation = explain(Position().state, action)
    assert explanation.move is None
    assert explanation.reason is not None
    assert expected in explanation.reason
    assert_mentions(str(explanation), "Black", "no piece")


def test_explanation_names_white_s_view() -> None:
    position = Position("4k4/9/9/9/9/9/9/9/4K4 w - 1")
    assert explain(position.state, 0).side == 1
    facts = ("action 0", "up to 1a", "White's view", "no piece", "not legal", "up to 9i")
    assert_mentions(str(explain(position.state, 0)), facts)
    facts = ("action 2187", "not an action", "not legal", "0 to 2186")
    assert_mentions(str(explain(position.state, NUM_ACTIONS)), facts)


@given(st.integers(0, 2**32), st.integers(0, 250))
@settings(max_examples=60, deadline=None)
def test_reasons_are_found_exactly_where_the_rules_refuse(seed: int, num_plies: int) -> None:
    """Only mate by a dropped pawn is not looked for; cshogi confirms that nothing else remains."""
    position = random_game(seed, num_plies)
    state, side = position.state, position.side
    board, hands = state["board"], state["hands"]
    legal = unpack_legal(state["legal"], NUM_ACTIONS)
    for action in range(NUM_ACTIONS):
        fault = fault_of_action(board, hands, side, action)
        if fault is None and not legal[action]:
            usi = usi_of_action(board, side, action)
            assert usi.startswith("P*")
            theirs = cshogi.Board(position.sfen())
            assert theirs.move_from_usi(usi) not in list(theirs.legal_moves)
            assert_mentions(str(explain(state, action)), "mate", "dropped pawn")
        else:
            assert (fault is None) == bool(legal[action]), str(explain(state, action))


def finished(ending: Ending, side: int = 0, is_check: bool = False) -> np.void:
    state = Position().states.copy()
    state["ending"], state["side"], state["is_check"] = ending, side, is_check
    return state[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("ending", "side", "expected"),
    [
        (Ending.MATE, 0, ("Black", "no legal move", "White wins")),
        (Ending.REPETITION, 0, ("repetition", "draw")),
        (Ending.PERPETUAL_LOSS, 1, ("check by White", "Black wins")),
        (Ending.PERPETUAL_WIN, 1, ("check by Black", "White wins")),
        (Ending.DECLARATION, 0, "Black wins"),
        (Ending.PLY_LIMIT, 0, "limit of plies"),
    ],
)
def test_after_the_end_nothing_is_legal(ending: Ending, side: int, expected: Facts) -> None:
    state = finished(ending, side)
    assert_mentions(ending_text(state), expected)
    explanation = explain(state, 59)
    assert not explanation.is_legal
    assert explanation.reason is not None
    assert_mentions(explanation.reason, "over", ending_text(state))


def test_running_game_has_no_ending() -> None:
    assert ending_text(Position().state) == ""


def test_mate_on_the_board_is_explained() -> None:
    position = Position("4k4/9/4P4/9/9/9/9/9/4K4 b G 1")
    position.push_usi("G*5b")
    assert_mentions(ending_text(position.state), "White is mated", "Black wins")
    reason = explained(position, "5a4a").reason
    assert reason is not None
    assert_mentions(reason, "over", ending_text(position.state))
