"""Checkpoints: the whole system in a folder, written beside the old ones and renamed.

A checkpoint holds `tensors.safetensors` and `state.json`; loading it runs no code. SHA-256 sums cover both,
so that damage is noticed before anything is loaded. Large arrays that seldom change are in blobs, which
checkpoints share (`blobs.py`); a blob is removed with the last checkpoint that names it.
"""

import contextlib
import hashlib
import json
import logging
import re
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, TypeVar

import safetensors.torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
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

FORMAT = 1  # a later one must keep the checksum around the content, or it would be reported as damaged
TENSORS, STATE, BLOBS = "tensors.safetensors", "state.json", "blobs"
_NAME = re.compile(r"update_\d{9}", re.ASCII)
BLOB_NAME = re.compile(r"([a-z0-9_]+)-([0-9a-f]{64})\.safetensors")
BlobName = Annotated[str, Field(pattern=rf"^{BLOB_NAME.pattern}$")]


class Saved(BaseModel):
    """A part of `state.json`; a value of another type is refused, not converted."""

    model_config = ConfigDict(strict=True, extra="forbid")


SavedT = TypeVar("SavedT", bound=Saved)


class Content(Saved):
    """The content of `state.json` that its checksum covers."""

    model_config = ConfigDict(extra="allow")

    format: int = Field(ge=1)
    tensors_sha256: str
    state: dict[str, Any]
    blobs: list[BlobName] = Field([])  # the first versions had none


@dataclass(frozen=True)
class Checkpoint:
    """The whole system: tensors, everything else as JSON, and the names of blobs written before."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    blobs: tuple[str, ...] = ()


def update_of(checkpoint: Path) -> int:
    """The update after which a checkpoint was saved, from the name of its folder."""
    return int(checkpoint.name.removeprefix("update_"))


class CheckpointFolder:
    """The checkpoints of one run, oldest first by name."""

    def __init__(self, path: Path) -> None:
        self.path, self._run = path, path.parent  # no link below the run's folder is followed
        self.blobs = path / BLOBS  # the folder of the blobs that the checkpoints share

    def all(self) -> list[Path]:
        """Finished checkpoints, oldest first."""
        return sorted(path for path in self.path.glob("update_*") if _NAME.fullmatch(path.name))

    @property
    def newest_update(self) -> int:
        """The update of the newest checkpoint; 0 if there is none."""
        return max(map(update_of, self.all()), default=0)

    def latest(self) -> Path:
        """The newest checkpoint."""
        found = self.all()
        if not found:
            raise CheckpointError(f"no checkpoint in {self.path}: the run was stopped before its first one")
        return found[-1]

    def named(self, name: str) -> Path:
        """A checkpoint by its folder's name, or by its update alone."""
        path = self.find(name)
        if path is None:
            known = ", ".join(p.name for p in self.all()) or "none"
            raise CheckpointError(f"no checkpoint {name!r} in {self.path}; there are: {known}")
        return path

    def find(self, name: str) -> Path | None:
        """A checkpoint by its folder's name, or by its update alone; None if there is no such checkpoint."""
        if not isinstance(name, str) or "\0" in name:
            raise ConfigError(f"checkpoint={shown(name)}: expected its name or its update, as text")
        path = self.path / (f"update_{int(name):09d}" if re.fullmatch("[0-9]{1,9}", name) else name)
        return path if path in self.all() else None

    def save(self, update: int, checkpoint: Checkpoint, keep: int) -> Path:
        """Write a checkpoint completely, then give it its name, then remove the oldest.

        A failure before the renaming leaves the older checkpoints as they were. Blobs are removed last:
        wherever the process is killed, each checkpoint that has its name has its blobs.
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
        self._remove_oldest(keep)
        return final

    def remove_unfinished(self) -> None:
        """Remove files that a killed process left half-written; no other process may write meanwhile."""
        try:
            self._remove_unfinished_checkpoints()
            for left in names_in(self.blobs, self._run):
                if BLOB_NAME.fullmatch(left.removeprefix(UNFINISHED)) and left.startswith(UNFINISHED):
                    remove_file(self.blobs / left, self._run)
        except OSError as error:
            what = f"cannot remove half-written files from {self.path}: {describe_os_error(error)}"
            raise CheckpointError(what) from error

    def _remove_unfinished_checkpoints(self) -> None:
        for left in names_in(self.path, self._run):
            if left.startswith(UNFINISHED):
                remove_tree(self.path / left, self._run)

    def _require_blobs(self, names: tuple[str, ...]) -> None:
        if not names:
            return
        missing = sorted(set(names).difference(names_in(self.blobs, self._run)))
        if missing:
            gone = (
                f"{len(missing)} of its {len(names)} blobs are gone from {BLOBS}, the first is {missing[0]}"
            )
            raise CheckpointError(f"cannot save a checkpoint in {self.path}: {gone}; {self._last_good()}")
        for name in names:
            is_there(self.blobs / name, self._run)  # which refuses a link
        sync_folder(self.blobs, self._run)

    def _remove_oldest(self, keep: int) -> None:
        try:
            for old in self.all()[:-keep]:
                self._discard(old)
            self._remove_unused_blobs()
        except OSError as error:
            logger.warning("an old checkpoint could not be removed: %s", error)
        except CheckpointError as error:
            logger.warning("unused blobs are kept, since it is unknown which ones are needed: %s", error)

    def _remove_unused_blobs(self) -> None:
        left = {name for name in names_in(self.blobs, self._run) if BLOB_NAME.fullmatch(name)}
        if not left:
            return
        sync_folder(self.path, self._run)  # after a power cut, no checkpoint may come back without its blobs
        for state in self.path.glob(f"*/{STATE}"):  # also those of checkpoints set aside
            if not state.parent.name.startswith(UNFINISHED):
                left -= {*read_content(state.parent).blobs}
        for name in left:
            remove_file(self.blobs / name, self._run)

    def set_aside_after(self, path: Path) -> None:
        """Rename the checkpoints newer than `path`, since training goes on from that one."""
        for newer in [other for other in self.all() if other > path]:
            suffixes = chain([""], (f"_{number}" for number in count(2)))
            names = (f"abandoned_{newer.name}{suffix}" for suffix in suffixes)
            aside = next(name for name in names if not is_there(newer.with_name(name), self._run))
            rename(newer, aside, self._run)

    def explain(self, error: OSError) -> str:
        """Why no checkpoint could be saved, and which is the last good one."""
        return f"cannot save a checkpoint in {self.path}: {describe_os_error(error)}; {self._last_good()}"

    def _last_good(self) -> str:
        kept = self.all()
        return f"the last good checkpoint is {kept[-1].name}" if kept else "there is no older one"

    def _discard(self, path: Path) -> None:
        """Rename a checkpoint before removing it, so that a half-deleted one is never seen."""
        is_there(path, self._run)  # which refuses a link
        aside = f"{UNFINISHED}old-{path.name}"
        rename(path, aside, self._run)
        remove_tree(path.with_name(aside), self._run)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte of it; its blobs are verified when they are read."""
    content = read_content(path)
    data = _read(path / TENSORS)
    if hashlib.sha256(data).hexdigest() != content.tensors_sha256:
        raise damaged(path, f"{TENSORS} is not what was written (its SHA-256 differs)")
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise damaged(path, f"{TENSORS}: {error}") from None
    return Checkpoint(tensors, content.state, tuple(content.blobs))


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
    with_checksum = {"content_sha256": _digest(content), "content": content}
    write_durably(folder / TENSORS, [data], root)
    write_durably(folder / STATE, [json.dumps(with_checksum, indent=1).encode()], root)
    sync_folder(folder, root)


