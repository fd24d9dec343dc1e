"""Blobs: files of arrays that never change, named by their content.

Checkpoints name the blobs they need, and share them: nothing is saved twice. A blob is a safetensors file
whose name ends with the SHA-256 of its bytes.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from senju.errors import CheckpointError
from senju.files import Bytes, describe_os_error, is_there, make_folder, names_in, read_file, replace_durably
from senju.models.weights import Weights
from senju.runs.checkpoint import BLOB_NAME, CheckpointFolder, damaged_blob

# The names that safetensors has for dtypes.
_CODES = {f"<{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "fiu" for size in (2, 4, 8)}
_CODES |= {"|i1": "I8", "|u1": "U8", "|b1": "BOOL"}


class BlobStore:
    """The blobs of one run's checkpoints, in the folder `blobs` beside them.

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
        """The arrays of a blob; every byte of it is verified."""
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
            return safetensors.numpy.load(data)
        except (SafetensorError, LookupError, ValueError) as error:
            raise damaged_blob(self.folder, name, f"it holds no arrays: {error}") from None

    def read_weights(self, name: str) -> Weights:
        """The weights that a blob holds, as one block of bytes."""
        weights = self.read(name).get("weights")
        if weights is None or weights.dtype != np.uint8 or weights.ndim != 1:
            raise damaged_blob(self.folder, name, "it holds no weights")
        return weights


def _encode(arrays: Mapping[str, NDArray[Any]]) -> list[Bytes]:
    """A safetensors file in pieces: the header's length, the header, the arrays as they lie in memory.

    The library's own function would copy all arrays. Those with the largest items come first, so that each
    begins at a multiple of its item's size.
    """
    header: dict[str, Any] = {"__metadata__": {}}
    pieces: list[Bytes] = []
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        end = offset + array.nbytes
        code = _CODES[array.dtype.str]
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": (offset, end)}
        pieces.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *pieces]
