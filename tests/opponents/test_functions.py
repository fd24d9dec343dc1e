"""A user's own opponents: their arguments, and the handling of their errors."""

import inspect
import re
import sys
from typing import Any

import numpy as np
import pytest

from senju.errors import OpponentError, UnknownNameError
from senju.evaluation.matches import play_match
from senju.games import make_game
from senju.games.game import Game
from senju.games.rows import CLOCK
from senju.opponents.functions import FunctionPlayer, described_player
from senju.opponents.players import Player, PlayerBatch, RandomPlayer
from tests.facts import Facts, mentions
from tests.opponents import own_players
from tests.opponents.positions import noughts

HERE = own_players.HERE


@pytest.fixture(scope="module")
def game() -> Game:
    return make_game("tic_tac_toe")


def load(game: Game, name: str) -> Player:
    return described_player(game, f"{HERE}:{name}")


def table_of(game: Game, *boards: str, seed: int = 1, step: int = 0) -> PlayerBatch:
    """What a player sees in rows 10, 11, … of game 7."""
    states = noughts(*boards)
    observations = game.new_observations(len(states))
    game.observe(states, observations)
    clock = np.zeros(len(states), CLOCK)
    clock["row"], clock["game"], clock["step"] = 10 + np.arange(len(states)), 7, step
    return PlayerBatch(states, observations, clock, np.uint64(seed), 5)


def test_a_function_chooses_row_by_row(game: Game) -> None:
    batch = table_of(game, "X.. ... ...", "XOX OX. ...")
    assert load(game, "first").choose(batch).tolist() == [[1], [5]]
    assert load(game, "last").choose(batch).tolist() == [[8], [8]]


def test_a_users_own_class_is_a_player_too(game: Game) -> None:
    player = load(game, "Centre")
    assert player.name == f"{HERE}:Centre"
    assert player.is_deterministic
    assert player.choose(table_of(game, "... ... ...", "XXO OOX ...")).tolist() == [[4], [7]]


def test_random_numbers_depend_on_row_game_and_step_alone(game: Game) -> None:
    player = load(game, "any_of")
    empty = "... ... ..."
    both = player.choose(table_of(game, empty, empty))
    assert (player.choose(table_of(game, empty, empty)) == both).all()
    alone = table_of(game, empty, empty)
    second = PlayerBatch(alone.states[1:], *_second(alone), alone.seed, alone.stream)
    assert player.choose(second).tolist() == both[1:].tolist()
    drawn = [player.choose(table_of(game, *[empty] * 9, step=step)).tolist() for step in range(9)]
    assert len({str(actions) for actions in drawn}) == 9


def _second(batch: PlayerBatch) -> tuple[Any, Any]:
    observation, legal, seats = batch.observations
    return type(batch.observations)(observation[1:], legal[1:], seats[1:]), batch.clock[1:]


def test_neighbouring_rows_share_no_random_numbers(game: Game) -> None:
    """Drawing on in one row must never repeat what another row, game or step draws."""
    seen: list[float] = []

    def note(observation: Any, legal: Any, random: np.random.Generator) -> int:
        seen.extend(random.random(16).tolist())
        return 0

    player = FunctionPlayer(game, note, "note")
    for step in range(4):
        player.choose(table_of(game, *["... ... ..."] * 4, step=step))
    assert len(set(seen)) == len(seen) == 4 * 4 * 16


def test_a_function_may_write_to_what_it_is_given(game: Game) -> None:
    batch = table_of(game, "XO. ... ...")
    before = batch.observations.observation.copy(), batch.observations.legal.copy()
    assert load(game, "scribbler").choose(batch).tolist() == [[2]]
    assert (batch.observations.observation == before[0]).all()
    assert (batch.observations.legal == before[1]).all()


def test_a_function_that_raises_is_named_with_game_row_and_step(game: Game) -> None:
    batch = table_of(game, "X.. ... ...", "XOX OX. ...", step=5)
    expected = f"{HERE}:stumbler.*ZeroDivisionError: too many stones.*tic_tac_toe.*row 11, game 7, step 5"
    with pytest.raises(OpponentError, match=expected) as caught:
        load(game, "stumbler").choose(batch)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_that_raises_is_named_with_its_line(game: Game) -> None:
    line = inspect.getsourcelines(own_players.stumbler)[1] + 3
    with pytest.raises(OpponentError, match=rf"\) in own_players\.py, line {line}$"):
        load(game, "stumbler").choose(table_of(game, "XOX OX. ..."))


def test_a_function_that_exits_is_named_and_does_not_end_the_run(game: Game) -> None:
    def leave(observation: object, legal: object, random: object) -> int:
        sys.exit("enough")

    with pytest.raises(OpponentError, match=r"quitter.*SystemExit: enough.*tic_tac_toe, row 10"):
        FunctionPlayer(game, leave, "quitter").choose(table_of(game, "... ... ..."))


def test_a_match_against_a_function_is_not_one_game_again_and_again(game: Game) -> None:
    assert play_match(game, load(game, "first"), load(game, "last"), 2).opening_plies == 4
    assert play_match(game, load(game, "first"), RandomPlayer(), 2).opening_plies == 0


def test_an_illegal_answer_is_named_with_what_would_be_legal(game: Game) -> None:
    expected = rf"{HERE}:cheat answered 0\b.*tic_tac_toe, row 11, game 7, step 6.*\[5, 7, 8\]"
    with pytest.raises(OpponentError, match=expected):
        load(game, "cheat").choose(table_of(game, "... ... ...", "XOX OX. O..", step=6))


@pytest.mark.parametrize("answer", [None, True, "1", 1.0, -1, 9, 2**40, np.float32(1), [1]])
def test_only_integers_of_legal_actions_are_answers(game: Game, answer: Any) -> None:
    player = FunctionPlayer(game, lambda observation, legal, random: answer, "odd")
    with pytest.raises(OpponentError, match=r"odd answered"):
        player.choose(table_of(game, "... ... ..."))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Crasher", ("KeyError: 'lost'", "tic_tac_toe", "row 10 and others", "game 7", "step 0")),
        ("Shapeless", ("int32 of shape (2,)", "integers of shape (2, 1)")),
        ("Illegal", ("99", "no legal action", "tic_tac_toe", "row 11", "game 7", "step 0")),
    ],
)
def test_mistakes_of_a_class_are_named_too(game: Game, name: str, expected: Facts) -> None:
    with pytest.raises(OpponentError, match=mentions(f"{HERE}:{name}", expected)):
        load(game, name).choose(table_of(game, "... ... ...", "... ... ..."))


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (f"{HERE}:NOT_CALLABLE", "(observation, legal, random)"),
        ("pathlib:Path", "(observation, legal, random)"),
        (f"{HERE}:nobody", "nobody"),
        ("no_such_module:player", "no_such_module"),
    ],
)
def test_a_name_that_is_no_player_is_refused(game: Game, description: str, expected: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(expected)):
        described_player(game, description)


def test_a_class_that_cannot_be_made_says_why(game: Game) -> None:
    with pytest.raises(OpponentError, match=f"{HERE}:Unmade.*OSError: no opening book.*tic_tac_toe"):
        load(game, "Unmade")


@pytest.mark.parametrize("description", ["runs/a", "C:\\runs", "a b:c", ":x", "x:"])
def test_a_description_without_a_module_is_unknown(game: Game, description: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown opponent"):
        described_player(game, description)
