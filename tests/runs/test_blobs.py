"""Blobs: reading returns the written bytes or fails, equal blobs are written once, no content is run."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from senju.errors import CheckpointError
from senju.runs.blobs import BlobStore
from senju.runs.checkpoint import Checkpoint, CheckpointFolder
from tests.facts import mentions
from tests.small_disks import fill

PLAIN: dict[str, NDArray[Any]] = {
    "planes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "legal": np.array([2**64 - 1, 1], np.uint64),
    "seats": np.array([[0], [-1]], np.int8),
    "rewards": np.array([[-0.0, np.nan], [np.inf, 1e-45]], np.float32),
    "sums": np.array([0.1]),
    "half": np.array([0.5], np.float16),
    "ended": np.array([True, False, True]),
    "nothing": np.zeros((0, 3), np.int32),
    "number": np.array(7, np.int64),
    "words": np.array([1, 2], np.uint16),
}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints")


@pytest.fixture
def store(folder: CheckpointFolder) -> BlobStore:
    return BlobStore(folder.blobs)


def save(folder: CheckpointFolder, update: int, *blobs: str) -> None:
    folder.save(update, Checkpoint({}, {"update": update}, blobs), keep=10)


def forge(store: BlobStore, data: bytes) -> str:
    """A blob with the right sum that senju never wrote."""
    store.folder.mkdir(parents=True, exist_ok=True)
    name = f"forged-{hashlib.sha256(data).hexdigest()}.safetensors"
    (store.folder / name).write_bytes(data)
    return name


def test_what_is_written_is_read_to_the_last_bit(store: BlobStore) -> None:
    found = store.read(store.write("all", PLAIN))
    assert found.keys() == PLAIN.keys()
    for name, array in PLAIN.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_arrays_with_gaps_are_written_as_they_are_seen(store: BlobStore) -> None:
    whole = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    found = store.read(store.write("some", {"places": whole[:, 1], "turned": whole.T}))
    assert np.array_equal(found["places"], whole[:, 1])
    assert np.array_equal(found["turned"], whole.T)


def test_blob_is_a_safetensors_file(store: BlobStore) -> None:
    found = safetensors.numpy.load_file(store.folder / store.write("plain", PLAIN))
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in PLAIN.items()
    }


def test_what_is_there_is_not_written_again(store: BlobStore) -> None:
    name = store.write("snapshot_7", PLAIN)
    before = (store.folder / name).stat()
    assert store.write("snapshot_7", dict(reversed(PLAIN.items()))) == name
    after = (store.folder / name).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert store.names() == {name}


def test_other_content_and_other_labels_have_other_names(store: BlobStore) -> None:
    wanted = [("a_1", PLAIN), ("a_2", PLAIN), ("a_1", PLAIN | {"number": np.array(8, np.int64)})]
    names = [store.write(label, arrays) for label, arrays in wanted]
    assert store.names() == {*names}
    assert len(store.names()) == 3
    assert [name.partition("-")[0] for name in names] == ["a_1", "a_2", "a_1"]


def test_every_damaged_byte_is_noticed(store: BlobStore) -> None:
    name = store.write("small", {"number": np.arange(3)})
    file = store.folder / name
    original = file.read_bytes()
    for place in range(len(original)):
        file.write_bytes(original[:place] + bytes([original[place] ^ 1]) + original[place + 1 :])
        with pytest.raises(CheckpointError, match=rf"{re.escape(str(file))} is damaged: .*SHA-256 differs"):
            store.read(name)
        file.write_bytes(original[:place])
        with pytest.raises(CheckpointError, match="SHA-256 differs"):
            store.read(name)


def test_missing_blob_is_named_with_the_checkpoints_that_do_without_it(
    folder: CheckpointFolder, store: BlobStore
) -> None:
    other = store.write("other", PLAIN)
    save(folder, 1, other)
    shared = store.write("shared", PLAIN)
    save(folder, 2, shared, other)
    save(folder, 3)
    (store.folder / shared).unlink()
    others = ("--checkpoint update_000000001", "update_000000003")
    with pytest.raises(CheckpointError, match=mentions(shared, "No such file", others)):
        store.read(shared)


def test_damaged_blob_that_every_checkpoint_needs_is_reported(
    folder: CheckpointFolder, store: BlobStore
) -> None:
    name = store.write("shared", PLAIN)
    for update in (1, 2):
        save(folder, update, name)
    (folder.latest() / "state.json").write_text("[]")  # this one cannot be resumed either
    (store.folder / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        store.read(name)


@pytest.mark.parametrize("name", ["../update_000000001/state.json", "turn_1-0.safetensors", ""])
def test_what_is_no_blob_is_not_read(folder: CheckpointFolder, store: BlobStore, name: str) -> None:
    save(folder, 1, store.write("some", PLAIN))
    with pytest.raises(CheckpointError, match=mentions("no blob", name)):
        store.read(name)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\0\0\0\0\0\0\0[]",
        b"\x02\0\0\0\0\0\0\0{",
        b'\x0a\0\0\0\0\0\0\0{"a": [1]}',
        b'\x40\0\0\0\0\0\0\0{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}  ',
    ],
)
def test_files_of_something_else_are_refused(store: BlobStore, data: bytes) -> None:
    with pytest.raises(CheckpointError, match=mentions("no arrays")):
        store.read(forge(store, data))


def test_full_disk_leaves_nothing_half_written(small_disk: Path) -> None:
    folder = CheckpointFolder(small_disk / "checkpoints")
    store = BlobStore(folder.blobs)
    save(folder, 1, store.write("small", PLAIN))
    filler = fill(small_disk, leave=500_000)
    large = {"planes": np.zeros(1_000_000, np.uint8)}
    with pytest.raises(CheckpointError, match=r"disk is full.*update_000000001"):
        store.write("large", large)
    assert [path.name.partition("-")[0] for path in store.folder.iterdir()] == ["small"]
    filler.unlink()
    assert store.read(store.write("large", large))["planes"].tobytes() == bytes(1_000_000)
