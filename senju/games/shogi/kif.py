"""Writes game records in the KIF format, which Japanese programs and websites read."""

import unicodedata

from senju.games.shogi.boards import EDGE, FILES_JAPANESE, japanese_ranks
from senju.games.shogi.layout import START_SFEN
from senju.games.shogi.notation import kif_of_move
from senju.games.shogi.pieces import KANJI, KANJI_DIGITS, Hands, Side, Square, held
from senju.games.shogi.record import GameRecord, checked, replay
from senju.games.shogi.sfen import Placement, format_sfen, parse_sfen

SIDES = ("先手", "後手")
_HEADERS = {
    "EVENT": "棋戦",
    "SITE": "場所",
    "START_TIME": "開始日時",
    "END_TIME": "終了日時",
    "TIME_LIMIT": "持ち時間",
    "OPENING": "戦型",
}
_ENDINGS = {
    "%TORYO": "投了",
    "%TSUMI": "詰み",
    "%TIME_UP": "切れ負け",
    "%ILLEGAL_MOVE": "反則負け",
    "%KACHI": "入玉勝ち",
    "%SENNICHITE": "千日手",
    "%JISHOGI": "持将棋",
    "%HIKIWAKE": "持将棋",
    "%MAX_MOVES": "持将棋",  # KIF has no word for it; tournaments with a limit of moves use this one
    "%FUZUMI": "不詰",
}


def write_kif(record: GameRecord) -> str:
    """A record as KIF; write it to a file as UTF-8 (`.kifu`, or `.kif` for recent programs).

    >>> print(write_kif(GameRecord(("甲", "乙"), moves=["7g7f"], times=[65], ending="%TORYO")), end="")
    #KIF version=2.0 encoding=UTF-8
    手合割：平手
    先手：甲
    後手：乙
    手数----指手---------消費時間--
       1 ７六歩(77)     ( 1:05/00:01:05)
       2 投了
    まで1手で先手の勝ち
    """
    checked(record)
    lines = ["#KIF version=2.0 encoding=UTF-8"]
    for key, value in record.headers.items():
        one_line = value.replace("\n", " ")
        lines.append(f"{_HEADERS.get(key, key)}：{one_line}")
    lines += _start_lines(parse_sfen(record.sfen))
    lines += [f"{side}：{name}" for side, name in zip(SIDES, record.names, strict=True)]
    lines += ["手数----指手---------消費時間--", *_comment_lines(record, 0)]
    lines += _move_lines(record)
    return "".join(f"{line}\n" for line in lines)


def _start_lines(start: Placement) -> list[str]:
    if format_sfen(start.board, start.hands, start.side) == START_SFEN:
        return ["手合割：平手"]
    turn = ["後手番"] if start.side == 1 else []
    white, black = (f"{SIDES[side]}の持駒：{_hand(start.hands, side)}" for side in (1, 0))
    return [white, FILES_JAPANESE, EDGE, *japanese_ranks(start.board), EDGE, black, *turn]


def _move_lines(record: GameRecord) -> list[str]:
    spent = [0.0, 0.0]  # by each side so far
    lines: list[str] = []
    previous: Square | None = None
    for ply in replay(record):
        side = ply.move.side
        spent[side] += ply.seconds or 0.0
        lines.append(_line(ply.number, kif_of_move(ply.move, previous), ply.seconds, spent[side]))
        lines += _comment_lines(record, ply.number)
        previous = ply.move.target
    if record.ending:
        number = len(record.moves) + 1
        spent[record.side] += record.ending_time or 0.0
        word = _ending_word(record)
        lines.append(_line(number, word, record.ending_time, spent[record.side]))
        lines += _comment_lines(record, number)
        lines.append(f"まで{len(record.moves)}手で{_result(record, word)}")
    return lines


def _ending_word(record: GameRecord) -> str:
    assert record.ending is not None
    if record.ending.endswith("ILLEGAL_ACTION"):
        return "反則勝ち" if record.winner == record.side else "反則負け"
    return _ENDINGS.get(record.ending, "中断")


def _result(record: GameRecord, word: str) -> str:
    """The text after `まで`: the winner and the reason."""
    mover, other = SIDES[record.side], SIDES[1 - record.side]
    if word in ("投了", "詰み"):
        return f"{other}の勝ち"
    if word == "切れ負け":
        return f"時間切れにより{other}の勝ち"
    return f"{mover}の{word}" if word.endswith(("勝ち", "負け")) else word


def _line(number: int, text: str, seconds: float | None, spent: float) -> str:
    if seconds is None:
        return f"{number:>4} {text}"
    minutes, rest = divmod(int(seconds), 60)
    hours, left = divmod(int(spent), 3600)
    clock = f"({minutes:>2}:{rest:02}/{hours:02}:{left // 60:02}:{left % 60:02})"
    # Japanese characters take two columns of a terminal
    width = sum(2 if unicodedata.east_asian_width(character) in "FW" else 1 for character in text)
    return f"{number:>4} {text}{' ' * max(1, 15 - width)}{clock}"


def _comment_lines(record: GameRecord, ply: int) -> list[str]:
    text = record.comments.get(ply)
    return [] if text is None else [f"*{line}" for line in text.replace("\r", "\n").split("\n")]


def _hand(hands: Hands, side: Side) -> str:
    pieces = [KANJI[kind] + (_kanji_number(count) if count > 1 else "") for kind, count in held(hands, side)]
    return "　".join(pieces) or "なし"


def _kanji_number(number: int) -> str:
    """A number from 1 to 18 in Japanese."""
    return ("十" if number >= 10 else "") + (KANJI_DIGITS[number % 10] if number % 10 else "")
