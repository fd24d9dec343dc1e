"""Game records in the CSA format, versions 2 to 3: reading checks every move.

http://www2.computer-shogi.org/protocol/record_v22.html describes the format.
"""

import re
import reprlib
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from senju.games.shogi.csa_position import CsaError, PositionReader, format_position, kind_of_code
from senju.games.shogi.explain import explain
from senju.games.shogi.layout import HAND_KINDS, MAX_PLIES, PROMOTED
from senju.games.shogi.notation import Move, NotationError, action_of_move, csa_of_move, square_of_digits
from senju.games.shogi.pieces import CSA_CODES, SIDE_NAMES, piece_on, piece_type, side_of
from senju.games.shogi.position import Position
from senju.games.shogi.record import ENDINGS, MAX_SECONDS, GameRecord, RecordError, checked, replay
from senju.games.shogi.sfen import SfenError, format_sfen, parse_sfen
from senju.kernels import is_allowed

__all__ = ["CsaError", "GameRecord", "read_csa", "read_csa_file", "write_csa"]

_MOVE = re.compile(r"([+-])(00|[1-9]{2})([1-9]{2})([A-Z]{2})")
_TIME = re.compile(r"T([0-9]{1,15}(?:\.[0-9]{1,6})?)")
_ENCODING = re.compile(rb"(?:\xef\xbb\xbf)?'CSA encoding=([A-Za-z0-9_-]+)")
_DECLARATIONS = ("'CSA encoding=UTF-8", "'CSA encoding=SHIFT_JIS")
_CUT_OFF = "is the file cut off?"


class Statement(NamedTuple):
    """One statement of a CSA file, and its line."""

    line: int  # from 1
    text: str

    def refuse(self, what: str) -> CsaError:
        """The error to raise."""
        shown = self.text if len(self.text) <= 60 else self.text[:60] + "…"
        return CsaError(f"CSA line {self.line}, {shown!r}: {what}")


def read_csa_file(path: Path | str, *, allow_unfinished: bool = False) -> list[GameRecord]:
    """Read a file in UTF-8 or Shift JIS, as declared in the file or else detected."""
    try:
        octets = Path(path).read_bytes()
    except OSError as error:
        raise CsaError(f"cannot read {f'{path}'[-500:]}: {error.strerror}") from None
    except (TypeError, ValueError) as error:  # a number, or a name with a zero byte
        raise CsaError(f"{reprlib.repr(path)} is not a path: {error}") from None
    try:
        return read_csa(_decoded(octets), allow_unfinished=allow_unfinished)
    except CsaError as error:
        raise CsaError(f"{path}: {error}") from None


def read_csa(text: str, *, allow_unfinished: bool = False) -> list[GameRecord]:
    r"""Read all games of a text; `allow_unfinished` accepts games without an ending.

    >>> [record] = read_csa("V2.2\nN+Sente\nPI\n+\n+7776FU,T3\n-3334FU,T5\n%TORYO\n")
    >>> record.moves, record.times, record.winner
    (['7g7f', '3c3d'], [3, 5], 1)
    """
    if not isinstance(text, str):
        what = f"expected the text of a record, got {type(text).__name__}"
        raise CsaError(f"{what}: {reprlib.repr(text)}; use read_csa_file for a file")
    games: list[list[Statement]] = [[]]
    for statement in _statements(text):
        if statement.text == "/":
            games.append([])
        else:
            games[-1].append(statement)
    filled = [statements for statements in games if any(not each.text.startswith("'") for each in statements)]
    if not filled:
        raise CsaError("the text has no CSA record; expected V2.2, a position, moves and an ending")
    return [_GameReader(statements, allow_unfinished).record for statements in filled]


def write_csa(record: GameRecord) -> str:
    """A record as CSA, version 2.2 (3.0 where times have fractions); join several with `/` lines.

    >>> print(write_csa(GameRecord(("Sente", "Gote"), moves=["7g7f"], times=[3], ending="%CHUDAN")), end="")
    V2.2
    N+Sente
    N-Gote
    PI
    +
    +7776FU
    T3
    %CHUDAN
    """
    checked(record)
    return "".join(f"{line}\n" for line in _lines(record))


