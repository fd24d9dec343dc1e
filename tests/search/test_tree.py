"""The tree's memory: its size, the kept part, and that it is never copied as a whole."""

import logging
from itertools import pairwise

import numpy as np
import pytest

from senju.games import make_game
from senju.games.game import Game
from senju.games.shogi.position import Position
from senju.models import make_model
from senju.models.model import Model
from senju.search.puct import StopReason, TreeSearch
from senju.search.settings import SearchConfig
from senju.search.tree import EDGE, INNER, NODE, Tree
from tests.search.positions import check_tree, tree_of

MANY_MOVES = "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w GR5pnsg 1"  # 207 of them
MIB = 1 << 20


@pytest.fixture(scope="module")
def position() -> Position:
    return Position(MANY_MOVES)


@pytest.fixture(scope="module")
def model(position: Position) -> Model:
    game = position.game
    return make_model({"name": "mlp", "hidden": [16]}, game.observation_shape, game.num_actions, seed=0)


@pytest.fixture(scope="module")
def connect_four() -> Game:
    return make_game("connect_four")


def connect_four_search(game: Game, **settings: float) -> TreeSearch:
    model = make_model({"name": "mlp", "hidden": [32]}, game.observation_shape, 7, seed=0)
    return TreeSearch(game, model, SearchConfig(**settings))


def test_a_node_takes_64_bytes_and_an_edge_12() -> None:
    assert (NODE.itemsize, EDGE.itemsize) == (64, 12)


def test_memory_ends_a_search_within_a_batch(position: Position, model: Model) -> None:
    search = TreeSearch(position.game, model, SearchConfig(nodes=0, max_tree_mib=2, look_ahead=0))
    tree = tree_of(search)
    arrays = tree.nodes, tree.edges
    batches = []
    result = search.run(position.states, on_progress=lambda _: batches.append(tree.num_bytes))
    largest = max(later - earlier for earlier, later in pairwise(batches))
    assert result.ended is StopReason.FULL
    assert 2 * MIB - largest < tree.num_bytes < 2 * MIB + largest
    assert tree.num_bytes > 1000 * tree.num_nodes  # the edges are what takes it
    assert tree.nodes is arrays[0]
    assert tree.edges is arrays[1]
    check_tree(tree)


def test_what_was_written_to_once_counts_after_a_cut(position: Position, model: Model) -> None:
    search = TreeSearch(position.game, model, SearchConfig(nodes=0, max_tree_mib=2, look_ahead=0))
    tree, here = tree_of(search), position.copy()
    for _ in range(4):
        best = search.run(here.states).best
        full = tree.num_bytes
        assert search.advance([best]) > 0
        assert tree.num_bytes == full > tree.used_bytes
        check_tree(tree)
        here.push(best)
    assert full < 2.1 * MIB


def test_tree_shrinks_to_the_memory_of_the_machine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "senju.search"):
        tree = Tree(max_nodes=1 << 56, max_bytes=1 << 60, num_actions=7, batch_size=8)
    assert MIB <= tree.max_bytes < 1 << 60
    assert "1099511627776 MiB" in caplog.text


def near_and_untried(search: TreeSearch) -> int:
    nodes = tree_of(search).nodes[: tree_of(search).num_nodes]
    is_near = nodes["depth"] < search.config.look_ahead
    return int(((nodes["kind"] == INNER) & is_near & ~nodes["is_tried"]).sum())


def test_looking_ahead_in_a_kept_tree_can_be_stopped_and_gone_on_with(connect_four: Game) -> None:
    search, states = connect_four_search(connect_four, nodes=2000, batch_size=4), connect_four.new_games(1)
    best = search.run(states).best
    search.advance([best])
    connect_four.step(states, np.array([[best]], np.int32), connect_four.new_outcomes(1))
    untried = near_and_untried(search)
    asked = 0

    def is_stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2  # two batches are looked at

    assert search.run(states, is_stopped=is_stopped).ended is StopReason.STOPPED
    assert near_and_untried(search) == untried - 8 > 0
    check_tree(tree_of(search))
    search.advance([])
    search.run(states, nodes=1)
    assert near_and_untried(search) == 0


def test_a_tree_that_takes_too_long_to_cut_is_given_up(connect_four: Game) -> None:
    search, states = connect_four_search(connect_four, nodes=500), connect_four.new_games(1)
    first = search.run(states)
    assert search.advance([], most_bytes=0) == 500  # nothing is to be moved
    assert search.advance([first.best], most_bytes=1000) == 0
    first = search.run(states)
    assert search.advance([first.best], most_bytes=tree_of(search).used_bytes) > 0
