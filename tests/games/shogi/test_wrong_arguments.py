"""Wrong arguments: every public function refuses them with senju's own errors."""

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.errors import ConfigError, SenjuError
from senju.games import make_game
from senju.games.shogi.boards import board_svg, board_text
from senju.games.shogi.csa import CsaError, read_csa, read_csa_file, write_csa
from senju.games.shogi.explain import describe_action, explain
from senju.games.shogi.game import Shogi
from senju.games.shogi.kif import write_kif
from senju.games.shogi.notation import (
    NotationError,
    action_of_usi,
    move_of_action,
    parse_square,
    split_action,
    usi_of_action,
)
from senju.games.shogi.position import Position
from senju.games.shogi.record import GameRecord, RecordError, replay
from senju.games.shogi.sfen import SfenError, format_sfen, parse_sfen
from senju.usi.protocol import SetPosition, parse_line
from senju.usi.situation import ShogiRules, situation_after
from tests.games.shogi.games import random_moves

START = Position()
BOARD, HANDS = START.state["board"], START.state["hands"]
NO_TEXTS: list[Any] = [5, 1.5, b"startpos", ["7g7f"], object()]
NO_WHOLE_NUMBERS: list[Any] = [1.5, float("nan"), "59", "7g7f", None, [59], np.array([1, 2]), object()]
NO_PLIES: list[Any] = [0, -1, 4097, 10**30, 1.5, "many", [512], object()]


def refused(error: type[Exception], call: Callable[[Any], Any], wrong: list[Any]) -> list[Any]:
    name = getattr(call, "__name__", "call")
    return [pytest.param(error, partial(call, each), id=f"{name}({each!r:.20})") for each in wrong]


class Field:
    """A record with one wrong field, written by every writer."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, value: Any) -> None:
        fields = {"moves": ["7g7f"], "ending": "%TORYO"} | {self.__name__: value}
        record = GameRecord(**fields)
        for write in (write_csa, write_kif, lambda each: list(replay(each))):
            with pytest.raises(SenjuError) as caught:
                write(record)
        for ask in ("side", "winner"):
            with contextlib.suppress(SenjuError):
                getattr(record, ask)
        raise caught.value


@pytest.mark.parametrize(
    ("error", "call"),
    [
        *refused(ConfigError, lambda n: Position(max_plies=n), NO_PLIES),
        *refused(ConfigError, lambda n: make_game("shogi", max_plies=n), [*NO_PLIES, None]),
        *refused(ConfigError, lambda n: make_game("shogi", history=n), [-1, 8, 0.5, "all", None]),
        *refused(ConfigError, lambda rule: Position(declaration=rule), ["", "28", 28, True, 1.5, []]),
        *refused(ConfigError, lambda game: Position(game=game), [5, "shogi", Shogi]),
        *refused(ConfigError, Shogi, [5, {"max_plies": 5}, make_game("tic_tac_toe").config]),
        *refused(SfenError, Position, NO_TEXTS),
        *refused(SfenError, parse_sfen, [*NO_TEXTS, None, "9/" * 10**6, "1" * 10**6 + " b - 1"]),
        *refused(SfenError, lambda side: format_sfen(BOARD, HANDS, side), [2, -1, 0.5, "b", None]),
        *refused(SfenError, lambda number: format_sfen(BOARD, HANDS, 0, number), [0, -1, 1.5, "1", None]),
        *refused(
            SfenError, lambda board: format_sfen(board, HANDS, 0), [None, "startpos", BOARD[:80], BOARD + 100]
        ),
        *refused(SfenError, lambda hands: format_sfen(BOARD, hands, 0), [None, "-", HANDS[0], HANDS.T]),
        *refused(NotationError, START.push_usi, [*NO_TEXTS, None, "", "7g" * 10**6]),
        *refused(NotationError, START.action, [*NO_TEXTS, None]),
        *refused(NotationError, START.push, NO_WHOLE_NUMBERS),
        *refused(NotationError, START.usi, [*NO_WHOLE_NUMBERS, -1, 2187, 10**30]),
        *refused(ConfigError, START.perft, [0, -1, 10**9, 1.5, "2", None]),
        *refused(NotationError, split_action, [*NO_WHOLE_NUMBERS, -1, 2187]),
        *refused(NotationError, describe_action, [*NO_WHOLE_NUMBERS, -1, 2187]),
        *refused(NotationError, lambda action: explain(START.state, action), NO_WHOLE_NUMBERS),
        *refused(NotationError, lambda action: START.game.move_name(START.state, action), NO_WHOLE_NUMBERS),
        *refused(NotationError, lambda text: START.game.parse_move(START.state, text), NO_TEXTS),
        *refused(NotationError, lambda action: usi_of_action(BOARD, 0, action), NO_WHOLE_NUMBERS),
        *refused(NotationError, lambda action: move_of_action(BOARD, 0, action), NO_WHOLE_NUMBERS),
        *refused(NotationError, lambda text: action_of_usi(BOARD, 0, text), NO_TEXTS),
        *refused(NotationError, parse_square, [*NO_TEXTS, None, "7g" * 10**6]),
        *refused(NotationError, lambda move: board_svg(START.state, move), NO_TEXTS),
        *refused(ConfigError, lambda letters: board_text(START.state, letters), [5, None, [], "kanji"]),
        *refused(CsaError, read_csa, [*NO_TEXTS, None, Path("game.csa")]),
        *refused(CsaError, read_csa_file, [5, None, 1.5, ["game.csa"], "a\0b", ".", "x" * 10**4]),
        *refused(RecordError, write_csa, [None, 5, "V2.2", [GameRecord()]]),
        *refused(RecordError, write_kif, [None, 5, "V2.2", [GameRecord()]]),
        *refused(RecordError, lambda record: list(replay(record)), [None, 5, "V2.2"]),
        *refused(RecordError, Field("names"), [None, 5, "ab", ("one",), ("one", 2), ("a", "b", "c")]),
        *refused(SenjuError, Field("sfen"), [None, 5, "", "no"]),
        *refused(RecordError, Field("moves"), [None, 5, "7g7f", [59], [None], ["7g7f"] * 4097]),
        *refused(RecordError, Field("times"), [5, "1", ["1"], [[]], [float("nan")], [-1], [1, 2], [10**400]]),
        *refused(RecordError, Field("ending"), [5, [], "%TORYO ", True]),
        *refused(RecordError, Field("ending_time"), ["1", [], -1, float("inf"), 1j]),
        *refused(RecordError, Field("headers"), [None, 5, ["EVENT"], {5: "x"}, {"EVENT": 5}]),
        *refused(RecordError, Field("comments"), [None, 5, ["x"], {"1": "x"}, {0: 5}, {1.5: "x"}, {3: "x"}]),
    ],
)
def test_wrong_argument_is_refused_with_an_error_of_ours(
    error: type[Exception], call: Callable[[], Any]
) -> None:
    before = START.sfen()
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, SenjuError)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 1500  # however long the argument is
    assert START.sfen() == before


@pytest.mark.parametrize("action", [np.int32(59), np.uint64(59), np.array(59), 59])
def test_numbers_of_numpy_are_actions(action: Any) -> None:
    position = Position()
    assert position.usi(action) == "7g7f"
    position.push(action)
    assert position.ply == 1


@pytest.mark.parametrize("max_plies", [1, 4096])
def test_extremes_of_the_limit_are_kept(max_plies: int) -> None:
    position = Position(max_plies=max_plies)
    assert position.game.longest_game == max_plies


RECORD = GameRecord(
    ("Sente", "Gote"),
    "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1",
    random_moves(3, 60),
    [1.5] * 60,
    "%TORYO",
    comments={0: "first\nsecond", 7: "a, b"},
    headers={"EVENT": "Test"},
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """A text with some of its letters changed, taken away, doubled, or set elsewhere."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        other = draw(
            st.sampled_from(["", "\n", ",", "'", "+", "T", "%", "/", "P1", "\0", "歩", "\ud800", "９"])
        )
        cut = draw(st.sampled_from(["", text[start:end], text[start:end][::-1]]))
        text = text[:start] + other + cut + cut + text[end:]
    return text


