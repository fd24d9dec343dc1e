"""Boards for display: aligned columns, sides of pieces, and the picture."""

import unicodedata
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.errors import ConfigError
from senju.games.shogi.boards import Letters, board_svg, board_text
from senju.games.shogi.layout import Ending
from senju.games.shogi.notation import NotationError
from senju.games.shogi.pieces import KANJI, SYMBOLS
from senju.games.shogi.position import Position
from tests.facts import assert_mentions, mentions
from tests.games.shogi.games import random_game

SVG = "{http://www.w3.org/2000/svg}"
MIDDLE_GAME = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1"

JAPANESE = """\
White in hand: 金 銀 桂 歩5
  ９ ８ ７ ６ ５ ４ ３ ２ １
+---------------------------+
|v香 ・ ・ ・ ・ ・ ・v桂v香|一 a
| ・ ・ ・ ・ ・ と ・v金v玉|二 b
| ・ ・v桂v歩 ・ 銀 ・ ・ ・|三 c
|v歩 ・v歩 ・ ・ ・ ・ 歩v歩|四 d
| ・ ・ ・ 歩 ・ ・ 銀v歩 ・|五 e
| ・ 歩 歩v角 ・ ・ 歩 ・ 歩|六 f
| 歩 ・ ・ ・ ・ ・ 金 銀 ・|七 g
| 飛 ・ ・ ・ ・ ・ ・ ・ ・|八 h
| 香 桂 ・ ・ ・ ・v角 玉 香|九 i
+---------------------------+
Black in hand: 飛 金
White to move after 0 plies."""

LATIN = """\
White in hand: g s n 5p
  9  8  7  6  5  4  3  2  1
+---------------------------+
| l  .  .  .  .  .  .  n  l | a
| .  .  .  .  . +P  .  g  k | b
| .  .  n  p  .  S  .  .  . | c
| p  .  p  .  .  .  .  P  p | d
| .  .  .  P  .  .  S  p  . | e
| .  P  P  b  .  .  P  .  P | f
| P  .  .  .  .  .  G  S  . | g
| R  .  .  .  .  .  .  .  . | h
| L  N  .  .  .  .  b  K  L | i
+---------------------------+
Black in hand: R G
White to move after 0 plies."""


@pytest.mark.parametrize(("letters", "expected"), [("japanese", JAPANESE), ("latin", LATIN)])
def test_board_with_hands_and_the_side_to_move(letters: Letters, expected: str) -> None:
    assert board_text(Position(MIDDLE_GAME).state, letters) == expected


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "FW" else 1 for character in text)


@given(st.integers(0, 2**32), st.integers(0, 200))
@settings(max_examples=30, deadline=None)
def test_all_ranks_are_as_wide_as_the_edge(seed: int, num_plies: int) -> None:
    state = random_game(seed, num_plies).state
    for letters, label in (("japanese", 4), ("latin", 2)):
        lines = board_text(state, letters).splitlines()  # type: ignore[arg-type]  # both are Letters
        assert len(lines) == 15
        assert {columns(line) for line in lines[3:12]} == {columns(lines[2]) + label}


def test_every_piece_of_both_sides_looks_different() -> None:
    state = Position().states[0].copy()
    state["board"][:14] = np.arange(1, 15)
    state["board"][14:28] = np.arange(1, 15) + 16
    latin = board_text(state, "latin")
    for symbol in SYMBOLS[1:]:
        assert f"{symbol:>2} " in latin
        assert f"{symbol.lower():>2} " in latin
    japanese = board_text(state)
    for character in KANJI[1:]:
        assert f"v{character}" in japanese
        assert f" {character}" in japanese