def _lines(record: GameRecord) -> Iterator[str]:
    times = [seconds for seconds in (*(record.times or []), record.ending_time) if seconds is not None]
    is_whole = not any("." in _time_text(seconds) for seconds in times)
    yield from ["V2.2"] if is_whole else [_DECLARATIONS[0], "V3.0"]
    yield from (f"N{'+-'[side]}{name}" for side, name in enumerate(record.names) if name)
    for key, value in record.headers.items():
        if not key or ":" in key:
            raise RecordError(f"header {key!r}: expected a name without ':'")
        yield from (f"${key}:{line}" for line in _split(value))
    yield from _notes(record, 0, None)
    placement = parse_sfen(record.sfen)
    yield from format_position(placement.board, placement.hands, placement.side)
    for ply in replay(record):
        yield csa_of_move(ply.move)
        yield from _notes(record, ply.number, ply.seconds)
    if record.ending:
        yield record.ending
        yield from _notes(record, len(record.moves) + 1, record.ending_time)


def _notes(record: GameRecord, ply: int, seconds: float | None) -> Iterator[str]:
    """The time and the comment of a ply."""
    if seconds is not None:
        yield f"T{_time_text(seconds)}"
    if ply in record.comments:
        yield from (f"'{line}" for line in _split(record.comments[ply]))


def _time_text(seconds: float) -> str:
    """Seconds to six digits; whole ones without a decimal point, which CSA does not allow at the end."""
    rounded = round(seconds, 6)
    return f"{int(rounded)}" if rounded == int(rounded) else f"{rounded:.6f}".rstrip("0")


