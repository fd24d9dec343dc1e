"""Blobs: files of arrays that are never changed, named by what they hold.

Checkpoints name the blobs they need, and share them: what was saved once is not saved again. A blob is a
safetensors file, written beside and renamed, whose name ends with the SHA-256 of its bytes.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.errors import CheckpointError
from senju.training.checkpoint import UNFINISHED, CheckpointFolder, checkpoints_without

_NAME = re.compile(r"([a-z0-9_]+)-([0-9a-f]{64})\.safetensors")
_CODES = {  # what safetensors calls them; everything else is kept as bytes, with its dtype beside it
    "<f8": "F64",
    "<f4": "F32",
    "<f2": "F16",
    "<i8": "I64",
    "<i4": "I32",
    "<i2": "I16",
    "|i1": "I8",
    "<u8": "U64",
    "<u4": "U32",
    "<u2": "U16",
    "|u1": "U8",
    "|b1": "BOOL",
}
_DTYPES = {code: np.dtype(dtype) for dtype, code in _CODES.items()}
_METADATA = "__metadata__"

Buffer = bytes | memoryview


class BlobStore:
    """The blobs of one run's checkpoints, in the folder `blobs` among them.

    name = store.write("snapshot_7", {"weights": weights})
    folder.save(update, Checkpoint(tensors, state, blobs=(name,)), keep)
    weights = store.read(name)["weights"]

    What no checkpoint names when one is saved is removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> set[str]:
        """The blobs there are."""
        if not self.folder.exists():
            return set()
        return {name for name in os.listdir(self.folder) if _NAME.fullmatch(name)}

    def write(self, label: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Save arrays, unless they are there already under that label; return the blob's name.

        Contiguous arrays are not copied, so they must not change meanwhile. The name is on the disk for
        good when a checkpoint with it is saved.
        """
        buffers = _encode(arrays)
        digest = hashlib.sha256()
        for buffer in buffers:
            digest.update(buffer)
        name = f"{label}-{digest.hexdigest()}.safetensors"
        assert _NAME.fullmatch(name), f"a label of small letters, digits and _, not {label!r}"
        try:
            if not (self.folder / name).exists():
                self._write(name, buffers)
        except OSError as error:
            raise CheckpointError(CheckpointFolder(self.folder.parent).explain(error)) from error
        return name

    def _write(self, name: str, buffers: Iterable[Buffer]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f"{UNFINISHED}{name}"
        try:
            with unfinished.open("wb") as file:
                for buffer in buffers:
                    file.write(buffer)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(self.folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a blob, not to be written to; every byte of it is verified."""
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise CheckpointError(self._damaged(name, "no blob has such a name"))
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise CheckpointError(self._damaged(name, error.strerror or str(error))) from None
        if hashlib.sha256(data).hexdigest() != parts[2]:
            raise CheckpointError(self._damaged(name, "it is not what was written (its SHA-256 differs)"))
        try:
            return _decode(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(self._damaged(name, f"it holds no arrays: {error}")) from None

    def _damaged(self, name: str, what: str) -> str:
        path = self.folder / name
        return f"{path} is damaged: {what}; {checkpoints_without(path)}"


def label_of(name: str) -> str:
    """The label that a blob was written with.

    >>> label_of("snapshot_7-" + 64 * "0" + ".safetensors")
    'snapshot_7'
    """
    return name.partition("-")[0]


def _encode(arrays: Mapping[str, NDArray[Any]]) -> list[Buffer]:
    """A safetensors file in pieces: the header's length, the header, the arrays as they lie in memory."""
    header: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    pieces: list[Buffer] = []
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: (-_alignment(item[1].dtype), item[0])):
        code, shape = _CODES.get(array.dtype.str), array.shape
        if code is None:
            assert not array.dtype.hasobject, f"{name} holds objects"
            dtypes[name] = json.dumps(np.lib.format.dtype_to_descr(array.dtype))
            code, shape = "U8", (*shape, array.itemsize)
        end = offset + array.nbytes
        header[name] = {"dtype": code, "shape": shape, "data_offsets": (offset, end)}
        pieces.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        offset = end
    text = json.dumps({_METADATA: dtypes, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *pieces]


def _alignment(dtype: np.dtype[Any]) -> int:
    """The largest first, so that each array begins at a multiple of its item's size."""
    return dtype.itemsize if dtype.str in _CODES else 0


def _decode(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays as views of a file's bytes."""
    first = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:first])
    dtypes = header.pop(_METADATA, {})
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        dtype, shape, (begin, _) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if name in dtypes:
            dtype = np.lib.format.descr_to_dtype(_as_tuples(json.loads(dtypes[name])))
            shape = shape[:-1]
        if dtype.hasobject:  # NumPy would take the bytes for addresses
            raise ValueError(f"{name} would be of objects")
        arrays[name] = np.ndarray(shape, dtype, data, first + begin)
    return arrays


def _as_tuples(descr: Any) -> Any:
    """NumPy's description of a dtype, of whose tuples JSON has made lists."""
    if isinstance(descr, str):
        return descr
    return [(name, _as_tuples(inner), *map(tuple, shape)) for name, inner, *shape in descr]
