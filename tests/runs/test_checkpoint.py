"""Checkpoints: whole or not there, damage noticed in every bit, and a full disk survived."""

import hashlib
import json
import logging
import pickle
import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import senju
from senju.errors import CheckpointError, RunFolderError
from senju.files import replace_durably
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import (
    FORMAT,
    STATE,
    TENSORS,
    Checkpoint,
    CheckpointFolder,
    load_checkpoint,
)
from senju.runs.run import Run
from tests.conftest import Start, Train
from tests.facts import assert_mentions, mentions
from tests.small_disks import fill

CONTENT = Checkpoint(
    {
        "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "clock": torch.tensor([1, 255], dtype=torch.uint8),
    },
    {"update": 3, "seconds": 0.25, "game": {"name": "tic_tac_toe"}},
)


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    """Checkpoints of updates 1, 2 and 3."""
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for update in (1, 2, 3):
        folder.save(update, CONTENT, keep=10)
    return folder


def names(folder: CheckpointFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def seal(checkpoint: Path, content: dict[str, Any]) -> None:
    """Write a state.json with the right sums, as another version of senju would."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (checkpoint / STATE).write_text(json.dumps({"content_sha256": digest, "content": content}))


def content_of(checkpoint: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((checkpoint / STATE).read_text())["content"]
    return content


def test_what_is_saved_is_loaded(folder: CheckpointFolder) -> None:
    loaded = load_checkpoint(folder.latest())
    assert loaded.state == CONTENT.state
    assert loaded.tensors.keys() == CONTENT.tensors.keys()
    for name, tensor in CONTENT.tensors.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor)


def test_checkpoints_are_found_oldest_first_and_by_name(folder: CheckpointFolder) -> None:
    assert [path.name for path in folder.all()] == [f"update_00000000{n}" for n in (1, 2, 3)]
    assert folder.latest().name == "update_000000003"
    assert folder.named("update_000000001") == folder.all()[0]


def test_checkpoint_is_found_by_its_update(folder: CheckpointFolder) -> None:
    assert folder.named("2") == folder.named("002") == folder.named("update_000000002")


@pytest.mark.parametrize(
    "name", ["best", "4", "", "2²", "-1", "9999999999", "../checkpoints/update_000000001"]
)
def test_unknown_name_is_answered_with_the_known_ones(folder: CheckpointFolder, name: str) -> None:
    expected = f"no checkpoint '{re.escape(name)}'.*there are: update_000000001, update_0"
    with pytest.raises(CheckpointError, match=expected):
        folder.named(name)


def test_run_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=mentions("no checkpoint", tmp_path.name)):
        CheckpointFolder(tmp_path).latest()
    with pytest.raises(CheckpointError, match="there are: none"):
        CheckpointFolder(tmp_path).named("update_000000001")


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_only_the_newest_are_kept(tmp_path: Path, keep: int) -> None:
    folder = CheckpointFolder(tmp_path)
    for update in range(1, 6):
        folder.save(update, CONTENT, keep)
    assert names(folder) == [f"update_00000000{update}" for update in range(6 - keep, 6)]


def test_saving_an_update_again_replaces_it(folder: CheckpointFolder) -> None:
    again = Checkpoint(CONTENT.tensors, {"update": 3, "seconds": 9.0})
    assert load_checkpoint(folder.save(3, again, keep=10)).state["seconds"] == 9.0
    assert names(folder) == ["update_000000001", "update_000000002", "update_000000003"]


def test_half_written_folder_is_ignored_and_removed(folder: CheckpointFolder) -> None:
    left = folder.path / ".unfinished-update_000000009"
    left.mkdir()
    (left / TENSORS).write_bytes(b"half of i")
    assert folder.latest().name == "update_000000003"
    folder.save(4, CONTENT, keep=10)
    assert not left.exists()
    assert folder.latest().name == "update_000000004"


def test_half_written_folder_is_removed_by_a_resume(train_small: Train) -> None:
    run = train_small(updates=4, max_updates=2)
    left = run.path / "checkpoints" / ".unfinished-update_000000004"
    left.mkdir()
    (left / TENSORS).write_bytes(b"half of i")
    senju.train(resume=run.path)
    assert [path.name for path in (run.path / "checkpoints").iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [(TENSORS, r"damaged.*tensors\.safetensors"), (STATE, r"damaged.*state\.json")],
)
def test_every_flipped_bit_is_noticed(folder: CheckpointFolder, name: str, message: str) -> None:
    file = folder.latest() / name
    original = file.read_bytes()
    for place in range(len(original)):
        for bit in range(8):
            damaged = bytearray(original)
            damaged[place] ^= 1 << bit
            file.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=message):
                load_checkpoint(file.parent)


@pytest.mark.parametrize("file", [TENSORS, STATE])
def test_every_cut_is_noticed_and_other_checkpoints_are_named(folder: CheckpointFolder, file: str) -> None:
    path = folder.latest() / file
    original = path.read_bytes()
    for length in range(len(original)):
        path.write_bytes(original[:length])
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(path.parent)
        assert f"{path.parent} is damaged: {file}" in str(caught.value)
        assert "--checkpoint update_000000001 or update_000000002" in str(caught.value)


@pytest.mark.parametrize("file", [TENSORS, STATE])
def test_missing_file_is_named_with_other_checkpoints(folder: CheckpointFolder, file: str) -> None:
    (folder.latest() / file).unlink()
    with pytest.raises(
        CheckpointError, match=mentions(file, "No such file", "--checkpoint update_000000001")
    ):
        load_checkpoint(folder.latest())


def test_damage_without_another_checkpoint_says_that_there_is_none(tmp_path: Path) -> None:
    path = CheckpointFolder(tmp_path).save(1, CONTENT, keep=1)
    (path / STATE).write_text("[]")
    with pytest.raises(CheckpointError, match=mentions("no other checkpoint")):
        load_checkpoint(path)


def test_newer_format_asks_for_an_upgrade_and_names_other_checkpoints(folder: CheckpointFolder) -> None:
    path = folder.latest()
    seal(path, content_of(path) | {"format": FORMAT + 1, "senju": "9.9"})
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    for part in (
        f"format {FORMAT + 1}",
        f"up to {FORMAT}",
        "senju 9.9",
        "--checkpoint update_000000001",
    ):
        assert part in str(caught.value)


class Bomb:
    """Unpickling this makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("zipped", [True, False])
def test_loading_never_unpickles(folder: CheckpointFolder, tmp_path: Path, zipped: bool) -> None:
    mark, path = tmp_path / "exploded", folder.latest()
    if zipped:
        torch.save({"weights": Bomb(mark)}, path / TENSORS)
    else:
        (path / TENSORS).write_bytes(pickle.dumps(Bomb(mark)))
    data = (path / TENSORS).read_bytes()
    seal(path, content_of(path) | {"tensors_sha256": hashlib.sha256(data).hexdigest()})
    with pytest.raises(CheckpointError, match=r"is damaged: tensors\.safetensors"):
        load_checkpoint(path)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))  # the test's object works
    assert mark.exists()


