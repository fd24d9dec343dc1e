"""A run's settings: their layers, their round trip, and whether they fit each other."""

from pathlib import Path

import pytest

from senju.collect.resignation import Resignation
from senju.config import Settings, merged, read_yaml
from senju.errors import ConfigError
from senju.evaluation.opponents import make_player
from senju.games import GAMES, make_game
from senju.machine import available_cores
from senju.models import make_model
from senju.runs.presets import known_presets, preset, preset_variants
from senju.runs.run_config import dump_config, load_config, resolve_config


def test_later_layers_win_over_earlier_ones_over_the_preset_over_defaults() -> None:
    ready = preset("tic_tac_toe")
    assert (
        ready["total_steps"] != 1_000_000
    )  # else this test could not distinguish the preset from the defaults
    config = resolve_config("tic_tac_toe")
    assert config.seed == 0  # a default
    assert config.total_steps == ready["total_steps"]  # over the default
    file: Settings = {"total_steps": 4096, "algorithm": {"minibatch_size": 512}, "seed": 5}
    given: Settings = {"seed": 6}
    config = resolve_config("tic_tac_toe", file, given)
    assert (config.total_steps, config.seed) == (4096, 6)
    assert config.algorithm["minibatch_size"] == 512
    assert config.collect.num_games == ready["collect"]["num_games"]  # untouched by either layer


def test_other_model_drops_the_settings_of_the_presets_model() -> None:
    config = resolve_config("tic_tac_toe", {"model": {"name": "resnet", "blocks": 1}})
    assert config.model["name"] == "resnet"
    assert "hidden" not in config.model
    assert config.model["channels"] == 32  # a default of the resnet


def test_game_may_come_from_a_layer_with_its_preset() -> None:
    assert resolve_config(None, {"game": {"name": "tic_tac_toe"}}) == resolve_config("tic_tac_toe")


@pytest.mark.parametrize("game", [{}, None, 3])
def test_layer_without_a_games_name_is_refused(game: object) -> None:
    with pytest.raises(ConfigError, match=r"no game.*cleanup, connect_four, shogi, tag"):
        resolve_config(None, {"game": game})


def test_name_of_a_game_that_is_no_word_is_unknown() -> None:
    with pytest.raises(ConfigError, match="unknown game '5'"):
        resolve_config(None, {"game": {"name": 5}})


def test_part_without_a_name_is_the_default_one() -> None:
    bare = "senju.games.tic_tac_toe:TicTacToe"  # has no preset, hence no name below
    assert resolve_config(bare, {"model": {"hidden": [8]}}).model == {"name": "mlp", "hidden": [8]}


def test_saved_part_without_a_name_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("game: {name: tic_tac_toe}\nmodel: {hidden: [8]}\n")
    with pytest.raises(ConfigError, match=r"model.*mlp, plane_net, resnet"):
        load_config(file)


def test_number_of_threads_is_resolved_so_that_a_resume_elsewhere_rounds_alike() -> None:
    assert resolve_config("connect_four").threads == available_cores()
    assert resolve_config("connect_four", {"threads": 3}).threads == 3


@pytest.mark.parametrize("game", sorted(GAMES.names()))
def test_presets_are_valid_and_their_opponents_can_be_played(game: str) -> None:
    assert preset(game)
    config = resolve_config(game)
    for opponent in (*config.evaluation.opponents, *config.evaluation.final_opponents):
        make_player(make_game(game), opponent)


@pytest.mark.parametrize(
    ("game", "variant"), [(game, name) for game in GAMES.names() for name in preset_variants(game)]
)
def test_other_presets_are_valid_and_others(game: str, variant: str) -> None:
    here: Settings = {"device": "cpu"}  # a GPU may not be here
    config = resolve_config(game, here, variant=variant)
    assert config != resolve_config(game, here)
    assert config.game["name"] == game
    make_model(config.model, make_game(**config.game).observation_shape, make_game(game).num_actions, seed=0)
    for opponent in (*config.evaluation.opponents, *config.evaluation.final_opponents):
        make_player(make_game(game), opponent)


def test_presets_are_found_by_name() -> None:
    assert preset_variants("shogi") == ["gpu"]
    assert preset_variants("connect_four") == ["dqn"]
    assert preset("shogi", "gpu")["device"] == "cuda"
    assert "gpu (shogi)" in known_presets()
    assert "dqn (connect_four, tic_tac_toe)" in known_presets()


def test_algorithm_takes_the_preset_of_its_own_unless_another_is_named() -> None:
    config = resolve_config("tic_tac_toe", {"algorithm": "dqn"})
    assert config == resolve_config("tic_tac_toe", variant="dqn")
    assert config.algorithm["replay_ratio"] == preset("tic_tac_toe", "dqn")["algorithm"]["replay_ratio"]
    elsewhere = resolve_config("shogi", {"algorithm": "dqn"})  # without one
    assert elsewhere.algorithm["name"] == "dqn"
    assert elsewhere.collect == resolve_config("shogi").collect


@pytest.mark.parametrize(
    ("game", "known"),
    [
        ("shogi", "gpu"),
        ("tic_tac_toe", "dqn"),
        ("tic", "none"),
        ("senju.games.tic_tac_toe:TicTacToe", "none"),
    ],
)
@pytest.mark.parametrize("variant", ["gpx", "", "../shogi"])
def test_unknown_preset_is_answered_with_the_known_ones(game: str, known: str, variant: str) -> None:
    with pytest.raises(ConfigError, match=f"'{variant}' for {game}.*{known}"):
        preset(game, variant)


