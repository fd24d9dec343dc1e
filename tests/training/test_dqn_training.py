"""`senju.train_dqn`: whole episodes, the meanings of None, and an agent at the end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import senju
from senju.errors import SenjuError
from senju.runs.agent import Agent
from senju.runs.run import Run
from senju.training import api
from senju.training.trainer import TrainingListener, TrainingProgress
from tests.training.test_parallel_training import whole_system

QUICK: dict[str, Any] = {
    "game": "tic_tac_toe",
    "batch_size": 16,
    "replay_size": 1000,
    "model": {"name": "mlp", "hidden": [16]},
    "backend": "threads",
    "evaluation": {"interval": 0, "games": 2, "opponents": [], "final_opponents": []},
}


class Recorder(TrainingListener):
    """Keeps the metrics of every update."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, float]] = []
        self.total_updates = 0

    def on_update(self, progress: TrainingProgress) -> None:
        self.metrics.append(progress.metrics)
        self.total_updates = progress.total_updates


def train(path: Path, n_episodes: int = 20, num_workers: int | None = 1, **changes: Any) -> Agent:
    return senju.train_dqn(n_episodes, num_workers, run=path / "run", **(QUICK | changes))


def test_each_batch_is_whole_episodes_and_the_agent_comes_back(tmp_path: Path) -> None:
    recorder = Recorder()
    agent = train(tmp_path, n_episodes=18, num_workers=2, episodes_per_batch=3, listener=recorder)
    assert recorder.total_updates == len(recorder.metrics) == 3
    for record in recorder.metrics:
        assert record["games_finished"] == 6
        assert 5 <= record["steps_per_game"] <= 9
    assert isinstance(agent, Agent)
    assert agent.name == "run@3"
    assert agent.action_values(agent.game.new_games(1)).shape == (1, 9)


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (3, 1), (5, 3)])
def test_none_means_all_cores_but_two_and_a_step_for_each_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, workers: int
) -> None:
    monkeypatch.setattr(api, "available_cores", lambda: cores)
    recorder = Recorder()
    train(tmp_path, 4 * workers * 3 - 1, None, listener=recorder)  # rounded up to whole batches
    config = Run(tmp_path / "run").config
    assert config.backend["num_workers"] == config.plan.num_shards == workers
    assert config.algorithm["steps_per_batch"] == config.collect.num_games == 4 * workers
    assert [record["games_finished"] for record in recorder.metrics] == [4 * workers] * 3
    assert recorder.metrics[-1]["gradient_steps"] == 4 * workers


def test_learning_steps_are_as_given(tmp_path: Path) -> None:
    recorder = Recorder()
    train(tmp_path, learning_steps_per_batch=3, listener=recorder)
    assert [record["gradient_steps"] for record in recorder.metrics][-3:] == [3, 3, 3]


def test_own_past_is_the_default_opponent(tmp_path: Path) -> None:
    train(tmp_path)
    config = Run(tmp_path / "run").config
    assert config.has_opponents
    assert config.opponents.snapshot_interval > 0
    assert config.opponents.fixed == ()


@pytest.mark.parametrize(
    ("opponents", "fixed"), [("random,minimax:1", ("random", "minimax:1")), (["random"], ("random",))]
)
def test_opponents_may_be_named(tmp_path: Path, opponents: Any, fixed: tuple[str, ...]) -> None:
    train(tmp_path, opponents=opponents)
    config = Run(tmp_path / "run").config
    assert config.opponents.fixed == fixed
    assert config.opponents.snapshot_interval == 0


def test_plain_self_play_is_possible(tmp_path: Path) -> None:
    train(tmp_path, opponents=None)
    assert not Run(tmp_path / "run").config.has_opponents


def test_long_episodes_are_cut(tmp_path: Path) -> None:
    recorder = Recorder()
    train(tmp_path, max_episode_steps=4, listener=recorder)
    assert {record["steps_per_game"] for record in recorder.metrics} == {4.0}
    assert {record["games_finished"] for record in recorder.metrics} == {4.0}


def test_game_with_settings_and_algorithm_with_more(tmp_path: Path) -> None:
    agent = train(tmp_path, game={"name": "connect_four"}, algorithm={"n_step": 3, "dueling": False})
    config = Run(tmp_path / "run").config
    assert (config.algorithm["name"], config.algorithm["n_step"]) == ("dqn", 3)
    assert config.collect.rollout_steps == 42  # the longest that its rules allow
    assert not agent.acting.is_dueling


def test_interrupted_run_is_resumed_by_any_number_of_workers_to_the_same_bytes(tmp_path: Path) -> None:
    class Stops(TrainingListener):
        def on_update(self, progress: TrainingProgress) -> None:
            if progress.update == 2:
                raise KeyboardInterrupt

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train(whole, n_episodes=40, num_workers=2, checkpoint={"interval": 1})
    with pytest.raises(KeyboardInterrupt):
        train(stopped, n_episodes=40, num_workers=2, checkpoint={"interval": 1}, listener=Stops())
    run = senju.train(resume=stopped / "run", workers=1)
    assert run.metrics[-1]["update"] == 5
    assert whole_system(run) == whole_system(Run(whole / "run"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_episodes": 0}, "n_episodes=0"),
        ({"algorithm": "ppo"}, "algorithm=.*ppo.*dqn"),
        ({"n_episodes": 2.5}, "n_episodes=2.5"),
        ({"n_episodes": None}, "n_episodes=None"),
        ({"num_workers": 0}, "num_workers=0"),
        ({"num_workers": True}, "num_workers=True"),
        ({"episodes_per_batch": -1}, "episodes_per_batch=-1"),
        ({"learning_steps_per_batch": 0}, "learning_steps_per_batch=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"replay_size": 0}, "replay_size=0"),
        ({"max_episode_steps": 0}, "max_episode_steps=0"),
        ({"game": "tictactoe"}, "tictactoe.*tic_tac_toe"),
        ({"game": {}}, "game.*tic_tac_toe"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"opponents": "grandmaster"}, "grandmaster"),
        ({"opponents": ""}, "opponents="),
        ({"algorithm": {"epsilon_end": 2.0}}, "algorithm.epsilon_end=2.0"),
        ({"seed": -1}, "seed=-1"),
        ({"game": "tests.collect.toy_games:Bandit"}, "bandit"),
    ],
)
def test_mistakes_are_explained_before_anything_is_made(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SenjuError, match=message):
        train(tmp_path, **changes)
    assert not (tmp_path / "run").exists()


def test_weights_go_from_one_agent_to_another(tmp_path: Path) -> None:
    one, other = train(tmp_path / "one", seed=1), train(tmp_path / "other", seed=2)
    games = one.game.new_games(1)
    before = one.action_values(games)
    assert not np.array_equal(other.action_values(games), before)
    other.set_weights(one.get_weights())
    assert np.array_equal(other.action_values(games), before)
