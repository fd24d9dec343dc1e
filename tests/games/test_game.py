"""What every game gets from the contract's class: moves read from text, arrays, and warming up."""

import subprocess
import sys

import numpy as np
import pytest

from senju.errors import ConfigError, IllegalActionError, UnknownNameError
from senju.games import GAMES, make_game
from senju.games.game import GameConfig
from senju.games.tic_tac_toe import TicTacToe
from tests.facts import mentions


@pytest.mark.parametrize("text", ["c2", " C2 ", "c2\n"])
def test_action_is_read_in_any_case(text: str) -> None:
    assert TicTacToe().parse_action(text) == 5


@pytest.mark.parametrize("text", ["", "d1", "5", "c", "c 2"])
def test_text_that_names_no_action_is_refused_with_the_names(text: str) -> None:
    with pytest.raises(IllegalActionError, match=r"a1, b1, c1, .*, c3$"):
        TicTacToe().parse_action(text)


def test_only_the_first_of_many_actions_are_named() -> None:
    game = type(
        "Large", (TicTacToe,), {"num_actions": 2187, "action_name": lambda self, action: f"m{action}"}
    )
    assert game().describe_actions().endswith("m10, m11, …")


def test_refusal_names_game_row_action_and_the_action_in_words() -> None:
    actions = np.array([[0], [5]], np.int32)
    with pytest.raises(
        IllegalActionError, match=mentions("tic_tac_toe", "row 1", "action 5 (c2)", "not legal")
    ):
        TicTacToe().refuse(1, actions)
    TicTacToe().refuse(-1, actions)


def test_game_is_made_by_name_with_its_settings() -> None:
    game = make_game("tic_tac_toe")
    assert isinstance(game, TicTacToe)
    assert isinstance(game.config, GameConfig)


def test_unknown_game_and_unknown_setting_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"'tictactoe'.*'tic_tac_toe'"):
        make_game("tictactoe")
    with pytest.raises(ConfigError, match=r"unknown setting 'game\.size'"):
        make_game("tic_tac_toe", size=4)


COMPILES_NOTHING_MORE = """
import sys
import numpy as np
from senju.games import GAMES, make_game
from senju.games.rows import ACTION, Rows, choose_at_random

game = make_game(sys.argv[1])
modules = [sys.modules[base.__module__] for base in type(game).__mro__]
kernels = [kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")]
game.warm_up()
ready = [len(kernel.signatures) for kernel in kernels]
rows = Rows(game, np.arange(16, dtype=np.uint32), 0)
observations, outcomes = game.new_observations(16), game.new_outcomes(16)
actions = np.zeros((16, game.num_acting), np.int32)
for _ in range(50):
    rows.observe(observations)
    choose_at_random(observations.legal, rows.clock, rows.seed, ACTION, actions)
    rows.step(actions, outcomes)
    rows.advance(outcomes)
assert ready == [len(kernel.signatures) for kernel in kernels], (ready, kernels)
assert sum(ready) >= 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES.names())
def test_warm_up_leaves_nothing_to_compile(name: str) -> None:
    subprocess.run([sys.executable, "-c", COMPILES_NOTHING_MORE, name], check=True)
