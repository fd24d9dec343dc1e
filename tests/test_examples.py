"""The examples do what they say."""

from pathlib import Path

import numpy as np
import pytest

import senju
from examples.own_opponent import finisher, score_against_finisher, train
from senju.errors import ConfigError
from senju.games.tic_tac_toe import LINES
from senju.runs.run import new_models
from tests.facts import mentions


def test_nim_keeps_the_game_contract() -> None:
    assert senju.check_game(senju.make_game("examples.nim:Nim")).num_games_finished > 0
    assert senju.check_game(senju.make_game("examples.nim:Nim", stones=4)).longest_game <= 4


def test_a_users_own_settings_are_checked_like_any_other() -> None:
    with pytest.raises(ConfigError, match=mentions("stnes", "'stones'")):
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


@pytest.mark.parametrize("plane", [0, 1])  # its own marks, the other's
@pytest.mark.parametrize("line", LINES.tolist())
def test_finisher_completes_or_hinders_every_line(line: list[int], plane: int) -> None:
    for gap in line:
        marks = np.zeros((2, 9), np.uint8)
        marks[plane, [square for square in line if square != gap]] = 1
        legal = marks.sum(axis=0) == 0
        assert finisher(marks.reshape(2, 3, 3), legal, np.random.default_rng(0)) == gap


@pytest.mark.slow
def test_agent_meets_the_users_own_opponent_and_learns_from_it(tmp_path: Path) -> None:
    agent = train(episodes=1_200, num_workers=1, run=tmp_path / "run")
    run = senju.Run(tmp_path / "run")
    games = {rating.name: rating.games for rating in run.training_ratings}
    assert games["examples.own_opponent:finisher"] > 0
    untrained = senju.Agent(run.game, new_models(run.game, run.config)[0], "untrained", agent.acting)
    assert score_against_finisher(agent) > score_against_finisher(untrained) + 0.2
