"""Search in Shogi: many moves, large states, mates and the limits of its games."""

import random

import cshogi
import numpy as np
import pytest

from senju.games.shogi.layout import Ending
from senju.games.shogi.position import Position
from senju.models import make_model
from senju.models.model import Model
from senju.search.puct import StopReason, TreeSearch
from senju.search.settings import SearchConfig
from tests.search.positions import check_tree, random_positions, tree_of


@pytest.fixture(scope="module")
def model() -> Model:
    game = Position().game
    return make_model({"name": "mlp", "hidden": [16]}, game.observation_shape, game.num_actions, seed=0)


def test_mate_in_one_is_played_and_named_as_such(model: Model) -> None:
    # a gold dropped before the king, with a pawn behind it
    position = Position("4k4/9/4P4/9/9/9/9/9/4K4 b G 1")
    result = TreeSearch(position.game, model, SearchConfig(nodes=20)).run(position.states)
    assert position.game.move_name(position.state, result.best) == "G*5b"
    assert (result.value, result.plies_to_end, result.ended) == (1.0, 1, StopReason.PROVEN)


def mates_in_three(num_positions: int) -> list[str]:
    """Positions of random games in which cshogi sees a mate in three plies and none in one."""
    chance, found = random.Random(1), []
    while len(found) < num_positions:
        board = cshogi.Board()
        while board.legal_moves and board.is_draw() == cshogi.NOT_REPETITION and board.move_number < 200:
            if not board.is_check() and not board.mate_move_in_1ply() and board.mate_move(3):
                found.append(board.sfen())
            board.push(chance.choice(list(board.legal_moves)))
    return found


def test_mates_in_three_that_cshogi_sees_are_found(model: Model) -> None:
    for sfen in mates_in_three(20):
        position = Position(sfen)
        search = TreeSearch(position.game, model, SearchConfig(nodes=2000))
        result = search.run(position.states)
        assert result.value == 1.0, sfen
        assert len(result.line) == result.plies_to_end
        for action in result.line:
            position.push(action)
        assert position.ending is Ending.MATE


def test_a_mate_threat_is_not_overlooked(model: Model) -> None:
    # Black mates by G*5b unless White, to move, does something about it
    position = Position("4k4/9/4P4/9/9/9/9/9/4K4 w G 1")
    search = TreeSearch(position.game, model, SearchConfig(nodes=100))
    result = search.run(position.states)
    position.push(result.best)
    assert TreeSearch(position.game, model, SearchConfig(nodes=1)).run(position.states).value < 1.0


def test_white_sees_its_own_side_of_the_values(model: Model) -> None:
    # the mate in one above, turned round
    position = Position("4k4/9/9/9/9/9/4p4/9/4K4 w g 1")
    result = TreeSearch(position.game, model, SearchConfig(nodes=20)).run(position.states)
    assert position.game.move_name(position.state, result.best) == "G*5h"
    assert result.value == 1.0


def test_positions_with_hundreds_of_moves_are_searched(model: Model) -> None:
    position = Position("R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1")
    search = TreeSearch(position.game, model, SearchConfig(nodes=300, look_ahead=0))
    result = search.run(position.states)
    assert len(result.moves.actions) == 593
    assert result.nodes == 300 or result.ended is StopReason.PROVEN
    check_tree(tree_of(search))


@pytest.mark.parametrize("batch_size", [1, 16])
def test_trees_hold_together_and_lines_can_be_played(model: Model, batch_size: int) -> None:
    game = Position().game
    search = TreeSearch(game, model, SearchConfig(nodes=150, batch_size=batch_size))
    for plies in (0, 40, 120):
        states = random_positions(game, 4, plies, seed=plies)[:1].copy()
        result = search.run(states)
        check_tree(tree_of(search))
        assert bytes(search.run(states).moves.visits) == bytes(result.moves.visits)
        for action in result.line:
            game.step(states, np.array([[action]], np.int32), game.new_outcomes(1))


def test_a_tree_follows_the_game_that_is_played(model: Model) -> None:
    position = Position()
    search = TreeSearch(position.game, model, SearchConfig(nodes=200))
    for _ in range(6):
        result = search.run(position.states)
        assert result.moves.visits.sum() >= 199
        line = result.line[:2]
        for action in line:
            position.push(action)
        assert search.advance(line) > 0
    check_tree(tree_of(search))


def test_the_limit_of_plies_cuts_the_tree(model: Model) -> None:
    position = Position(max_plies=3)
    search = TreeSearch(position.game, model, SearchConfig(nodes=500))
    result = search.run(position.states)
    assert result.depth == 3
    assert abs(result.value) < 1.0
    check_tree(tree_of(search))


def test_repetition_is_known_by_the_history_of_the_position(model: Model) -> None:
    position = Position("4k4/9/9/9/9/9/9/9/4K4 b - 1")
    for move in ("5i4i", "5a4a", "4i5i", "4a5a") * 2:
        position.push_usi(move)
    for move in ("5i4i", "5a4a", "4i5i"):
        position.push_usi(move)
    # White's 4a5a brings the position about for the fourth time: a draw, and proven one
    repeating = position.game.parse_move(position.state, "4a5a")
    search = TreeSearch(position.game, model, SearchConfig(nodes=50))
    result = search.run(position.states)
    index = result.moves.actions.tolist().index(repeating)
    assert result.moves.values[index] == 0.0
    assert result.value >= 0.0  # the draw is sure
