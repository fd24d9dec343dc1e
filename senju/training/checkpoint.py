"""Checkpoints: the whole system in a folder, written beside the old ones and renamed.

A checkpoint holds `tensors.safetensors` and `state.json`; nothing in it can run code. Both are
covered by SHA-256 sums, so that damage is noticed before anything is loaded. What is large and seldom
changes lies in blobs beside the checkpoints that name them (`blobs.py`); a blob goes after the last of these.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from senju.errors import CheckpointError
from senju.version import __version__

logger = logging.getLogger(__name__)

FORMAT = 1  # later ones keep the seal around the content, so that they are not taken for damage
TENSORS, STATE, BLOBS = "tensors.safetensors", "state.json", "blobs"
UNFINISHED = ".unfinished-"
_NAME = re.compile(r"update_\d{9}")


@dataclass(frozen=True)
class Checkpoint:
    """What is saved: tensors, everything else as JSON, and the names of blobs written before."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    blobs: tuple[str, ...] = ()


class CheckpointFolder:
    """The checkpoints of one run, oldest first by name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def blobs(self) -> Path:
        """The folder of the blobs that the checkpoints share."""
        return self.path / BLOBS

    def all(self) -> list[Path]:
        """Finished checkpoints, oldest first."""
        return sorted(path for path in self.path.glob("update_*") if _NAME.fullmatch(path.name))

    def latest(self) -> Path:
        """The newest checkpoint."""
        found = self.all()
        if not found:
            raise CheckpointError(f"no checkpoint in {self.path}: the run was stopped before its first one")
        return found[-1]

    def named(self, name: str) -> Path:
        """A checkpoint by its folder's name, or by its update alone."""
        path = self._path(name)
        if path not in self.all():
            known = ", ".join(p.name for p in self.all()) or "none"
            raise CheckpointError(f"no checkpoint {name!r} in {self.path}; there are: {known}")
        return path

    def has(self, name: str) -> bool:
        """Whether there is a checkpoint of that name or update."""
        return self._path(name) in self.all()

    def _path(self, name: str) -> Path:
        return self.path / (f"update_{int(name):09d}" if re.fullmatch("[0-9]{1,9}", name) else name)

    def save(self, update: int, checkpoint: Checkpoint, keep: int) -> Path:
        """Write a checkpoint completely, then give it its name, then let the oldest go.

        Whatever fails before the renaming leaves the older checkpoints as they were. Blobs go last: wherever
        the process is killed, each checkpoint that has its name has its blobs.
        """
        final = self.path / f"update_{update:09d}"
        unfinished = self.path / f"{UNFINISHED}{final.name}"
        try:
            self._remove_unfinished_checkpoints()
            self._require_blobs(checkpoint.blobs)
            unfinished.mkdir(parents=True)
            _write(unfinished, checkpoint)
            if final.exists():  # the same update, saved again
                _discard(final)
            unfinished.rename(final)
            sync_folder(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                shutil.rmtree(unfinished)
            raise CheckpointError(self.explain(error)) from error
        self._let_the_oldest_go(keep)
        return final

    def remove_unfinished(self) -> None:
        """Clear what a killed process left half-written; nobody may be writing meanwhile."""
        self._remove_unfinished_checkpoints()
        for left in self.blobs.glob(f"{UNFINISHED}*"):
            left.unlink()

    def _remove_unfinished_checkpoints(self) -> None:
        for left in self.path.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left)

    def _require_blobs(self, names: tuple[str, ...]) -> None:
        if not names:
            return
        missing = sorted(set(names).difference(os.listdir(self.blobs)))
        if missing:
            raise CheckpointError(
                f"cannot save a checkpoint in {self.path}: {len(missing)} of its {len(names)} blobs are gone "
                f"from {BLOBS}, the first is {missing[0]}; {self._last_good()}"
            )
        sync_folder(self.blobs)

    def _let_the_oldest_go(self, keep: int) -> None:
        try:
            for old in self.all()[:-keep]:
                _discard(old)
            self._remove_blobs_nobody_names()
        except OSError as error:
            logger.warning("an old checkpoint could not be removed: %s", error)
        except CheckpointError as error:
            logger.warning("no blob is removed, since nobody knows which are needed: %s", error)

    def _remove_blobs_nobody_names(self) -> None:
        if not self.blobs.exists():
            return
        sync_folder(self.path)  # after a power cut, what went must not come back without its blobs
        left = {name for name in os.listdir(self.blobs) if not name.startswith(UNFINISHED)}
        for state in self.path.glob(f"*/{STATE}"):  # those set aside, too
            if not state.parent.name.startswith(UNFINISHED):
                left -= blobs_of(state.parent)
        for name in left:
            (self.blobs / name).unlink()

    def set_aside_after(self, path: Path) -> None:
        """Rename the checkpoints newer than `path`: going on from it makes another future."""
        for newer in [other for other in self.all() if other > path]:
            suffixes = chain([""], (f"_{number}" for number in count(2)))
            names = (f"abandoned_{newer.name}{suffix}" for suffix in suffixes)
            newer.rename(next(aside for aside in map(newer.with_name, names) if not aside.exists()))

    def explain(self, error: OSError) -> str:
        """Why no checkpoint could be saved, and which one there is."""
        return f"cannot save a checkpoint in {self.path}: {describe_os_error(error)}; {self._last_good()}"

    def _last_good(self) -> str:
        kept = self.all()
        return f"the last good checkpoint is {kept[-1].name}" if kept else "there is no older one"


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte of it, but for its blobs: whoever reads these verifies them."""
    content = _read_state(path)
    if content["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {content['format']}, this senju reads up to {FORMAT}; "
            f"it was written by senju {content['senju']}: upgrade; {other_checkpoints(path)}"
        )
    data = _read(path / TENSORS)
    if hashlib.sha256(data).hexdigest() != content["tensors_sha256"]:
        raise CheckpointError(_damaged(path, f"{TENSORS} is not what was written (its SHA-256 differs)"))
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise CheckpointError(_damaged(path, f"{TENSORS}: {error}")) from None
    return Checkpoint(tensors, content["state"], tuple(content.get("blobs", ())))  # once there were none


def blobs_of(path: Path) -> set[str]:
    """The blobs that a checkpoint names."""
    return set(_read_state(path).get("blobs", ()))


def read_state(path: Path) -> dict[str, Any]:
    """What a checkpoint holds besides its tensors."""
    state: dict[str, Any] = _read_state(path)["state"]
    return state


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    data = safetensors.torch.save(tensors)
    content = {
        "format": FORMAT,
        "senju": __version__,
        "tensors_sha256": hashlib.sha256(data).hexdigest(),
        "state": checkpoint.state,
        "blobs": checkpoint.blobs,
    }
    sealed = {"content_sha256": _digest(content), "content": content}
    write_durably(folder / TENSORS, data)
    write_durably(folder / STATE, json.dumps(sealed, indent=1).encode())
    sync_folder(folder)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        sealed = json.loads(_read(path / STATE))
        content: dict[str, Any] = sealed["content"]
        expected = sealed["content_sha256"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(_damaged(path, f"{STATE} is cut off or not JSON")) from None
    if _digest(content) != expected:
        raise CheckpointError(_damaged(path, f"{STATE} is not what was written (its SHA-256 differs)"))
    return content


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CheckpointError(_damaged(file.parent, f"{file.name}: {error.strerror}")) from None


def _damaged(path: Path, what: str) -> str:
    return f"{path} is damaged: {what}; {other_checkpoints(path)}"


def other_checkpoints(path: Path) -> str:
    """What a run can go on from instead of a checkpoint that is no good."""
    others = [other for other in CheckpointFolder(path.parent).all() if other != path]
    return _to_go_on_from(others) if others else "there is no other checkpoint in the run"


def checkpoints_without(blob: Path) -> str:
    """What a run can go on from without a blob that is no good."""
    others = [other for other in CheckpointFolder(blob.parent.parent).all() if not _needs(other, blob.name)]
    return _to_go_on_from(others) if others else "no checkpoint of the run does without it"


def _needs(path: Path, blob: str) -> bool:
    try:
        return blob in blobs_of(path)
    except CheckpointError:  # no good either
        return True


def _to_go_on_from(checkpoints: list[Path]) -> str:
    return f"others to go on from: --checkpoint {' or '.join(path.name for path in checkpoints)}"


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def describe_os_error(error: OSError) -> str:
    """What went wrong with a file, in words."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "the disk is full" if is_full else (error.strerror or str(error))


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, data: bytes) -> None:
    """Replace a file so that a reader, or a crash, sees the old content or the new, never a part."""
    beside = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        write_durably(beside, data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    """Take a checkpoint's name away first, so that a half-deleted one is never seen."""
    aside = path.with_name(f"{UNFINISHED}old-{path.name}")
    path.rename(aside)
    shutil.rmtree(aside)
