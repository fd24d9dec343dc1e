"""What search proves is true, and nothing that ends the game soon is missed."""

import numpy as np
import pytest
from numpy.typing import NDArray

from senju.games import make_game
from senju.games.connect_four_solver import Solver
from senju.games.game import ILLEGAL, Game, States
from senju.kernels import unpack_legal
from senju.models import make_model
from senju.models.model import Model
from senju.opponents.players import PLY_DISCOUNT, MinimaxPlayer
from senju.search.puct import SearchResult, StopReason, TreeSearch
from senju.search.settings import SearchConfig
from tests.search.positions import check_tree, random_positions, tree_of
from tests.search.toys import EvenModel, Place, TableGame, TableModel


@pytest.fixture(scope="module")
def game() -> Game:
    return make_game("connect_four")


@pytest.fixture(scope="module")
def model(game: Game) -> Model:
    return make_model({"name": "mlp", "hidden": [32]}, game.observation_shape, 7, seed=0)


@pytest.fixture(scope="module")
def positions(game: Game) -> States:
    counts = {14: 120, 17: 120, 20: 120, 25: 120, 30: 120, 35: 1500}  # few games last so long
    return np.concatenate([random_positions(game, counts[moves], moves, seed=moves) for moves in counts])


def legal_moves(game: Game, states: States) -> NDArray[np.bool_]:
    seen = game.new_observations(len(states))
    game.observe(states, seen)
    return unpack_legal(seen.legal[:, 0], game.num_actions)


def play(game: Game, states: States, actions: NDArray[np.int64]) -> tuple[States, NDArray[np.bool_]]:
    """The positions after one move in each row, and whether its mover has won by it."""
    states, outcomes = states.copy(), game.new_outcomes(len(states))
    game.step(states, actions.astype(np.int32)[:, None], outcomes)
    return states, outcomes.terminated & (outcomes.rewards != 0.0).any(axis=1)  # no move loses at once


def wins_at_once(game: Game, states: States) -> NDArray[np.bool_]:
    """[row, action]: whether it wins on the spot."""
    wins = np.zeros((len(states), game.num_actions), np.bool_)
    rows, actions = np.nonzero(legal_moves(game, states))
    wins[rows, actions] = play(game, states[rows], actions)[1]
    return wins


def loses_at_once(game: Game, states: States) -> NDArray[np.bool_]:
    """[row, action]: whether the other wins by the next move."""
    loses = np.zeros((len(states), game.num_actions), np.bool_)
    rows, actions = np.nonzero(legal_moves(game, states) & ~wins_at_once(game, states))
    loses[rows, actions] = wins_at_once(game, play(game, states[rows], actions)[0]).any(axis=1)
    return loses


def test_a_win_in_one_is_never_missed(game: Game, model: Model, positions: States) -> None:
    search, wins = TreeSearch(game, model, SearchConfig(nodes=1)), wins_at_once(game, positions)
    rows = np.flatnonzero(wins.any(axis=1))
    assert len(rows) > 50
    for row in rows:
        result = search.run(positions[row : row + 1])
        assert (result.best, result.value, result.plies_to_end) == (wins[row].argmax(), 1.0, 1)
        assert result.ended is StopReason.PROVEN


def test_no_move_that_loses_at_once_is_played_where_another_is_left(
    game: Game, model: Model, positions: States
) -> None:
    search = TreeSearch(game, model, SearchConfig(nodes=100))
    legal, loses = legal_moves(game, positions), loses_at_once(game, positions)
    has_choice = loses.any(axis=1) & (legal & ~loses).any(axis=1) & ~wins_at_once(game, positions).any(axis=1)
    rows = np.flatnonzero(has_choice)
    assert len(rows) > 50
    for row in rows:
        assert not loses[row, search.run(positions[row : row + 1]).best]


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "look_ahead"), [(1, 0), (16, 0), (16, 2), (64, 100)])
def test_what_is_proven_is_what_the_solver_says(
    game: Game, model: Model, positions: States, batch_size: int, look_ahead: int
) -> None:
    config = SearchConfig(nodes=300, batch_size=batch_size, look_ahead=look_ahead)
    search, values = TreeSearch(game, model, config), Solver().values(positions)
    results = []
    for row in range(len(positions)):
        result = search.run(positions[row : row + 1])
        if result.is_proven:
            results.append(result.value)
            assert result.value == values[row].max()
            assert values[row, result.best] == values[row].max()
            assert len(result.line) == result.plies_to_end
    assert len(results) > len(positions) / 3
    assert set(results) == {-1.0, 0.0, 1.0}
    check_tree(tree_of(search))


