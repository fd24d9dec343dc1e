"""Players by description, among them the agents of other runs."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import senju
from senju.errors import CheckpointError, ConfigError, RunFolderError
from senju.evaluation.opponents import make_player, past_selves, spread, with_full_path, with_update
from senju.games import make_game
from senju.runs.run import Run
from senju.training.multi_run.group import is_finished
from senju.training.trainer import TrainingListener
from tests.conftest import Train
from tests.facts import assert_mentions


def test_folder_of_a_run_is_its_newest_agent(tic_tac_toe_run: Run) -> None:
    player = make_player(make_game("tic_tac_toe"), str(tic_tac_toe_run.path))
    assert (player.name, player.is_deterministic) == ("tic_tac_toe@6", True)
    assert not make_player(make_game("tic_tac_toe"), str(tic_tac_toe_run.path), 0.5).is_deterministic


def test_run_of_another_game_is_refused(tic_tac_toe_run: Run) -> None:
    with pytest.raises(RunFolderError, match=r"tic_tac_toe.*connect_four"):
        make_player(make_game("connect_four"), str(tic_tac_toe_run.path))


def test_unknown_description_is_answered_with_what_may_be_asked_for() -> None:
    known = r"randm.*random.*minimax:DEPTH.*greedy:DEPTH.*perfect.*RUN@UPDATE.*package\.module:function"
    with pytest.raises(ConfigError, match=known):
        make_player(make_game("tic_tac_toe"), "randm")


def test_older_checkpoint_of_a_run_is_an_opponent_by_its_update(tic_tac_toe_run: Run) -> None:
    player = make_player(make_game("tic_tac_toe"), f"{tic_tac_toe_run.path}@2")
    assert player.name == "tic_tac_toe@2"


@pytest.mark.parametrize("update", ["3", "", "best"])
def test_update_without_a_checkpoint_is_answered_with_those_there_are(
    tic_tac_toe_run: Run, update: str
) -> None:
    expected = f"'{update}'.*update_000000002, update_000000004, update_000000006"
    with pytest.raises(CheckpointError, match=expected):
        make_player(make_game("tic_tac_toe"), f"{tic_tac_toe_run.path}@{update}")


def test_run_whose_name_has_an_at_sign_is_a_run(train_small: Callable[..., Run]) -> None:
    run = train_small("me@4")
    assert make_player(run.game, str(run.path)).name == "me@4@4"
    assert make_player(run.game, f"{run.path}@4").name == "me@4@4"
    with pytest.raises(ConfigError, match="unknown opponent"):
        make_player(run.game, str(run.path).removesuffix("@4"))


@pytest.mark.parametrize("name", ["random", "perfect", "minimax:2"])
def test_folder_of_the_same_name_does_not_take_a_players_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert with_full_path(name) == with_update(name) == name
    assert make_player(make_game("connect_four"), name).name == name


def test_opponents_are_found_from_another_folder(
    tic_tac_toe_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tic_tac_toe_run.path.parent)
    folder = str(tic_tac_toe_run.path.resolve())
    assert with_full_path("tic_tac_toe") == folder
    assert with_full_path("tic_tac_toe@2") == f"{folder}@2"
    assert with_full_path("minimax:2") == "minimax:2"


def test_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=str(tmp_path)):
        make_player(make_game("tic_tac_toe"), str(tmp_path))


def test_run_without_a_checkpoint_has_no_agent(train_small: Callable[..., Run]) -> None:
    run = train_small()
    run.checkpoints.latest().rename(run.path / "elsewhere")
    with pytest.raises(CheckpointError, match="checkpoint"):
        make_player(make_game("tic_tac_toe"), str(run.path))


def test_other_run_can_be_an_opponent_while_training(train_small: Callable[..., Run]) -> None:
    other = train_small("other")
    run = train_small(evaluation={"opponents": [str(other.path)]})
    assert run.evaluations[-1]["opponent"] == "other@4"
    assert run.evaluations[-1]["opening_plies"] == 4  # both play their best moves: openings differ instead
    older = train_small("older", evaluation={"opponents": [f"{other.path}@4"]})
    assert older.evaluations[-1]["opponent"] == "other@4"


def test_opponents_of_equal_names_are_measured_each_even_after_an_interruption(
    train_small: Train,
) -> None:
    others = [str(train_small(f"{parent}/agent_1", seed=seed).path) for seed, parent in enumerate("ab")]
    run = train_small(evaluation={"opponents": others}, max_updates=3)
    final = [*others, "random", others[0]]  # the first is listed twice, and is one opponent

    class Impatient(TrainingListener):
        def on_evaluation(self, update: int, result: object) -> None:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        senju.train(resume=run.path, listener=Impatient(), evaluation={"final_opponents": final})
    assert not is_finished(Run(run.path))
    senju.train(resume=run.path)
    assert is_finished(Run(run.path))
    assert [each["opponent"] for each in run.evaluations] == ["a/agent_1@4", "b/agent_1@4", "random"]
    picture = (run.path / "strength.svg").read_text()
    assert_mentions(picture, "a/agent_1@4", "b/agent_1@4")


def test_function_of_a_module_is_a_player() -> None:
    rock = "tests.evaluation.tournament.odd_players:rock"
    assert make_player(make_game("tic_tac_toe"), rock).name == rock


def test_function_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="rck"):
        make_player(make_game("tic_tac_toe"), "tests.evaluation.tournament.odd_players:rck")


def test_agents_are_named_by_their_update(tic_tac_toe_run: Run) -> None:
    path = tic_tac_toe_run.path
    assert with_update(str(path)) == f"{path}@6"
    assert with_update(f"{path}@update_000000002") == f"{path}@2"
    assert with_update(f"{path}@2") == f"{path}@2"
    assert with_update("random") == "random"


def test_past_selves_are_the_kept_checkpoints_but_the_newest(tic_tac_toe_run: Run) -> None:
    path = tic_tac_toe_run.path
    assert past_selves(tic_tac_toe_run) == [f"{path}@2", f"{path}@4"]
    assert past_selves(tic_tac_toe_run, 1) == [f"{path}@2"]
    assert past_selves(tic_tac_toe_run, 0) == []


def test_few_of_many_past_selves_are_spread_over_time() -> None:
    assert spread(list(range(1, 100)), 100, 4) == [1, 26, 50, 75]
    assert spread([1, 2, 3, 90], 100, 2) == [1, 90]
    assert spread([5, 6, 7], 8, 3) == [5, 6, 7]
