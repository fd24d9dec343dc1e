"""Links inside a run are refused, and their targets stay unchanged."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import senju
from senju.backends.serial import Serial
from senju.errors import CheckpointError, ControlError, RunFolderError, SenjuError
from senju.evaluation.tournament.round_robin import run_tournament
from senju.evaluation.tournament.tasks import TournamentSettings
from senju.events import new_event
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import Checkpoint, CheckpointFolder
from senju.runs.control import ask
from senju.runs.metrics import MetricsWriter
from senju.runs.monitor import Monitor
from senju.runs.run import Run
from senju.runs.run_socket import listening
from senju.training.multi_run.api import open_agents
from senju.workers.boot import remove_unless_alive
from tests.conftest import Train
from tests.facts import mentions

MORE: dict[str, Any] = {"total_steps": 8 * 256}
CONTENT = Checkpoint({"weights": torch.zeros(3)}, {"update": 1})


@pytest.fixture
def run(tic_tac_toe_run: Run, tmp_path: Path) -> Run:
    """A finished run of six updates, to be written to."""
    shutil.copytree(tic_tac_toe_run.path, tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with files that are not the run's."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("thesis.tex", ".unfinished-letter", "part-" + 64 * "0" + ".safetensors"):
        (folder / name).write_text("precious")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def moved(path: Path, elsewhere: Path) -> None:
    """Move a file or folder away and leave a link to it."""
    shutil.move(path, elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)


def test_resume_removes_nothing_outside_where_the_blobs_are_a_link(run: Run, elsewhere: Path) -> None:
    before = contents(elsewhere)
    (run.path / "checkpoints" / "blobs").symlink_to(elsewhere)
    with pytest.raises(RunFolderError, match=mentions("blobs", "symbolic link")):
        senju.train(resume=run.path, **MORE)
    assert contents(elsewhere) == before


@pytest.mark.parametrize(
    "name",
    [
        "config.yaml",
        "metrics.jsonl",
        "checkpoints",
        "checkpoints/update_000000006",
        "checkpoints/update_000000006/state.json",
        "checkpoints/update_000000006/tensors.safetensors",
        "tensorboard",
        "strength.svg",
        "timeline.json",
        "timeline.svg",
    ],
)
def test_link_in_place_of_what_a_run_wrote_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "away").mkdir()
    moved(run.path / name, tmp_path / "away")
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "away").rglob("*"))
    with pytest.raises(SenjuError, match=mentions(Path(name).name, "symbolic link")):
        senju.train(resume=run.path, **MORE)
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "away").rglob("*")) == before


@pytest.mark.parametrize(
    "name",
    [
        "events.jsonl",
        "failed-shards",
        "episodes",
        "arena",
        "control.sock",
        "rewards.svg",
        ".unfinished-config.yaml",
        "checkpoints/.unfinished-update_000000005",
        "checkpoints/update_000000099",
        "checkpoints/abandoned_update_000000009",
    ],
)
@pytest.mark.parametrize("is_dangling", [False, True])
def test_link_where_a_run_would_write_is_refused(
    run: Run, elsewhere: Path, name: str, is_dangling: bool
) -> None:
    before = contents(elsewhere)
    (run.path / name).symlink_to(elsewhere / "nothing" if is_dangling else elsewhere)
    with pytest.raises(SenjuError, match=mentions(Path(name).name, "symbolic link")):
        senju.train(resume=run.path, **MORE)
    assert contents(elsewhere) == before


def test_run_that_is_reached_by_a_link_is_trained_and_other_links_do_not_matter(
    run: Run, tmp_path: Path, elsewhere: Path
) -> None:
    (tmp_path / "link").symlink_to(run.path)
    (run.path / "notes").symlink_to(elsewhere)
    assert senju.train(resume=tmp_path / "link", **MORE).metrics[-1]["update"] == 8


def in_blobs(root: Path) -> CheckpointFolder:
    root.mkdir()
    folder = CheckpointFolder(root / "checkpoints")
    folder.save(1, CONTENT, keep=5)
    return folder


def _save(folder: CheckpointFolder) -> None:
    folder.save(2, CONTENT, keep=1)


def _remove_unfinished(folder: CheckpointFolder) -> None:
    folder.remove_unfinished()


def _write_blob(folder: CheckpointFolder) -> None:
    BlobStore(folder.blobs).write("part", {"number": np.arange(3)})


def _read_blob(folder: CheckpointFolder) -> None:
    BlobStore(folder.blobs).read("part-" + 64 * "0" + ".safetensors")


@pytest.mark.parametrize("act", [_save, _remove_unfinished, _write_blob, _read_blob])
@pytest.mark.parametrize("link", ["checkpoints/blobs", "checkpoints"])
def test_checkpoints_and_blobs_touch_nothing_through_a_link(
    tmp_path: Path,
    elsewhere: Path,
    caplog: pytest.LogCaptureFixture,
    act: Callable[[CheckpointFolder], None],
    link: str,
) -> None:
    folder, before = in_blobs(tmp_path / "run"), contents(elsewhere)
    if link == "checkpoints":
        shutil.rmtree(folder.path)
    (tmp_path / "run" / link).symlink_to(elsewhere)
    if (act, link) == (_save, "checkpoints/blobs"):  # it needs no blobs, and logs a message
        act(folder)
        assert "symbolic link" in caplog.text
    else:
        with pytest.raises(CheckpointError, match=mentions(Path(link).name, "symbolic link")):
            act(folder)
    assert contents(elsewhere) == before


@pytest.mark.parametrize(
    "name", [".unfinished-strength.svg", ".unfinished-timeline.json", ".unfinished-config.yaml"]
)
def test_file_beside_that_has_a_second_name_elsewhere_is_not_written_to(
    run: Run, elsewhere: Path, name: str
) -> None:
    before = contents(elsewhere)
    (run.path / name).hardlink_to(elsewhere / "thesis.tex")
    senju.train(resume=run.path, **MORE)
    assert contents(elsewhere) == before


def test_files_to_append_to_that_have_a_second_name_elsewhere_are_not_written_to(
    run: Run, elsewhere: Path
) -> None:
    (run.path / "events.jsonl").touch()
    for name in ("metrics.jsonl", "events.jsonl"):
        (elsewhere / name).hardlink_to(run.path / name)
    before = contents(elsewhere)
    Monitor(run.path, Serial()).note(new_event("reset", "text"), update=1)
    senju.train(resume=run.path, **MORE)
    assert contents(elsewhere) == before


def test_tournament_is_not_written_to_a_file_with_a_second_name_elsewhere(
    tmp_path: Path, elsewhere: Path
) -> None:
    before = contents(elsewhere)
    (tmp_path / "games.jsonl").hardlink_to(elsewhere / "thesis.tex")
    game = senju.make_game("tic_tac_toe")
    with pytest.raises(RunFolderError, match=r"games.jsonl"):
        run_tournament(
            game, ["random", "minimax:1"], tmp_path, TournamentSettings(games=2), num_workers=1, fresh=True
        )
    assert contents(elsewhere) == before


def test_only_blobs_are_removed_from_the_folder_of_blobs(tmp_path: Path) -> None:
    folder = in_blobs(tmp_path / "run")
    name = BlobStore(folder.blobs).write("part", {"number": np.arange(3)})
    (folder.blobs / "README").write_text("mine")
    folder.save(2, CONTENT, keep=5)
    assert os.listdir(folder.blobs) == ["README"]
    assert name not in os.listdir(folder.blobs)


def test_blob_that_is_a_link_is_neither_read_nor_kept(tmp_path: Path) -> None:
    folder = in_blobs(tmp_path / "run")
    store = BlobStore(folder.blobs)
    name = store.write("part", {"number": np.arange(3)})
    moved(folder.blobs / name, tmp_path)
    for act in (lambda: store.read(name), lambda: store.write("part", {"number": np.arange(3)})):
        with pytest.raises(CheckpointError, match=mentions(name, "symbolic link")):
            act()
    with pytest.raises(CheckpointError, match=mentions(name, "symbolic link")):
        folder.save(2, Checkpoint(CONTENT.tensors, CONTENT.state, (name,)), keep=5)


def test_metrics_and_events_are_not_written_through_links(
    tmp_path: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, folder = contents(elsewhere), tmp_path / "run"
    folder.mkdir()
    for name in ("metrics.jsonl", "events.jsonl", ".unfinished-metrics.jsonl"):
        (folder / name).symlink_to(elsewhere / "thesis.tex")
    with pytest.raises(RunFolderError, match=mentions("metrics.jsonl", "symbolic link")):
        MetricsWriter(folder)
    Monitor(folder, Serial()).note(new_event("reset", "text"), update=1)
    assert "symbolic link" in caplog.text
    assert contents(elsewhere) == before


def test_tensorboard_folder_that_is_a_link_is_refused(tmp_path: Path, elsewhere: Path) -> None:
    before = contents(elsewhere)
    (tmp_path / "tensorboard").symlink_to(elsewhere)
    with pytest.raises(RunFolderError, match=mentions("tensorboard", "symbolic link")):
        MetricsWriter(tmp_path)
    assert contents(elsewhere) == before


def test_socket_that_is_a_link_is_neither_asked_nor_replaced(run: Run, tmp_path: Path) -> None:
    folder = run.path
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other.sock"))
        other.listen()
        other.setblocking(False)
        (folder / "control.sock").symlink_to(tmp_path / "other.sock")
        with pytest.raises(ControlError, match="symbolic link"):
            ask(folder, "status")
        with pytest.raises(ControlError), listening(folder):
            pass
        with pytest.raises(BlockingIOError):
            other.accept()
    remove_unless_alive(str(folder / "control.sock"))
    assert (folder / "control.sock").is_symlink()
    assert (tmp_path / "other.sock").exists()


def test_tournament_writes_nothing_through_links(tmp_path: Path, elsewhere: Path) -> None:
    before, game = contents(elsewhere), senju.make_game("tic_tac_toe")
    for name in ("games.jsonl", ".lock", "results.json", "arena.svg"):
        folder = tmp_path / f"arena {name}"
        folder.mkdir()
        (folder / name).symlink_to(elsewhere / "thesis.tex")
        with pytest.raises(RunFolderError, match=mentions(name, "symbolic link")):
            run_tournament(game, ["random", "minimax:1"], folder, TournamentSettings(games=2), num_workers=1)
    assert contents(elsewhere) == before


def test_agent_of_several_that_is_a_link_is_refused(train_small: Train, tmp_path: Path) -> None:
    run = train_small("several/agent_1")
    moved(run.path, tmp_path)
    with pytest.raises(RunFolderError, match=mentions("agent_1", "symbolic link")):
        open_agents(tmp_path / "several")
