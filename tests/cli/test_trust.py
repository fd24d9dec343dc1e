"""No command runs the code that a run from elsewhere names, unless the user asks for it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import senju
from senju import trust
from senju.backends.building import new_models
from senju.backends.reproduction import Reproduction
from senju.backends.serial import Serial
from senju.cli.app import app
from senju.collect.orders import Orders
from senju.config import merged
from senju.errors import TrustError
from senju.games import make_game
from senju.runs.checkpoint import _digest
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from tests.backends.common import changed
from tests.conftest import DECISIONS_PER_UPDATE, SMALL, Invoke, Start

CODE = """
from pathlib import Path
Path(__file__).with_name("it_ran").touch()
from senju.games.tic_tac_toe import TicTacToe
class Evil(TicTacToe):
    pass
def choose(observation, legal, random):
    return int(legal.argmax())
"""
EVIL, EVIL_BOT = "downloaded.evil:Evil", "downloaded.evil:choose"
Arguments = list[str | Path]
COMMANDS: dict[str, Callable[[Path, Path], Arguments]] = {
    "train": lambda run, file: ["--resume", run],
    "evaluate": lambda run, file: [run],
    "arena": lambda run, file: [run],
    "play": lambda run, file: ["tic_tac_toe", "--run", run],
    "usi": lambda run, file: [run],
    "games": lambda run, file: [],
    "explain-action": lambda run, file: ["tic_tac_toe", "0"],
    "doctor": lambda run, file: [],
    "status": lambda run, file: [run],
    "pause": lambda run, file: [run],
    "resume": lambda run, file: [run],
    "reset": lambda run, file: [run],
    "workers": lambda run, file: [run, "2"],
    "verify": lambda run, file: ["--config", run / "config.yaml"],
    "bench": lambda run, file: ["--config", run / "config.yaml"],
    "tune": lambda run, file: ["--config", run / "config.yaml", "--seconds", "1"],
    "profile": lambda run, file: ["--config", run / "config.yaml"],
    "soak": lambda run, file: ["--config", run / "config.yaml"],
    "reproduce": lambda run, file: [file],
}
HARMLESS = {"games", "explain-action", "doctor", "status", "pause", "resume", "reset", "workers"}
LOADING = [name for name in COMMANDS if name not in HARMLESS]


class Downloaded:
    """A run from elsewhere with code of its own, which leaves a mark when it runs."""

    def __init__(self, path: Path) -> None:
        self.path, self.mark = path, path / "it_ran"
        (path / "evil.py").write_text(CODE, encoding="utf-8")

    @property
    def config(self) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load((self.path / "config.yaml").read_text(encoding="utf-8"))
        return content

    def change(self, changes: dict[str, Any]) -> None:
        """Lay settings over those of its config.yaml."""
        text = yaml.safe_dump(merged(self.config, changes), sort_keys=False)
        (self.path / "config.yaml").write_text(text, encoding="utf-8")

    def change_checkpoint(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the state in its newest checkpoint, as the sender could."""
        folder = sorted((self.path / "checkpoints").glob("update_*"))[-1]
        content = json.loads((folder / "state.json").read_text(encoding="utf-8"))["content"]
        change(content["state"])
        saved = {"content_sha256": _digest(content), "content": content}
        (folder / "state.json").write_text(json.dumps(saved), encoding="utf-8")


@pytest.fixture
def downloaded(tic_tac_toe_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Downloaded]:
    """In the current folder, which Python imports from."""
    shutil.copytree(tic_tac_toe_run.path, tmp_path / "downloaded")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Downloaded(tmp_path / "downloaded")
    for name in ("downloaded.evil", "downloaded"):
        sys.modules.pop(name, None)


