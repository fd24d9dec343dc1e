"""CSA records: written and read back, compared with cshogi, and refused with line and ply."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import cshogi
import cshogi.CSA
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.games.shogi.csa import CsaError, GameRecord, read_csa, read_csa_file, write_csa
from senju.games.shogi.layout import MAX_PLIES, START_SFEN, Ending
from senju.games.shogi.record import ENDINGS, RecordError, ending_word
from tests.facts import Facts, assert_mentions, mentions
from tests.games.shogi.games import random_game, random_moves

SHORT = """V2.2
N+Sente
N-Gote
$EVENT:Test
$START_TIME:2024/05/14 10:00:00
PI
+
+7776FU
T12
'a good move
-3334FU
T6
+8822UM
T0
-3122GI
T3
%TORYO
T9
"""
SHORT_RECORD = GameRecord(
    names=("Sente", "Gote"),
    moves=["7g7f", "3c3d", "8h2b+", "3a2b"],
    times=[12, 6, 0, 3],
    ending="%TORYO",
    ending_time=9,
    headers={"EVENT": "Test", "START_TIME": "2024/05/14 10:00:00"},
    comments={1: "a good move"},
)
BOARD = """P1-KY-KE-GI-KI-OU-KI-GI-KE-KY
P2 * -HI *  *  *  *  * -KA *
P3-FU-FU-FU-FU-FU-FU-FU-FU-FU
P4 *  *  *  *  *  *  *  *  * 
P5 *  *  *  *  *  *  *  *  * 
P6 *  *  *  *  *  *  *  *  * 
P7+FU+FU+FU+FU+FU+FU+FU+FU+FU
P8 * +KA *  *  *  *  * +HI * 
P9+KY+KE+GI+KI+OU+KI+GI+KE+KY
"""  # noqa: W291  # the blanks are part of the format; P2 has lost its last one


def test_record_is_read_in_full() -> None:
    assert read_csa(SHORT) == [SHORT_RECORD]
    assert SHORT_RECORD.winner == 1


def test_record_is_written_as_it_was_read() -> None:
    assert write_csa(SHORT_RECORD) == SHORT


@pytest.mark.parametrize(
    "variant",
    {
        "CRLF": SHORT.replace("\n", "\r\n"),
        "old Macintosh": SHORT.replace("\n", "\r"),
        "byte order mark": "\ufeff" + SHORT,
        "no version": SHORT.removeprefix("V2.2\n"),
        "version 2": SHORT.replace("V2.2", "V2"),
        "version 3": "'CSA encoding=UTF-8\n" + SHORT.replace("V2.2", "V3.0"),
        "statements joined": SHORT.replace("\nT", ",T"),
        "comment behind a comma": SHORT.replace("\nT12\n'", ",T12,'"),
        "blank lines": SHORT.replace("\n", "\n\n"),
        "blanks at the end": SHORT.replace("FU\n", "FU  \n"),
        "ranks": SHORT.replace("PI\n", BOARD),
        "pieces in hand and on squares": SHORT.replace("PI\n", BOARD.replace("-KA *", " *  *") + "P-22KA\n"),
        "a last separator": SHORT + "/\n",
        "no line break at the end": SHORT.removesuffix("\n"),
    }.items(),
    ids=lambda variant: variant[0],
)
def test_writings_of_the_same_game_are_read_alike(variant: tuple[str, str]) -> None:
    assert read_csa(variant[1]) == [SHORT_RECORD]


def test_several_games_stand_in_one_file() -> None:
    records = read_csa(SHORT + "/\n" + SHORT.replace("Sente", "Third") + "/\n'only a comment\n")
    assert [record.names for record in records] == [("Sente", "Gote"), ("Third", "Gote")]


@pytest.mark.parametrize(
    ("lines", "sfen"),
    [
        ("PI82HI22KA\n-", "lnsgkgsnl/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"),
        ("PI11KY\n-", "lnsgkgsn1/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"),
        ("P+59OU\nP-51OU\n+", "4k4/9/9/9/9/9/9/9/4K4 b - 1"),
        ("P+59OU00FU00FU00KI\nP-51OU22RY\n+", "4k4/7+r1/9/9/9/9/9/9/4K4 b G2P 1"),
        ("P+59OU23TO\nP-51OU\nP+00HI\nP-00AL\n+", "4k4/9/7+P1/9/9/9/9/9/4K4 b Rr2b4g4s4n4l17p 1"),
    ],
)
def test_starting_positions(lines: str, sfen: str) -> None:
    [record] = read_csa(f"V2.2\n{lines}\n%CHUDAN\n")
    assert record.sfen == sfen
    assert read_csa(write_csa(record)) == [record]
    if "AL" not in lines:  # cshogi does not read it
        theirs = cshogi.Board(cshogi.CSA.Parser.parse_str(write_csa(record))[0].sfen)
        assert theirs.sfen() == sfen


WORDS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map("\n".join)
TIMES = st.integers(0, 10**6) | st.integers(1, 10**6).map(lambda milliseconds: milliseconds / 1000)
TIMES |= st.floats(0, 1e-5) | st.floats(2.99999, 3.00001) | st.floats(0, 999_999_999.9999)


@st.composite
def records(draw: st.DrawFn) -> GameRecord:
    chance = draw(st.integers(0, 2**32))
    start = random_game(chance, draw(st.sampled_from([0, 0, 60]))).sfen()
    sfen = " ".join([*start.split()[:3], "1"])
    moves = random_moves(chance, draw(st.integers(0, 30)), sfen)
    times: list[float | None] | None = [draw(st.none() | TIMES) for _ in moves]
    ending = draw(st.sampled_from([None, *ENDINGS]))
    last = len(moves) + (ending is not None)
    return GameRecord(
        names=(draw(WORDS), draw(WORDS)),
        sfen=sfen,
        moves=moves,
        times=times if any(seconds is not None for seconds in times or []) else None,
        ending=ending,
        ending_time=draw(st.none() | TIMES) if ending else None,
        headers=draw(st.dictionaries(st.text("ABC_+", min_size=1, max_size=4), TEXTS, max_size=2)),
        comments=draw(st.dictionaries(st.integers(0, last), TEXTS, max_size=3)),
    )


@given(records())
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read_again(record: GameRecord) -> None:
    assert read_csa(write_csa(record), allow_unfinished=True) == [in_microseconds(record)]


def in_microseconds(record: GameRecord) -> GameRecord:
    """The record with its times as exact as CSA can write them."""
    times = [None if seconds is None else round(seconds, 6) for seconds in record.times or []]
    last = None if record.ending_time is None else round(record.ending_time, 6)
    return replace(record, times=times or record.times, ending_time=last)


@pytest.mark.parametrize(
    ("seconds", "version", "expected"),
    [
        (0, "V2.2", "T0"),
        (12.0, "V2.2", "T12"),
        (100, "V2.2", "T100"),
        (1e-7, "V2.2", "T0"),
        (-0.0, "V2.2", "T0"),
        (2.9999999, "V2.2", "T3"),
        (1e-6, "V3.0", "T0.000001"),
        (0.5, "V3.0", "T0.5"),
        (10.25, "V3.0", "T10.25"),
        (999_999_998.9999996, "V2.2", "T999999999"),
    ],
)
def test_times_are_written_to_six_digits(seconds: float, version: str, expected: str) -> None:
    record = GameRecord(moves=["7g7f"], times=[seconds], ending="%TORYO", ending_time=seconds)
    lines = write_csa(record).split("\n")
    assert version in lines
    assert lines.count(expected) == 2
    assert read_csa("\n".join(lines)) == [in_microseconds(record)]


@pytest.mark.parametrize("seed", range(5))
def test_cshogi_reads_what_we_write(seed: int) -> None:
    chance = random.Random(seed)
    sfen = START_SFEN if seed < 3 else " ".join([*random_game(seed, 81).sfen().split()[:3], "1"])
    moves = random_moves(seed, 100, sfen)
    record = GameRecord(
        names=("先手", "後手"),
        sfen=sfen,
        moves=moves,
        times=[chance.randrange(100) for _ in moves],
        ending="%TORYO",
        headers={"EVENT": "大会"},
    )
    [theirs] = cshogi.CSA.Parser.parse_str(write_csa(record))
    assert [cshogi.move_to_usi(move) for move in theirs.moves] == moves
    assert (theirs.sfen, theirs.endgame, theirs.names) == (sfen, "%TORYO", list(record.names))
    assert list(theirs.times)[: len(moves)] == record.times
    assert theirs.var_info == record.headers
    assert theirs.win == {0: cshogi.BLACK_WIN, 1: cshogi.WHITE_WIN}[record.winner or 0]


@pytest.mark.parametrize("seed", range(5))
def test_we_read_what_cshogi_writes(seed: int, tmp_path: Path) -> None:
    board = cshogi.Board()
    moves = random_moves(seed, 80)
    if seed >= 3:
        board = cshogi.Board(" ".join([*random_game(seed, 60).sfen().split()[:3], "1"]))
        moves = random_moves(seed, 80, board.sfen())
    path = tmp_path / "game.csa"
    exporter = cshogi.CSA.Exporter(str(path), encoding="utf-8")
    exporter.info(board, ["甲", "乙"], {"EVENT": "大会"}, "a comment", "V2.2")
    for number, usi in enumerate(moves):
        move = board.move_from_usi(usi)
        exporter.move(move, number, sep="," if seed % 2 else "\n")
        board.push(move)
    exporter.endgame("%CHUDAN", 3)
    exporter.close()
    [record] = read_csa_file(path)
    assert record.moves == moves
    assert record.times == list(range(len(moves)))
    assert (record.names, record.ending, record.ending_time) == (("甲", "乙"), "%CHUDAN", 3)
    assert record.comments == {0: "a comment"}


@pytest.mark.parametrize(
    ("octets", "name"),
    [
        ("N+羽生\n".encode("cp932"), "羽生"),
        ("N+羽生\n".encode(), "羽生"),
        ("\ufeffN+羽生\n".encode(), "羽生"),
        ("'CSA encoding=UTF-8\nN+羽生\n".encode(), "羽生"),
        ("'CSA encoding=SHIFT_JIS\nN+羽生\n".encode("cp932"), "羽生"),
        ("'CSA encoding=shift_jis\nN+羽生\n".encode("cp932"), "羽生"),
    ],
)
def test_files_are_read_in_both_encodings(tmp_path: Path, octets: bytes, name: str) -> None:
    path = tmp_path / "game.csa"
    path.write_bytes(octets + SHORT.split("\n", 2)[2].encode())
    [record] = read_csa_file(path)
    assert record.names[0] == name


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (b"\x819\x81", ("utf-8", "cp932")),
        (b"'CSA encoding=UTF-8\nN+\x89\n", "utf-8"),
        (b"'CSA encoding=EUC-JP\n", ("encoding", "'EUC-JP'")),
        (b"V2.2\nPI\n+\n+7775FU\n%TORYO\n", "line 4"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, octets: bytes, expected: Facts) -> None:
    path = tmp_path / "game.csa"
    path.write_bytes(octets)
    with pytest.raises(CsaError) as caught:
        read_csa_file(path)
    assert_mentions(str(caught.value), "game.csa", expected)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CsaError, match=mentions("none.csa", "No such file")):
        read_csa_file(tmp_path / "none.csa")


HEAD = "V2.2\nPI\n+\n"
CUT = "cut off"
REFUSED = {
    "nothing": ("", ["no CSA record"]),
    "only comments": ("'one\n/\n'two\n", ["no CSA record"]),
    "unknown version": ("V9\nPI\n+\n%TORYO\n", ["line 1, 'V9'", "V2 to V3"]),
    "an older version": ("V1.0\nPI\n+\n%TORYO\n", ["line 1, 'V1.0'", "V2 to V3"]),
    "no ending": (
        HEAD + "+7776FU\n",
        ["line 4", "ply 1", "ending", CUT, "allow_unfinished"],
    ),
    "no moves and no ending": (HEAD, ["ply 0", "ending"]),
    "half a move": (HEAD + "+7776FU\n-33", ["line 5, '-33'", "ply 2", "+7776FU", CUT]),
    "half a piece": (HEAD + "+7776F", ["line 4", "ply 1", CUT]),
    "half a time": (HEAD + "+7776FU\nT", ["line 5, 'T'", "T12", CUT]),
    "endless time": (
        HEAD + "+7776FU\nT1000000000\n%TORYO\n",
        ["line 5, 'T1000000000'", "999999999 seconds"],
    ),
    "half an ending": (HEAD + "+7776FU\n%TORY", ["'%TORY'", "%TORYO", CUT]),
    "no such ending": (HEAD + "%XYZ\n+7776FU\n", ["'%XYZ'", "%TORYO"]),
    "half a header": ("V2.2\n$EVEN", ["line 2", "$NAME:text", CUT]),
    "before the position": ("V2.2\nN+A", ["side to move", CUT]),
    "half a position": ("V2.2\n" + BOARD[:100], ["line 5, 'P4", "27", CUT]),
    "ranks missing": (
        "V2.2\n" + "\n".join(BOARD.split("\n")[:6]) + "\n+\n",
        ["6 of 9 ranks", "P7, P8, P9"],
    ),
    "no side": ("V2.2\nPI\n+7776FU\n", ["line 3", "side to move"]),
    "no position": ("V2.2\n+\n+7776FU\n", ["line 2", "PI or P1 to P9"]),
    "rank twice": ("V2.2\n" + BOARD + BOARD[:30] + "\n", ["line 11", "rank 1"]),
    "ranks behind PI": ("PI\n" + BOARD + "+\n", ["line 2", "rank 1"]),
    "PI behind ranks": (BOARD + "PI\n+\n", ["line 10, 'PI'", "first"]),
    "unknown piece in a rank": (BOARD.replace("-HI", "-XX"), ["line 2", "'XX'", "FU KY KE"]),
    "no sign in a rank": (BOARD.replace("-HI", " HI"), ["' HI' on file 8"]),
    "wrong square taken away": ("PI55FU\n+\n", ["FU", "no piece"]),
    "wrong piece taken away": ("PI82KA\n+\n", ["KA", "White's rook on 8b"]),
    "half a piece on a square": ("P+59O\n+\n", ["four letters each"]),
    "square nought": ("P+50OU\n+\n", ["four letters each"]),
    "two pieces on a square": ("P+59OU59KI\n+\n", ["Black's king on 5i"]),
    "king in hand": ("P+00OU\n+\n", ["OU", "in hand"]),
    "promoted piece in hand": ("P+00TO\n+\n", ["TO", "in hand"]),
    "too many in hand": ("P+" + "00HI" * 3 + "\n+\n", ["2 HI"]),
    "all others on a square": ("P+59AL\n+\n", ["00AL"]),
    "unknown P": ("PX\n", ["PI, P1 to P9, P+ or P-"]),
    "no king": ("P-51OU\n+\n", ["Black", "no king"]),
    "three bishops": ("P+59OU\nP-51OU22KA33UM\nP+00KA\n+\n", ["3 bishops"]),
    "stuck pawn": ("P+59OU11FU\nP-51OU\n+\n", ["Black's pawn on 1a", "never move"]),
    "king to be taken": ("P+59OU52KI\nP-51OU\n+\n%TORYO\n", ["White's king"]),
    "the other's turn": (HEAD + "-3334FU\n%TORYO\n", ["line 4", "ply 1", "Black"]),
    "two moves of one side": (HEAD + "+7776FU\n+2726FU\n%TORYO\n", ["line 5", "ply 2", "White"]),
    "unknown piece": (HEAD + "+7776XX\n%TORYO\n", ["'XX'"]),
    "empty source": (HEAD + "+5554FU\n%TORYO\n", ["ply 1", "no piece on 55"]),
    "the other's piece": (
        HEAD + "+3334FU\n%TORYO\n",
        ["ply 1", "White's pawn on 3c"],
    ),
    "another piece": (HEAD + "+7776KI\n%TORYO\n", ["FU", "77", "KI"]),
    "promoted piece dropped": (HEAD + "+0055TO\n%TORYO\n", ["TO", "in hand"]),
    "nothing in hand": (HEAD + "+0055FU\n%TORYO\n", ["ply 1", "Black", "no pawn"]),
    "no line": (HEAD + "+7764FU\n%TORYO\n", ["ply 1", "7g", "6d"]),
    "too far": (
        HEAD + "+7776FU\n-3334FU\n+2725FU\n%TORYO\n",
        ["line 6, '+2725FU'", "ply 3", "Black's pawn on 2g", "2 squares"],
    ),
    "promotion outside": (HEAD + "+7776TO\n%TORYO\n", ["ply 1", "7g", "7f"]),
    "time before a move": (HEAD + "T5\n+7776FU\n", ["line 4", "move"]),
    "move behind the ending": (
        HEAD + "%TORYO\n+7776FU\n",
        ["line 5", "%TORYO"],
    ),
    "ending twice": (HEAD + "%TORYO\n%TORYO\n", ["line 5", "%TORYO"]),
    "something else": (HEAD + "hello\n%TORYO\n", ["line 4, 'hello'", "move"]),
    "a second game with a fault": (SHORT + "/\n" + HEAD + "+7775FU\n", ["line 23", "ply 1"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_error_is_named_with_its_line(name: str) -> None:
    text, expected = REFUSED[name]
    with pytest.raises(CsaError) as caught:
        read_csa(text)
    for words in expected:
        assert words in str(caught.value)


def test_unfinished_record_is_read_on_demand() -> None:
    [record] = read_csa(HEAD + "+7776FU\n", allow_unfinished=True)
    assert (record.moves, record.ending, record.winner) == (["7g7f"], None, None)


@given(st.integers(0, len(SHORT)))
@settings(max_examples=60, deadline=None)
def test_file_cut_off_anywhere_before_its_ending_is_refused(length: int) -> None:
    text = SHORT[:length]
    if "%TORYO" in text and not text.endswith("\nT"):
        assert read_csa(text)[0].moves == SHORT_RECORD.moves
    else:
        with pytest.raises(CsaError):
            read_csa(text)


@given(st.text("+-7638%TORYOFUPI12\n,' KA/", max_size=40))
@settings(deadline=None)
def test_no_text_raises_anything_else(text: str) -> None:
    for candidate in (text, HEAD + text):
        with suppress(CsaError):
            read_csa(candidate, allow_unfinished=True)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (GameRecord(ending="%RESIGN"), "'%RESIGN'"),
        (GameRecord(moves=["7g7f"], times=[1, 2]), "2 times for 1 moves"),
        (GameRecord(moves=["7g7f"], times=[-1]), "-1 seconds"),
        (GameRecord(moves=["7g7f"], times=[float("nan")]), "nan seconds"),
        (GameRecord(comments={2: "x"}), "ply 2"),
        (GameRecord(names=("a\nb", "")), "line break"),
        (GameRecord(headers={"A:B": "x"}), "header 'A:B'"),
        (GameRecord(moves=["7g7f", "7g7f"]), "ply 2, 7g7f"),
        (GameRecord(moves=["7g7e"]), "ply 1, 7g7e"),
    ],
)
def test_inconsistent_record_is_not_written(record: GameRecord, expected: str) -> None:
    with pytest.raises(RecordError) as caught:
        write_csa(record)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("ending", "side", "winner"),
    [
        (Ending.MATE, 0, 1),
        (Ending.MATE, 1, 0),
        (Ending.REPETITION, 0, None),
        (Ending.PERPETUAL_LOSS, 0, 1),
        (Ending.PERPETUAL_LOSS, 1, 0),
        (Ending.PERPETUAL_WIN, 0, 0),
        (Ending.PERPETUAL_WIN, 1, 1),
        (Ending.DECLARATION, 1, 1),
        (Ending.PLY_LIMIT, 0, None),
        (Ending.RUNNING, 0, None),
    ],
)
def test_ending_words_give_the_right_winner(ending: Ending, side: int, winner: int | None) -> None:
    moves = ["7g7f"] * side  # so that this side is to move
    assert GameRecord(moves=moves, ending=ending_word(ending, side)).winner == winner


def test_record_of_an_unknown_ending_has_no_winner_to_ask_for() -> None:
    with pytest.raises(RecordError, match=r"'%RESIGN'"):
        _ = GameRecord(ending="%RESIGN").winner


SHUFFLE = ["2h3h", "8b7b", "3h2h", "7b8b"]


def test_game_is_read_beyond_a_repetition() -> None:
    """Players may play on after the rules ended the game."""
    record = GameRecord(moves=SHUFFLE * 4, ending="%SENNICHITE")
    assert read_csa(write_csa(record)) == [record]


def test_record_has_a_greatest_length() -> None:
    longest = GameRecord(moves=SHUFFLE * (MAX_PLIES // 4), ending="%CHUDAN")
    text = write_csa(longest)
    assert read_csa(text) == [longest]
    with pytest.raises(CsaError, match="longer than 4096 plies"):
        read_csa(text.replace("%CHUDAN", "+2838HI"))
    with pytest.raises(RecordError, match="4097 moves"):
        write_csa(GameRecord(moves=[*longest.moves, "2h3h"]))


LONG: dict[str, tuple[str, Callable[[GameRecord], bool]]] = {  # each took time in the square of its length
    "lines of a comment": (
        f"'{'x' * 200}\n" * 200_000,
        lambda record: record.comments[0].count("\n") == 199_999,
    ),
    "lines of a header": (
        f"$OPENING:{'x' * 100}\n" * 300_000,
        lambda record: record.headers["OPENING"].count("\n") == 299_999,
    ),
    "commas": ("," * 4_000_000 + "\n", lambda record: record == GameRecord(ending="%CHUDAN")),
    "all the rest": (f"PI\nP+{'00AL' * 500_000}\n", lambda record: record == GameRecord(ending="%CHUDAN")),
}


@pytest.mark.slow
@pytest.mark.timeout(100)  # guards against hours
@pytest.mark.parametrize("name", LONG)
def test_long_text_is_read_in_time_that_grows_as_its_length(name: str) -> None:
    opening, is_right = LONG[name]
    position = "" if "PI" in opening else "PI\n"
    [record] = read_csa(f"{opening}{position}+\n%CHUDAN\n")
    assert is_right(record)