def test_setting_aside_renames_newer_ones_only(folder: CheckpointFolder) -> None:
    folder.set_aside_after(folder.named("update_000000002"))
    assert names(folder) == ["abandoned_update_000000003", "update_000000001", "update_000000002"]
    assert folder.latest().name == "update_000000002"


def blob_of(folder: CheckpointFolder, number: int) -> str:
    """The name of a blob that holds this number."""
    return BlobStore(folder.blobs).write("part", {"number": np.array(number)})


def save_with_blobs(folder: CheckpointFolder, update: int, numbers: range, keep: int = 10) -> tuple[str, ...]:
    blobs = tuple(blob_of(folder, number) for number in numbers)
    folder.save(update, Checkpoint(CONTENT.tensors, CONTENT.state, blobs), keep)
    return blobs


def test_names_of_blobs_are_saved_and_covered_by_the_checksum(folder: CheckpointFolder) -> None:
    blobs = save_with_blobs(folder, 4, range(3))
    path = folder.latest()
    assert load_checkpoint(path).blobs == blobs
    (path / STATE).write_text((path / STATE).read_text().replace(blobs[1], blobs[2]))
    with pytest.raises(CheckpointError, match=mentions("damaged", "state.json")):
        load_checkpoint(path)


def test_checkpoint_of_a_senju_that_knew_no_blobs_has_none(folder: CheckpointFolder) -> None:
    content = content_of(folder.latest())
    del content["blobs"]
    seal(folder.latest(), content)
    assert load_checkpoint(folder.latest()).blobs == ()


def test_checkpoint_without_its_blobs_is_refused(folder: CheckpointFolder) -> None:
    there, gone = blob_of(folder, 1), blob_of(folder, 2)
    (folder.blobs / gone).unlink()
    with pytest.raises(CheckpointError, match=mentions("1 of its 2 blobs", gone, "update_000000003")):
        folder.save(4, Checkpoint(CONTENT.tensors, CONTENT.state, (there, gone)), keep=10)
    assert folder.latest().name == "update_000000003"


