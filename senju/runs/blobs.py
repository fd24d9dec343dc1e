"""Blobs: files of arrays that never change, named by their content.

Checkpoints name the blobs they need, and share them: nothing is saved twice. A blob is a safetensors file
whose name ends with the SHA-256 of its bytes.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.errors import CheckpointError
from senju.files import describe_os_error, is_there, make_folder, names_in, read_file, replace_durably
from senju.models.weights import Weights
from senju.runs.checkpoint import BLOB_NAME, CheckpointFolder, damaged_blob

# The names of safetensors for them. Other dtypes are saved as bytes, and described in the header.
_CODES = {f"<{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "fiu" for size in (2, 4, 8)}
_CODES |= {"|i1": "I8", "|u1": "U8", "|b1": "BOOL"}
_DTYPES = {code: np.dtype(dtype) for dtype, code in _CODES.items()}
_DESCRIPTION = re.compile(r"[<>|=][a-zA-Z?]\d{0,9}(\[\w+\])?", re.ASCII)
_METADATA = "__metadata__"

Buffer = bytes | memoryview


class BlobStore:
    """The blobs of one run's checkpoints, in the folder `blobs` among them.

    name = store.write("snapshot_7", {"weights": weights})
    folder.save(update, Checkpoint(tensors, state, blobs=(name,)), keep)
    weights = store.read(name)["weights"]

    When a checkpoint is saved, blobs that no checkpoint names are removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._run = folder, folder.parent.parent  # no link below the latter is followed

    def names(self) -> set[str]:
        """The names of all blobs."""
        try:
            return {name for name in names_in(self.folder, self._run) if BLOB_NAME.fullmatch(name)}
        except OSError as error:
            raise CheckpointError(f"cannot read {self.folder}: {describe_os_error(error)}") from None

    def write(self, label: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Save arrays, unless the label has them already; return the blob's name.

        Contiguous arrays are not copied, so they must not change meanwhile. Saving a checkpoint with the
        name makes it durable.
        """
        buffers = _encode(arrays)
        digest = hashlib.sha256()
        for buffer in buffers:
            digest.update(buffer)
        name = f"{label}-{digest.hexdigest()}.safetensors"
        assert BLOB_NAME.fullmatch(name), f"a label of small letters, digits and _, not {label!r}"
        try:
            make_folder(self.folder, self._run)
            if not is_there(self.folder / name, self._run):
                replace_durably(self.folder / name, buffers, self._run)
        except OSError as error:
            raise CheckpointError(CheckpointFolder(self.folder.parent).explain(error)) from error
        return name

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a blob, not to be written to; every byte of it is verified."""
        parts = BLOB_NAME.fullmatch(name)
        if parts is None:
            raise damaged_blob(self.folder, name, "no blob has such a name")
        try:
            data = read_file(self.folder / name, self._run)
        except OSError as error:
            raise damaged_blob(self.folder, name, describe_os_error(error)) from None
        if hashlib.sha256(data).hexdigest() != parts[2]:
            raise damaged_blob(self.folder, name, "it is not what was written (its SHA-256 differs)")
        try:
            return _decode(data)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise damaged_blob(self.folder, name, f"it holds no arrays: {error}") from None

    def read_weights(self, name: str) -> Weights:
        """The weights that a blob holds, as one block of bytes."""
        weights = self.read(name).get("weights")
        if weights is None or weights.dtype != np.uint8 or weights.ndim != 1:
            raise damaged_blob(self.folder, name, "it holds no weights")
        return weights


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
        dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
            raise ValueError(f"{name} has the shape {shape} at {begin} to {end}")
        if math.prod(shape) * dtype.itemsize != end - begin or first + end > len(data):
            raise ValueError(f"{name} of shape {shape} is not what lies at {begin} to {end}")
        if name in dtypes:
            dtype = np.lib.format.descr_to_dtype(_as_tuples(json.loads(dtypes[name])))
            *shape, itemsize = shape
            if dtype.itemsize != itemsize:
                raise ValueError(f"{name} has items of {itemsize} bytes, and {dtype} has {dtype.itemsize}")
        if dtype.hasobject:  # NumPy would take the bytes for addresses
            raise ValueError(f"{name} would be of objects")
        arrays[name] = np.ndarray(shape, dtype, data, first + begin)
    return arrays


def _as_tuples(descr: Any) -> Any:
    """NumPy's description of a dtype, with the tuples that JSON has turned into lists."""
    if isinstance(descr, str):
        if not _DESCRIPTION.fullmatch(descr):  # NumPy would evaluate some other texts
            raise ValueError(f"{descr[:40]!r} describes no dtype")
        return descr
    return [(name, _as_tuples(inner), *map(tuple, shape)) for name, inner, *shape in descr]
