"""The game so far, as `position` commands give it."""

import random

import pytest

from senju.errors import SenjuError
from senju.games.shogi.layout import Ending
from senju.games.shogi.position import Position
from senju.usi.protocol import ProtocolError, SetPosition
from senju.usi.situation import MAX_PLIES, ShogiRules, situation_after

TO_AND_FRO = ("2h1h", "8b9b", "1h2h", "9b8b")  # the start position again, after four plies
MATE_IN_ONE = "4k4/9/4G4/9/9/9/9/9/4K4 b G 11"


def random_game(seed: int, num_plies: int) -> tuple[str, ...]:
    chance, position, moves = random.Random(seed), Position(), []
    while not position.ending and len(moves) < num_plies:
        moves.append(chance.choice(position.legal_moves()))
        position.push_usi(moves[-1])
    return tuple(moves)


def test_moves_lead_to_their_position() -> None:
    situation = situation_after(SetPosition(None, ("7g7f", "3c3d")), ShogiRules())
    assert situation.position.sfen().endswith(" b - 3")
    assert situation.ply == 2
    assert [situation.position.game.num_actions, len(situation.actions)] == [2187, 2]


def test_ply_counts_from_the_number_in_the_sfen() -> None:
    assert situation_after(SetPosition(MATE_IN_ONE, ("G*5b",)), ShogiRules()).ply == 11


@pytest.mark.parametrize("seed", range(3))
def test_game_that_goes_on_gives_what_a_whole_one_does(seed: int) -> None:
    moves, situation = random_game(seed, 100), None
    for length in range(0, len(moves) + 1, 2):
        command = SetPosition(None, moves[:length])
        whole = situation_after(command, ShogiRules(history=2))
        situation = situation_after(command, ShogiRules(history=2), situation)
        assert situation.position.states.tobytes() == whole.position.states.tobytes()
        assert situation.actions == whole.actions


def test_another_game_does_not_go_on_from_the_last() -> None:
    first = situation_after(SetPosition(None, ("7g7f", "3c3d")), ShogiRules())
    for command in (SetPosition(None, ("2g2f",)), SetPosition(None, ()), SetPosition(MATE_IN_ONE, ())):
        then = situation_after(command, ShogiRules(), first)
        assert not then.continues(first)
        alone = situation_after(command, ShogiRules())
        assert then.position.states.tobytes() == alone.position.states.tobytes()


def test_what_came_before_is_left_as_it_was() -> None:
    first = situation_after(SetPosition(None, ("7g7f",)), ShogiRules())
    before = first.position.sfen()
    assert situation_after(SetPosition(None, ("7g7f", "3c3d")), ShogiRules(), first).continues(first)
    assert first.position.sfen() == before


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ("7g7f 3c3f", "move 2.*'3c3f'.*pawn on 3c"),
        ("7g7f 3c3d hello", "move 3.*'hello'"),
        ("7g7f P*5e", "move 2.*'P\\*5e'.*no pawn in hand"),
        ("5e5d", "move 1"),
        ("7g7f 7g7f", "move 2"),
    ],
)
def test_illegal_move_is_named_with_its_number_and_reason(moves: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        situation_after(SetPosition(None, tuple(moves.split())), ShogiRules())


@pytest.mark.parametrize("sfen", ["", "9/9 b - 1", "4k4/9/9/9/9/9/9/9/9 b - 1", "x" * 100_000])
def test_malformed_sfen_is_refused(sfen: str) -> None:
    with pytest.raises(SenjuError):
        situation_after(SetPosition(sfen, ()), ShogiRules())


def test_game_goes_on_where_the_rules_ended_it() -> None:
    situation = situation_after(SetPosition(None, TO_AND_FRO * 3), ShogiRules())
    assert situation.position.ending is Ending.REPETITION
    assert situation_after(SetPosition(None, (*TO_AND_FRO * 3, "7g7f")), ShogiRules(), situation).ply == 13


def test_game_goes_on_past_the_limit_of_plies() -> None:
    situation = None
    for length in range(0, 41, 4):
        command = SetPosition(None, (TO_AND_FRO * 10)[:length])
        situation = situation_after(command, ShogiRules(max_plies=10), situation)
        assert situation.position.ply == length
    assert situation is not None
    assert situation.position.ending is not Ending.PLY_LIMIT


def test_limit_of_plies_counts_until_it_is_reached() -> None:
    assert situation_after(SetPosition(None, TO_AND_FRO), ShogiRules(max_plies=5)).rules == ShogiRules(
        max_plies=5
    )


def test_record_that_is_too_long_to_keep_is_still_followed() -> None:
    moves = TO_AND_FRO * (MAX_PLIES // 4 + 2)
    situation = situation_after(SetPosition(None, moves), ShogiRules())
    assert situation.ply == len(moves)
    assert situation.position.sfen().startswith("lnsgkgsnl/1r5b1/")
