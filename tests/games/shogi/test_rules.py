"""Which moves are legal: a position made by hand for each rule, in both colours."""

from typing import NamedTuple

import cshogi
import pytest

from senju.errors import IllegalActionError
from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import Ending
from senju.games.shogi.notation import NotationError
from senju.games.shogi.position import Position
from tests.games.shogi.flips import flip_sfen, flip_usi

COLOURS = ("Black", "White")
GAME = Shogi(ShogiConfig(max_plies=64))


class Case(NamedTuple):
    """A position with Black to move."""

    sfen: str  # board and hands
    legal: str  # moves that are
    illegal: str = ""  # moves that are not

    def position(self, colour: str) -> Position:
        board, hands = self.sfen.split()
        sfen = f"{board} b {hands} 1"
        return Position(sfen if colour == "Black" else flip_sfen(sfen), game=GAME)

    def moves(self, usi: str, colour: str) -> list[str]:
        return usi.split() if colour == "Black" else [flip_usi(move) for move in usi.split()]


PROMOTION = {
    "pawn must on the last rank": Case("4k4/P8/9/9/9/9/9/9/4K4 -", "9b9a+", "9b9a"),
    "pawn may before it": Case("4k4/9/P8/9/9/9/9/9/4K4 -", "9c9b 9c9b+"),
    "pawn may on entering": Case("4k4/9/9/P8/9/9/9/9/4K4 -", "9d9c 9d9c+"),
    "pawn may not outside": Case("4k4/9/9/9/P8/9/9/9/4K4 -", "9e9d", "9e9d+"),
    "lance must on the last rank": Case("4k4/9/L8/9/9/9/9/9/4K4 -", "9c9b 9c9b+ 9c9a+", "9c9a"),
    "lance from afar": Case(
        "4k4/9/9/9/9/9/L8/9/4K4 -", "9g9d 9g9c 9g9c+ 9g9b 9g9b+ 9g9a+", "9g9d+ 9g9a 9g9h"
    ),
    "knight must on the last rank": Case("8k/9/4N4/9/9/9/9/9/4K4 -", "5c4a+ 5c6a+", "5c4a 5c6a"),
    "knight must on the last but one": Case("8k/9/9/4N4/9/9/9/9/4K4 -", "5d4b+ 5d6b+", "5d4b 5d6b"),
    "knight may on the third": Case("8k/9/9/9/4N4/9/9/9/4K4 -", "5e4c 5e4c+ 5e6c 5e6c+"),
    "knight may not outside": Case("8k/9/9/9/9/4N4/9/9/4K4 -", "5f4d 5f6d", "5f4d+ 5f6d+ 5f5e"),
    "silver on entering": Case(
        "8k/9/9/4S4/9/9/9/9/4K4 -", "5d5c 5d5c+ 5d4c 5d4c+ 5d6c+ 5d4e 5d6e", "5d4e+ 5d6e+ 5d4d 5d5e"
    ),
    "silver within": Case("8k/9/4S4/9/9/9/9/9/4K4 -", "5c5b 5c5b+ 5c6b+ 5c4b+"),
    "silver on leaving": Case("8k/9/4S4/9/9/9/9/9/4K4 -", "5c4d 5c4d+ 5c6d 5c6d+"),
    "gold never": Case("8k/9/4G4/9/9/9/9/9/4K4 -", "5c5b 5c5d 5c4b 5c6b 5c4c 5c6c", "5c5b+ 5c5d+ 5c4d"),
    "king never": Case("8k/9/4K4/9/9/9/9/9/9 -", "5c5b 5c4d", "5c5b+ 5c4d+"),
    "rook on entering, within and on leaving": Case(
        "4k4/9/R8/9/9/R8/9/9/4K4 -", "9f9d 9f1f 9c9a 9c9a+ 9c1c+ 9c9e 9c9e+", "9f9d+ 9f1f+ 9f9c"
    ),
    "bishop on entering, within and on leaving": Case(
        "8k/9/2B6/9/9/9/1B7/9/4K4 -", "8g6e 8g4c 8g4c+ 8g3b+ 8g2a+ 7c5e 7c5e+ 7c5a+ 7c1i+ 7c9e+", "8g6e+"
    ),
    "promoted pieces never again": Case(
        "8k/9/+R1+B1+S1+P2/9/9/9/9/1+L2+N4/6K2 -",
        "9c9b 9c8b 7c7b 7c5a 5c5b 5c4b 3c3b 8h8g 5h6g",
        "9c9b+ 9c8b+ 7c7b+ 7c5a+ 5c5b+ 5c4d 3c3b+ 3c2d 8h8f 5h4f",
    ),
    "dragon and horse step besides": Case(
        "8k/9/9/9/2+R3+B2/9/9/9/4K4 -", "7e6d 7e8d 7e6f 7e8f 7e7a 3e3d 3e3f 3e4e 3e2e 3e1g", "7e5c 3e3c 3e5e"
    ),
}