def test_board_text_shows_empty_hands_checks_and_endings() -> None:
    position = Position("4k4/9/9/9/9/9/9/4R4/4K4 w - 1")
    *board, last = board_text(position.state).splitlines()
    assert_mentions("\n".join(board), "White in hand")
    assert_mentions(last, "White to move", "0 plies", "in check")
    position = Position()
    position.push_usi("7g7f")
    last = board_text(position.state).splitlines()[-1]
    assert_mentions(last, "White to move", "1 ply")
    assert "check" not in last
    position = Position("4k4/9/4P4/9/9/9/9/9/4K4 b G 1")
    position.push_usi("G*5b")
    assert position.ending is Ending.MATE
    assert_mentions(
        board_text(position.state).splitlines()[-1], "1 ply", "over", "White is mated", "Black wins"
    )


def test_unknown_letters_are_refused() -> None:
    with pytest.raises(ConfigError, match=mentions("'japanese'", "'latin'")):
        board_text(Position().state, "greek")  # type: ignore[arg-type]  # that is the point


def drawn(sfen: str, last_move: str | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(board_svg(Position(sfen).state, last_move))


def pieces_of(root: ElementTree.Element) -> list[tuple[str, str, bool]]:
    """Character, colour and whether it points down, of every piece in the picture."""
    groups = root.findall(f"{SVG}g")
    texts = [group.find(f"{SVG}text") for group in groups]
    assert all(text is not None for text in texts)
    return [
        (text.text or "", text.get("fill", ""), "rotate(180)" in group.get("transform", ""))
        for group, text in zip(groups, texts, strict=True)
        if text is not None
    ]


def test_picture_shows_each_piece_as_its_owner_sees_it() -> None:
    pieces = pieces_of(drawn("4k4/9/9/4+p4/9/9/4+R4/9/4K4 b G 1"))
    colours = {character: colour for character, colour, _ in pieces}
    assert {(character, is_down) for character, _, is_down in pieces} == {
        ("王", True),
        ("玉", False),
        ("と", True),
        ("龍", False),
        ("金", False),
    }
    assert colours["と"] == colours["龍"] != colours["金"] == colours["玉"]


def test_picture_of_the_start_has_forty_pieces_and_all_coordinates() -> None:
    root = drawn("startpos")
    assert len(pieces_of(root)) == 40
    labels = {text.text for text in root.findall(f"{SVG}text")}
    assert {*"123456789", *"abcdefghi"} <= labels
    assert any("Black to move" in (label or "") and "0 plies" in (label or "") for label in labels)
    assert {"● Black", "White"} <= labels


def test_hands_stand_beside_the_board_with_their_counts() -> None:
    root = drawn("4k4/9/9/9/9/9/9/9/4K4 b R18P2g 1")
    labels = [text.text for text in root.findall(f"{SVG}text")]
    assert labels.count("×18") == labels.count("×2") == 1
    assert len(pieces_of(root)) == 2 + 3


@pytest.mark.parametrize(("last_move", "num_marks"), [(None, 0), ("7g7f", 2), ("8h2b+", 2), ("P*5e", 1)])
def test_last_move_is_marked(last_move: str | None, num_marks: int) -> None:
    root = drawn("startpos", last_move)
    assert len(root.findall(f"{SVG}rect[@fill-opacity]")) == num_marks


@pytest.mark.parametrize("last_move", ["", "7g7", "7g7x", "hello"])
def test_last_move_that_is_none_is_refused(last_move: str) -> None:
    with pytest.raises(NotationError):
        drawn("startpos", last_move)


def test_pieces_stand_on_their_squares() -> None:
    root = drawn("8k/9/9/9/4G4/9/9/9/K8 b - 1")
    places = [group.get("transform", "").split(")")[0] for group in root.findall(f"{SVG}g")]
    white_king, gold, black_king = ([float(number) for number in place[10:].split()] for place in places)
    assert white_king[0] > gold[0] > black_king[0]  # file 1 is at the right
    assert white_king[1] < gold[1] < black_king[1]  # rank a is at the top
    assert gold == [(low + high) / 2 for low, high in zip(white_king, black_king, strict=True)]