@pytest.fixture
def failing_shard(tmp_path: Path) -> Path:
    """A file for `senju reproduce` that names the code as its game."""
    plan = resolve_config("tic_tac_toe", SMALL).plan
    backend = Serial(Serial.Config())
    backend.start(plan)
    state = backend.snapshot()[0]
    backend.close()
    evil = {**plan.game, "name": EVIL}
    weights = new_models(plan, make_game(**plan.game)).read_weights()
    return Reproduction(changed(plan, game=evil), 0, 0, Orders(), "", state, weights).save(tmp_path)


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_the_code_of_a_downloaded_run(
    invoke: Invoke, downloaded: Downloaded, failing_shard: Path, command: str
) -> None:
    downloaded.change({"game": {**downloaded.config["game"], "name": EVIL}})
    result = invoke(command, *COMMANDS[command](downloaded.path, failing_shard))
    assert not downloaded.mark.exists()
    assert "downloaded.evil" not in sys.modules
    if command in LOADING:
        assert result.exit_code == 1
        assert EVIL in result.stderr
        assert str(downloaded.path / "evil.py") in result.stderr
        assert "--trust" in result.stderr


FORMS: dict[str, dict[str, Any]] = {
    "game": {"game": {"name": EVIL}},
    "model": {"model": {"name": EVIL}},
    "algorithm": {"algorithm": {"name": EVIL}},
    "backend": {"backend": {"name": EVIL}},
    "a seat's model": {"seats": {"1": {"model": {"name": EVIL}}}},
    "a seat's algorithm": {"seats": {"1": {"algorithm": EVIL}}},
    "an opponent to be measured by": {"evaluation": {"opponents": ["random", EVIL]}},
    "an opponent at the end": {"evaluation": {"final_opponents": [EVIL]}},
    "an opponent to train against": {
        "collect": {"seating": "opponents"},
        "opponents": {"fixed": ["random", EVIL]},
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_setting_that_names_code_is_seen(downloaded: Downloaded, form: str) -> None:
    downloaded.change(FORMS[form])
    with pytest.raises(TrustError, match=EVIL):
        Run(downloaded.path)
    assert not downloaded.mark.exists()


def test_all_names_are_reported_at_once(downloaded: Downloaded) -> None:
    other = downloaded.path / "other.py"
    other.write_text("raise SystemExit", encoding="utf-8")
    downloaded.change({"game": {"name": EVIL}, "model": {"name": "downloaded.other:Net"}})
    with pytest.raises(TrustError) as refused:
        Run(downloaded.path)
    for expected in (EVIL, str(downloaded.path / "evil.py"), "downloaded.other:Net", str(other)):
        assert expected in str(refused.value)


@pytest.mark.parametrize("path", [".", "../downloaded", "../downloaded/"])
def test_a_run_is_checked_however_its_folder_is_named(
    downloaded: Downloaded, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    downloaded.change({"game": {"name": "evil:Evil"}})
    monkeypatch.chdir(downloaded.path)
    monkeypatch.syspath_prepend("")
    assert "evil:Evil" in invoke("evaluate", path).stderr
    assert invoke("status", path).exit_code == 0
    assert not downloaded.mark.exists()


@pytest.mark.parametrize("part", ["game", "model", "fixed"])
def test_code_that_a_checkpoint_names_is_refused(downloaded: Downloaded, part: str) -> None:
    names = {"game": {"name": EVIL}, "model": {"name": EVIL}, "fixed": [{"description": EVIL_BOT}]}
    downloaded.change_checkpoint(lambda state: state.update({part: names[part]}))
    with pytest.raises(TrustError, match=r"downloaded\.evil"):
        Run(downloaded.path).agent  # noqa: B018  # loads it
    assert not downloaded.mark.exists()


def test_a_run_that_another_names_as_its_opponent_is_checked(
    downloaded: Downloaded, tic_tac_toe_run: Run, tmp_path: Path, invoke: Invoke
) -> None:
    downloaded.change({"model": {"name": EVIL}})
    shutil.copytree(tic_tac_toe_run.path, tmp_path / "mine")
    mine = Downloaded(tmp_path / "mine")
    for command in (
        ("evaluate", mine.path, "--against", downloaded.path),
        ("arena", mine.path, downloaded.path),
    ):
        assert EVIL in invoke(*command).stderr
    mine.change({"evaluation": {"opponents": [str(downloaded.path)]}})
    assert EVIL in invoke("train", "--resume", mine.path).stderr
    assert not downloaded.mark.exists()


def test_runs_of_several_agents_are_checked(downloaded: Downloaded, tmp_path: Path, invoke: Invoke) -> None:
    downloaded.change({"game": {"name": EVIL}})
    for number in (1, 2):
        shutil.copytree(downloaded.path, tmp_path / "several" / f"agent_{number}")
    assert EVIL in invoke("train", "--resume", tmp_path / "several").stderr
    assert not downloaded.mark.exists()


def test_with_the_flag_the_code_runs(downloaded: Downloaded, invoke: Invoke) -> None:
    downloaded.change({"game": {"name": EVIL}})
    downloaded.change_checkpoint(lambda state: state.update(game={"name": EVIL}))
    result = invoke("evaluate", downloaded.path, "--games", 2, "--trust")
    assert (result.exit_code, downloaded.mark.exists()) == (0, True)


def test_a_failing_shard_is_played_with_the_flag(
    downloaded: Downloaded, failing_shard: Path, invoke: Invoke
) -> None:
    assert invoke("reproduce", failing_shard, "--trust").exit_code == 0
    assert downloaded.mark.exists()


def test_naming_the_game_is_consent(downloaded: Downloaded, invoke: Invoke) -> None:
    downloaded.change({"game": {"name": EVIL}})
    downloaded.change_checkpoint(lambda state: state.update(game={"name": EVIL}))
    assert invoke("play", EVIL, "--run", downloaded.path, typed="quit\n").exit_code == 0


def test_a_resume_from_python_needs_consent(downloaded: Downloaded) -> None:
    downloaded.change({"game": {"name": EVIL}})
    downloaded.change_checkpoint(lambda state: state.update(game={"name": EVIL}))
    with pytest.raises(TrustError, match=EVIL):
        senju.train(resume=downloaded.path)
    assert not downloaded.mark.exists()
    senju.train(resume=downloaded.path, trust=True)
    assert downloaded.mark.exists()


def test_consent_to_code_in_a_run_is_for_one_time(downloaded: Downloaded) -> None:
    """Another download may take the folder's place."""
    downloaded.change({"game": {"name": EVIL}})
    downloaded.change_checkpoint(lambda state: state.update(game={"name": EVIL}))
    senju.train(resume=downloaded.path, trust=True)
    forget_imports()
    with pytest.raises(TrustError, match=EVIL):
        Run(downloaded.path)


def forget_imports() -> None:
    """As another process would begin."""
    for name in ("downloaded.evil", "downloaded", "own_game"):
        sys.modules.pop(name, None)
    trust._accepted.clear()


@pytest.fixture
def own_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A game of the user's, in the current folder."""
    (tmp_path / "own_game.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_game:Evil"
    forget_imports()


def train_own(game: str, folder: Path, **changes: Any) -> Run:
    settings = merged(SMALL, {"total_steps": 3 * DECISIONS_PER_UPDATE}, changes)
    return senju.train(game, run=folder, **settings)


def test_what_was_trained_here_is_opened_again_without_a_flag(
    own_game: str, tmp_path: Path, invoke: Invoke
) -> None:
    run = train_own(own_game, tmp_path / "run", evaluation={"opponents": ["own_game:choose"]})
    forget_imports()
    assert invoke("evaluate", run.path, "--games", 2).exit_code == 0


def test_the_same_name_from_another_file_is_not_trusted(
    own_game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train_own(own_game, tmp_path / "run")
    forget_imports()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "own_game.py").rename(tmp_path / "elsewhere" / "own_game.py")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    with pytest.raises(TrustError, match=r"elsewhere/own_game\.py"):
        Run(run.path)


def test_settings_in_a_file_are_no_consent(own_game: str, tmp_path: Path, invoke: Invoke) -> None:
    """Files of failing shards may come from others, too."""
    (tmp_path / "my.yaml").write_text(f"game: {own_game}\ntotal_steps: 1", encoding="utf-8")
    result = invoke("train", "--config", "my.yaml")
    assert (result.exit_code, own_game in result.stderr) == (1, True)
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize("changes", [{}, {"collect": {"whole_games": True}}], ids=["steps", "whole games"])
def test_status_counts_the_updates_of_an_own_game_without_loading_it(
    own_game: str, tmp_path: Path, invoke: Invoke, changes: dict[str, Any]
) -> None:
    run = train_own(own_game, tmp_path / "run", **changes)
    forget_imports()
    found = json.loads(invoke("status", run.path, "--json").stdout)
    assert (found["state"], found["total_updates"]) == ("finished", run.config.total_updates)
    assert "own_game" not in sys.modules


def test_status_counts_the_updates_of_a_world_in_which_seats_act_at_once(
    tmp_path: Path, invoke: Invoke
) -> None:
    run = train_own("tests.collect.toy_games:Meeting", tmp_path / "run", evaluation={"opponents": []})
    assert run.game.num_acting > 1
    found = json.loads(invoke("status", run.path, "--json").stdout)
    assert found["total_updates"] == run.config.total_updates


@pytest.mark.slow
def test_a_file_called_like_a_package_is_not_taken_for_it(downloaded: Downloaded, start_senju: Start) -> None:
    """The current folder may be the run's folder."""
    downloaded.change({"game": {"name": "evil:Evil"}})
    for name in ("yaml", "torch", "rich", "triton", "scipy", "numba", "tensorboard", "IPython"):
        shutil.copy(downloaded.path / "evil.py", downloaded.path / f"{name}.py")
    for command, code in (("status", 0), ("evaluate", 1), ("usi", 1)):
        process = start_senju(command, ".", cwd=downloaded.path)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == code, errors
        assert ("evil:Evil" in errors) == bool(code)
        assert not downloaded.mark.exists(), output


@pytest.mark.slow
def test_trusted_code_elsewhere_does_not_make_the_current_folder_importable(
    downloaded: Downloaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_senju: Start
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own_bots.py").write_text(CODE.replace("it_ran", "it_ran_here"), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "own"))
    downloaded.change(
        {
            "evaluation": {"opponents": ["own_bots:choose"]},
            "backend": {"name": "processes", "num_workers": 1},
            "total_steps": downloaded.config["total_steps"] + 4 * DECISIONS_PER_UPDATE,
        }
    )
    for name in ("senju", "torch", "tensorboard", "triton", "IPython", "sitecustomize"):
        shutil.copy(downloaded.path / "evil.py", downloaded.path / f"{name}.py")
    finish(start_senju("train", "--resume", ".", "--trust", cwd=downloaded.path))
    assert (tmp_path / "own" / "it_ran_here").exists()
    assert not downloaded.mark.exists()


@pytest.mark.slow
def test_processes_load_what_the_command_was_allowed_to(
    own_game: str, tmp_path: Path, start_senju: Start
) -> None:
    """A tournament's workers and the processes of several agents open the runs again."""
    options = [option for text in SETTINGS for option in ("--set", text)]
    finish(start_senju("train", own_game, "--agents", 2, "--run", "runs", *options))
    (tmp_path / "other").mkdir()
    (tmp_path / "own_game.py").rename(tmp_path / "other" / "own_game.py")  # not where it was trained
    (tmp_path / "runs").rename(tmp_path / "other" / "runs")
    more = ["train", "--resume", "runs", "--set", "total_steps=1024"]
    assert "own_game:Evil" in start_senju(*more, cwd=tmp_path / "other").communicate(timeout=120)[1]
    arena = ["arena", "runs/agent_1", "runs/agent_2", "--games", 8, "--workers", 2]
    for command in (more, arena):
        finish(start_senju(*command, "--trust", cwd=tmp_path / "other"))


SETTINGS = (
    "total_steps=512",
    "collect.num_games=32",
    "collect.games_per_shard=32",
    "collect.rollout_steps=8",
    "algorithm.minibatch_size=128",
    "algorithm.epochs=1",
    "model.hidden=[16]",
    "evaluation.games=4",
)


def finish(process: "subprocess.Popen[str]") -> None:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
