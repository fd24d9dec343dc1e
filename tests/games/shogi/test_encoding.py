"""Actions and planes: every legal move there and back, and each plane against a slow reading of the board."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.games.game import Observations
from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import NUM_ACTIONS, START_SFEN
from senju.games.shogi.notation import action_of_usi, usi_of_action
from senju.games.shogi.position import Position
from senju.kernels import unpack_legal
from tests.games.shogi.flips import flip_sfen
from tests.games.shogi.games import random_positions
from tests.games.shogi.sparse import cornered_king, entered_king, open_position

Planes = NDArray[np.uint8]  # [plane, file, rank]

LETTERS = {
    **{letter: plane for plane, letter in enumerate(["P", "L", "N", "S", "G", "B", "R", "K"])},
    **{letter: 8 + plane for plane, letter in enumerate(["+P", "+L", "+N", "+S", "+B", "+R"])},
}
HAND_LETTERS = "PLNSGBR"
BIG = ("B", "R", "+B", "+R")


def pieces_of(sfen: str) -> Iterator[tuple[str, bool, int, int]]:
    """The letter of each piece, whether it is Black's, and its file and rank from 0."""
    for rank, squares in enumerate(sfen.split(maxsplit=1)[0].split("/")):
        file, plus = 8, ""
        for letter in squares:
            if letter.isdigit():
                file -= int(letter)
            elif letter == "+":
                plus = "+"
            else:
                yield plus + letter.upper(), letter.isupper(), file, rank
                file, plus = file - 1, ""


def hand_of(sfen: str, is_black: bool) -> list[int]:
    counts, number = [0] * 7, ""
    for letter in sfen.split()[2].replace("-", ""):
        if letter.isdigit():
            number += letter
        elif letter.isupper() == is_black:
            counts[HAND_LETTERS.index(letter.upper())] = int(number or 1)
            number = ""
        else:
            number = ""
    return counts


def planes_of_pieces(sfen: str, is_black: bool) -> Planes:
    """42 planes: own pieces, the other's pieces, own hand, the other's hand."""
    planes = np.zeros((42, 9, 9), np.uint8)
    for letter, of_black, file, rank in pieces_of(sfen):
        place = (file, rank) if is_black else (8 - file, 8 - rank)
        planes[LETTERS[letter] + (0 if of_black == is_black else 14)][place] = 1
    for index, count in enumerate(hand_of(sfen, is_black) + hand_of(sfen, not is_black)):
        planes[28 + index] = count
    return planes


def points_of(sfen: str, is_black: bool) -> int:
    """Entering-king points: pieces in the enemy camp and in hand; big pieces count five, the king zero."""
    *small, bishops, rooks = hand_of(sfen, is_black)
    camp = (0, 1, 2) if is_black else (6, 7, 8)
    in_camp = [
        letter
        for letter, of_black, _, rank in pieces_of(sfen)
        if of_black == is_black and rank in camp and letter != "K"
    ]
    return sum(small) + 5 * (bishops + rooks) + sum(5 if letter in BIG else 1 for letter in in_camp)


def expected_planes(sfens: list[str], max_plies: int, history: int, is_check: bool) -> Planes:
    """All planes of the last position of a game, from the SFENs of all its positions."""
    now, ply = sfens[-1], len(sfens) - 1
    is_black = now.split()[1] == "b"
    without_number = [sfen.rsplit(" ", 1)[0] for sfen in sfens]
    planes = np.zeros((48 + 42 * history, 9, 9), np.uint8)
    planes[:42] = planes_of_pieces(now, is_black)
    planes[42] = without_number.count(without_number[-1]) - 1
    planes[43] = is_check
    planes[44], planes[45] = points_of(now, is_black), points_of(now, not is_black)
    planes[46] = 16 * ply // max_plies
    planes[47] = is_black
    for index, earlier in enumerate(sfens[-2::-1][:history]):
        planes[48 + 42 * index :][:42] = planes_of_pieces(earlier, is_black)
    return planes


def observe(position: Position) -> Observations:
    """The observation, written over random bytes that must all be overwritten."""
    observations = position.game.new_observations(1)
    for array in observations:
        array.view(np.uint8).fill(0xEE)
    position.game.observe(position.states, observations)
    return observations


def expect_planes(position: Position, sfens: list[str], history: int) -> None:
    seen = observe(position).observation[0, 0]
    max_plies = position.game.config.max_plies  # type: ignore[attr-defined]
    expected = expected_planes(sfens, max_plies, history, position.is_check)
    wrong = np.flatnonzero((seen != expected).any(axis=(1, 2)))
    assert not len(wrong), f"{sfens[-1]}: planes {wrong.tolist()} are wrong"


