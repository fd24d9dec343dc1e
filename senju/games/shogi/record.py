"""The record of a Shogi game: players, start position, moves, times, ending and comments."""

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

from senju.errors import IllegalActionError, SenjuError
from senju.games.shogi.layout import MAX_PLIES, START_SFEN, Ending
from senju.games.shogi.notation import Move, move_of_action
from senju.games.shogi.pieces import Side
from senju.games.shogi.position import Position
from senju.games.shogi.sfen import parse_sfen

MAX_SECONDS = 999_999_999  # of a move, plus fractions of a second

# CSA's endings, and the winner: the side to move, the other side, Black, White, or none
ENDINGS = {
    **dict.fromkeys(("%TORYO", "%TSUMI", "%TIME_UP", "%ILLEGAL_MOVE"), "other"),
    "%+ILLEGAL_ACTION": "white",
    "%-ILLEGAL_ACTION": "black",
    "%KACHI": "mover",
    **dict.fromkeys(("%SENNICHITE", "%JISHOGI", "%HIKIWAKE", "%MAX_MOVES"), "none"),
    **dict.fromkeys(("%CHUDAN", "%MATTA", "%FUZUMI", "%ERROR"), "none"),
}


class RecordError(SenjuError, ValueError):
    """A record is inconsistent in its moves, times, ending or names, or cannot be written."""


@dataclass
class GameRecord:
    """One game. Times are seconds; comments are stored by ply, 0 for those before the first move."""

    names: tuple[str, str] = ("", "")  # Black, White
    sfen: str = START_SFEN  # the start position
    moves: list[str] = field(default_factory=list)  # in USI
    times: list[float | None] | None = None  # one for each move; None if unknown
    ending: str | None = None  # one of ENDINGS; None if unfinished
    ending_time: float | None = None  # seconds before resigning and the like
    headers: dict[str, str] = field(default_factory=dict)  # EVENT, SITE, START_TIME, …
    comments: dict[int, str] = field(default_factory=dict)  # ply: text; after the ending: moves + 1

    @property
    def side(self) -> Side:
        """The side to move at the end."""
        self._check_types()
        return (parse_sfen(self.sfen).side + len(self.moves)) % 2

    @property
    def winner(self) -> Side | None:
        """The winner: 0 Black, 1 White; None for a draw or if unknown."""
        self._check_ending()
        wins = ENDINGS[self.ending] if self.ending else "none"
        return {"mover": self.side, "other": 1 - self.side, "black": 0, "white": 1}.get(wins)

    def check(self) -> None:
        """Refuse a record that cannot be written to a file; `replay` checks the moves."""
        self._check_ending()
        if len(self.moves) > MAX_PLIES:
            raise RecordError(f"the record has {len(self.moves)} moves; expected at most {MAX_PLIES}")
        if self.times is not None and len(self.times) != len(self.moves):
            raise RecordError(f"the record has {len(self.times)} times for {len(self.moves)} moves")
        for seconds in (*(self.times or []), self.ending_time):
            if seconds is not None and not 0 <= round(seconds, 6) < MAX_SECONDS + 1:
                raise RecordError(f"a time of {reprlib.repr(seconds)} seconds; expected 0 to {MAX_SECONDS}")
        last = len(self.moves) + (self.ending is not None)
        wrong = [ply for ply in self.comments if not 0 <= ply <= last]
        if wrong:
            raise RecordError(f"a comment on ply {wrong[0]}; the record has plies 0 to {last}")
        for name in (*self.names, *self.headers):
            if "\n" in name or "\r" in name:
                raise RecordError(f"{name!r} has a line break; names must be on one line")

    def _check_ending(self) -> None:
        self._check_types()
        if self.ending is not None and self.ending not in ENDINGS:
            shown = reprlib.repr(self.ending)
            raise RecordError(f"ending {shown} is unknown; expected one of {', '.join(ENDINGS)}")

    def _check_types(self) -> None:
        """Refuse fields of the wrong type."""
        for name, expected, is_right in (
            ("names", "two strings", _is_list_of(self.names, str) and len(self.names) == 2),
            ("sfen", "a string", isinstance(self.sfen, str)),
            ("moves", "a list of strings", _is_list_of(self.moves, str)),
            (
                "times",
                "a list of seconds, or None",
                self.times is None or _is_list_of(self.times, Real | None),
            ),
            ("ending", "a string, or None", isinstance(self.ending, str | None)),
            ("ending_time", "seconds, or None", isinstance(self.ending_time, Real | None)),
            ("headers", "strings by name", _is_mapping_of(self.headers, str)),
            ("comments", "strings by ply", _is_mapping_of(self.comments, Integral)),
        ):
            if not is_right:
                raise RecordError(f"{name}={reprlib.repr(getattr(self, name))}: expected {expected}")


def _is_list_of(values: Any, kind: Any) -> bool:
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return is_list and all(isinstance(value, kind) for value in values)


def _is_mapping_of(texts: Any, kind: type) -> bool:
    return isinstance(texts, Mapping) and all(
        isinstance(key, kind) and isinstance(text, str) for key, text in texts.items()
    )


def checked(record: GameRecord) -> GameRecord:
    """The record, if it is consistent."""
    if not isinstance(record, GameRecord):
        raise RecordError(f"record={reprlib.repr(record)}: expected a GameRecord")
    record.check()
    return record


class Ply(NamedTuple):
    """One move of a record."""

    number: int  # from 1
    position: Position  # before the move; the same object at each ply
    move: Move
    seconds: float | None


def replay(record: GameRecord) -> Iterator[Ply]:
    """Play a record's moves one after another; RecordError names the ply of an illegal one."""
    position = Position(checked(record).sfen, max_plies=MAX_PLIES)
    times = record.times or [None] * len(record.moves)
    for number, (usi, seconds) in enumerate(zip(record.moves, times, strict=True), 1):
        try:
            action = position.action(usi)
        except IllegalActionError as error:
            raise RecordError(f"ply {number}, {usi[:40]}: {error}") from None
        yield Ply(number, position, move_of_action(position.state["board"], position.side, action), seconds)
        position.push(action)


def ending_word(ending: Ending, side: Side) -> str | None:
    """CSA's word for an ending, from the view of the side to move.

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
