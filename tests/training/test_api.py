"""`senju.train`: refused arguments, the files of a run, and stopping."""

import re
import signal
import threading
from pathlib import Path

import pytest

import senju
from senju.config import Settings, merged
from senju.errors import CheckpointError, ConfigError, ModelError, RunFolderError
from senju.games.tic_tac_toe import TicTacToe
from senju.runs.run import Run
from senju.training.trainer import TrainingListener, TrainingProgress
from tests.conftest import BadSettings, Train
from tests.facts import mentions


class Line(TicTacToe):
    """A game whose observation is a line, in which there are no planes."""

    observation_shape = (18,)


class Solitaire(TicTacToe):
    """A game in which no match can be played."""

    num_seats = 1
    is_zero_sum = False


def test_refused_settings_are_explained_and_leave_no_folder(
    bad_settings: BadSettings, small: Settings, tmp_path: Path
) -> None:
    changes, expected, game = bad_settings
    with pytest.raises(ConfigError, match=mentions(expected)):
        senju.train(game, run=tmp_path / "run", **merged(small, changes))
    assert list(tmp_path.iterdir()) == []


def test_run_without_a_name_is_kept_under_runs(
    small: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [senju.train("tic_tac_toe", **small, total_steps=256) for _ in range(3)]
    assert len({run.path for run in runs}) == 3
    for run in runs:
        assert re.fullmatch(r"runs/tic_tac_toe-\d{8}-\d{6}(-\d)?", str(run.path))


def test_train_without_a_game_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=mentions("game", "cleanup, connect_four, shogi, tag")):
        senju.train()


def test_given_settings_override_the_named_preset(small: Settings, tmp_path: Path) -> None:
    game = {"name": "shogi", "max_plies": 20}
    settings = merged(small, {"device": "cpu", "backend": "serial"})
    run = senju.train(game, preset="gpu", run=tmp_path / "run", max_updates=1, **settings)
    assert run.config.algorithm["gamma"] == 0.99  # of the preset
    assert run.config.model == {"name": "mlp", "hidden": [16]}
    assert run.config.game["max_plies"] == 20


def test_unknown_preset_leaves_no_folder(small: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cpu.*shogi.*gpu"):
        senju.train("shogi", preset="cpu", run=tmp_path / "run", **small)
    assert list(tmp_path.iterdir()) == []


def test_preset_for_a_run_that_has_its_settings_is_refused(train_small: Train) -> None:
    run = train_small()
    with pytest.raises(ConfigError, match="preset='gpu'"):
        senju.train(resume=run.path, preset="gpu")


def test_existing_run_is_never_written_over(train_small: Train, tmp_path: Path) -> None:
    run = train_small()
    config = (run.path / "config.yaml").read_bytes()
    with pytest.raises(RunFolderError, match="--resume"):
        train_small(seed=9)
    assert (run.path / "config.yaml").read_bytes() == config
    (tmp_path / "photos").mkdir()
    with pytest.raises(RunFolderError, match="--run"):
        train_small("photos")
    assert list((tmp_path / "photos").iterdir()) == []


@pytest.mark.parametrize("place", ["file/run", "file/deep/run", "/proc/senju/run"])
def test_folder_that_cannot_be_made_is_explained(train_small: Train, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderError, match="run folder"):
        train_small(place)


def test_model_that_does_not_fit_the_game_leaves_no_folder(train_small: Train, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="resnet"):
        train_small(game=f"{__name__}:Line", model={"name": "resnet"})
    assert list(tmp_path.iterdir()) == []


def test_game_without_matches_is_refused_before_it_is_trained(train_small: Train, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=mentions("two seats", "has 1 seat")):
        train_small(game=f"{__name__}:Solitaire")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("max_updates", [0, -1])
def test_no_updates_at_all_are_refused(train_small: Train, tmp_path: Path, max_updates: int) -> None:
    with pytest.raises(ConfigError, match=f"max_updates={max_updates}"):
        train_small(max_updates=max_updates)
    assert list(tmp_path.iterdir()) == []


def test_checkpoint_to_go_on_from_needs_a_run(train_small: Train, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint.*resume"):
        train_small(from_checkpoint="update_000000001")
    assert list(tmp_path.iterdir()) == []


def test_resume_into_another_folder_is_refused(train_small: Train, tmp_path: Path) -> None:
    run = train_small()
    with pytest.raises(ConfigError, match="resume"):
        senju.train(resume=run.path, run=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_resume_of_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(RunFolderError, match=r"config.yaml"):
            senju.train(resume=path)


def test_resume_of_another_game_is_refused(train_small: Train) -> None:
    run = train_small()
    with pytest.raises(RunFolderError, match=r"tic_tac_toe.*connect_four"):
        senju.train("connect_four", resume=run.path)
    with pytest.raises(ConfigError, match="connect_four"):
        senju.train("conect_four", resume=run.path)


def test_resume_from_an_unknown_checkpoint_changes_nothing(train_small: Train) -> None:
    run = train_small()
    with pytest.raises(CheckpointError, match=r"best.*update_000000004"):
        senju.train(resume=run.path, from_checkpoint="best", total_steps=9999)
    assert Run(run.path).config == run.config


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"model": {"hidden": [8]}},
        {"algorithm": {"epochs": 2}},
        {"collect": {"num_games": 64}},
        {"device": "cpu"},
        {"seed": 1, "threads": 2},
        {"threads": 2},
    ],
)
def test_setting_that_decides_the_result_cannot_change_on_resume(
    train_small: Train, changes: Settings
) -> None:
    run = train_small()
    with pytest.raises(ConfigError, match=r"resume.*total_steps"):
        senju.train(resume=run.path, **changes)
    assert Run(run.path).config == run.config


