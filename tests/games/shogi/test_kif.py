"""KIF as cshogi reads it, with diagrams, times, comments and every ending."""

import random
from datetime import datetime

import cshogi
import cshogi.KIF
import pytest

from senju.games.shogi.kif import write_kif
from senju.games.shogi.record import ENDINGS, GameRecord
from tests.games.shogi.games import random_game, random_moves

SCORES = {0: cshogi.BLACK_WIN, 1: cshogi.WHITE_WIN}


@pytest.mark.parametrize("seed", range(10))
def test_cshogi_reads_moves_times_names_and_comments(seed: int) -> None:
    chance, moves = random.Random(seed), random_moves(seed, 150)
    record = GameRecord(
        names=("先手太郎", "後手花子"),
        moves=moves,
        times=[chance.randrange(4000) for _ in moves],
        ending="%TORYO",
        ending_time=7,
        headers={"EVENT": "大会", "START_TIME": "2024/05/14 10:00:00", "OWN": "x"},
        comments={0: "first\nsecond", 1: "on the first move", 3: "two\nlines"},
    )
    theirs = cshogi.KIF.Parser.parse_str(write_kif(record))
    assert [cshogi.move_to_usi(move) for move in theirs.moves] == moves
    assert theirs.times == [*(record.times or []), 7]
    assert theirs.names == list(record.names)
    assert theirs.win == SCORES[record.winner or 0]
    assert theirs.endgame == "%TORYO"
    assert theirs.comment == "first\nsecond"
    assert theirs.comments == ["on the first move", None, "two\nlines"]
    assert theirs.var_info == {"棋戦": "大会", "開始日時": "2024/05/14 10:00:00", "OWN": "x"}
    assert theirs.starttime == datetime(2024, 5, 14, 10)


MOVES = ["7g7f", "3c3d", "8h2b+"]  # White is to move


@pytest.mark.parametrize(
    ("ending", "word", "result"),
    [
        ("%TORYO", "投了", "まで3手で先手の勝ち"),
        ("%TSUMI", "詰み", "まで3手で先手の勝ち"),
        ("%TIME_UP", "切れ負け", "まで3手で時間切れにより先手の勝ち"),
        ("%ILLEGAL_MOVE", "反則負け", "まで3手で後手の反則負け"),
        ("%+ILLEGAL_ACTION", "反則勝ち", "まで3手で後手の反則勝ち"),
        ("%-ILLEGAL_ACTION", "反則負け", "まで3手で後手の反則負け"),
        ("%KACHI", "入玉勝ち", "まで3手で後手の入玉勝ち"),
        ("%SENNICHITE", "千日手", "まで3手で千日手"),
        ("%JISHOGI", "持将棋", "まで3手で持将棋"),
        ("%HIKIWAKE", "持将棋", "まで3手で持将棋"),
        ("%MAX_MOVES", "持将棋", "まで3手で持将棋"),
        ("%CHUDAN", "中断", "まで3手で中断"),
        ("%MATTA", "中断", "まで3手で中断"),
        ("%ERROR", "中断", "まで3手で中断"),
        ("%FUZUMI", "不詰", "まで3手で不詰"),
    ],
)
def test_every_ending_has_its_words(ending: str, word: str, result: str) -> None:
    record = GameRecord(moves=MOVES, ending=ending)
    text = write_kif(record)
    assert text.endswith(f"   4 {word}\n{result}\n")
    theirs = cshogi.KIF.Parser.parse_str(text)
    if record.winner is not None and ending != "%TIME_UP":  # cshogi does not know KIF's words for that
        assert theirs.win == SCORES[record.winner]


def test_table_of_endings_is_complete() -> None:
    for ending in ENDINGS:
        assert "まで" in write_kif(GameRecord(ending=ending))
    assert "まで" not in write_kif(GameRecord(moves=MOVES))


def test_recapture_promotion_and_drop_are_written_in_full() -> None:
    moves = ["7g7f", "3c3d", "8h2b+", "3a2b", "B*5e"]
    lines = write_kif(GameRecord(moves=moves)).splitlines()
    assert [line.split(" ", 4)[-1] for line in lines[-5:]] == [
        "７六歩(77)",
        "３四歩(33)",
        "２二角成(88)",
        "同　銀(31)",
        "５五角打",
    ]


def test_times_of_the_move_and_in_total_are_written() -> None:
    times = [61, 5, 3600.9, None]
    lines = write_kif(GameRecord(moves=[*MOVES, "3a2b"], times=times)).splitlines()[-4:]
    assert [line.partition(")  ")[2].strip() for line in lines] == [
        "( 1:01/00:01:01)",
        "( 0:05/00:00:05)",
        "(60:00/01:01:01)",
        "",
    ]


@pytest.mark.parametrize("seed", range(8))
def test_other_starts_are_drawn_as_cshogi_draws_them(seed: int) -> None:
    sfen = random_game(seed, 120 + seed).sfen()
    moves = random_moves(seed, 5, sfen)
    text = write_kif(GameRecord(sfen=sfen, moves=moves, ending="%CHUDAN"))
    assert "手合割" not in text
    diagram = cshogi.KIF.board_to_bod(cshogi.Board(sfen))
    assert f"\n{diagram}\n先手：" in text


def test_hands_are_counted_in_japanese() -> None:
    text = write_kif(GameRecord(sfen="4k4/9/9/9/9/9/9/9/4K4 w 2G10Pr8p 1"))
    assert "先手の持駒：金二　歩十\n" in text
    assert "後手の持駒：飛　歩八\n" in text
    assert "\n後手番\n" in text
    assert "先手の持駒：歩十八\n" in write_kif(GameRecord(sfen="4k4/9/9/9/9/9/9/9/4K4 b 18P 1"))
    assert "先手の持駒：なし\n" in write_kif(GameRecord(sfen="4k4/9/9/9/9/9/9/9/4K4 b - 1"))
