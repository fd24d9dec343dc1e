"""The USI protocol as text: lines into commands, and answers into lines.

http://shogidokoro.starfree.jp/usi.html describes it. A line that makes no sense raises
`ProtocolError`; the parameters of `go` are the exception, since a `go` that is not answered
would leave the program on the other side waiting: what is wrong with them is kept as complaints.
"""

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from senju.errors import SenjuError

MAX_SHOWN = 60  # characters of a rejected word or line that are quoted
MAX_COMPLAINTS = 3  # about one line; more would only fill the other side's log
MAX_NUMBER: Final = 10**12  # milliseconds and nodes beyond it mean "any number"
CENTIPAWN_SCALE: Final = 600.0  # of the logistic curve between winning chance and score, as engines use it
MAX_CENTIPAWNS: Final = 9_999
NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class ProtocolError(SenjuError, ValueError):
    """A line of the USI protocol makes no sense."""


class Limits(NamedTuple):
    """What a `go` allows: clocks by side (Black, White) in milliseconds, and other limits."""

    times: tuple[int | None, int | None] = (None, None)  # what is left of the main time
    increments: tuple[int, int] = (0, 0)
    byoyomi: int = 0
    movetime: int | None = None
    nodes: int | None = None
    depth: int | None = None
    is_infinite: bool = False
    is_ponder: bool = False


class Usi(NamedTuple):
    """Asks who the engine is."""


class IsReady(NamedTuple):
    """Asks the engine to prepare, and to say when it has."""


class SetOption(NamedTuple):
    """Sets an option; one without a value is a button."""

    name: str
    value: str


class NewGame(NamedTuple):
    """A new game begins."""


class SetPosition(NamedTuple):
    """The position to think about; without an SFEN, the start position."""

    sfen: str | None
    moves: tuple[str, ...]


class Go(NamedTuple):
    """Starts thinking."""

    limits: Limits
    complaints: tuple[str, ...] = ()


class GoMate(NamedTuple):
    """Asks for a mate problem's solution."""


class Stop(NamedTuple):
    """Asks for the move at once."""


class PonderHit(NamedTuple):
    """The expected move was played; the clock runs from now on."""


class GameOver(NamedTuple):
    """The game has ended."""

    result: str


class Quit(NamedTuple):
    """Asks the engine to end."""


Command = Usi | IsReady | SetOption | NewGame | SetPosition | Go | GoMate | Stop | PonderHit | GameOver | Quit


def parse_line(text: str) -> Command | None:
    """The command in a line, None for an empty line.

    >>> parse_line("position startpos moves 7g7f")
    SetPosition(sfen=None, moves=('7g7f',))
    """
    words = text.split()
    if not words:
        return None
    parse = PARSERS.get(words[0])
    if parse is None:
        raise ProtocolError(f"unknown command {quoted(words[0])}")
    return parse(words[1:])


def _parse_set_option(words: Sequence[str]) -> SetOption:
    """Names and values may be of several words; a value may be empty."""
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
    if not start:
        raise ProtocolError("position: expected `startpos` or `sfen ...`")
    raise ProtocolError(f"position: expected `startpos` or `sfen ...`, got {quoted(' '.join(start))}")


def _parse_game_over(words: Sequence[str]) -> GameOver:
    """Some programs leave the result out."""
    result = " ".join(words)
    if result not in ("win", "lose", "draw", ""):
        raise ProtocolError(f"gameover: expected win, lose or draw, got {quoted(result)}")
    return GameOver(result)


NUMBERED: Final = {"btime", "wtime", "binc", "winc", "byoyomi", "movetime", "nodes", "depth"}


def _parse_go(words: Sequence[str]) -> Go | GoMate:
    if words[:1] == ["mate"]:
        return GoMate()
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
            numbers[word] = min(max(int(left.popleft()), 0), MAX_NUMBER)  # a clock may have run below zero
        else:
            complaints.append(f"go: expected a number after {word}, got {quoted(left[0] if left else '')}")
    return Go(_limits(numbers, flags), tuple(complaints[:MAX_COMPLAINTS]))


def _limits(numbers: Mapping[str, int], flags: set[str]) -> Limits:
    return Limits(
        times=(numbers.get("btime"), numbers.get("wtime")),
        increments=(numbers.get("binc", 0), numbers.get("winc", 0)),
        byoyomi=numbers.get("byoyomi", 0),
        movetime=numbers.get("movetime"),
        nodes=numbers.get("nodes"),
        depth=numbers.get("depth"),
        is_infinite="infinite" in flags,
        is_ponder="ponder" in flags,
    )


PARSERS: Final[Mapping[str, Callable[[Sequence[str]], Command]]] = {
    "usi": lambda _: Usi(),
    "isready": lambda _: IsReady(),
    "setoption": _parse_set_option,
    "usinewgame": lambda _: NewGame(),
    "position": _parse_position,
    "go": _parse_go,
    "stop": lambda _: Stop(),
    "ponderhit": lambda _: PonderHit(),
    "gameover": _parse_game_over,
    "quit": lambda _: Quit(),
}


class Report(NamedTuple):
    """How far a search has come."""

    depth: int
    seldepth: int
    seconds: float
    nodes: int
    value: float  # -1 to 1, as the mover sees it
    mate: int | None  # plies to a proven mate, negative where the mover is mated
    line: Sequence[str]  # moves


def info_line(report: Report) -> str:
    """The `info` line of a search; the moves stand last, as the protocol wants."""
    per_second = round(report.nodes / report.seconds) if report.seconds > 0 else 0
    words = [
        f"info depth {report.depth} seldepth {report.seldepth} time {round(1000 * report.seconds)}",
        f"nodes {report.nodes} nps {per_second} score {score_text(report.value, report.mate)}",
    ]
    if report.line:
        words.append(f"pv {' '.join(report.line)}")
    return " ".join(words)


def score_text(value: float, mate: int | None = None) -> str:
    """A score as the protocol writes it.

    >>> score_text(0.5), score_text(-1.0), score_text(1.0, 3)
    ('cp 659', 'cp -9999', 'mate 3')
    """
    return f"cp {centipawns(value)}" if mate is None else f"mate {mate}"


def centipawns(value: float) -> int:
    """The score of a value between -1 and 1: with winning chance p, 600 ln(p / (1 - p)), bounded."""
    if math.isnan(value):
        return 0
    if not -1 < value < 1:
        return MAX_CENTIPAWNS if value > 0 else -MAX_CENTIPAWNS
    score = round(CENTIPAWN_SCALE * (math.log1p(value) - math.log1p(-value)))
    return min(max(score, -MAX_CENTIPAWNS), MAX_CENTIPAWNS)


def best_move_line(move: str, ponder: str | None = None) -> str:
    """The answer to a `go`."""
    return f"bestmove {move} ponder {ponder}" if ponder else f"bestmove {move}"


def quoted(text: str) -> str:
    """Somebody's text, short and printable, for a message."""
    shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    return ascii(shown)
