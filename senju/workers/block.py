"""A tree of plain values and arrays as one block of bytes, which another process can map."""

import json
import os
import struct
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.workers.shared_memory import aligned, new_descriptor

_LENGTH = struct.Struct("<Q")  # of the description, which is JSON


class Block:
    """Immutable bytes. They are copied to shared memory when another process needs them."""

    def __init__(self, data: bytearray | memoryview | None, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        if data is not None:
            self._data = data
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)

    @cached_property
    def _data(self) -> bytearray | memoryview:
        assert self._descriptor is not None, "a block needs bytes or a descriptor"
        return _read(self._descriptor)

    def __len__(self) -> int:
        return len(self._data)

    @classmethod
    def pack(cls, tree: Any, arrays: Sequence[NDArray[Any]]) -> "Block":
        """Pack JSON values, and arrays that the values refer to by number."""
        starts, end = [], 0
        for array in arrays:
            starts.append(end)
            end += aligned(array.nbytes)
        shapes = [(array.dtype.str, array.shape, at) for array, at in zip(arrays, starts, strict=True)]
        text = json.dumps([tree, shapes]).encode()
        first = aligned(_LENGTH.size + len(text))
        data = bytearray(first + end)
        _LENGTH.pack_into(data, 0, len(text))
        data[_LENGTH.size : _LENGTH.size + len(text)] = text
        for array, at in zip(arrays, starts, strict=True):
            np.ndarray(array.shape, array.dtype, data, first + at)[...] = array
        return cls(data)

    def unpack(self) -> tuple[Any, list[NDArray[Any]]]:
        """The tree, and views of the arrays; copy an array to keep it."""
        (length,) = _LENGTH.unpack_from(self._data)
        tree, shapes = json.loads(bytes(self._data[_LENGTH.size : _LENGTH.size + length]))
        first = aligned(_LENGTH.size + length)
        arrays = [
            np.ndarray(tuple(shape), np.dtype(dtype), self._data, first + at) for dtype, shape, at in shapes
        ]
        return tree, arrays

    def as_array(self) -> NDArray[np.uint8]:
        """The bytes as an array."""
        return np.frombuffer(self._data, np.uint8)

    def descriptor(self) -> int:
        """Anonymous shared memory with these bytes; it is closed with the block."""
        if self._descriptor is None:
            data, done = memoryview(self._data), 0
            descriptor = new_descriptor(len(data))
            weakref.finalize(self, os.close, descriptor)
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], done)
            self._descriptor = descriptor
        return self._descriptor

    @classmethod
    def of_descriptor(cls, descriptor: int, is_passed_on: bool = False) -> "Block":
        """A block that another process packed; read at once, because a mapping would keep a descriptor open.

        A block that is passed on to others keeps its descriptor, and is read only if this process needs it.
        """
        if is_passed_on:
            return cls(None, descriptor)
        try:
            return cls(_read(descriptor))
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> bytearray:
    """Read all bytes, which is several times faster than mapping memory for one use."""
    data = bytearray(os.fstat(descriptor).st_size)
    rest, done = memoryview(data), 0
    while done < len(data):
        done += os.preadv(descriptor, [rest[done:]], done)
    return data