@pytest.mark.parametrize("history", [0, 1, 2, 7])
def test_every_plane_is_as_documented(history: int) -> None:
    chance = random.Random(history)
    starts = [START_SFEN, *(make(chance) for make in (open_position, cornered_king, entered_king))]
    game = Shogi(ShogiConfig(max_plies=60, history=history))
    for sfen in [*starts, *map(flip_sfen, starts)]:
        position, sfens = Position(sfen, game=game), []
        for _ in range(60):
            sfens.append(position.sfen())
            expect_planes(position, sfens, history)
            if not (actions := position.legal_actions()):
                break
            position.push(chance.choice(actions))


def test_repetitions_checks_and_plies_are_seen() -> None:
    """What random games seldom show: a perpetual check, and the last sixteenth of a game."""
    game = Shogi(ShogiConfig(max_plies=16, history=2))
    position, sfens = Position("k8/9/9/9/9/9/9/1R7/4K4 b - 1", game=game), []
    seen = []
    for move in ["8h9h", "9a8a", "9h8h", "8a9a"] * 4:
        sfens.append(position.sfen())
        expect_planes(position, sfens, history=2)
        seen.append(observe(position).observation[0, 0, [42, 43, 46], 0, 0].tolist())
        position.push_usi(move)
    assert seen[0] == [0, 0, 0]
    assert seen[5] == [1, 1, 5]
    assert seen[15] == [3, 1, 15]


def test_plane_of_plies_counts_sixteenths() -> None:
    position = Position(max_plies=64)
    for ply in range(12):
        assert observe(position).observation[0, 0, 46, 0, 0] == ply // 4
        position.push(position.legal_actions()[0])


def test_a_plane_lies_as_the_actions_do() -> None:
    """The index of a cell is the square, so that logits [27, 9, 9] flatten to actions."""
    position = Position()
    position.push_usi("7g7f")
    pawns = observe(position).observation[0, 0, 14].reshape(-1)  # Black's, as White sees them
    action = position.action("3c3d")
    assert pawns[80 - (6 * 9 + 5)] == 1
    assert action == 0 * 81 + 80 - (2 * 9 + 3)


@pytest.mark.parametrize("seed", range(4))
def test_legal_moves_become_usi_and_actions_again(seed: int) -> None:
    num_moves = [0, 0]
    for position in random_positions(seed, 150):
        board, side = position.state["board"], position.side
        actions = position.legal_actions()
        names = [usi_of_action(board, side, action) for action in actions]
        assert len(set(names)) == len(names)
        assert [action_of_usi(board, side, name) for name in names] == actions
        num_moves[side] += len(names)
    assert min(num_moves) > 2000


def test_sparse_positions_become_usi_and_actions_again() -> None:
    chance = random.Random(5)
    for make in (open_position, cornered_king, entered_king):
        for _ in range(20):
            position = Position(make(chance))
            board, side = position.state["board"], position.side
            for action in position.legal_actions():
                assert action_of_usi(board, side, usi_of_action(board, side, action)) == action


@pytest.mark.parametrize("history", [0, 2])
def test_flipped_positions_look_alike_to_the_mover(history: int) -> None:
    """The same actions lead both colours through the same game; only the last plane distinguishes them."""
    chance = random.Random(history)
    game = Shogi(ShogiConfig(max_plies=80, declaration="24", history=history))
    starts = [START_SFEN, *(make(chance) for make in 3 * (open_position, cornered_king, entered_king))]
    for sfen in starts:
        position, flipped = Position(sfen, game=game), Position(flip_sfen(sfen), game=game)
        for _ in range(40):
            seen, mirrored = observe(position), observe(flipped)
            planes, others = seen.observation[0, 0], mirrored.observation[0, 0].copy()
            assert planes[47, 0, 0] != others[47, 0, 0]
            others[47] = planes[47]
            assert np.array_equal(planes, others)
            assert np.array_equal(seen.legal, mirrored.legal)
            assert np.array_equal(position.state["legal"], flipped.state["legal"])
            assert seen.seats[0, 0] == position.side == 1 - mirrored.seats[0, 0]
            assert position.ending == flipped.ending
            assert flip_sfen(position.sfen()) == flipped.sfen()
            if not (actions := position.legal_actions()):
                break
            action = chance.choice(actions)
            position.push(action)
            flipped.push(action)


def test_legal_words_hold_one_bit_for_each_move() -> None:
    for position in random_positions(3, 60):
        legal = observe(position).legal[0, 0]
        assert np.flatnonzero(unpack_legal(legal, NUM_ACTIONS)).tolist() == position.legal_actions()
        assert not np.unpackbits(legal.view(np.uint8), bitorder="little")[NUM_ACTIONS:].any()
