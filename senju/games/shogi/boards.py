"""The board for display: as text with Japanese or Latin letters, and as an SVG picture."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from senju.errors import ConfigError
from senju.games.shogi import pieces
from senju.games.shogi.explain import ending_text
from senju.games.shogi.layout import HAND_KINDS, KING, UNPROMOTED, WHITE
from senju.games.shogi.notation import not_usi, parse_square
from senju.games.shogi.pieces import Board, Hands, PieceType, Side, Square

Letters = Literal["japanese", "latin"]

FILES_JAPANESE = "  ９ ８ ７ ６ ５ ４ ３ ２ １"
EDGE = "+---------------------------+"


def board_text(state: np.void, letters: Letters = "japanese") -> str:
    """A position as lines of text; White's pieces have a `v` before them, or lower-case letters.

    >>> from senju.games.shogi.position import Position
    >>> print(board_text(Position("4k4/9/9/9/9/9/4+P4/9/4K4 b R2p 1").state, "latin"))
    White in hand: 2p
      9  8  7  6  5  4  3  2  1
    +---------------------------+
    | .  .  .  .  k  .  .  .  . | a
    | .  .  .  .  .  .  .  .  . | b
    | .  .  .  .  .  .  .  .  . | c
    | .  .  .  .  .  .  .  .  . | d
    | .  .  .  .  .  .  .  .  . | e
    | .  .  .  .  .  .  .  .  . | f
    | .  .  .  . +P  .  .  .  . | g
    | .  .  .  .  .  .  .  .  . | h
    | .  .  .  .  K  .  .  .  . | i
    +---------------------------+
    Black in hand: R
    Black to move after 0 plies.
    """
    if letters not in ("japanese", "latin"):
        raise ConfigError(f"letters={letters!r}: expected 'japanese' or 'latin'")
    is_japanese = letters == "japanese"
    hands = [_hand_text(state["hands"], side, is_japanese) for side in (0, 1)]
    if is_japanese:
        files, ranks = FILES_JAPANESE, japanese_ranks(state["board"])
    else:
        files, ranks = "  " + "  ".join("987654321"), []
        for rank in pieces.ranks_of(state["board"]):
            ranks.append("|" + "".join(f"{pieces.letter_of(code) or '.':>2} " for code in rank) + "|")
    lines = [f"{rank} {name}" for rank, name in zip(ranks, pieces.RANKS, strict=True)]
    top, bottom = f"White in hand: {hands[1]}", f"Black in hand: {hands[0]}"
    return "\n".join([top, files, EDGE, *lines, EDGE, bottom, _status(state)])


def japanese_ranks(board: Board) -> list[str]:
    """The nine ranks from White's end, as in Japanese diagrams: a sign and a wide character per piece."""
    ranks = zip(pieces.ranks_of(board), pieces.KANJI_DIGITS[1:], strict=True)
    return [f"|{''.join(map(_japanese_piece, rank))}|{digit}" for rank, digit in ranks]


def _japanese_piece(code: int) -> str:
    return f"{'v' if code and pieces.side_of(code) == WHITE else ' '}{pieces.KANJI[pieces.piece_type(code)]}"


def _hand_text(hands: Hands, side: Side, is_japanese: bool) -> str:
    words = []
    for kind, count in pieces.held(hands, side):
        number = str(count) if count > 1 else ""
        words.append(pieces.KANJI[kind] + number if is_japanese else number + pieces.SYMBOLS[kind])
    text = " ".join(words) or "nothing"
    return text.lower() if side == WHITE else text


def _status(state: np.void) -> str:
    plies = "1 ply" if state["ply"] == 1 else f"{state['ply']} plies"
    ending = ending_text(state)
    if ending:
        return f"After {plies} the game is over: {ending}."
    check = ", in check" if state["is_check"] else ""
    return f"{pieces.SIDE_NAMES[int(state['side'])]} to move after {plies}{check}."


# The picture, in pixels. Squares are a little higher than wide, as on a real board.
_WIDTH, _HEIGHT = 50, 54
_STAND, _GAP, _TOP = 92, 42, 34  # the stands beside the board, the space between, the space above
_LEFT = _STAND + _GAP + 6  # where the squares begin
_TOTAL_WIDTH, _TOTAL_HEIGHT = 2 * _LEFT + 9 * _WIDTH, _TOP + 9 * _HEIGHT + 40
_INK, _RED, _LINE = "#2b1a0d", "#b3261e", "#5b3a16"
_FONT = "'Noto Serif CJK JP','Hiragino Mincho ProN','Yu Mincho','MS Mincho','IPAexMincho',serif"
_SIZES = dict(zip((*HAND_KINDS, KING), (0.83, 0.87, 0.89, 0.93, 0.93, 0.97, 0.97, 1.0), strict=True))
_DEFINITIONS = (
    '<defs><linearGradient id="senju-board" x1="0" y1="0" x2="1" y2="1">'
    '<stop offset="0" stop-color="#f3cf8b"/><stop offset="1" stop-color="#e2b366"/></linearGradient>'
    '<linearGradient id="senju-piece" x1="0" y1="0" x2="0" y2="1">'
    '<stop offset="0" stop-color="#fdebc0"/><stop offset="1" stop-color="#f0cd87"/></linearGradient></defs>'
)


