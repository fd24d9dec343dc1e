"""The examples do what they say."""

from pathlib import Path

import numpy as np
import pytest

import senju
from senju.errors import ConfigError


def test_nim_keeps_the_game_contract() -> None:
    assert senju.check_game(senju.make_game("examples.nim:Nim")).num_games_finished > 0
    assert senju.check_game(senju.make_game("examples.nim:Nim", stones=4)).longest_game <= 4


def test_a_users_own_settings_are_checked_like_any_other() -> None:
    with pytest.raises(ConfigError, match="did you mean 'stones'"):
        senju.make_game("examples.nim:Nim", stnes=4)


@pytest.mark.slow
def test_nim_is_learned_from_every_winning_position(tmp_path: Path) -> None:
    run = senju.train(
        {"name": "examples.nim:Nim", "stones": 10},
        run=tmp_path / "nim",
        total_steps=300_000,
        threads=1,
        model={"hidden": [32]},
        collect={"num_games": 64, "games_per_shard": 64, "rollout_steps": 32},
        algorithm={"minibatch_size": 512, "learning_rate": 0.003, "entropy_coefficient": 0.05},
        evaluation={"interval": 0, "games": 20},
    )
    states = run.game.new_games(10)
    states["stones"] = np.arange(1, 11)
    probabilities, _ = run.agent.evaluate(states)
    for stones, chosen in zip(range(1, 11), probabilities.argmax(axis=1) + 1, strict=True):
        if stones % 4:  # otherwise every move loses
            assert chosen == stones % 4, f"{stones} stones left"