def test_settings_that_watch_a_run_can_change_on_resume(train_small: Train) -> None:
    run = train_small(updates=2)
    changes = {"evaluation": {"opponents": ["minimax:1"]}, "checkpoint": {"keep": 7}}
    senju.train(resume=run.path, total_steps=3 * 256, **changes)
    config = Run(run.path).config
    assert config.evaluation.opponents == ("minimax:1",)
    assert config.evaluation.games == 4
    assert (config.checkpoint.keep, config.total_steps) == (7, 768)
    assert run.evaluations[-1]["opponent"] == "minimax:1"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"evaluation": {"games": 5}}, "evaluation.games=5"),
        ({"evaluation": {"opponents": ["perfect"]}}, "tic_tac_toe.*perfect"),
        ({"evaluation": {"oponents": []}}, "'evaluation.oponents'.*'opponents'"),
        ({"total_steps": -1}, "total_steps=-1"),
    ],
)
def test_refused_change_on_resume_leaves_the_run_as_it_was(
    train_small: Train, changes: Settings, expected: str
) -> None:
    run = train_small()
    with pytest.raises(ConfigError, match=expected):
        senju.train(resume=run.path, **changes)
    assert Run(run.path).config == run.config


def test_run_for_an_absent_device_can_be_looked_at_but_not_resumed(train_small: Train) -> None:
    run = train_small()
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("device: cpu", "device: cuda:99"))
    assert Run(run.path).agent.name == "run@4"
    with pytest.raises(ConfigError, match="device='cuda:99'"):
        senju.train(resume=run.path)


class Interrupter(TrainingListener):
    """Presses Ctrl-C after some update."""

    def __init__(self, update: int) -> None:
        self.update = update

    def on_update(self, progress: TrainingProgress) -> None:
        if progress.update == self.update:
            signal.raise_signal(signal.SIGINT)


def test_interrupt_finishes_the_update_saves_and_raises(train_small: Train, tmp_path: Path) -> None:
    whole = train_small("whole", updates=6)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"resume='.*run'"):
        train_small(updates=6, listener=Interrupter(3))
    assert signal.getsignal(signal.SIGINT) is before
    run = Run(tmp_path / "run")
    assert run.agent.name == "run@3"
    resumed = senju.train(resume=run.path)
    tensors = "tensors.safetensors"
    assert [record["update"] for record in resumed.metrics] == [1, 2, 3, 4, 5, 6]
    assert (resumed.checkpoints.latest() / tensors).read_bytes() == (
        whole.checkpoints.latest() / tensors
    ).read_bytes()


def test_interrupt_between_two_opponents_leaves_the_rest_out(train_small: Train, tmp_path: Path) -> None:
    class Impatient(TrainingListener):
        def on_evaluation(self, update: int, result: object) -> None:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_small(updates=2, evaluation={"opponents": ["random", "minimax:1"]}, listener=Impatient())
    run = Run(tmp_path / "run")
    assert [record["opponent"] for record in run.evaluations] == ["random"]
    assert run.agent.name == "run@2"


def test_train_works_outside_the_main_thread(train_small: Train) -> None:
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(train_small()))
    thread.start()
    thread.join(timeout=60)
    assert [run.agent.name for run in runs] == ["run@4"]