def test_layers_lie_over_the_chosen_preset() -> None:
    given: Settings = {"collect": {"num_games": 128}, "algorithm": {"minibatch_size": 4096}}
    config = resolve_config("shogi", {"device": "cpu"}, given, variant="gpu")
    assert config.collect.num_games == 128
    assert config.collect.rollout_steps == 32  # of the preset


def test_game_of_a_user_has_no_preset() -> None:
    assert preset("my_package.my_module:MyGame") == {}


@pytest.mark.parametrize("game", sorted(GAMES.names()))
@pytest.mark.parametrize("changes", [{}, {"model": {"name": "resnet"}, "seed": 2**63 - 1}])
def test_saved_settings_read_back_equal(tmp_path: Path, game: str, changes: Settings) -> None:
    config = resolve_config(game, changes)
    file = tmp_path / "config.yaml"
    file.write_text(dump_config(config), encoding="utf-8")
    assert load_config(file) == config
    assert dump_config(load_config(file)) == dump_config(config)


@pytest.mark.parametrize(("steps", "updates"), [(1, 1), (255, 1), (256, 1), (257, 2), (2560, 10), (2561, 11)])
def test_total_steps_are_rounded_up_to_whole_updates(small: Settings, steps: int, updates: int) -> None:
    config = resolve_config("tic_tac_toe", merged(small, {"total_steps": steps}))
    assert config.decisions_per_update == 256
    assert config.total_updates == updates


def test_plan_says_what_is_to_be_played(small: Settings) -> None:
    plan = resolve_config("tic_tac_toe", merged(small, {"collect": {"games_per_shard": 8}, "seed": 4})).plan
    assert (plan.num_shards, plan.games_per_shard, plan.rollout_steps, plan.seed) == (4, 8, 8, 4)
    assert plan.game == {"name": "tic_tac_toe"}
    assert plan.policies[0].model == {"name": "mlp", "hidden": [16]}
    assert plan.resignation == Resignation(below=0.0, exempt=0.1)


def test_plan_says_when_games_are_resigned(small: Settings) -> None:
    resigning = merged(small, {"collect": {"resign_below": 0.9, "resign_exempt": 0.2}})
    assert resolve_config("tic_tac_toe", resigning).plan.resignation == Resignation(0.9, 0.2)


def test_settings_cannot_be_changed_once_made(small: Settings) -> None:
    config = resolve_config("tic_tac_toe", small)
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 1  # type: ignore[misc]  # that is the point


def test_parts_may_be_named_by_a_word_and_numbers_written_short(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("game: tic_tac_toe\nmodel: resnet\ntotal_steps: 1e5\nalgorithm: {learning_rate: 3e-4}\n")
    config = resolve_config(None, read_yaml(file))
    assert (config.game["name"], config.model["name"], config.total_steps) == (
        "tic_tac_toe",
        "resnet",
        100_000,
    )
    assert config.algorithm["learning_rate"] == 3e-4


@pytest.mark.parametrize(
    "changes",
    [
        {"collect": {"num_games": 1048573, "games_per_shard": 1048573, "rollout_steps": 65521}},  # primes
        {"collect": {"num_games": 2**20, "games_per_shard": 1, "rollout_steps": 2**16}},
    ],
)
def test_minibatch_that_fits_is_found_at_once_in_the_largest_batch(changes: Settings) -> None:
    with pytest.raises(ConfigError, match=r"minibatch_size=3000000.*try \d+ or \d+"):
        resolve_config("connect_four", changes, {"algorithm": {"minibatch_size": 3_000_000}})


def test_minibatch_that_fits_is_found_where_agents_train_after_many_turns() -> None:
    collect = {"num_games": 1048573, "games_per_shard": 1048573, "rollout_steps": 65521}
    changes = {
        "collect": collect,
        "parallel": {"train_interval": 9973},
        "seats": {"1": {"train_every": 9967}},
    }
    with pytest.raises(ConfigError, match="× 9973\\); try 65521 or 1048573"):
        resolve_config("treasure_hunt", changes, {"algorithm": {"name": "ppo", "minibatch_size": 99_999}})


@pytest.mark.parametrize(
    "value",
    [1e30, 2**63, 10**5000, -(10**5000), float("inf"), float("nan")],
    ids=["float", "64 bits", "5000 digits", "negative", "infinite", "not a number"],
)
@pytest.mark.parametrize(
    "path",
    [
        "total_steps",
        "collect.games_per_shard",
        "checkpoint.interval",
        "evaluation.interval",
        "model.hidden",
        "seed",
        "algorithm.minibatch_size",
        "opponents.snapshot_interval",
        "parallel.num_workers",
    ],
)
def test_number_beyond_64_bits_is_refused(path: str, value: float) -> None:
    part, _, key = path.rpartition(".")
    inner = {key: [value] if key == "hidden" else value}
    with pytest.raises(ConfigError, match=key) as caught:
        resolve_config("tic_tac_toe", {part: inner} if part else inner)
    assert len(str(caught.value)) < 1000
