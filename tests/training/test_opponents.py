"""Players by description, among them the agents of other runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from senju.errors import CheckpointError, ConfigError, RunFolderError
from senju.games import make_game
from senju.training.opponents import make_player
from senju.training.run import Run


def test_folder_of_a_run_is_its_newest_agent(tic_tac_toe_run: Run) -> None:
    player = make_player(make_game("tic_tac_toe"), str(tic_tac_toe_run.path))
    assert (player.name, player.is_deterministic) == ("tic_tac_toe@6", True)
    assert not make_player(make_game("tic_tac_toe"), str(tic_tac_toe_run.path), 0.5).is_deterministic


def test_run_of_another_game_is_refused(tic_tac_toe_run: Run) -> None:
    with pytest.raises(RunFolderError, match=r"is a run of .*tic_tac_toe.*, not of connect_four as set here"):
        make_player(make_game("connect_four"), str(tic_tac_toe_run.path))


def test_unknown_description_is_answered_with_what_may_be_asked_for() -> None:
    expected = "unknown opponent 'randm'; expected random, minimax:DEPTH, perfect, or a run's folder"
    with pytest.raises(ConfigError, match=expected):
        make_player(make_game("tic_tac_toe"), "randm")


def test_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a run"):
        make_player(make_game("tic_tac_toe"), str(tmp_path))


def test_run_without_a_checkpoint_has_no_agent(train_small: Callable[..., Run]) -> None:
    run = train_small()
    run.checkpoints.latest().rename(run.path / "elsewhere")
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        make_player(make_game("tic_tac_toe"), str(run.path))


def test_other_run_can_be_an_opponent_while_training(train_small: Callable[..., Run]) -> None:
    other = train_small("other")
    run = train_small(evaluation={"opponents": [str(other.path)]})
    assert run.evaluations[-1]["opponent"] == "other@4"
    assert run.evaluations[-1]["opening_plies"] == 4  # both play their best moves: openings differ instead
