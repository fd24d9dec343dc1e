"""A game of Shogi as it is kept and passed on: who played, from where, which moves, and how it ended."""

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

from senju.errors import IllegalActionError, SenjuError
from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import START_SFEN, Ending
from senju.games.shogi.men import Side
from senju.games.shogi.notation import Move, move_of_action
from senju.games.shogi.position import Position
from senju.games.shogi.sfen import parse_sfen

MAX_PLIES = 4096  # of a record; as many as the rules can hold
MAX_SECONDS = 999_999_999  # of a move, and parts of a second more

# CSA's words for endings, and who wins: the side to move, the other, Black, White, or nobody
ENDINGS = {
    "%TORYO": "other",
    "%TSUMI": "other",
    "%TIME_UP": "other",
    "%ILLEGAL_MOVE": "other",
    "%+ILLEGAL_ACTION": "white",
    "%-ILLEGAL_ACTION": "black",
    "%KACHI": "mover",
    "%SENNICHITE": "nobody",
    "%JISHOGI": "nobody",
    "%HIKIWAKE": "nobody",
    "%MAX_MOVES": "nobody",
    "%CHUDAN": "nobody",
    "%MATTA": "nobody",
    "%FUZUMI": "nobody",
    "%ERROR": "nobody",
}


class RecordError(SenjuError, ValueError):
    """A record does not hold together, in its moves, times, words or names, or cannot be written."""


@dataclass
class GameRecord:
    """One game. Times are seconds; comments are kept by ply, 0 for those before the first move."""

    names: tuple[str, str] = ("", "")  # Black, White
    sfen: str = START_SFEN  # where it starts
    moves: list[str] = field(default_factory=list)  # in USI
    times: list[float | None] | None = None  # one for each move; None where nothing is known
    ending: str | None = None  # one of ENDINGS; None while it is not finished
    ending_time: float | None = None  # spent before resigning and the like
    headers: dict[str, str] = field(default_factory=dict)  # EVENT, SITE, START_TIME, …
    comments: dict[int, str] = field(default_factory=dict)  # ply: text; behind the ending: moves + 1

    @property
    def side(self) -> Side:
        """Who is to move at the end."""
        self._check_types()
        return (parse_sfen(self.sfen).side + len(self.moves)) % 2

    @property
    def winner(self) -> Side | None:
        """Who won: 0 Black, 1 White; None for a draw or where it is not known."""
        self._check_ending()
        wins = ENDINGS[self.ending] if self.ending else "nobody"
        return {"mover": self.side, "other": 1 - self.side, "black": 0, "white": 1}.get(wins)

    def check(self) -> None:
        """Refuse what no file can hold; the moves themselves are checked when they are replayed."""
        self._check_types()
        self._check_ending()
        if len(self.moves) > MAX_PLIES:
            raise RecordError(f"there are {len(self.moves)} moves; a record holds at most {MAX_PLIES}")
        if self.times is not None and len(self.times) != len(self.moves):
            raise RecordError(f"there are {len(self.times)} times for {len(self.moves)} moves")
        for seconds in (*(self.times or []), self.ending_time):
            if seconds is not None and not 0 <= round(seconds, 6) < MAX_SECONDS + 1:
                raise RecordError(f"a time of {reprlib.repr(seconds)} seconds; expected 0 to {MAX_SECONDS}")
        last = len(self.moves) + (self.ending is not None)
        wrong = [ply for ply in self.comments if not 0 <= ply <= last]
        if wrong:
            raise RecordError(f"a comment on ply {wrong[0]}; the record has plies 0 to {last}")
        for name in (*self.names, *self.headers):
            if "\n" in name or "\r" in name:
                raise RecordError(f"{name!r} has a line break; names stand on one line")

    def _check_ending(self) -> None:
        self._check_types()
        if self.ending is not None and self.ending not in ENDINGS:
            shown = reprlib.repr(self.ending)
            raise RecordError(f"ending {shown} is unknown; expected one of {', '.join(ENDINGS)}")

    def _check_types(self) -> None:
        """Refuse fields of another type than they are declared with."""
        _require("names", self.names, "two texts", _is_list_of(self.names, str) and len(self.names) == 2)
        _require("sfen", self.sfen, "a text", isinstance(self.sfen, str))
        _require("moves", self.moves, "a list of texts", _is_list_of(self.moves, str))
        times = self.times is None or _is_list_of(self.times, Real | None)
        _require("times", self.times, "a list of seconds, or None", times)
        _require("ending", self.ending, "a text, or None", isinstance(self.ending, str | None))
        is_time = isinstance(self.ending_time, Real | None)
        _require("ending_time", self.ending_time, "seconds, or None", is_time)
        _require("headers", self.headers, "texts by name", _is_mapping_of(self.headers, str))
        _require("comments", self.comments, "texts by ply", _is_mapping_of(self.comments, Integral))


def _is_list_of(values: Any, kind: Any) -> bool:
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return is_list and all(isinstance(value, kind) for value in values)


def _is_mapping_of(texts: Any, kind: type) -> bool:
    return isinstance(texts, Mapping) and all(
        isinstance(key, kind) and isinstance(text, str) for key, text in texts.items()
    )


def _require(name: str, value: object, expected: str, is_right: bool) -> None:
    if not is_right:
        raise RecordError(f"{name}={reprlib.repr(value)}: expected {expected}")


def checked(record: GameRecord) -> GameRecord:
    """The record, if it holds together."""
    _require("record", record, "a GameRecord", isinstance(record, GameRecord))
    record.check()
    return record


class Ply(NamedTuple):
    """One move of a record, and what is known of it."""

    number: int  # from 1
    position: Position  # before the move; the same object at each ply
    move: Move
    seconds: float | None


def replay(record: GameRecord) -> Iterator[Ply]:
    """Play a record's moves one after another; an illegal one is named with its ply."""
    position = new_position(checked(record).sfen)
    times = record.times or [None] * len(record.moves)
    for number, (usi, seconds) in enumerate(zip(record.moves, times, strict=True), 1):
        try:
            action = position.action(usi)
        except IllegalActionError as error:
            raise RecordError(f"ply {number}, {usi[:40]}: {error}") from None
        yield Ply(number, position, move_of_action(position.state["board"], position.side, action), seconds)
        position.push(action)


def new_position(sfen: str) -> Position:
    """A position with room for the longest record."""
    return Position(sfen, game=Shogi(ShogiConfig(max_plies=MAX_PLIES)))


def ending_word(ending: Ending, side: Side) -> str | None:
    """CSA's word for how the rules ended a game, told from the side to move.

    >>> ending_word(Ending.MATE, 0), ending_word(Ending.PERPETUAL_WIN, 0)
    ('%TSUMI', '%-ILLEGAL_ACTION')
    """
    return {
        Ending.RUNNING: None,
        Ending.MATE: "%TSUMI",
        Ending.REPETITION: "%SENNICHITE",
        Ending.PERPETUAL_LOSS: f"%{'+-'[side]}ILLEGAL_ACTION",
        Ending.PERPETUAL_WIN: f"%{'-+'[side]}ILLEGAL_ACTION",
        Ending.DECLARATION: "%KACHI",
        Ending.PLY_LIMIT: "%MAX_MOVES",
    }[ending]
