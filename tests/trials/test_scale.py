"""Trials take a game's own settings, at a scale that fits the trial."""

import pytest

from senju.config import Settings
from senju.errors import ConfigError
from senju.runs.run_config import resolve_config
from senju.trials.scale import SMALL, Scale, require_sync, scaled_config, shared_evenly


def test_small_scale_has_more_shards_than_workers_and_keeps_the_games_network() -> None:
    config = scaled_config("connect_four", SMALL)
    assert (config.plan.num_shards, config.plan.games_per_shard, config.plan.rollout_steps) == (5, 16, 16)
    usual = resolve_config("connect_four")
    assert config.model == usual.model
    assert {**config.algorithm, "minibatch_size": 2048} == usual.algorithm
    assert config.decisions_per_update / config.algorithm["minibatch_size"] == 4


def test_games_are_not_fewer_than_usual_where_the_scale_leaves_them() -> None:
    assert scaled_config("connect_four", Scale(num_shards=3)).plan.num_shards == 6  # 256 games, and more
    assert scaled_config("connect_four", Scale(num_shards=2)).plan.num_shards == 4
    assert scaled_config("connect_four", Scale(num_shards=8)).plan.num_shards == 8


def test_games_steps_are_kept_where_the_scale_leaves_them() -> None:
    config = scaled_config("tic_tac_toe", Scale(num_shards=6))
    assert (config.plan.num_shards, config.plan.games_per_shard, config.plan.rollout_steps) == (6, 64, 32)
    assert config.algorithm["minibatch_size"] == 1024


@pytest.mark.parametrize(
    ("changes", "shards", "rows"),
    [
        ({"collect": {"games_per_shard": 6}}, 5, 6),
        ({"collect": {"num_games": 32}}, 2, 16),
        ({"collect": {"num_games": 9, "games_per_shard": 3, "rollout_steps": 7}}, 3, 3),
    ],
)
def test_what_is_asked_for_wins_and_the_rest_follows(changes: Settings, shards: int, rows: int) -> None:
    plan = scaled_config("tests.collect.toy_games:Race", SMALL, changes).plan
    assert (plan.num_shards, plan.games_per_shard) == (shards, rows)


def test_algorithm_with_a_preset_of_its_own_is_taken_with_it_and_learns_at_once() -> None:
    usual = resolve_config("connect_four", {"algorithm": "dqn"})
    config = scaled_config("connect_four", SMALL, {"algorithm": "dqn"})
    assert {**config.algorithm, "learning_starts": usual.algorithm["learning_starts"]} == usual.algorithm
    assert config.algorithm["learning_starts"] == 1
    assert (config.plan.num_shards, config.plan.rollout_steps) == (5, 16)
    left = scaled_config("connect_four", Scale(num_shards=1), {"algorithm": "dqn"}).collect
    assert (left.num_games, left.rollout_steps) == (usual.collect.num_games, usual.collect.rollout_steps)
    asked = scaled_config("connect_four", SMALL, {"algorithm": {"name": "dqn", "learning_starts": 70}})
    assert asked.algorithm["learning_starts"] == 70


def test_minibatch_that_is_asked_for_is_taken_as_it_is() -> None:
    config = scaled_config("tic_tac_toe", SMALL, {"algorithm": {"minibatch_size": 64}})
    assert config.algorithm["minibatch_size"] == 64
    with pytest.raises(ConfigError, match="minibatch_size=100"):
        scaled_config("tic_tac_toe", SMALL, {"algorithm": {"minibatch_size": 100}})


def test_game_may_come_with_the_settings() -> None:
    assert scaled_config(None, SMALL, {"game": "tic_tac_toe"}).game == {"name": "tic_tac_toe"}


@pytest.mark.parametrize(
    ("game", "changes", "message"),
    [
        (None, {}, "no game given"),
        ("conect_four", {}, "'conect_four'.*'connect_four'"),
        ("tic_tac_toe", {"collect": 5}, "collect=5"),
        ("tic_tac_toe", {"collect": {"num_games": "many"}}, "num_games='many'"),
        ("tic_tac_toe", {"collect": {"games_per_shard": "few"}}, "games_per_shard='few'"),
        ("tic_tac_toe", {"collect": {"games_per_shard": 0}}, "games_per_shard=0"),
        ("tic_tac_toe", {"algorithm": 3}, "algorithm=3"),
        ("tic_tac_toe", {"algorithm": {"minibatch_size": "all"}}, "minibatch_size='all'"),
        ("tic_tac_toe", {"algorithm": "pppo"}, "'pppo'.*'ppo'"),
    ],
)
def test_bad_settings_are_refused_as_for_a_run(game: str | None, changes: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scaled_config(game, SMALL, changes)


@pytest.mark.parametrize(("workers", "shards"), [([1, 2, 4, 8], 8), ([1, 2, 3], 6), ([31, 37], 37), ([1], 1)])
def test_shards_divide_among_every_number_of_workers(workers: list[int], shards: int) -> None:
    assert shared_evenly(workers).num_shards == shards


def test_async_mode_is_refused_because_it_has_no_equal_bytes() -> None:
    require_sync(scaled_config("tic_tac_toe", SMALL))
    with pytest.raises(ConfigError, match=r"collect\.mode='async'"):
        require_sync(scaled_config("tic_tac_toe", SMALL, {"collect": {"mode": "async"}}))


@pytest.mark.parametrize(
    ("collect", "minibatch_size", "message"),
    [
        # primes: a search downwards for a divisor would take three thousand million steps
        ({"num_games": 1048573, "games_per_shard": 1048573, "rollout_steps": 65521}, 3 * 10**9, "try"),
        ({"rollout_steps": 10**40 + 1}, 64, "rollout_steps"),
        ({"num_games": -(10**40)}, 64, "num_games"),
        ({"games_per_shard": 10**40 + 1}, 64, "num_games"),
    ],
)
def test_largest_numbers_are_answered_at_once(collect: Settings, minibatch_size: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scaled_config(
            "tic_tac_toe", SMALL, {"collect": collect, "algorithm": {"minibatch_size": minibatch_size}}
        )