def board_svg(state: np.void, last_move: str | None = None) -> str:
    """A position as an SVG picture; the squares of the last move, given in USI, are marked."""
    board, hands = state["board"], state["hands"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_TOTAL_WIDTH} {_TOTAL_HEIGHT}" '
        f'width="{_TOTAL_WIDTH}" height="{_TOTAL_HEIGHT}" text-anchor="middle">',
        _DEFINITIONS,
        f'<rect width="{_TOTAL_WIDTH}" height="{_TOTAL_HEIGHT}" fill="#fbf7ee"/>',
        *_stand(hands, 1, int(state["side"])),
        *_stand(hands, 0, int(state["side"])),
        *_empty_board(),
        *(_mark(square) for square in _squares_of(last_move)),
        *(_piece_on_board(board, square) for square in np.flatnonzero(board).tolist()),
        _label(_status(state), _TOTAL_WIDTH / 2, _TOTAL_HEIGHT - 11),
    ]
    return "\n".join([*parts, "</svg>"])


def _squares_of(last_move: str | None) -> list[Square]:
    """The source and target squares of a USI move."""
    if last_move is None:
        return []
    move = last_move.removesuffix("+") if isinstance(last_move, str) else ""
    if len(move) != 4:
        raise not_usi(last_move)
    squares = [move[2:]] if move[1] == "*" else [move[:2], move[2:]]
    return [parse_square(name) for name in squares]


def _corner(square: Square) -> tuple[int, int]:
    file, rank = divmod(square, 9)
    return _LEFT + (8 - file) * _WIDTH, _TOP + rank * _HEIGHT


def _empty_board() -> Iterator[str]:
    right, bottom = _LEFT + 9 * _WIDTH, _TOP + 9 * _HEIGHT
    yield (
        f'<rect x="{_LEFT - 12}" y="{_TOP - 12}" width="{9 * _WIDTH + 24}" height="{9 * _HEIGHT + 24}" '
        f'rx="3" fill="url(#senju-board)" stroke="#b98a45"/>'
    )
    for line in range(10):
        x, y, width = _LEFT + line * _WIDTH, _TOP + line * _HEIGHT, 2 if line in (0, 9) else 1
        yield f'<path d="M{x} {_TOP}V{bottom}M{_LEFT} {y}H{right}" stroke="{_LINE}" stroke-width="{width}"/>'
    for column in (3, 6):
        for row in (3, 6):
            x, y = _LEFT + column * _WIDTH, _TOP + row * _HEIGHT
            yield f'<circle cx="{x}" cy="{y}" r="3.2" fill="{_LINE}"/>'
    for index in range(9):
        yield _label(str(9 - index), _LEFT + (index + 0.5) * _WIDTH, _TOP - 18)
        yield _label(pieces.RANKS[index], right + 26, _TOP + (index + 0.5) * _HEIGHT + 5)


def _mark(square: Square) -> str:
    x, y = _corner(square)
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{_WIDTH - 2}" height="{_HEIGHT - 2}" '
        f'fill="#c65d21" fill-opacity="0.38"/>'
    )


def _piece_on_board(board: Board, square: Square) -> str:
    x, y = _corner(square)
    code = int(board[square])
    return _piece(pieces.piece_type(code), pieces.side_of(code), x + _WIDTH / 2, y + _HEIGHT / 2)


def _piece(kind: PieceType, side: Side, x: float, y: float) -> str:
    """A five-sided piece that points away from its owner; promoted ones are red."""
    size = _SIZES[UNPROMOTED.get(kind, kind)]
    half, foot, shoulder = 0.36 * _WIDTH, 0.44 * _WIDTH, 0.28 * _HEIGHT
    tip, base = 0.46 * _HEIGHT, 0.44 * _HEIGHT
    name = "王" if kind == KING and side == WHITE else pieces.KANJI[kind]
    colour = _RED if kind in UNPROMOTED else _INK
    turn = " rotate(180)" if side == WHITE else ""
    return (
        f'<g transform="translate({x:g} {y:g}){turn} scale({size})">'
        f'<path d="M0 {-tip:.1f}L{half:.1f} {-shoulder:.1f}L{foot:.1f} {base:.1f}H{-foot:.1f}'
        f'L{-half:.1f} {-shoulder:.1f}Z" fill="url(#senju-piece)" stroke="#7a5323" stroke-linejoin="round"/>'
        f'<text y="13" font-size="31" font-weight="600" font-family="{_FONT}" fill="{colour}">'
        f"{name}</text></g>"
    )


def _stand(hands: Hands, side: Side, mover: Side) -> Iterator[str]:
    """The pieces in hand beside the board: White's at the top left, Black's at the bottom right."""
    in_hand = pieces.held(hands, side)
    height = len(HAND_KINDS) * _HEIGHT * 0.98 + 12
    x = 8 if side == WHITE else _TOTAL_WIDTH - _STAND - 8
    y = _TOP - 12 if side == WHITE else _TOP + 9 * _HEIGHT + 12 - height
    yield (
        f'<rect x="{x}" y="{y:g}" width="{_STAND}" height="{height:g}" rx="3" '
        f'fill="#ecd3a2" stroke="#b98a45"/>'
    )
    name_y = y + height + 20 if side == WHITE else y - 10
    weight = ' font-weight="bold"' if side == mover else ""
    mark = "● " if side == mover else ""
    yield (
        f'<text x="{x + _STAND / 2:g}" y="{name_y:g}" font-size="15" font-family="sans-serif" '
        f'fill="{_INK}"{weight}>{mark}{pieces.SIDE_NAMES[side]}</text>'
    )
    for place, (kind, count) in enumerate(in_hand):
        row = place if side == WHITE else len(HAND_KINDS) - len(in_hand) + place
        middle = y + 6 + (row + 0.5) * _HEIGHT * 0.98
        yield _piece(kind, side, x + 32, middle)
        if count > 1:
            yield _label(f"×{count}", x + 71, middle + 6, 16)


def _label(text: str, x: float, y: float, size: int = 14) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-family="sans-serif" fill="{_INK}">{text}</text>'
    )