def test_blobs_go_after_the_last_checkpoint_that_names_them(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    saved: list[tuple[str, ...]] = []
    for update in range(1, 9):
        saved.append(save_with_blobs(folder, update, range(update, update + 4), keep=2))
        assert BlobStore(folder.blobs).names() == {name for blobs in saved[-2:] for name in blobs}
    folder.save(9, CONTENT, keep=1)
    assert BlobStore(folder.blobs).names() == set()


def test_blobs_of_checkpoints_that_were_set_aside_stay(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    first, second = (save_with_blobs(folder, update, range(update, update + 1)) for update in (1, 2))
    folder.set_aside_after(folder.named("1"))
    for update in (2, 3):
        third = save_with_blobs(folder, update, range(update + 1, update + 2), keep=1)
    assert names(folder) == ["abandoned_update_000000002", "blobs", "update_000000003"]
    assert BlobStore(folder.blobs).names() == {*second, *third}
    assert not BlobStore(folder.blobs).names() & {*first}


def test_no_blob_goes_while_a_checkpoint_cannot_say_what_it_needs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = CheckpointFolder(tmp_path)
    for update in (1, 2):
        save_with_blobs(folder, update, range(update, update + 1), keep=2)
    (folder.named("2") / STATE).write_text("{")
    with caplog.at_level(logging.WARNING):
        save_with_blobs(folder, 3, range(3, 4), keep=2)
    assert len(BlobStore(folder.blobs).names()) == 3
    assert_mentions(caplog.text, "blobs are kept")
    save_with_blobs(folder, 4, range(4, 5), keep=2)
    assert len(BlobStore(folder.blobs).names()) == 2


def test_half_written_blobs_are_cleared_before_training_and_never_while_it_goes_on(
    folder: CheckpointFolder,
) -> None:
    blobs = save_with_blobs(folder, 4, range(1))
    left = folder.blobs / f".unfinished-{blobs[0]}"
    left.write_bytes(b"half of i")
    save_with_blobs(folder, 5, range(1))
    assert left.exists()
    folder.remove_unfinished()
    assert [path.name for path in folder.blobs.iterdir()] == [*blobs]


def test_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"checkpoint.*Not a directory"):
        CheckpointFolder(tmp_path / "file" / "checkpoints").save(1, CONTENT, keep=1)


def test_replacing_a_file_that_cannot_be_written_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "by").touch()
    with pytest.raises(OSError, match="directory"):
        replace_durably(tmp_path / "taken", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


# a checkpoint of this model takes about 900 kB
LARGE = {"model": {"name": "mlp", "hidden": [256, 256]}, "checkpoint": {"interval": 1, "keep": 3}}


def test_full_disk_while_saving_leaves_the_old_checkpoint_and_nothing_half_written(
    train_small: Train, small_disk: Path
) -> None:
    whole = train_small("whole", updates=4, **LARGE)
    filler = fill(small_disk, leave=1_400_000)  # enough for one checkpoint, not for two
    with pytest.raises(CheckpointError, match=r"disk is full.*update_000000001"):
        train_small("disk/run", updates=4, **LARGE)
    run = Run(small_disk / "run")
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["update_000000001"]
    assert run.agent.name == "run@1"
    filler.unlink()
    resumed = senju.train(resume=run.path)
    assert load_bytes(resumed) == load_bytes(whole)


def load_bytes(run: Run) -> bytes:
    return (run.checkpoints.latest() / TENSORS).read_bytes()


def test_disk_too_full_to_begin_is_explained_and_left_as_it_was(train_small: Train, small_disk: Path) -> None:
    train_small("disk/run", updates=4, max_updates=2)
    before = sorted(path for path in (small_disk / "run").rglob("*") if "tensorboard" not in path.parts)
    fill(small_disk, leave=0)
    with pytest.raises(RunFolderError, match=r"disk is full"):
        train_small("disk/other")
    assert not (small_disk / "other").exists()
    with pytest.raises(RunFolderError, match=r"metrics.*disk is full"):
        senju.train(resume=small_disk / "run")
    with pytest.raises(RunFolderError, match=mentions("config.yaml", "disk is full")):
        senju.train(resume=small_disk / "run", total_steps=10_000)
    after = sorted(path for path in (small_disk / "run").rglob("*") if "tensorboard" not in path.parts)
    assert after == before


def test_disk_that_fills_up_between_checkpoints_is_explained(train_small: Train, small_disk: Path) -> None:
    fill(small_disk, leave=100_000)
    with pytest.raises(RunFolderError, match=r"metrics.*disk is full"):
        train_small("disk/run", updates=10**6)


@pytest.mark.slow
def test_file_size_limit_while_saving_is_reported_as_a_full_disk(
    train_small: Train, start_senju: Start
) -> None:
    large = {"model": {"name": "mlp", "hidden": [512, 512]}}
    run = train_small(updates=4, max_updates=2, **large)
    limit = 2**20  # bytes in one file; a checkpoint of this model needs three times as much
    process = start_senju(
        "train",
        "--resume",
        run.path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search("disk is full.*update_000000002", errors)
    assert "Traceback" not in errors
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["update_000000002"]
    assert run.agent.name == "run@2"


def test_run_of_a_senju_that_knew_fewer_settings_goes_on(train_small: Train) -> None:
    """What it did not know has today's default, as if it had been saved."""
    run = train_small()
    content = content_of(run.checkpoints.latest())
    del content["state"]["collect"]["resign_below"]
    seal(run.checkpoints.latest(), content)
    assert senju.train(resume=run.path, total_steps=5 * 256).metrics[-1]["update"] == 5
    content["state"]["collect"]["resign_below"] = 0.5
    seal(run.checkpoints.named("4"), content)
    with pytest.raises(CheckpointError, match=r"collect .*resign_below=0\.5"):
        senju.train(resume=run.path, from_checkpoint="4", total_steps=6 * 256)