def _split(text: str) -> list[str]:
    """Lines, by line breaks only: `splitlines` would split at other characters too."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _decoded(octets: bytes) -> str:
    encodings = {"UTF-8": "utf-8", "SHIFT_JIS": "cp932"}
    if declared := _ENCODING.match(octets):
        name = declared[1].decode().upper()
        if name not in encodings:
            raise CsaError(f"line 1: encoding {name[:40]!r} is unknown; expected UTF-8 or SHIFT_JIS")
        encodings = {name: encodings[name]}
    for encoding in encodings.values():
        with suppress(UnicodeDecodeError):
            return octets.decode(encoding)
    raise CsaError(f"the content is not text in {' or '.join(encodings.values())}")


def _statements(text: str) -> Iterator[Statement]:
    """The statements with their line numbers; a line may have several, separated by commas."""
    for line, content in enumerate(_split(text.removeprefix("\ufeff")), 1):
        if content.startswith(("N", "$")):
            yield Statement(line, content)
        elif content not in _DECLARATIONS:
            yield from (Statement(line, part) for part in _parts(content) if part)


def _parts(line: str) -> Iterator[str]:
    """The parts between commas, up to a comment, which may contain commas."""
    start = 0  # by index: slicing at each comma would copy the rest of the line each time
    while start < len(line) and line[start] != "'":
        comma = line.find(",", start)
        end = comma if comma >= 0 else len(line)
        yield line[start:end].strip()
        start = end + 1
    yield line[start:]


class _GameReader:
    """Reads one game: first its headers and its position, then its moves, which it plays."""

    def __init__(self, statements: list[Statement], allow_unfinished: bool) -> None:
        self.record = GameRecord()
        self.start = PositionReader()
        self.position: Position | None = None  # once the side to move is known
        self.times: list[float | None] = []
        self.headers: dict[str, list[str]] = {}  # lines, joined at the end
        self.comments: dict[int, list[str]] = {}  # lines, joined at the end
        self.last = statements[-1]
        for statement in statements:
            self.hint = f"; {_CUT_OFF}" if statement == self.last else ""  # appended to some errors
            try:
                self._read(statement.text)
            except CsaError as error:
                raise statement.refuse(f"{error}") from None
        self._finish(allow_unfinished)

    def _read(self, text: str) -> None:
        if text.startswith("'"):
            ply = len(self.record.moves) + (self.record.ending is not None)
            self.comments.setdefault(ply, []).append(text[1:])
        elif self.position is None:
            self._read_opening(self.record, text)
        elif text.startswith("T"):
            self._read_time(text)
        elif self.record.ending is not None:
            raise CsaError(f"only another game may follow the ending {self.record.ending}")
        elif text.startswith(("+", "-")):
            self._read_move(self.position, text)
        elif text.startswith("%"):
            self._read_ending(text)
        else:
            raise CsaError("expected a move, a time, an ending or a comment" + self.hint)

    def _read_opening(self, record: GameRecord, text: str) -> None:
        if text.startswith("V"):
            if not re.fullmatch(r"V[23](\.[0-9])?", text):
                raise CsaError("this version is not supported; expected V2 to V3")
        elif text.startswith(("N+", "N-")):
            black, white = record.names
            record.names = (text[2:], white) if text[1] == "+" else (black, text[2:])
        elif text.startswith("$"):
            key, colon, value = text[1:].partition(":")
            if not colon or not key:
                raise CsaError("expected $NAME:text" + self.hint)
            self.headers.setdefault(key, []).append(value)
        elif text.startswith("P"):
            try:
                self.start.read(text)
            except CsaError as error:
                raise CsaError(f"{error}{self.hint}") from None
        elif text in ("+", "-"):
            record.sfen = format_sfen(*self.start.finish(text))
            try:
                self.position = Position(record.sfen, max_plies=MAX_PLIES)
            except SfenError as error:
                raise CsaError(f"in the position before it: {error}") from None
        else:
            raise CsaError("expected the position and the side to move before the moves" + self.hint)

    def _read_time(self, text: str) -> None:
        parts = _TIME.fullmatch(text)
        if parts is None:
            raise CsaError("expected seconds, such as T12" + self.hint)
        seconds = float(parts[1]) if "." in parts[1] else int(parts[1])
        if seconds >= MAX_SECONDS + 1:
            raise CsaError(f"expected at most {MAX_SECONDS} seconds{self.hint}")
        if self.record.ending is not None:
            self.record.ending_time = seconds
        elif not self.times:
            raise CsaError("a time must follow a move or an ending")
        else:
            self.times[-1] = seconds

    def _read_ending(self, text: str) -> None:
        if text not in ENDINGS:
            close = get_close_matches(text, ENDINGS, 1)
            meant = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(ENDINGS)}"
            raise CsaError(f"this ending is unknown; {meant}{self.hint}")
        self.record.ending = text

    def _read_move(self, position: Position, text: str) -> None:
        number = len(self.record.moves) + 1
        if number > MAX_PLIES:
            raise CsaError(f"records longer than {MAX_PLIES} plies are not supported")
        parts = _MOVE.fullmatch(text)
        if parts is None:
            what = f"ply {number} is not a move; expected side, two squares and a piece, such as +7776FU"
            raise CsaError(what + self.hint)
        if "+-".index(parts[1]) != position.side:
            raise CsaError(f"ply {number}: {SIDE_NAMES[position.side]} is to move")
        try:
            move = _move_of_csa(position, parts[2], parts[3], parts[4])
            action = action_of_move(position.state["board"], move)
        except NotationError as error:
            raise CsaError(f"ply {number} is not legal: {error}") from None
        if not is_allowed(position.state["legal"], action):
            raise CsaError(f"ply {number} is not legal: {explain(position.state, action).reason}")
        self.record.moves.append(position.usi(action))
        position.push(action)
        self.times.append(None)

    def _finish(self, allow_unfinished: bool) -> None:
        if self.position is None:
            raise self.last.refuse(f"the record ends before the side to move ('+' or '-'); {_CUT_OFF}")
        if self.record.ending is None and not allow_unfinished:
            raise self.last.refuse(
                f"the record ends after ply {len(self.record.moves)} without an ending such as %TORYO; "
                f"{_CUT_OFF} (allow_unfinished=True accepts it)"
            )
        if any(seconds is not None for seconds in self.times):
            self.record.times = self.times
        self.record.headers = {key: "\n".join(lines) for key, lines in self.headers.items()}
        self.record.comments = {ply: "\n".join(lines) for ply, lines in self.comments.items()}


def _move_of_csa(position: Position, source: str, target: str, code: str) -> Move:
    """The move of a CSA statement, in which only the piece's code shows a promotion."""
    kind, side, to = kind_of_code(code), position.side, square_of_digits(target)
    if source == "00":
        if kind not in HAND_KINDS:
            raise NotationError(f"{code} cannot be in hand")
        return Move(side, kind, None, to, promotes=False)
    board, square = position.state["board"], square_of_digits(source)
    moved = piece_type(board[square])
    if not moved or side_of(board[square]) != side:
        found = piece_on(board, square) if moved else f"no piece on {source}"
        raise NotationError(f"there is {found}, and {SIDE_NAMES[side]} is to move")
    if kind not in (moved, PROMOTED.get(moved)):
        raise NotationError(f"the piece on {source} is {CSA_CODES[moved]}, which cannot become {code}")
    return Move(side, moved, square, to, promotes=kind != moved)