DROPS = {
    "no second pawn on a file": Case("4k4/9/9/9/9/9/4P4/9/4K4 P", "P*4e P*6e P*4b", "P*5e P*5h P*5b P*5f"),
    "promoted pawn does not count": Case("8k/9/9/9/9/9/4+P4/9/4K4 P", "P*5e P*5b P*5h"),
    "other's pawn does not count": Case("8k/4p4/9/9/9/9/9/9/4K4 P", "P*5e P*5c P*5h"),
    "no pawn on the last rank": Case("8k/9/9/9/9/9/9/9/4K4 P", "P*9b P*9i", "P*9a P*5a"),
    "no lance on the last rank": Case("8k/9/9/9/9/9/9/9/4K4 L", "L*9b L*9i", "L*9a L*5a"),
    "no knight on the last two": Case("8k/9/9/9/9/9/9/9/4K4 N", "N*9c N*9i", "N*9a N*9b N*5b"),
    "others anywhere": Case("8k/9/9/9/9/9/9/9/4K4 SGBR", "S*9a G*9a B*9a R*9a S*9b G*5h B*5b R*1i"),
    "not on another piece": Case("8k/9/9/9/4p4/9/4S4/9/4K4 RP", "R*5f P*5f", "R*5e R*5g R*5i P*5e R*1a"),
    "not what is not in hand": Case("8k/9/9/9/9/9/9/9/4K4 Rp", "R*5e", "P*5e L*5e N*5e S*5e G*5e B*5e"),
}

# mostly the king on 1a, a gold on 2c that holds 1b and 2b, a knight on 3c that holds 2a
PAWN_DROP_MATES = {
    "mate is refused": Case("8k/9/6NG1/9/9/9/9/9/4K4 P", "P*2b P*1c P*1i", "P*1b"),
    "king can flee": Case("8k/9/7G1/9/9/9/9/9/4K4 P", "P*1b"),
    "king can take the pawn": Case("8k/9/6NP1/9/9/9/9/9/4K4 P", "P*1b"),
    "king can take another piece": Case("8k/7P1/9/7N1/9/9/9/9/4K4 P", "P*1b"),
    "unpinned silver takes it": Case("7sk/9/7G1/9/9/9/9/9/4K4 P", "P*1b"),
    "pinned silver does not": Case("4R2sk/9/7G1/9/9/9/9/9/4K4 P", "P*2b 5a2a", "P*1b"),
    "knight takes it": Case("9/7nl/7pk/9/7G1/9/9/9/4K4 P", "P*1d"),
    "silver beside a knight's place does not": Case("9/7sl/7pk/9/7G1/9/9/9/4K4 P", "P*1h", "P*1d"),
    "rook takes it from afar": Case("8k/r8/6NG1/9/9/9/9/9/4K4 P", "P*1b"),
    "rook takes it with a lance behind": Case("8k/9/6NGr/8L/9/9/9/9/4K4 P", "P*1b"),
    "three knights mate": Case("8k/9/6N2/7NN/9/9/9/9/4K4 P", "P*1c", "P*1b"),
    "bishop takes it from afar": Case("8k/9/6N2/7NN/9/4b4/9/9/4K4 P", "P*1b"),
    "bishop behind a pawn does not": Case("8k/9/6N2/6pNN/9/4b4/9/9/4K4 P", "P*1c", "P*1b"),
    "pawn closes the rook's line to a flight": Case("4k4/R8/2N3N2/9/9/9/9/9/4K4 P", "P*5b"),
    "gold holds that flight too": Case("4k4/R8/2N2GN2/9/9/9/9/9/4K4 P", "P*5d", "P*5b"),
    "check that is no mate": Case("4k4/9/9/9/9/9/9/9/4K4 P", "P*5b"),
    "as an answer to check": Case("4k4/K4rS2/2NG1G3/7B1/9/9/9/9/9 P", "P*8b P*7b P*6b", "P*5b P*5d P*4b"),
    "pawn that moves may mate": Case("8k/9/6NGP/9/9/9/9/9/4K4 -", "1c1b 1c1b+"),
    "other drops may mate": Case("8k/9/6NG1/9/9/9/9/9/4K4 LSGR", "L*1b S*1b G*1b R*1b"),
}

