"""A player that searches, in matches and alone."""

import numpy as np
import pytest

from senju.errors import ConfigError
from senju.evaluation.matches import play_match
from senju.evaluation.search_player import SearchPlayer
from senju.games import make_game
from senju.games.game import Game
from senju.models import make_model
from senju.opponents.players import AgentPlayer, MinimaxPlayer, RandomPlayer
from senju.search.settings import SearchConfig
from tests.opponents.positions import choose, noughts, stones
from tests.search.positions import random_positions
from tests.search.toys import EvenModel


@pytest.fixture(scope="module")
def tic_tac_toe() -> Game:
    return make_game("tic_tac_toe")


def test_search_without_any_knowledge_never_loses_tic_tac_toe(tic_tac_toe: Game) -> None:
    player = SearchPlayer(tic_tac_toe, EvenModel(9), "even", SearchConfig(nodes=1500, batch_size=32))
    against_minimax = play_match(tic_tac_toe, player, MinimaxPlayer(tic_tac_toe, 9), 20)
    assert against_minimax.score.draws == 20
    against_random = play_match(tic_tac_toe, player, RandomPlayer(), 30)
    assert against_random.score.losses == 0
    assert against_random.score.wins > 20


def test_search_beats_the_network_it_searches_with() -> None:
    game = make_game("connect_four")
    model = make_model({"name": "mlp", "hidden": [16]}, game.observation_shape, 7, seed=0)
    searching = SearchPlayer(game, model, "net", SearchConfig(nodes=200))
    result = play_match(game, searching, AgentPlayer(game, model, "net"), 20)
    assert searching.name == result.player == "net (200 nodes)"
    assert result.score.wins >= 18


def test_it_takes_wins_and_stops_the_others(tic_tac_toe: Game) -> None:
    player = SearchPlayer(tic_tac_toe, EvenModel(9), "even", SearchConfig(nodes=60))
    # X completes its row at c1; O its diagonal at a3; O must stop X at c1
    positions = noughts("XX. OO. ...", "XXO .O. .X.", "XX. .O. ...")
    assert choose(tic_tac_toe, player, positions).tolist() == [2, 6, 2]
    game = make_game("connect_four")
    three = stones(
        "O O . . . . .",
        "X X X . . . O",
    )
    assert choose(game, SearchPlayer(game, EvenModel(7), "even", SearchConfig(nodes=20)), three).tolist() == [
        3
    ]


def test_without_temperature_it_is_deterministic_and_with_it_for_a_seed() -> None:
    game = make_game("connect_four")
    model = make_model({"name": "mlp", "hidden": [16]}, game.observation_shape, 7, seed=0)
    states = np.concatenate([random_positions(game, 20, moves, seed=1) for moves in (0, 5)])
    for chance in ({}, {"noise": 0.5, "noise_concentration": 1.0}, {"temperature": 1.0}):
        player = SearchPlayer(game, model, "net", SearchConfig(nodes=40, **chance))
        first = choose(game, player, states, seed=4).tolist()
        assert choose(game, player, states, seed=4).tolist() == first
        assert player.is_deterministic == (chance == {})
        assert (choose(game, player, states, seed=5).tolist() == first) == player.is_deterministic
    # the same position in other rows is another draw
    assert len(set(first[:20])) > 1


def test_a_player_needs_a_number_of_nodes(tic_tac_toe: Game) -> None:
    with pytest.raises(ConfigError, match="nodes=0"):
        SearchPlayer(tic_tac_toe, EvenModel(9), "even", SearchConfig(nodes=0))
