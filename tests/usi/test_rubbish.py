"""Malformed and random lines leave an engine alive and correct."""

import contextlib
import sys
from collections.abc import Iterator

import cshogi
import pytest

from senju.usi.protocol import Go, ProtocolError, parse_line
from tests.usi.rubbish import rubbish
from tests.usi.talk import engine_here

MOVES = "7g7f 3c3d 2g2f 8c8d"
NODES = 1237  # of the last search, which is known by them
USUAL = ("Batch value 8", "USI_Hash value 64", "MaxPly value 512", "ResignValue value 0")
KNOWN_WORDS = {"", "id", "option", "usiok", "readyok", "info", "bestmove", "checkmate"}


def count_go(lines: list[bytes]) -> int:
    """How many of these lines ask for a move."""
    count = 0
    for line in lines:
        with contextlib.suppress(ProtocolError):
            count += isinstance(parse_line(line.decode("utf-8", "replace")), Go)
    return count


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns more often: else every line waits milliseconds for a search to let it pass."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_turns")
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 2_000), pytest.param(1, 40_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_rubbish_leaves_the_engine_alive_and_correct(seed: int, count: int) -> None:
    lines = list(rubbish(seed, count))
    with engine_here() as talk:
        talk.say("isready")
        talk.hear("readyok")
        talk.say_bytes(b"".join(line + b"\n" for line in lines))
        talk.say("stop", *(f"setoption name {option}" for option in USUAL))
        talk.say(f"position startpos moves {MOVES}", f"go nodes {NODES}")
        said: list[str] = []
        while len(said) < 2 or f" nodes {NODES} " not in said[-2]:
            said += talk.hear("bestmove")
        talk.hang_up()
        assert talk.hear_all() == []
    board = cshogi.Board()
    board.set_position(f"startpos moves {MOVES}")
    assert board.is_legal(board.move_from_usi(said[-1].split()[1]))
    assert {line.partition(" ")[0] for line in said} <= KNOWN_WORDS
    answers = sum(line.startswith("bestmove ") for line in said)
    refused = sum(line.startswith("info string error: go: a search is running") for line in said)
    assert answers + refused == count_go(lines) + 1
    assert answers > count / 100


def test_line_of_ten_million_bytes_is_passed_over() -> None:
    with engine_here() as talk:
        talk.say_bytes(b"position startpos moves " + b"7g7f " * 2_000_000 + b"\nusi\n")
        lines = talk.hear("usiok")
    assert "262144 bytes" in lines[0]