PINS = {
    "on a file": Case("4r3k/9/9/9/9/9/4G4/9/4K4 -", "5g5f 5g5h", "5g4g 5g6g 5g4f 5g6f"),
    "on a file by a lance": Case("4l3k/9/9/9/9/9/4S4/9/4K4 -", "5g5f", "5g4f 5g6f 5g4h 5g6h"),
    "on a file from below": Case("4K3k/9/4S4/9/9/9/9/9/4r4 -", "5c5b 5c5b+", "5c4b 5c4d 5c6b+"),
    "lance looks only forwards": Case("4K3k/9/4S4/9/9/9/9/4l4/9 -", "5c4d 5c4b 5c5b"),
    "on a rank": Case("8k/9/9/9/r3S2K1/9/9/9/9 -", "2e2d", "5e5d 5e4d 5e6d 5e4f 5e6f"),
    "rook on its rank": Case("8k/9/9/9/r3R2K1/9/9/9/9 -", "5e9e 5e3e 5e6e", "5e5d 5e5a 5e5i"),
    "on a diagonal": Case("8k/9/2b6/9/4S4/9/6K2/9/9 -", "5e6d 5e4f", "5e5d 5e4d 5e6f"),
    "on the other diagonal": Case("k8/9/6b2/9/4S4/9/2K6/9/9 -", "5e4d 5e6f", "5e5d 5e6d 5e4f"),
    "by a horse": Case("7k1/9/2+b6/9/4B4/9/6K2/9/9 -", "5e7c 5e7c+ 5e6d 5e4f", "5e4d 5e6f 5e2b+"),
    "by a dragon": Case("4+r3k/9/9/9/9/9/4R4/9/4K4 -", "5g5a 5g5a+ 5g5b 5g5h", "5g4g 5g1g 5g9g"),
    "knight cannot move at all": Case("4r3k/9/9/9/9/9/4N4/9/4K4 -", "5i4i 5i5h", "5g4e 5g6e"),
    "pawn takes who pins it": Case("8k/9/9/9/9/4r4/4P4/9/4K4 -", "5g5f"),
    "pawn pinned on a rank": Case("8k/9/9/9/r3P2K1/9/9/9/9 -", "2e2d", "5e5d"),
    "two pieces between are free": Case("4r3k/9/9/9/4S4/9/4G4/9/4K4 -", "5g4g 5g6f 5e4d 5e6f"),
    "other's piece between frees": Case("4r3k/4p4/9/9/9/9/4G4/9/4K4 -", "5g4g 5g6f"),
    "two pins at once": Case(
        "8k/9/9/9/r3S2K1/7G1/9/9/7r1 -", "2f2g 2e3d", "5e5d 5e4d 5e6d 2f1f 2f3f 2f3e 2f1e"
    ),
}

