"""Checkpoints and blobs with valid checksums and wrong content: each is refused with an error of ours."""

import hashlib
import json
import os
import shutil
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import senju
from senju.config import merged
from senju.errors import CheckpointError, RunFolderError, SenjuError
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import STATE, TENSORS, load_checkpoint, read_content
from senju.runs.run import Run
from senju.training.persistence import RunPersistence
from tests.conftest import DECISIONS_PER_UPDATE, SMALL
from tests.facts import mentions
from tests.mutations import mutations

POOL = {
    "algorithm": {"name": "dqn", "batch_size": 32, "replay_size": 1024, "learning_starts": 64},
    "collect": SMALL["collect"] | {"seating": "opponents"},
    "opponents": {"snapshot_interval": 1, "size": 2, "fixed": ["random"]},
}


@pytest.fixture(scope="module")
def pool_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a replay and a pool."""
    folder = tmp_path_factory.mktemp("runs") / "pool"
    settings = merged(SMALL, {"total_steps": 4 * DECISIONS_PER_UPDATE}, POOL)
    return senju.train("tic_tac_toe", run=folder, **settings).path


@pytest.fixture
def run(pool_run: Path, tmp_path: Path) -> Run:
    """A copy of it."""
    shutil.copytree(pool_run, tmp_path / "run")
    return Run(tmp_path / "run")


def with_checksum(content: Any) -> str:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({"content_sha256": digest, "content": content})


def content_of(checkpoint: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((checkpoint / STATE).read_text())["content"]
    return content


def test_every_wrong_part_of_a_checkpoint_is_a_checkpoint_error(run: Run) -> None:
    path = run.checkpoints.latest()
    content = content_of(path)
    num_refused = 0
    for what, wrong in [*mutations(content, depth=1), *mutations({"blobs": content["blobs"]})]:
        (path / STATE).write_text(with_checksum(content | wrong if "blobs" in what else wrong))
        for read in (load_checkpoint, read_content):
            try:
                read(path)
            except CheckpointError:
                num_refused += 1
    for whole in ([], 7, None, "text"):
        (path / STATE).write_text(with_checksum(whole))
        with pytest.raises(CheckpointError):
            load_checkpoint(path)
    assert num_refused > 100


def test_state_that_is_nested_without_end_is_a_checkpoint_error(run: Run) -> None:
    path = run.checkpoints.latest()
    for text in ("[" * 100_000, '{"content":' * 100_000, b"\xff\xfe".decode("latin-1")):
        (path / STATE).write_text(text)
        with pytest.raises(CheckpointError, match=mentions("state.json", "JSON")):
            load_checkpoint(path)


def test_blob_that_leads_out_of_the_folder_is_refused(run: Run) -> None:
    path = run.checkpoints.latest()
    for name in ("../../x", "../update_000000004/state.json", "/etc/passwd", "", "x\0y"):
        (path / STATE).write_text(with_checksum(content_of(path) | {"blobs": [name]}))
        with pytest.raises(CheckpointError, match=r"blobs\.0"):
            load_checkpoint(path)


@pytest.mark.parametrize("name", [STATE, TENSORS])
def test_named_pipe_in_a_checkpoint_is_refused_and_not_waited_for(run: Run, name: str) -> None:
    file = run.checkpoints.latest() / name
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CheckpointError, match=mentions(name, "regular file")):
        load_checkpoint(file.parent)


def test_named_pipes_as_config_or_blob_are_refused_and_not_waited_for(run: Run) -> None:
    store = BlobStore(run.checkpoints.blobs)
    name = sorted(store.names())[0]
    (store.folder / name).unlink()
    os.mkfifo(store.folder / name)
    with pytest.raises(CheckpointError, match=mentions(name, "regular file")):
        store.read(name)
    (run.path / "config.yaml").unlink()
    os.mkfifo(run.path / "config.yaml")
    with pytest.raises(RunFolderError, match=mentions(run.path.name, "not a run")):
        Run(run.path)


@pytest.mark.slow
def test_every_wrong_state_is_a_checkpoint_error_to_ratings_and_agents(run: Run) -> None:
    path = run.checkpoints.latest()
    content = content_of(path)
    num_refused = 0
    for what, state in islice(mutations(content["state"]), 0, None, 2):
        (path / STATE).write_text(with_checksum(content | {"state": state}))
        for read in (lambda: run.training_ratings, lambda: run.snapshots, lambda: run.agent):
            try:
                read()
            except CheckpointError:
                num_refused += 1
            except Exception as error:
                raise AssertionError(what) from error
    assert num_refused > 500


def take_up(run: Run) -> None:
    """Go on from the newest checkpoint for one update, as a resume does."""
    keeper = RunPersistence(run)
    loop = keeper.loop
    with closing(loop), closing(keeper):
        loop.start()
        keeper.restore()
        loop.publish_all()
        loop.learn(loop.collect())


@pytest.mark.slow
def test_every_wrong_state_is_an_error_of_ours_to_a_resume(run: Run) -> None:
    path = run.checkpoints.latest()
    content = content_of(path)
    take_up(run)
    num_refused = 0
    state = {part: content["state"][part] for part in content["state"] if part not in run.config.model_dump()}
    state["collect"] = content["state"]["collect"]
    for what, wrong in islice(mutations(state, depth=4), 0, None, 3):
        (path / STATE).write_text(with_checksum(content | {"state": content["state"] | wrong}))
        if "left out" in what and len(what.split(",")) <= 2:
            kept = {
                part: value for part, value in content["state"].items() if part in wrong or part not in state
            }
            (path / STATE).write_text(with_checksum(content | {"state": kept}))
        try:
            take_up(run)
        except SenjuError:
            num_refused += 1
        except Exception as error:
            raise AssertionError(what) from error
    assert num_refused > 300


@pytest.mark.parametrize("place", [0, 1, -1])
def test_checkpoint_that_lacks_a_turn_of_its_replay_is_refused(run: Run, place: int) -> None:
    path = run.checkpoints.latest()
    content = content_of(path)
    assert len(content["state"]["turns"]) > 2
    del content["state"]["turns"][place]
    (path / STATE).write_text(with_checksum(content))
    with pytest.raises(CheckpointError, match=mentions("rollouts", "1 updates", "missing")):
        take_up(run)


PLAIN = {"numbers": np.arange(6, dtype=np.float32).reshape(2, 3), "words": np.zeros(3, np.int64)}


def forged(store: BlobStore, header: Any, rest: bytes, length: int | None = None) -> str:
    text = json.dumps(header).encode()
    data = (len(text) if length is None else length).to_bytes(8, "little") + text + rest
    name = f"forged-{hashlib.sha256(data).hexdigest()}.safetensors"
    (store.folder / name).write_bytes(data)
    return name


def test_every_wrong_header_of_a_blob_is_a_checkpoint_error(run: Run) -> None:
    store = BlobStore(run.checkpoints.blobs)
    data = (store.folder / store.write("plain", PLAIN)).read_bytes()
    first = 8 + int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8:first]), data[first:]
    assert store.read(forged(store, header, rest)).keys() == PLAIN.keys()
    headers = [wrong for _, wrong in mutations(header)]
    wrong_shapes = ([0, 2**70], [2**62, 4], [0] * 70, [2**31] * 5, [-2, -3])
    wrong_offsets = (
        [0, 2**70],
        [-24, 0],
        [24, 0],
        [len(rest), len(rest) + 24],
        [1.5, 25.5],
        [2**63, 2**63 + 24],
    )
    changes: list[dict[str, Any]] = [{"shape": shape} for shape in wrong_shapes]
    changes += [{"data_offsets": offsets} for offsets in wrong_offsets]
    headers += [header | {"numbers": header["numbers"] | change} for change in changes]
    num_refused = 0
    for wrong in [*headers, [], 7, None, "text"]:
        try:
            store.read(forged(store, wrong, rest))
        except CheckpointError:
            num_refused += 1
    assert num_refused > len(headers) / 2
    for length in (0, 1, 7, 2**63, 2**64 - 1):
        with pytest.raises(CheckpointError):
            store.read(forged(store, header, rest, length))


@pytest.mark.slow
def test_every_wrong_part_of_a_saved_turn_is_a_checkpoint_error(run: Run) -> None:
    store, path = BlobStore(run.checkpoints.blobs), run.checkpoints.latest()
    content = content_of(path)
    last = content["state"]["turns"][-1]
    arrays = store.read(last)
    for key, array in list(arrays.items()):
        others = arrays.copy()
        del others[key]
        for changed in (
            others,
            others | {f"-1.{key}": array},
            others | {f"x{key}": array},
            others | {key: array[:0]},
            others | {key: array.reshape(-1).view(np.uint8)},
            arrays | {f"999999999999.{key}": array},
        ):
            name = store.write(last.partition("-")[0], changed)
            turns = [*content["state"]["turns"][:-1], name]
            (path / STATE).write_text(with_checksum(content | {"state": content["state"] | {"turns": turns}}))
            with suppress(CheckpointError):
                take_up(run)