@given(mutated(write_csa(RECORD)))
@settings(max_examples=300, deadline=None)
def test_damaged_record_is_read_or_refused(text: str) -> None:
    try:
        games = read_csa(text, allow_unfinished=True)
    except CsaError:
        return
    for game in games:
        with contextlib.suppress(RecordError):  # a name that CSA reads and cannot write
            assert [again.moves for again in read_csa(write_csa(game), allow_unfinished=True)] == [game.moves]


@given(st.binary(max_size=200) | mutated(write_csa(RECORD)).map(lambda text: text.encode("cp932", "replace")))
@settings(max_examples=100, deadline=None)
def test_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, octets: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.csa"
    path.write_bytes(octets)
    try:
        read_csa_file(path, allow_unfinished=True)
    except CsaError as error:
        assert "damaged.csa" in str(error)  # noqa: PT017  # or it is read


@given(mutated(Position().sfen()) | mutated("4k4/9/9/9/9/9/4+P4/9/4K4 b R2Pb3p 17"))
@settings(max_examples=300, deadline=None)
def test_damaged_sfen_is_read_or_refused(text: str) -> None:
    try:
        position = Position(text)
    except SfenError:
        return
    assert Position(position.sfen()).sfen() == position.sfen()


@given(
    mutated(f"position startpos moves {' '.join(RECORD.moves[:12])}")
    | mutated("go btime 1 wtime 2 byoyomi 3")
)
@settings(max_examples=200, deadline=None)
def test_damaged_line_of_usi_is_obeyed_or_refused(text: str) -> None:
    with contextlib.suppress(SenjuError):
        command = parse_line(text)
        if isinstance(command, SetPosition):
            situation_after(command, ShogiRules())