CHECKS = {
    "king steps aside, or pieces step between": Case(
        "4r3k/9/9/9/9/6R2/9/9/4K4 G",
        "5i4i 5i6i 5i4h 5i6h 3f5f G*5b G*5h",
        "5i5h 3f3a 3f4f G*4h G*5a",
    ),
    "checker is taken": Case("8k/9/9/9/9/9/4R4/4r4/4K4 -", "5g5h 5i5h 5i4i", "5i4h 5i6h 5g5f 5g9g"),
    "protected checker is not taken by the king": Case(
        "4l3k/9/9/9/9/9/9/R3g4/4K4 -", "9h5h", "5i5h 5i4i 5i6i 5i4h 9h9i"
    ),
    "knight's check cannot be blocked": Case(
        "8k/9/9/9/9/9/3n5/9/4K4 GRP", "5i4i 5i5h 5i6h 5i6i 5i4h", "G*5h R*5g P*6h P*5h G*6h"
    ),
    "knight jumps over pieces": Case("8k/9/9/9/9/9/3PPP3/4N4/4K4 -", "5h4f 5h6f"),
    "no flight along the slider's line": Case("4r3k/9/9/9/4K4/9/9/9/9 -", "5e4e 5e6f", "5e5d 5e5f"),
    "no flight along a bishop's line": Case("b7k/9/9/9/4K4/9/9/9/9 -", "5e5d 5e6e", "5e6d 5e4f"),
    "no flight along a lance's line": Case("4l3k/9/9/9/4K4/9/9/9/9 -", "5e4f", "5e5d 5e5f"),
    "no step into attack": Case("8k/9/9/4g4/9/4K4/9/9/9 -", "5f5g 5f4f 5f6f 5f4g", "5f5e 5f4e 5f6e"),
    "no step beside the other king": Case("9/9/9/4k4/9/4K4/9/9/9 -", "5f4f 5f5g", "5f5e 5f4e 5f6e"),
    "no taking of a protected piece": Case("4l3k/9/9/9/9/9/9/4p4/4K4 -", "5i4i 5i4h", "5i5h"),
    "unprotected piece is taken": Case("8k/9/9/9/9/9/9/4p4/4K4 -", "5i5h 5i4h 5i6i"),
    "double check: only the king moves": Case(
        "4r3k/9/9/9/9/9/3n5/9/4K4 GR", "5i4i 5i6i 5i6h 5i4h", "G*5b G*5h R*5e 5i5h"
    ),
    "double check: no other piece takes a checker": Case(
        "4r3k/9/9/9/R8/9/3n5/2G6/4K4 -", "5i4i 5i6h", "9e5e 7h6g 9e9i"
    ),
    "double check: the king may take one": Case("4r3k/9/9/9/9/9/9/3g5/4K4 -", "5i6h", "5i5h 5i6i"),
    "pinned piece does not take the checker": Case(
        "4r3k/9/9/9/9/9/4S4/5g3/4K4 -", "5i4h 5i6i 5i6h", "5g4h 5g5f 5i5h 5i4i"
    ),
    "pinned piece does not step between": Case(
        "4r3k/9/9/9/9/9/4B4/9/r3K4 P", "P*6i P*8i 5i4h", "5g7i 5g6h P*5h"
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "promotion": PROMOTION,
        "drop": DROPS,
        "pawn drop": PAWN_DROP_MATES,
        "pin": PINS,
        "check": CHECKS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("name", CASES)
def test_moves_are_legal_or_not(name: str, colour: str) -> None:
    case = CASES[name]
    position = case.position(colour)
    legal = position.legal_moves()
    for move in case.moves(case.legal, colour):
        assert move in legal
    for move in case.moves(case.illegal, colour):
        assert move not in legal
        with pytest.raises(IllegalActionError):
            position.push_usi(move)
    assert set(legal) == {cshogi.move_to_usi(move) for move in cshogi.Board(position.sfen()).legal_moves}


def test_nearest_piece_is_the_one_that_moves() -> None:
    """Two rooks on one rank: only the nearer one reaches a square between or beyond."""
    position = Position("8k/9/9/9/R3R4/9/9/9/4K4 b - 1", game=GAME)
    assert {"9e6e", "5e6e", "5e1e"} <= set(position.legal_moves())
    with pytest.raises(NotationError, match="Black's rook on 5e"):
        position.push_usi("9e1e")


@pytest.mark.parametrize("colour", COLOURS)
def test_pawn_that_moves_mates(colour: str) -> None:
    case = PAWN_DROP_MATES["pawn that moves may mate"]
    position = case.position(colour)
    position.push_usi(*case.moves("1c1b", colour))
    assert position.ending is Ending.MATE
    assert position.is_check


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(
    ("sfen", "usi"),
    [
        ("4k4/9/9/9/4S4/9/9/9/4R3K -", "5e6d"),
        ("4k4/9/9/9/4G4/9/4L4/9/K8 -", "5e4e"),
        ("k8/9/2N6/9/4B4/9/9/9/8K -", "7c6a+"),
        ("4k4/9/9/9/4K4/9/9/4R4/9 -", "5e4f"),
    ],
    ids=["by a rook", "by a lance", "by a bishop", "by the king's step"],
)
def test_discovered_check_is_seen(sfen: str, usi: str, colour: str) -> None:
    case = Case(sfen, usi)
    position = case.position(colour)
    assert not position.is_check
    position.push_usi(*case.moves(usi, colour))
    assert position.is_check


@pytest.mark.parametrize("colour", COLOURS)
def test_silver_that_uncovers_a_rook_gives_double_check(colour: str) -> None:
    case = Case("4k4/9/4S4/9/9/9/9/9/4R3K g", "5c4b")
    position = case.position(colour)
    position.push_usi(*case.moves(case.legal, colour))
    assert sorted(position.legal_moves()) == sorted(case.moves("5a4b 5a6a 5a6b", colour))
