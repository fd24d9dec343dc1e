"""Runs on disk and the agents in them."""

import re
from pathlib import Path

import numpy as np
import pytest

from senju.errors import CheckpointError, ConfigError, NoLegalActionError, RunFolderError
from senju.games.rows import Rows
from senju.kernels import unpack_legal
from senju.runs.run import Run
from tests.conftest import Train
from tests.facts import mentions


def test_folder_holds_settings_checkpoints_metrics_and_the_pictures(tic_tac_toe_run: Run) -> None:
    names = {path.name for path in tic_tac_toe_run.path.iterdir()}
    pictures = {"strength.svg", "timeline.svg", "timeline.json"}
    assert names == {"config.yaml", "checkpoints", "metrics.jsonl", "tensorboard"} | pictures


def test_opened_run_is_the_one_that_was_trained(tic_tac_toe_run: Run) -> None:
    opened = Run(str(tic_tac_toe_run.path))
    assert opened.config == tic_tac_toe_run.config
    assert [record["update"] for record in opened.metrics] == [1, 2, 3, 4, 5, 6]
    assert [(r["update"], r["opponent"]) for r in opened.evaluations] == [(3, "random"), (6, "random")]
    assert repr(opened) == f"Run({str(opened.path)!r})"


def test_agent_gives_probabilities_of_legal_moves_only(tic_tac_toe_run: Run) -> None:
    agent, game = tic_tac_toe_run.agent, tic_tac_toe_run.game
    rows = Rows(game, np.arange(3, dtype=np.uint32), seed=0)
    outcomes, observations = game.new_outcomes(3), game.new_observations(3)
    rows.step(np.array([[0], [4], [8]], np.int32), outcomes)
    rows.observe(observations)
    probabilities, values = agent.evaluate(rows.states)
    legal = unpack_legal(observations.legal[:, 0], 9)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(3))
    assert (probabilities[legal] > 0).all()
    assert (probabilities[~legal] == 0).all()
    assert values.shape == (3,)


def test_agent_of_an_older_checkpoint_can_be_asked_for(tic_tac_toe_run: Run) -> None:
    older = tic_tac_toe_run.agent_at("update_000000002")
    assert older.name == "tic_tac_toe@2"
    assert tic_tac_toe_run.agent.name == "tic_tac_toe@6"
    states = Rows(tic_tac_toe_run.game, np.zeros(1, np.uint32), seed=0).states
    assert older.evaluate(states)[1] != tic_tac_toe_run.agent.evaluate(states)[1]
    with pytest.raises(CheckpointError, match="no checkpoint 'best'"):
        tic_tac_toe_run.agent_at("best")


@pytest.mark.parametrize("make", ["mkdir", "touch"])
def test_what_is_no_run_is_refused(tmp_path: Path, make: str) -> None:
    getattr(tmp_path / "thing", make)()
    with pytest.raises(RunFolderError, match=mentions("thing", "not a run", "config.yaml")):
        Run(tmp_path / "thing")


def test_a_folder_of_several_agents_is_not_taken_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "six" / "agent_1").mkdir(parents=True)
    (tmp_path / "six" / "agent_1" / "config.yaml").touch()
    with pytest.raises(RunFolderError, match=r"six is not a run.*/six/agent_1$"):
        Run(tmp_path / "six")


def test_run_with_damaged_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("game: {name: tic_tac_toe}\nsead: 3\n")
    with pytest.raises(ConfigError, match=mentions("unknown setting", "'sead'", "'seed'")):
        Run(tmp_path)


def test_checkpoint_of_another_model_is_refused_and_others_are_named(train_small: Train) -> None:
    run = train_small(checkpoint={"interval": 2})
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("- 16", "- 32"))
    with pytest.raises(CheckpointError) as caught:
        Run(run.path).agent  # noqa: B018  # asking is what fails
    assert re.search(r"'mlp' \(hidden=\[16\]\).*'mlp' \(hidden=\[32\]\)", str(caught.value))
    assert "--checkpoint update_000000002" in str(caught.value)


def test_checkpoint_of_another_game_is_refused(train_small: Train) -> None:
    run = train_small()
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("name: tic_tac_toe", "name: connect_four"))
    with pytest.raises(CheckpointError, match=r"game 'tic_tac_toe'.*'connect_four'"):
        Run(run.path).agent  # noqa: B018  # asking is what fails


def test_file_of_a_run_is_replaced_whole_or_not_at_all(train_small: Train) -> None:
    run = train_small()
    run.write("note.txt", "an agent\n")
    assert (run.path / "note.txt").read_text() == "an agent\n"
    with pytest.raises(RunFolderError, match=mentions("checkpoints", "Is a directory")):
        run.write("checkpoints", "an agent\n")
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]


def test_agent_refuses_to_evaluate_a_finished_game(train_small: Train) -> None:
    run = train_small()
    states = run.game.new_games(2)
    states["is_over"][1] = True
    with pytest.raises(NoLegalActionError, match=mentions("tic_tac_toe", "row 1", "over")):
        run.agent.evaluate(states)
