"""Checkpoints: the whole system in a folder, written beside the old ones and renamed.

A checkpoint holds `tensors.safetensors` and `state.json`; nothing in it can run code. Both are
covered by SHA-256 sums, so that damage is noticed before anything is loaded.
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
TENSORS, STATE = "tensors.safetensors", "state.json"
_UNFINISHED = ".unfinished-"
_NAME = re.compile(r"update_\d{9}")


@dataclass(frozen=True)
class Checkpoint:
    """What is saved: tensors, and everything else as JSON."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


class CheckpointFolder:
    """The checkpoints of one run, oldest first by name."""

    def __init__(self, path: Path) -> None:
        self.path = path

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
        path = self.path / (f"update_{int(name):09d}" if re.fullmatch("[0-9]{1,9}", name) else name)
        if path not in self.all():
            known = ", ".join(p.name for p in self.all()) or "none"
            raise CheckpointError(f"no checkpoint {name!r} in {self.path}; there are: {known}")
        return path

    def save(self, update: int, checkpoint: Checkpoint, keep: int) -> Path:
        """Write a checkpoint completely, then give it its name, then let the oldest go.

        Whatever fails before the renaming leaves the older checkpoints as they were.
        """
        final = self.path / f"update_{update:09d}"
        unfinished = self.path / f"{_UNFINISHED}{final.name}"
        try:
            self.remove_unfinished()
            unfinished.mkdir(parents=True)
            _write(unfinished, checkpoint)
            if final.exists():  # the same update, saved again
                _discard(final)
            unfinished.rename(final)
            _sync_folder(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                shutil.rmtree(unfinished)
            raise CheckpointError(self._explain(error)) from error
        try:
            for old in self.all()[:-keep]:
                _discard(old)
        except OSError as error:
            logger.warning("an old checkpoint could not be removed: %s", error)
        return final

    def remove_unfinished(self) -> None:
        """Clear what a killed process left half-written."""
        for left in self.path.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)

    def set_aside_after(self, path: Path) -> None:
        """Rename the checkpoints newer than `path`: going on from it makes another future."""
        for newer in [other for other in self.all() if other > path]:
            suffixes = chain([""], (f"_{number}" for number in count(2)))
            names = (f"abandoned_{newer.name}{suffix}" for suffix in suffixes)
            newer.rename(next(aside for aside in map(newer.with_name, names) if not aside.exists()))

    def _explain(self, error: OSError) -> str:
        what, kept = describe_os_error(error), self.all()
        good = f"the last good checkpoint is {kept[-1].name}" if kept else "there is no older one"
        return f"cannot save a checkpoint in {self.path}: {what}; {good}"


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte of it."""
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
    return Checkpoint(tensors, content["state"])


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    data = safetensors.torch.save(tensors)
    content = {
        "format": FORMAT,
        "senju": __version__,
        "tensors_sha256": hashlib.sha256(data).hexdigest(),
        "state": checkpoint.state,
    }
    sealed = {"content_sha256": _digest(content), "content": content}
    write_durably(folder / TENSORS, data)
    write_durably(folder / STATE, json.dumps(sealed, indent=1).encode())
    _sync_folder(folder)


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
    others = [other.name for other in CheckpointFolder(path.parent).all() if other != path]
    if others:
        return f"others to go on from: --checkpoint {' or '.join(others)}"
    return "there is no other checkpoint in the run"


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
    beside = path.with_name(f"{_UNFINISHED}{path.name}")
    try:
        write_durably(beside, data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    """Take a checkpoint's name away first, so that a half-deleted one is never seen."""
    aside = path.with_name(f"{_UNFINISHED}old-{path.name}")
    path.rename(aside)
    shutil.rmtree(aside)
