"""Search as it is used: results, limits, the tree that is kept, and refused input."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch

from senju.errors import (
    ConfigError,
    GameContractError,
    IllegalActionError,
    ModelError,
    NoLegalActionError,
    SenjuError,
)
from senju.games import make_game
from senju.games.game import Game
from senju.models import make_model
from senju.models.model import Model
from senju.search.puct import SearchResult, StopReason, TreeSearch
from senju.search.settings import SearchConfig
from tests.collect.toy_games import Meeting, Race
from tests.facts import mentions
from tests.search.positions import check_tree, random_positions, tree_of
from tests.search.toys import EvenModel, Place, TableGame, TableModel


@pytest.fixture(scope="module")
def connect_four() -> Game:
    return make_game("connect_four")


@pytest.fixture(scope="module")
def model(connect_four: Game) -> Model:
    return make_model({"name": "mlp", "hidden": [32]}, connect_four.observation_shape, 7, seed=0)


def bits(result: SearchResult) -> bytes:
    """All that a search says, but the clock."""
    numbers = (result.nodes, result.depth, result.value, result.best, result.line, result.ended)
    return repr(numbers).encode() + b"".join(array.tobytes() for array in result.moves)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3, 16, 64])
def test_every_visit_is_counted_once_at_every_level(
    connect_four: Game, model: Model, batch_size: int
) -> None:
    positions = np.concatenate(
        [random_positions(connect_four, 12 * (1 + moves), moves)[:8] for moves in (0, 10, 20, 28)]
    )
    search = TreeSearch(connect_four, model, SearchConfig(nodes=500, batch_size=batch_size))
    for row in range(len(positions)):
        result = search.run(positions[row : row + 1])
        check_tree(tree_of(search))
        assert result.nodes == tree_of(search).nodes[0]["visits"]
        assert result.moves.visits.sum() == result.nodes - 1  # the first visit is the root's own
        if result.ended is StopReason.NODES:
            assert result.nodes == 500


def test_batches_choose_much_as_single_walks_do(connect_four: Game, model: Model) -> None:
    states = connect_four.new_games(1)
    counts = []
    for batch_size in (1, 8):
        search = TreeSearch(connect_four, model, SearchConfig(nodes=2000, batch_size=batch_size))
        visits = search.run(states).visits
        counts.append(np.array([visits.get(action, 0) for action in range(7)]) / 2000)
    assert np.abs(counts[0] - counts[1]).sum() < 0.2


def test_same_bits_whatever_ran_before(connect_four: Game, model: Model) -> None:
    config = SearchConfig(nodes=300, noise=0.25, temperature=1.0)
    first, *others = (random_positions(connect_four, 1, moves, seed=4) for moves in (6, 0, 12))
    fresh = TreeSearch(connect_four, model, config, seed=7)
    expected = bits(fresh.run(first))
    assert bits(fresh.run(first)) == expected
    used = TreeSearch(connect_four, model, config, seed=7)
    for states in others:
        best = used.run(states, nodes=2000).best
        used.advance([best])
    assert bits(used.run(first)) == expected
    assert bits(used.run(first, seed=8)) != expected


def test_a_last_batch_that_is_not_full_has_the_same_shape(connect_four: Game) -> None:
    shapes = set()

    class Watching(EvenModel):
        def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            shapes.add(tuple(observation.shape))
            return super().forward(observation)

    result = TreeSearch(connect_four, Watching(7), SearchConfig(nodes=21, batch_size=16)).run(
        connect_four.new_games(1)
    )
    assert result.nodes == 21
    assert shapes == {(16, 2, 6, 7)}


def test_no_position_of_a_batch_is_evaluated_twice() -> None:
    # one legal move everywhere: a batch can hold no more than one new position
    line = TableGame(*[Place(place % 2, {0: place + 1}) for place in range(200)], Place(0, {0: 0}))
    search = TreeSearch(line, TableModel(), SearchConfig(nodes=50, batch_size=8))
    result = search.run(line.new_games(1))
    check_tree(tree_of(search))
    assert result.nodes == 50
    assert result.depth == 49
    assert result.visits == {0: 49}
    assert result.line == [0] * 49


def test_progress_is_reported_after_each_batch_and_stopping_ends_within_one(
    connect_four: Game, model: Model
) -> None:
    seen: list[SearchResult] = []
    stop = threading.Event()

    def on_progress(result: SearchResult) -> None:
        seen.append(result)
        if len(seen) == 5:
            stop.set()

    search = TreeSearch(connect_four, model, SearchConfig(nodes=0, batch_size=16))
    result = search.run(connect_four.new_games(1), is_stopped=stop.is_set, on_progress=on_progress)
    assert result.ended is StopReason.STOPPED
    assert all(1 <= later.nodes - earlier.nodes <= 16 for earlier, later in pairwise(seen))
    assert result.nodes == seen[-1].nodes
    assert [s.ended for s in seen] == [StopReason.NOT_YET] * 5
    assert all(s.line[0] == s.best == s.moves.actions[0] for s in seen)


def test_stopped_before_it_began_it_still_knows_a_move(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model)
    result = search.run(connect_four.new_games(1), is_stopped=lambda: True)
    assert result.nodes == 1
    assert result.line == [result.best]
    assert result.moves.priors[0] == result.moves.priors.max()
    assert bits(search.run(connect_four.new_games(1), nodes=1))[3:] == bits(result)[3:].replace(
        b"STOPPED: 'stopped'", b"NODES: 'nodes'"
    )


def test_only_legal_moves_are_searched_and_lines_can_be_played(connect_four: Game, model: Model) -> None:
    positions = random_positions(connect_four, 12, 25, seed=9)
    search = TreeSearch(connect_four, model, SearchConfig(nodes=200))
    for row in range(len(positions)):
        states = positions[row : row + 1].copy()
        result = search.run(states)
        seen = connect_four.new_observations(1)
        connect_four.observe(states, seen)
        legal = [action for action in range(7) if int(seen.legal[0, 0, 0]) >> action & 1]
        assert sorted(result.moves.actions.tolist()) == legal
        for action in result.line:  # raises where it is not legal
            connect_four.step(states, np.array([[action]], np.int32), connect_four.new_outcomes(1))


def test_advancing_keeps_what_is_known(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=600))
    states = connect_four.new_games(1)
    first = search.run(states)
    reply = first.line[1]
    child = dict(zip(first.moves.actions.tolist(), first.moves.visits.tolist(), strict=True))[first.best]
    kept = search.advance([first.best])
    assert kept == child
    grandchild = search.advance([reply])
    assert 0 < grandchild < kept
    check_tree(tree_of(search))
    for action in (first.best, reply):
        connect_four.step(states, np.array([[action]], np.int32), connect_four.new_outcomes(1))
    second = search.run(states, nodes=100)
    check_tree(tree_of(search))
    assert second.nodes == 100
    assert second.moves.visits.sum() == grandchild - 1 + 100
    fresh = TreeSearch(connect_four, model, SearchConfig(nodes=600)).run(states, nodes=100)
    assert fresh.moves.visits.sum() == 99


def test_advancing_by_no_move_goes_on_where_it_stopped(connect_four: Game, model: Model) -> None:
    states = connect_four.new_games(1)
    whole, halves = (TreeSearch(connect_four, model, SearchConfig(batch_size=1)) for _ in range(2))
    expected = whole.run(states, nodes=401)
    halves.run(states, nodes=201)
    assert halves.advance([]) == 201
    halved = halves.run(states, nodes=200)
    assert halved.nodes == 200
    assert [a.tobytes() for a in halved.moves] == [a.tobytes() for a in expected.moves]


def test_a_kept_tree_is_looked_ahead_in_again() -> None:
    # the win at place 5 is two plies from the first root, one from the next; its prior is nothing
    game = TableGame(
        Place(0, {0: 1}),
        Place(1, {0: 2, 1: 3}),
        Place(0, {0: 4, 1: 5}),
        Place(0, {0: 4}),
        Place(1, {0: 4}),
        Place(reward=1.0),
    )
    model = TableModel(policies={2: [1.0, 0.0, 0.0, 0.0]}, values={4: -0.9})
    search = TreeSearch(game, model, SearchConfig(nodes=30, look_ahead=1, batch_size=1))
    states = game.new_games(1)
    assert not search.run(states).is_proven
    assert search.advance([0, 0]) > 0
    states["place"] = 2
    result = search.run(states)
    assert (result.best, result.value, result.plies_to_end) == (1, 1.0, 1)


def test_another_position_than_advanced_to_begins_anew(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=200))
    states = connect_four.new_games(1)
    expected = bits(search.run(states))
    assert search.advance([3]) > 0
    assert bits(search.run(states)) == expected


def test_advancing_beyond_the_tree_keeps_nothing(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=20))
    assert search.advance([3]) == 0  # nothing was searched yet
    search.run(connect_four.new_games(1))
    assert search.advance([0, 1, 2, 3, 4, 5]) == 0
    assert search.advance([]) == 0


def test_advancing_by_an_illegal_move_is_refused_and_changes_nothing(
    connect_four: Game, model: Model
) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=50))
    search.run(connect_four.new_games(1))
    with pytest.raises(IllegalActionError):
        search.advance([3, 9])
    assert search.advance([]) == 50


def test_a_full_tree_ends_the_search_and_says_so(
    connect_four: Game, model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=0, max_tree_nodes=100, batch_size=16))
    states = connect_four.new_games(1)
    with caplog.at_level("INFO", "senju.search"):
        result = search.run(states)
    assert result.ended is StopReason.FULL
    assert result.nodes == tree_of(search).num_nodes == 100
    assert "max_tree_nodes=100" in caplog.text
    check_tree(tree_of(search))
    assert search.advance([]) == 100
    assert search.run(states).nodes == 0  # no room for anything
    kept = search.advance([result.best])  # which makes room
    connect_four.step(states, np.array([[result.best]], np.int32), connect_four.new_outcomes(1))
    again = search.run(states)
    assert again.ended is StopReason.FULL
    assert again.nodes == 100 - kept
    check_tree(tree_of(search))


def test_a_tree_of_one_node_still_answers(connect_four: Game, model: Model) -> None:
    result = TreeSearch(connect_four, model, SearchConfig(max_tree_nodes=1)).run(connect_four.new_games(1))
    assert (result.ended, result.nodes) == (StopReason.FULL, 1)


def test_trees_grow_far_beyond_their_first_room(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=6000, batch_size=64))
    small = tree_of(search).num_bytes
    result = search.run(connect_four.new_games(1))
    check_tree(tree_of(search))
    assert result.moves.visits.sum() == 5999
    assert tree_of(search).num_bytes > small


def test_one_legal_move_is_played() -> None:
    game = TableGame(Place(0, {2: 1}), Place(1, {0: 2, 1: 2}), Place(0, {0: 2}))
    result = TreeSearch(game, TableModel(values={1: 0.4}), SearchConfig(nodes=20)).run(game.new_games(1))
    assert result.best == 2
    assert result.moves.actions.tolist() == [2]
    assert result.visits == {2: 19}


def test_a_truncated_position_is_worth_what_the_network_says() -> None:
    # 0.8 for the one who is to move there, seat 0, is better than the draw; -0.8 is worse
    for value, best in ((0.8, 1), (-0.8, 0)):
        game = TableGame(Place(0, {0: 1, 1: 2}), Place(reward=0.0), Place(0, is_truncated=True))
        search = TreeSearch(game, TableModel(values={2: value}), SearchConfig(nodes=50))
        result = search.run(game.new_games(1))
        assert result.best == best
        assert result.value == pytest.approx(max(value, 0.0))
        assert result.nodes <= 3  # there is nothing more to find out


def test_truncation_as_the_games_own_limit_has_it() -> None:
    game = Race()
    states = game.new_states(1)
    states["total"] = 1  # too far from the goal to be reached in five moves
    model = make_model({"name": "mlp", "hidden": [8]}, game.observation_shape, 2, seed=0)
    result = TreeSearch(game, model, SearchConfig(nodes=500)).run(states)
    assert result.ended is StopReason.PROVEN  # every line was followed to the limit
    assert result.plies_to_end == 5
    assert abs(result.value) < 1.0


def test_an_estimate_never_counts_as_a_win() -> None:
    game = TableGame(Place(0, {0: 1, 1: 2}), Place(0, is_truncated=True), Place(reward=1.0))
    search = TreeSearch(game, TableModel(values={0: 50.0, 1: 99.0}), SearchConfig(nodes=50, look_ahead=0))
    result = search.run(game.new_games(1))
    assert (result.best, result.value) == (1, 1.0)


def test_a_seat_may_move_twice() -> None:
    # seat 0 moves, moves again, and wins or loses by its own choice
    game = TableGame(
        Place(0, {0: 1, 1: 2}),
        Place(0, {0: 3}),
        Place(0, {0: 3, 1: 4}),
        *[Place(reward=r) for r in (-1.0, 1.0)],
    )
    result = TreeSearch(game, TableModel(), SearchConfig(nodes=50, look_ahead=0)).run(game.new_games(1))
    assert (result.line, result.value, result.plies_to_end) == ([1, 1], 1.0, 2)


def test_priors_that_vanish_leave_every_move_equal() -> None:
    model = TableModel()
    model.logits[0] = -torch.inf
    game = TableGame(Place(0, {0: 1, 2: 1, 3: 1}), Place(1, {0: 1}))
    result = TreeSearch(game, model, SearchConfig(nodes=100)).run(game.new_games(1))
    assert result.moves.priors.tolist() == pytest.approx([1 / 3] * 3)
    assert np.isfinite(result.moves.values).all()
    assert result.moves.visits.sum() == 99


def test_a_move_without_prior_is_found_where_all_others_lose() -> None:
    game = TableGame(Place(0, {0: 1, 1: 2}), Place(1, {0: 3, 1: 2}), Place(1, {0: 2}), Place(reward=-1.0))
    model = TableModel(policies={0: [1.0, 0.0, 0.0, 0.0]})
    result = TreeSearch(game, model, SearchConfig(nodes=30, look_ahead=0)).run(game.new_games(1))
    assert result.best == 1


def test_noise_is_mixed_into_the_roots_priors_alone(connect_four: Game, model: Model) -> None:
    states = connect_four.new_games(1)
    plain = TreeSearch(connect_four, model).run(states, nodes=1).moves
    config = SearchConfig(noise=0.25)
    searches = [TreeSearch(connect_four, model, config, seed=seed) for seed in (0, 0, 1)]
    noisy = [search.run(states, nodes=1).moves for search in searches]
    priors = [moves.priors[np.argsort(moves.actions)] for moves in (plain, *noisy)]
    assert (priors[1] == priors[2]).all()
    assert (priors[1] != priors[3]).any()
    assert priors[1].sum() == pytest.approx(1.0)
    assert (priors[1] >= 0.75 * priors[0] - 1e-6).all()
    searches[0].advance([])
    again = searches[0].run(states, nodes=1).moves
    assert (again.priors[np.argsort(again.actions)] == priors[1]).all()  # not mixed twice


def test_temperature_draws_in_proportion_to_visits(connect_four: Game, model: Model) -> None:
    states = connect_four.new_games(1)
    search = TreeSearch(connect_four, model, SearchConfig(nodes=60, temperature=1.0))
    snapshots = [search.run(states, seed=seed) for seed in range(400)]
    counts = np.bincount([s.best for s in snapshots], minlength=7)
    visits = snapshots[0].visits
    expected = np.array([visits.get(action, 0) for action in range(7)]) / 59
    assert np.abs(counts / 400 - expected).max() < 5 * np.sqrt(0.25 / 400)
    assert all(s.line[0] == s.best for s in snapshots)
    cold = TreeSearch(connect_four, model, SearchConfig(nodes=60, temperature=0.01))
    assert {cold.run(states, seed=seed).best for seed in range(20)} == {snapshots[0].moves.actions[0]}


def test_a_finished_game_is_refused(connect_four: Game, model: Model) -> None:
    states = connect_four.new_games(1)
    for action in (0, 1, 0, 1, 0, 1, 0):
        connect_four.step(states, np.array([[action]], np.int32), connect_four.new_outcomes(1))
    search = TreeSearch(connect_four, model)
    with pytest.raises(NoLegalActionError, match=mentions("connect_four", "root")):
        search.run(states)
    assert search.run(connect_four.new_games(1), nodes=10).nodes == 10  # and is forgotten


def test_games_that_cannot_be_searched_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"zero-sum.*meeting"):
        TreeSearch(Meeting(), EvenModel(3))


@pytest.mark.parametrize("look_ahead", [0, 3])
def test_rewards_underway_and_beyond_one_are_refused(look_ahead: int) -> None:
    game = TableGame(Place(0, {0: 1}), Place(1, {0: 2}), Place(reward=3.0))
    config = SearchConfig(look_ahead=look_ahead)
    for pay_underway in (0.0, 0.5):
        game.pay_underway = pay_underway
        with pytest.raises(GameContractError, match=r"table, after 0.*reward.*1"):
            TreeSearch(game, TableModel(), config).run(game.new_games(1))


def test_games_that_stop_without_an_end_are_refused() -> None:
    game = TableGame(Place(0, {0: 1}), Place(1, {}))
    with pytest.raises(GameContractError, match=mentions("table", "after 0", "legal")):
        TreeSearch(game, TableModel()).run(game.new_games(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_damaged_networks_are_refused(bad: float) -> None:
    game = TableGame(Place(0, {0: 1}), Place(1, {0: 0}))
    with pytest.raises(ModelError, match=r"table, after 0.*value"):
        TreeSearch(game, TableModel(values={1: bad})).run(game.new_games(1))
    model = TableModel()
    model.logits[1] = bad
    search = TreeSearch(game, model)
    with pytest.raises(ModelError, match=r"table, after 0.*policy"):
        search.run(game.new_games(1))
    assert search.advance([]) == 0  # nothing half grown is kept


def test_a_model_of_another_game_is_refused(connect_four: Game) -> None:
    with pytest.raises(ModelError, match=r"9 logits.* 7 actions of connect_four"):
        TreeSearch(connect_four, EvenModel(9)).run(connect_four.new_games(1))


def test_states_that_are_not_one_row_are_refused(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model)
    for states in (connect_four.new_games(2), make_game("tic_tac_toe").new_games(1)):
        with pytest.raises(SenjuError, match="one row of connect_four"):
            search.run(states)


def test_stages_of_a_search_are_timed(connect_four: Game, model: Model) -> None:
    search = TreeSearch(connect_four, model, SearchConfig(nodes=100))
    search.run(connect_four.new_games(1))
    assert set(search.clock.take()) >= {"select", "replay", "observe", "evaluate", "expand", "backup"}


def test_a_kept_position_with_all_moves_known_is_looked_ahead_in() -> None:
    game = make_game("tic_tac_toe")
    search = TreeSearch(game, EvenModel(9), SearchConfig(nodes=900, look_ahead=1))
    states = game.new_games(1)
    first = search.run(states)
    for action in first.line[:2]:
        game.step(states, np.array([[action]], np.int32), game.new_outcomes(1))
    assert search.advance(first.line[:2]) > 7
    search.run(states, nodes=50)
    check_tree(tree_of(search))
