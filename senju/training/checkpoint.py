"""Checkpoints: the whole system in a folder, written beside the old ones and renamed.

A checkpoint holds `tensors.safetensors` and `state.json`; nothing in it can run code. Both are
covered by SHA-256 sums, so that damage is noticed before anything is loaded. What is large and seldom
changes lies in blobs beside the checkpoints that name them (`blobs.py`); a blob goes after the last of these.
"""

import contextlib
import hashlib
import json
import logging
import re
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from senju.config import shown
from senju.errors import CheckpointError, ConfigError
from senju.files import (
    UNFINISHED,
    describe_os_error,
    is_there,
    make_folder,
    names_in,
    read_file,
    remove_file,
    remove_tree,
    rename,
    sync_folder,
    write_durably,
)
from senju.version import __version__

logger = logging.getLogger(__name__)

FORMAT = 1  # later ones keep the seal around the content, so that they are not taken for damage
TENSORS, STATE, BLOBS = "tensors.safetensors", "state.json", "blobs"
_NAME = re.compile(r"update_\d{9}", re.ASCII)
BLOB_NAME = re.compile(r"([a-z0-9_]+)-([0-9a-f]{64})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """What is saved: tensors, everything else as JSON, and the names of blobs written before."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    blobs: tuple[str, ...] = ()


class CheckpointFolder:
    """The checkpoints of one run, oldest first by name."""

    def __init__(self, path: Path) -> None:
        self.path, self._run = path, path.parent  # nothing below the latter is reached by a link

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
        if not isinstance(name, str) or "\0" in name:
            raise ConfigError(f"checkpoint={shown(name)}: expected its name or its update, as text")
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
            make_folder(unfinished, self._run)
            _write(unfinished, checkpoint, self._run)
            if is_there(final, self._run):  # the same update, saved again
                self._discard(final)
            rename(unfinished, final.name, self._run)
            sync_folder(self.path, self._run)
        except OSError as error:
            with contextlib.suppress(OSError):
                remove_tree(unfinished, self._run)
            raise CheckpointError(self.explain(error)) from error
        self._let_the_oldest_go(keep)
        return final

    def remove_unfinished(self) -> None:
        """Clear what a killed process left half-written; nobody may be writing meanwhile."""
        try:
            self._remove_unfinished_checkpoints()
            for left in self._blobs_there():
                if BLOB_NAME.fullmatch(left.removeprefix(UNFINISHED)) and left.startswith(UNFINISHED):
                    remove_file(self.blobs / left, self._run)
        except OSError as error:
            raise CheckpointError(
                f"cannot clear {self.path} of what is half-written: {describe_os_error(error)}"
            ) from error

    def _remove_unfinished_checkpoints(self) -> None:
        for left in names_in(self.path, self._run):
            if left.startswith(UNFINISHED):
                remove_tree(self.path / left, self._run)

    def _blobs_there(self) -> list[str]:
        return names_in(self.blobs, self._run)

    def _require_blobs(self, names: tuple[str, ...]) -> None:
        if not names:
            return
        missing = sorted(set(names).difference(self._blobs_there()))
        if missing:
            raise CheckpointError(
                f"cannot save a checkpoint in {self.path}: {len(missing)} of its {len(names)} blobs are gone "
                f"from {BLOBS}, the first is {missing[0]}; {self._last_good()}"
            )
        for name in names:
            is_there(self.blobs / name, self._run)  # which refuses a link
        sync_folder(self.blobs, self._run)

    def _let_the_oldest_go(self, keep: int) -> None:
        try:
            for old in self.all()[:-keep]:
                self._discard(old)
            self._remove_blobs_nobody_names()
        except OSError as error:
            logger.warning("an old checkpoint could not be removed: %s", error)
        except CheckpointError as error:
            logger.warning("no blob is removed, since nobody knows which are needed: %s", error)

    def _remove_blobs_nobody_names(self) -> None:
        left = {name for name in self._blobs_there() if BLOB_NAME.fullmatch(name)}
        if not left:
            return
        sync_folder(self.path, self._run)  # after a power cut, what went must not come back without its blobs
        for state in self.path.glob(f"*/{STATE}"):  # those set aside, too
            if not state.parent.name.startswith(UNFINISHED):
                left -= blobs_of(state.parent)
        for name in left:
            remove_file(self.blobs / name, self._run)

    def set_aside_after(self, path: Path) -> None:
        """Rename the checkpoints newer than `path`: going on from it makes another future."""
        for newer in [other for other in self.all() if other > path]:
            suffixes = chain([""], (f"_{number}" for number in count(2)))
            names = (f"abandoned_{newer.name}{suffix}" for suffix in suffixes)
            aside = next(name for name in names if not is_there(newer.with_name(name), self._run))
            rename(newer, aside, self._run)

    def explain(self, error: OSError) -> str:
        """Why no checkpoint could be saved, and which one there is."""
        return f"cannot save a checkpoint in {self.path}: {describe_os_error(error)}; {self._last_good()}"

    def _last_good(self) -> str:
        kept = self.all()
        return f"the last good checkpoint is {kept[-1].name}" if kept else "there is no older one"

    def _discard(self, path: Path) -> None:
        """Take a checkpoint's name away first, so that a half-deleted one is never seen."""
        is_there(path, self._run)  # which refuses a link
        aside = f"{UNFINISHED}old-{path.name}"
        rename(path, aside, self._run)
        remove_tree(path.with_name(aside), self._run)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte of it, but for its blobs: whoever reads these verifies them."""
    content = _read_content(path)
    data = _read(path / TENSORS)
    if hashlib.sha256(data).hexdigest() != content["tensors_sha256"]:
        raise CheckpointError(damaged(path, f"{TENSORS} is not what was written (its SHA-256 differs)"))
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise CheckpointError(damaged(path, f"{TENSORS}: {error}")) from None
    return Checkpoint(tensors, content["state"], tuple(content.get("blobs", ())))  # once there were none


def blobs_of(path: Path) -> set[str]:
    """The blobs that a checkpoint names."""
    return set(_read_content(path).get("blobs", ()))


def read_state(path: Path) -> dict[str, Any]:
    """What a checkpoint holds besides its tensors."""
    state: dict[str, Any] = _read_content(path)["state"]
    return state


def _write(folder: Path, checkpoint: Checkpoint, root: Path) -> None:
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
    write_durably(folder / TENSORS, [data], root)
    write_durably(folder / STATE, [json.dumps(sealed, indent=1).encode()], root)
    sync_folder(folder, root)


def _read_content(path: Path) -> dict[str, Any]:
    """What a checkpoint's `state.json` holds, each part of its type."""
    content = _read_sealed(path)
    saved_format = content.get("format")
    if type(saved_format) is int and saved_format > FORMAT:
        raise CheckpointError(
            f"{path} has format {saved_format}, this senju reads up to {FORMAT}; "
            f"it was written by senju {content.get('senju')}: upgrade; {other_checkpoints(path)}"
        )
    blobs = content.get("blobs", [])  # once there were none
    is_good = {
        "format": type(saved_format) is int and saved_format > 0,
        "tensors_sha256": isinstance(content.get("tensors_sha256"), str),
        "state": isinstance(content.get("state"), dict),
        "blobs": isinstance(blobs, list) and all(isinstance(name, str) for name in blobs),
    }
    wrong = [part for part, good in is_good.items() if not good]
    if wrong:
        raise CheckpointError(
            damaged(path, f"{STATE} has no {' and no '.join(wrong)}, or another type of it")
        )
    for name in blobs:
        if not BLOB_NAME.fullmatch(name):
            raise CheckpointError(damaged(path, f"{STATE} names {name!r}, and no blob has such a name"))
    return content


def _read_sealed(path: Path) -> dict[str, Any]:
    try:
        sealed = json.loads(_read(path / STATE))
        content: dict[str, Any] = sealed["content"]
        expected = sealed["content_sha256"]
        digest = _digest(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(damaged(path, f"{STATE} is cut off or not JSON")) from None
    if digest != expected or not isinstance(content, dict):
        raise CheckpointError(damaged(path, f"{STATE} is not what was written (its SHA-256 differs)"))
    return content


def _read(file: Path) -> bytes:
    try:
        return read_file(file, file.parent.parent.parent)  # the run's folder
    except OSError as error:
        raise CheckpointError(damaged(file.parent, f"{file.name}: {describe_os_error(error)}")) from None


def damaged(path: Path, what: str) -> str:
    """What is wrong with a checkpoint, and what to go on from instead."""
    return f"{path} is damaged: {what}; {other_checkpoints(path)}"


def other_checkpoints(path: Path) -> str:
    """What a run can go on from instead of a checkpoint that is no good."""
    others = [other for other in CheckpointFolder(path.parent).all() if other != path]
    return _to_go_on_from(others) if others else "there is no other checkpoint in the run"


def checkpoints_without(blob: str, blobs: Path) -> str:
    """What a run can go on from without a blob that is no good."""
    others = [other for other in CheckpointFolder(blobs.parent).all() if not _needs(other, blob)]
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
