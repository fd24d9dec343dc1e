"""What moves win in material, against a count of all pieces before and after."""

import random

import numpy as np
import pytest

from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.layout import START_SFEN
from senju.games.shogi.position import Position
from tests.games.shogi.flips import flip_sfen, flip_usi
from tests.games.shogi.games import random_game
from tests.games.shogi.sparse import cornered_king, open_position

GAME = Shogi(ShogiConfig(max_plies=600))
#         -  P  L  N  S  G  B  R   K +P +L +N +S  +B  +R
VALUES = [0, 1, 3, 4, 5, 6, 8, 10, 0, 6, 6, 6, 6, 10, 12]
IN_HAND = [1, 3, 4, 5, 6, 8, 10]
MATE = 1000.0


def balance(position: Position, side: int) -> float:
    """All pieces of a side, on the board and in hand, less all of the other's."""
    total = 0
    for code in position.state["board"].tolist():
        total += VALUES[code & 15] if code // 16 == side else -VALUES[code & 15]
    hands = position.state["hands"].tolist()
    total += sum(value * count for value, count in zip(IN_HAND, hands[side], strict=True))
    return total - sum(value * count for value, count in zip(IN_HAND, hands[1 - side], strict=True))


def slow_values(position: Position, depth: int) -> dict[int, float]:
    """The mover's gain by each action, less the other's best gain in reply; mates at `MATE` more."""
    values, side, before = {}, position.side, balance(position, position.side)
    for action in position.legal_actions():
        after = position.copy()
        after.push(action)
        gain = balance(after, side) - before
        if not after.legal_actions():
            gain += MATE
        elif depth > 1:
            gain -= max(slow_values(after, depth - 1).values())
        values[action] = gain
    return values


def values_of(position: Position, depth: int) -> dict[int, float]:
    before = position.states.tobytes()
    row = position.game.heuristic().action_values(position.states, depth)[0]
    assert position.states.tobytes() == before
    assert row.shape == (position.game.num_actions,)
    assert np.all(row[~np.isfinite(row)] == -np.inf)
    return {action: float(row[action]) for action in np.flatnonzero(np.isfinite(row)).tolist()}


@pytest.mark.parametrize("depth", [1, 2])
def test_values_are_what_counting_all_pieces_gives(depth: int) -> None:
    chance = random.Random(depth)
    sfens = [START_SFEN]
    sfens += [random_game(seed, 60 + 30 * seed).sfen() for seed in range(4 if depth == 1 else 2)]
    sfens += [make(chance) for make in 10 * (open_position, cornered_king)]
    num_compared = 0
    for sfen in sfens:
        position = Position(sfen, game=GAME)
        if depth == 2 and len(position.legal_actions()) > 60:
            continue
        assert values_of(position, depth) == slow_values(position, depth), sfen
        num_compared += 1
    assert num_compared >= 8


def values_by_usi(sfen: str, depth: int, colour: str) -> dict[str, float]:
    """The values in both colours, with the moves named as if Black moved."""
    position = Position(sfen if colour == "Black" else flip_sfen(sfen), game=GAME)
    named = {position.usi(action): value for action, value in values_of(position, depth).items()}
    return named if colour == "Black" else {flip_usi(move): value for move, value in named.items()}


@pytest.mark.parametrize("colour", ["Black", "White"])
@pytest.mark.parametrize("depth", [1, 2])
def test_mate_is_worth_more_than_any_piece(depth: int, colour: str) -> None:
    """A rook is there for the taking, but the gold mates."""
    values = values_by_usi("r6k1/1P7/7P1/9/9/9/9/9/L3K4 b G 1", depth, colour)
    assert values["9i9a+"] >= 20
    assert [move for move, value in values.items() if value == max(values.values())] == ["G*2b"]
    assert values["G*2b"] == MATE


@pytest.mark.parametrize("colour", ["Black", "White"])
def test_second_ply_sees_what_is_taken_back(colour: str) -> None:
    protected = "4k4/9/9/4l4/4p4/4R4/9/9/4K4 b - 1"
    assert values_by_usi(protected, 1, colour)["5f5e"] == 2
    assert values_by_usi(protected, 2, colour)["5f5e"] == 2 - 20


@pytest.mark.parametrize("colour", ["Black", "White"])
def test_second_ply_sees_the_other_side_s_mate(colour: str) -> None:
    """The king on 9i has no move, and a gold on 9h would mate, unless one's own could take it."""
    values = values_by_usi("4k4/9/9/9/9/9/1gn6/9/K8 b Gg 1", 2, colour)
    assert values["G*5e"] == -MATE
    assert values["G*8h"] == -12


def test_rows_are_valued_one_by_one() -> None:
    positions = [random_game(seed, 40 + seed) for seed in range(3)]
    together = GAME.heuristic().action_values(np.concatenate([p.states for p in positions]), 2)
    for row, position in zip(together, positions, strict=True):
        assert np.array_equal(row, position.game.heuristic().action_values(position.states, 2)[0])


def test_row_without_a_move_has_no_value() -> None:
    position = Position("8k/9/6NG1/9/9/9/9/9/4K4 w - 1", game=GAME)
    assert values_of(position, 1) == values_of(position, 2) == {}
