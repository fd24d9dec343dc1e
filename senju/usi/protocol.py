"""The USI protocol as text: lines into commands, and answers into lines.

http://shogidokoro.starfree.jp/usi.html describes it. An invalid line raises `ProtocolError`. Invalid
parameters of `go` are only reported as complaints: without an answer, the other side would wait forever.
"""

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from senju.errors import SenjuError

if TYPE_CHECKING:  # slow to import: `usi` is answered at once
    from senju.search.puct import SearchResult

MAX_SHOWN = 60  # characters of a rejected word or line that are quoted
MAX_COMPLAINTS = 3  # per line, so as not to fill the other side's log
MAX_NUMBER: Final = 10**12  # larger numbers of milliseconds or nodes are cut to this
CENTIPAWN_SCALE: Final = 600.0  # of the logistic curve between winning chance and score, as engines use it
MAX_CENTIPAWNS: Final = 9_999
NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class ProtocolError(SenjuError, ValueError):
    """A line is not valid in the USI protocol."""


class GoLimits(NamedTuple):
    """The limits of a `go`: clocks by side (Black, White) in milliseconds, and others."""

    times: tuple[int | None, int | None] = (None, None)  # remaining main time
    increments: tuple[int, int] = (0, 0)
    byoyomi: int = 0
    movetime: int | None = None
    nodes: int | None = None
    depth: int | None = None
    is_infinite: bool = False
    is_ponder: bool = False


class BareCommand(StrEnum):
    """A command without parameters."""

    USI = "usi"  # asks for the engine's name and options
    IS_READY = "isready"  # asks the engine to prepare, and to answer when it has
    NEW_GAME = "usinewgame"
    GO_MATE = "go mate"  # a mate problem; its parameters are ignored
    STOP = "stop"  # asks for the best move at once
    PONDER_HIT = "ponderhit"  # the expected move was played; the clock runs from now on
    GAME_OVER = "gameover"  # its result is ignored
    QUIT = "quit"


class SetOption(NamedTuple):
    """Sets an option; one without a value is a button."""

    name: str
    value: str


class SetPosition(NamedTuple):
    """The position to search; without an SFEN, the start position."""

    sfen: str | None
    moves: tuple[str, ...]


class Go(NamedTuple):
    """Starts thinking."""

    limits: GoLimits
    complaints: tuple[str, ...] = ()


Command = BareCommand | SetOption | SetPosition | Go


def parse_line(text: str) -> Command | None:
    """The command in a line, None for an empty line.

    >>> parse_line("position startpos moves 7g7f")
    SetPosition(sfen=None, moves=('7g7f',))
    """
    words = text.split()
    if not words:
        return None
    if words[0] in PARSERS:
        return PARSERS[words[0]](words[1:])
    try:
        return BareCommand(words[0])
    except ValueError:
        raise ProtocolError(f"unknown command {quoted(words[0])}") from None


def _parse_set_option(words: Sequence[str]) -> SetOption:
    """Names and values may have several words; a value may be empty."""
    if not words or words[0] != "name":
        raise ProtocolError("setoption: expected `setoption name NAME value VALUE`")
    end = words.index("value") if "value" in words else len(words)
    name = " ".join(words[1:end])
    if not name:
        raise ProtocolError("setoption: the option's name is missing")
    return SetOption(name, " ".join(words[end + 1 :]))


def _parse_position(words: Sequence[str]) -> SetPosition:
    end = words.index("moves") if "moves" in words else len(words)
    start, moves = list(words[:end]), tuple(words[end + 1 :])
    if start == ["startpos"]:
        return SetPosition(None, moves)
    if start[:1] == ["sfen"] and len(start) > 1:
        return SetPosition(" ".join(start[1:]), moves)
    got = f", got {quoted(' '.join(start))}" if start else ""
    raise ProtocolError(f"position: expected `startpos` or `sfen ...`{got}")


def _parse_game_over(words: Sequence[str]) -> BareCommand:
    """Some programs leave the result out."""
    result = " ".join(words)
    if result not in ("win", "lose", "draw", ""):
        raise ProtocolError(f"gameover: expected win, lose or draw, got {quoted(result)}")
    return BareCommand.GAME_OVER


NUMBERED: Final = {"btime", "wtime", "binc", "winc", "byoyomi", "movetime", "nodes", "depth"}


def _parse_go(words: Sequence[str]) -> Go | BareCommand:
    if words[:1] == ["mate"]:
        return BareCommand.GO_MATE
    numbers: dict[str, int] = {}
    flags: set[str] = set()
    complaints: list[str] = []
    left = deque(words)
    while left:
        word = left.popleft()
        if word in ("infinite", "ponder"):
            flags.add(word)
        elif word not in NUMBERED:
            complaints.append(f"go: unknown word {quoted(word)} ignored")
        elif left and NUMBER.fullmatch(left[0]):
            numbers[word] = min(max(int(left.popleft()), 0), MAX_NUMBER)  # a clock may be below zero
        else:
            complaints.append(f"go: expected a number after {word}, got {quoted(left[0] if left else '')}")
    limits = GoLimits(
        times=(numbers.get("btime"), numbers.get("wtime")),
        increments=(numbers.get("binc", 0), numbers.get("winc", 0)),
        byoyomi=numbers.get("byoyomi", 0),
        movetime=numbers.get("movetime"),
        nodes=numbers.get("nodes"),
        depth=numbers.get("depth"),
        is_infinite="infinite" in flags,
        is_ponder="ponder" in flags,
    )
    return Go(limits, tuple(complaints[:MAX_COMPLAINTS]))


PARSERS: Final[Mapping[str, Callable[[Sequence[str]], Command]]] = {
    "setoption": _parse_set_option,
    "position": _parse_position,
    "go": _parse_go,
    "gameover": _parse_game_over,
}


def info_line(result: "SearchResult", moves: Sequence[str]) -> str:
    """The `info` line of a search; its best moves come last, as the protocol requires."""
    per_second = round(result.nodes / result.seconds) if result.seconds > 0 else 0
    score = f"cp {centipawns(result.value)}"
    if result.is_proven and abs(result.value) == 1.0:  # plies to a mate, negative where the mover is mated
        score = f"mate {result.plies_to_end if result.value > 0 else -result.plies_to_end}"
    words = [
        f"info depth {len(result.line)} seldepth {result.depth} time {round(1000 * result.seconds)}",
        f"nodes {result.nodes} nps {per_second} score {score}",
    ]
    return " ".join([*words, "pv", *moves] if moves else words)


def centipawns(value: float) -> int:
    """The score of a value between -1 and 1: with winning chance p, 600 ln(p / (1 - p)), bounded.

    >>> centipawns(0.5), centipawns(-1.0)
    (659, -9999)
    """
    if math.isnan(value):
        return 0
    if not -1 < value < 1:
        return MAX_CENTIPAWNS if value > 0 else -MAX_CENTIPAWNS
    score = round(CENTIPAWN_SCALE * (math.log1p(value) - math.log1p(-value)))
    return min(max(score, -MAX_CENTIPAWNS), MAX_CENTIPAWNS)


def quoted(text: str) -> str:
    """Text from outside, shortened and made printable, for a message."""
    shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    return ascii(shown)
