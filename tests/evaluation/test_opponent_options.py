"""Opponents as users write them: text, a list, a function."""

import functools
from typing import Any

import pytest

from senju.errors import ConfigError
from senju.evaluation.opponents import with_opponents
from senju.runs.run_config import resolve_config
from tests.facts import mentions

HERE = "tests.evaluation.test_opponent_options"


def first(observation: Any, legal: Any, random: Any) -> int:
    return int(legal.argmax())


@pytest.mark.parametrize(
    ("given", "fixed"),
    [
        (first, [f"{HERE}:first"]),
        ([first, "random"], [f"{HERE}:first", "random"]),
        ("minimax:2, random", ["minimax:2", "random"]),
    ],
)
def test_a_function_is_named_by_its_module(given: Any, fixed: list[str]) -> None:
    settings = with_opponents({"opponents": given, "seed": 3})
    assert settings["opponents"] == {"fixed": fixed, "snapshot_interval": 0, "self_share": 0.0}
    assert (settings["collect"], settings["seed"]) == ({"seating": "opponents"}, 3)


def test_explicit_seating_wins_over_the_one_that_a_list_of_opponents_implies() -> None:
    game = {"name": "treasure_hunt", "num_agents": 2}
    given = with_opponents({"opponents": "random", "collect": {"seating": "independent"}, "game": game})
    config = resolve_config(None, given)
    assert config.is_independent
    assert config.plan.opponents is not None


@pytest.mark.parametrize(
    ("seating", "opponents"), [("self_play", "pool"), ("self_play", "random"), ("independent", "pool")]
)
def test_seating_in_which_the_opponents_would_never_play_is_refused(seating: str, opponents: str) -> None:
    with pytest.raises(ConfigError, match=mentions("opponents", "collect.seating", seating)):
        resolve_config(
            "tic_tac_toe", with_opponents({"opponents": opponents, "collect": {"seating": seating}})
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "opponent 5"),
        (["random", True], "opponent True"),
        (lambda observation, legal, random: 0, "lambda"),
        ([functools.partial(first, None)], "partial"),
        ([], "opponents="),
    ],
)
def test_a_value_that_is_no_opponent_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_opponents({"opponents": given})