def read_content(path: Path) -> Content:
    """A checkpoint without its tensors; its checksum, its format and the types in it are verified."""
    try:
        with_checksum = json.loads(_read(path / STATE))
        content: dict[str, Any] = with_checksum["content"]
        is_whole = _digest(content) == with_checksum["content_sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(path, f"{STATE} is cut off or not JSON") from None
    if not is_whole or not isinstance(content, dict):
        raise damaged(path, f"{STATE} is not what was written (its SHA-256 differs)")
    saved_format = content.get("format")
    if type(saved_format) is int and saved_format > FORMAT:
        raise CheckpointError(
            f"{path} has format {saved_format}, this senju reads up to {FORMAT}; "
            f"it was written by senju {content.get('senju')}: upgrade; {other_checkpoints(path)}"
        )
    return require_types(Content, path, content)


def require_types(kind: type[SavedT], path: Path, saved: dict[str, Any]) -> SavedT:
    """A part of a checkpoint's `state.json`; CheckpointError where a value is missing or has another type."""
    try:
        return kind.model_validate(saved)
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(path, f"{'.'.join(map(str, first['loc']))} in {STATE}: {first['msg']}") from None


def _read(file: Path) -> bytes:
    try:
        return read_file(file, file.parent.parent.parent)  # the run's folder
    except OSError as error:
        raise damaged(file.parent, f"{file.name}: {describe_os_error(error)}") from None


def damaged(path: Path, what: str) -> CheckpointError:
    """An error that says what is wrong with a checkpoint, and which others there are."""
    return CheckpointError(f"{path} is damaged: {what}; {other_checkpoints(path)}")


def other_checkpoints(path: Path) -> str:
    """The checkpoints of the run besides one that cannot be used."""
    others = [other for other in CheckpointFolder(path.parent).all() if other != path]
    return _to_go_on_from(others) if others else "there is no other checkpoint in the run"


def damaged_blob(folder: Path, name: str, what: str) -> CheckpointError:
    """An error that says what is wrong with a blob, and which checkpoints do not need it."""
    others = []
    for other in CheckpointFolder(folder.parent).all():
        with contextlib.suppress(CheckpointError):  # damaged as well
            if name not in read_content(other).blobs:
                others.append(other)
    hint = _to_go_on_from(others) if others else "the run has no checkpoint without it"
    return CheckpointError(f"{folder / name} is damaged: {what}; {hint}")


def _to_go_on_from(checkpoints: list[Path]) -> str:
    return f"others to go on from: --checkpoint {' or '.join(path.name for path in checkpoints)}"


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