@pytest.mark.slow
def test_a_random_network_with_search_plays_most_decisive_positions_right(
    game: Game, model: Model, positions: States
) -> None:
    values = Solver().values(positions)
    best = values.max(axis=1)
    decisive = np.flatnonzero(((values != ILLEGAL) & (values < best[:, None])).any(axis=1))
    assert len(decisive) > 100

    def share(nodes: int) -> float:
        search = TreeSearch(game, model, SearchConfig(nodes=nodes))
        kept = [values[row, search.run(positions[row : row + 1]).best] == best[row] for row in decisive]
        return float(np.mean(kept))

    assert share(1) < share(400) - 0.1
    assert share(400) > 0.85


def test_a_proven_win_is_played_to_its_end_in_time(game: Game, model: Model, positions: States) -> None:
    search, num_played = TreeSearch(game, model, SearchConfig(nodes=400)), 0
    for row in range(len(positions)):
        states, outcomes = positions[row : row + 1].copy(), game.new_outcomes(1)
        result = search.run(states)
        if result.value < 1.0 or result.plies_to_end < 3:
            continue
        num_played += 1
        for ply in range(result.plies_to_end):
            # the loser defends as long as the search sees a way
            line: SearchResult = search.run(states, nodes=2000)
            assert line.value == (1.0 if ply % 2 == 0 else -1.0)
            game.step(states, np.array([[line.best]], np.int32), outcomes)
            if outcomes.terminated[0]:
                break
        assert outcomes.terminated[0]
    assert num_played > 3


def test_a_win_in_three_is_never_missed_where_search_looks_three_plies_ahead(
    game: Game, model: Model
) -> None:
    states = np.concatenate([random_positions(game, 300, moves, seed=moves) for moves in (10, 14, 20)])
    values = MinimaxPlayer(game, 3).action_values(states).max(axis=1)
    wins = states[np.isclose(values, PLY_DISCOUNT**2)]  # in three plies, and not in one
    assert len(wins) > 20

    def found(nodes: int, look_ahead: int) -> list[bool]:
        search = TreeSearch(game, model, SearchConfig(nodes=nodes, look_ahead=look_ahead))
        snapshots = [search.run(wins[row : row + 1]) for row in range(len(wins))]
        return [result.value == 1.0 and result.plies_to_end == 3 for result in snapshots]

    assert all(found(100, look_ahead=3))
    assert np.mean(found(400, look_ahead=0)) > 0.7


def test_tic_tac_toe_is_proven_a_draw_from_the_start() -> None:
    game = make_game("tic_tac_toe")
    result = TreeSearch(game, EvenModel(9), SearchConfig(nodes=0, batch_size=64)).run(game.new_games(1))
    assert (result.ended, result.value, result.plies_to_end) == (StopReason.PROVEN, 0.0, 9)
    assert len(result.line) == 9


def test_the_quickest_win_and_the_longest_defence_are_played() -> None:
    win, loss = Place(reward=1.0), Place(reward=-1.0)
    # action 0 wins in three plies, action 1 in one
    quick = TableGame(Place(0, {0: 1, 1: 3}), Place(1, {0: 2}), Place(0, {0: 3}), win)
    result = TreeSearch(quick, TableModel(), SearchConfig(nodes=50)).run(quick.new_games(1))
    assert (result.best, result.plies_to_end) == (1, 1)
    # action 0 loses in two plies, action 1 in four
    slow = TableGame(
        Place(0, {0: 1, 1: 2}), Place(1, {0: 5}), Place(1, {0: 3}), Place(0, {0: 4}), Place(1, {0: 5}), loss
    )
    result = TreeSearch(slow, TableModel(), SearchConfig(nodes=50)).run(slow.new_games(1))
    assert (result.best, result.value, result.plies_to_end) == (1, -1.0, 4)


def test_a_sure_draw_is_taken_before_a_worse_promise_and_left_for_a_better_one() -> None:
    for value, best in ((0.6, 0), (-0.6, 1)):  # of the place after action 1, for seat 1
        endless = [Place(1, {0: 2, 1: 2, 2: 2}), Place(0, {0: 1, 1: 1, 2: 1})]
        game = TableGame(Place(0, {0: 3, 1: 1}), *endless, Place(reward=0.0))
        model = TableModel(values={1: value, 2: -value})
        result = TreeSearch(game, model, SearchConfig(nodes=60)).run(game.new_games(1))
        assert result.best == best
        assert result.value == pytest.approx(max(0.0, -value))
