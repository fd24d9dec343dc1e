"""Search against numbers worked by hand, and against a textbook's search, visit by visit."""

import pytest

from senju.games import make_game
from senju.games.game import States
from senju.models import make_model
from senju.models.model import Model
from senju.search.puct import TreeSearch
from senju.search.settings import SearchConfig
from tests.search.plain_search import PlainSearch, Position
from tests.search.positions import random_positions, tree_of
from tests.search.toys import EvenModel, Place, TableGame, TableModel

# exploration stays 1: its logarithm is nothing before a million visits
PLAIN = SearchConfig(batch_size=1, exploration=1.0, exploration_base=1e15, first_play=0.25, look_ahead=0)

FORK = TableGame(
    Place(0, {0: 1, 1: 2}),
    Place(1, {0: 3, 1: 4}),
    Place(1, {0: 5, 3: 6}),
    *[Place(0, {2: 7}) for _ in range(4)],
    Place(1, {0: 8}),
    Place(0, {0: 8}),
)
FORK_MODEL = TableModel(
    # the value of each place is its mover's
    values={0: 0.1, 1: 0.2, 2: -0.5, 5: 0.3, 6: -0.9},
    policies={0: [0.6, 0.4, 0.0, 0.0], 2: [0.3, 0.0, 0.0, 0.7]},
)


def test_numbers_worked_by_hand() -> None:
    def after(nodes: int) -> tuple[dict[int, int], float]:
        search = TreeSearch(FORK, FORK_MODEL, PLAIN)
        result = search.run(FORK.new_games(1), nodes=nodes)
        assert result.nodes == nodes == tree_of(search).nodes[0]["visits"]
        return result.visits, tree_of(search).nodes[0]["total"]

    assert after(1) == ({}, pytest.approx(0.1))
    # the larger prior first; place 1 is worth 0.2 to seat 1
    assert after(2) == ({0: 1}, pytest.approx(-0.1))
    # 0: -0.2 + √2 · 0.6 / 2 = 0.224; 1: -0.05 - 0.25 · √0.6 + √2 · 0.4 = 0.322; place 2: 0.5
    assert after(3) == ({1: 1, 0: 1}, pytest.approx(0.4))
    # 0: -0.2 + √3 · 0.6 / 2 = 0.320; 1: 0.5 + √3 · 0.4 / 2 = 0.846; on from there to place 6: -0.9 for seat 0
    assert after(4) == ({1: 2, 0: 1}, pytest.approx(-0.5))
    # 0: -0.2 + 2 · 0.6 / 2 = 0.4; 1: (0.5 - 0.9) / 2 + 2 · 0.4 / 3 = 0.067; on to place 3, worth 0
    assert after(5) == ({0: 2, 1: 2}, pytest.approx(-0.5))


def test_best_move_value_and_line_worked_by_hand() -> None:
    search = TreeSearch(FORK, FORK_MODEL, PLAIN)
    result = search.run(FORK.new_games(1), nodes=4)
    assert result.best == 1
    assert result.value == pytest.approx((0.5 - 0.9) / 2)
    assert result.line == [1, 3]
    assert result.depth == 2
    assert result.moves.actions.tolist() == [1, 0]
    assert result.moves.values.tolist() == pytest.approx([-0.2, -0.2])
    assert result.moves.priors.tolist() == pytest.approx([0.4, 0.6])


def test_exploration_grows_with_the_logarithm_of_visits() -> None:
    game = TableGame(Place(0, {0: 1, 1: 2}), Place(1, {0: 3}), Place(1, {0: 3}), Place(0, {0: 3}))
    model = TableModel(values={1: -0.3, 2: 0.4})  # 0.3 and -0.4 for seat 0

    def visits(base: float) -> dict[int, int]:
        config = SearchConfig(
            batch_size=1, exploration=0.0, exploration_base=base, look_ahead=0, first_play=0
        )
        return TreeSearch(game, model, config).run(game.new_games(1), nodes=40).visits

    # c = log(1 + (N + 1) / base): with a small base it is several times the difference of the values
    assert visits(1e15) == {0: 39}
    assert visits(1.0)[1] > 5


def test_ties_go_to_the_lowest_action() -> None:
    game = make_game("tic_tac_toe")
    search = TreeSearch(game, EvenModel(9), PLAIN.model_copy(update={"first_play": 0.0}))
    assert search.run(game.new_games(1), nodes=1).best == 0
    assert list(search.run(game.new_games(1), nodes=5).visits) == [0, 1, 2, 3]


def assert_same(search: TreeSearch, plain: Position) -> None:
    """Equal in every node: visits, totals and bounds, to the last bit."""
    tree = tree_of(search)
    assert tree.num_nodes == count(plain)
    waiting = [(0, plain)]
    while waiting:
        index, position = waiting.pop()
        node = tree.nodes[index]
        sign = 1.0 if node["seat"] == 0 or not position.priors else -1.0
        edges = tree.edges[node["first_edge"] : node["first_edge"] + node["num_edges"]]
        opened = edges[: node["num_opened"]]
        assert node["visits"] == position.visits
        assert opened["action"].tolist() == list(position.children)
        if position.priors:
            assert sign * node["total"] == position.total
            assert sorted((sign * node["lower"], sign * node["upper"])) == [position.lower, position.upper]
            assert dict(edges[["action", "prior"]].tolist()) == position.priors
        children = dict(zip(opened["action"].tolist(), opened["child"].tolist(), strict=True))
        waiting += [(children[action], child) for action, child in position.children.items()]


def count(position: Position) -> int:
    return 1 + sum(map(count, position.children.values()))


def compare(game_name: str, states: States, model: Model, nodes: int, **settings: float) -> Position:
    game = make_game(game_name)
    config = SearchConfig(batch_size=1, look_ahead=0, **settings)
    search = TreeSearch(game, model, config)
    plain = PlainSearch(game, model, config.exploration, config.exploration_base, config.first_play)
    result = search.run(states, nodes=nodes)
    expected = plain.run(states, nodes)
    assert_same(search, expected)
    assert result.nodes == expected.visits
    assert result.is_proven == expected.is_solved
    return expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", [{}, {"exploration": 3.0, "first_play": 0.0}, {"exploration": 0.3}])
def test_batch_of_one_is_the_textbooks_search(seed: int, settings: dict[str, float]) -> None:
    game = make_game("connect_four")
    model = make_model({"name": "mlp", "hidden": [16]}, game.observation_shape, game.num_actions, seed)
    compare("connect_four", game.new_games(1), model, 300, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("game_name", "num_moves"), [("connect_four", 18), ("tic_tac_toe", 2)])
def test_batch_of_one_is_the_textbooks_search_where_games_end(game_name: str, num_moves: int) -> None:
    game, num_solved = make_game(game_name), 0
    positions = random_positions(game, 24, num_moves, seed=1)
    for row in range(len(positions)):
        model = make_model({"name": "mlp", "hidden": [16]}, game.observation_shape, game.num_actions, row)
        num_solved += compare(game_name, positions[row : row + 1], model, 400).is_solved
    assert 0 < num_solved < len(positions)  # the others end with the nodes
