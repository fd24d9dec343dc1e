"""Lines of the USI protocol, in and out."""

import contextlib
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senju.search.puct import RootMoves, SearchResult, StopReason
from senju.usi.protocol import (
    MAX_CENTIPAWNS,
    BareCommand,
    Command,
    Go,
    GoLimits,
    ProtocolError,
    SetOption,
    SetPosition,
    centipawns,
    info_line,
    parse_line,
    quoted,
)

SFEN = "8k/9/9/9/9/9/9/9/K8 b R 1"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("usi", BareCommand.USI),
        ("  isready \r", BareCommand.IS_READY),
        ("usinewgame", BareCommand.NEW_GAME),
        ("stop", BareCommand.STOP),
        ("ponderhit", BareCommand.PONDER_HIT),
        ("quit", BareCommand.QUIT),
        ("gameover win", BareCommand.GAME_OVER),
        ("gameover", BareCommand.GAME_OVER),
        ("setoption name Nodes value 800", SetOption("Nodes", "800")),
        ("setoption name Clear Hash", SetOption("Clear Hash", "")),
        ("setoption name A B value C  D", SetOption("A B", "C D")),
        ("setoption name Nodes value", SetOption("Nodes", "")),
        ("position startpos", SetPosition(None, ())),
        ("position startpos moves", SetPosition(None, ())),
        ("position startpos moves 7g7f 3c3d", SetPosition(None, ("7g7f", "3c3d"))),
        (f"position sfen {SFEN}", SetPosition(SFEN, ())),
        (f"position sfen {SFEN} moves R*5e", SetPosition(SFEN, ("R*5e",))),
        ("go", Go(GoLimits())),
        ("go infinite", Go(GoLimits(is_infinite=True))),
        ("go mate infinite", BareCommand.GO_MATE),
        ("go mate 1000", BareCommand.GO_MATE),
        (
            "go btime 60000 wtime 50000 byoyomi 10000",
            Go(GoLimits(times=(60000, 50000), byoyomi=10000)),
        ),
        (
            "go ponder btime 0 wtime 50000 binc 1000 winc 2000",
            Go(GoLimits(times=(0, 50000), increments=(1000, 2000), is_ponder=True)),
        ),
        ("go nodes 100 depth 5 movetime 30", Go(GoLimits(nodes=100, depth=5, movetime=30))),
        ("go btime -50 wtime 9", Go(GoLimits(times=(0, 9)))),
        ("go nodes 99999999999999999", Go(GoLimits(nodes=10**12))),
    ],
)
def test_line_is_read_as_its_command(line: str, command: Command) -> None:
    assert parse_line(line) == command


@pytest.mark.parametrize("line", ["", "   ", "\t\r"])
def test_empty_line_is_no_command(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello world", "'hello'"),
        ("USI", "'USI'"),
        ("\0usi", r"'\\x00usi'"),
        ("x" * 1000, "'x{60}\\.\\.\\.'"),
        ("setoption", "setoption.*NAME.*VALUE"),
        ("setoption Nodes 800", "setoption.*NAME.*VALUE"),
        ("setoption name", "setoption.*name"),
        ("setoption name value 800", "setoption.*name"),
        ("position", "position.*startpos.*sfen"),
        ("position moves 7g7f", "position.*startpos.*sfen"),
        ("position sfen", "position.*startpos.*sfen.*'sfen'"),
        ("position startpos 7g7f", "position.*'startpos 7g7f'"),
        ("gameover perhaps", "gameover.*win, lose or draw.*'perhaps'"),
    ],
)
def test_invalid_line_is_refused_and_quoted(line: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        parse_line(line)


@pytest.mark.parametrize(
    ("line", "limits", "complaint"),
    [
        ("go btime soon wtime 9", GoLimits(times=(None, 9)), "btime.*'soon'"),
        ("go nodes", GoLimits(), "nodes.*''"),
        ("go nodes 1_000", GoLimits(), "nodes.*'1_000'"),
        ("go quickly infinite", GoLimits(is_infinite=True), "'quickly'"),
        ("go nodes 12345678901234567890", GoLimits(), "nodes"),
        ("go nodes １２", GoLimits(), "nodes"),
    ],
)
def test_go_with_a_mistake_keeps_its_valid_parameters(line: str, limits: GoLimits, complaint: str) -> None:
    command = parse_line(line)
    assert isinstance(command, Go)
    assert command.limits == limits
    assert re.search(complaint, command.complaints[0])


def test_many_mistakes_in_one_line_give_few_complaints() -> None:
    command = parse_line("go " + "x " * 50_000)
    assert isinstance(command, Go)
    assert len(command.complaints) == 3


WORDS = ["go", "position", "setoption", "name", "value", "moves", "sfen", "startpos", "btime", "7g7f", "-1"]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=12))
def test_any_text_is_a_command_or_refused(words: list[str]) -> None:
    with contextlib.suppress(ProtocolError):
        parse_line(" ".join(words))


def test_info_line_has_the_moves_last() -> None:
    empty = np.zeros(0, np.int32)
    moves = RootMoves(empty, empty.astype(np.int64), np.zeros(0), np.zeros(0, np.float32))
    result = SearchResult(1000, 0.5, 7, 0.5, 59, [59, 59, 60], moves, 0, StopReason.NODES)
    expected = "info depth 3 seldepth 7 time 500 nodes 1000 nps 2000 score cp 659 pv 7g7f 3c3d"
    assert info_line(result, ["7g7f", "3c3d"]) == expected
    assert info_line(result._replace(seconds=0.0, value=-1.0, plies_to_end=4), []) == (
        "info depth 3 seldepth 7 time 0 nodes 1000 nps 0 score mate -4"
    )


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_score_rises_with_the_value_and_is_fair(one: float, other: float) -> None:
    assert centipawns(-one) == -centipawns(one)
    assert abs(centipawns(one)) <= MAX_CENTIPAWNS
    if one <= other:
        assert centipawns(one) <= centipawns(other)


@given(st.floats(-0.99, 0.99))
def test_score_gives_the_winning_chance_back(value: float) -> None:
    chance = 1 / (1 + math.exp(-centipawns(value) / 600))
    assert chance == pytest.approx((1 + value) / 2, abs=0.001)


def test_score_of_nan_and_of_zero_is_zero() -> None:
    assert centipawns(math.nan) == 0
    assert centipawns(0.0) == 0
    assert centipawns(math.inf) == 9999


def test_quoted_text_is_printable_and_short() -> None:
    assert quoted("歩\n\0") == r"'\u6b69\n\x00'"
    assert len(quoted("歩" * 1000)) < 400
