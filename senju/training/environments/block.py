"""A tree of plain values and arrays as one block of bytes, which another process can map."""

import json
import os
import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.backends.arena import open_anonymous

_ALIGNMENT = 64
_LENGTH = struct.Struct("<Q")  # of the description, which is JSON


class Block:
    """Bytes that nobody changes any more; in shared memory too as soon as another process needs them."""

    def __init__(self, data: bytearray | memoryview | None) -> None:
        self._read = data  # None: in shared memory alone
        self._descriptor: int | None = None

    @property
    def _data(self) -> bytearray | memoryview:
        if self._read is None:
            assert self._descriptor is not None
            self._read = _read(self._descriptor)
        return self._read

    def __len__(self) -> int:
        return len(self._data)

    @classmethod
    def pack(cls, tree: Any, arrays: Sequence[NDArray[Any]]) -> "Block":
        """Plain values, as JSON has them, and arrays that the tree refers to by their number."""
        starts, end = [], 0
        for array in arrays:
            starts.append(end)
            end += _aligned(array.nbytes)
        shapes = [(array.dtype.str, array.shape, at) for array, at in zip(arrays, starts, strict=True)]
        text = json.dumps([tree, shapes]).encode()
        first = _aligned(_LENGTH.size + len(text))
        data = bytearray(first + end)
        _LENGTH.pack_into(data, 0, len(text))
        data[_LENGTH.size : _LENGTH.size + len(text)] = text
        for array, at in zip(arrays, starts, strict=True):
            np.ndarray(array.shape, array.dtype, data, first + at)[...] = array
        return cls(data)

    def unpack(self) -> tuple[Any, list[NDArray[Any]]]:
        """The tree, and views of the arrays; who keeps an array copies it."""
        (length,) = _LENGTH.unpack_from(self._data)
        tree, shapes = json.loads(bytes(self._data[_LENGTH.size : _LENGTH.size + length]))
        first = _aligned(_LENGTH.size + length)
        arrays = [
            np.ndarray(tuple(shape), np.dtype(dtype), self._data, first + at) for dtype, shape, at in shapes
        ]
        return tree, arrays

    def as_array(self) -> NDArray[np.uint8]:
        """All bytes."""
        return np.frombuffer(self._data, np.uint8)

    def descriptor(self) -> int:
        """Anonymous shared memory with these bytes; it is closed with the block."""
        if self._descriptor is None:
            self._keep(_open(len(self._data)))
            assert self._descriptor is not None
            _write(self._descriptor, memoryview(self._data))
        return self._descriptor

    def _keep(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def of_descriptor(cls, descriptor: int, is_passed_on: bool = False) -> "Block":
        """What another process packed.

        It is copied: a mapping would keep a descriptor open for each block. What is to be passed on to others
        does keep it, and is read if it is needed here after all.
        """
        if is_passed_on:
            block = cls(None)
            block._keep(descriptor)
            return block
        try:
            return cls(_read(descriptor))
        finally:
            os.close(descriptor)


def _open(num_bytes: int) -> int:
    return os.memfd_create("senju") if hasattr(os, "memfd_create") else open_anonymous(num_bytes)


# Reading and writing are several times faster than mapping memory for one use.
def _write(descriptor: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], done)


def _read(descriptor: int) -> bytearray:
    data = bytearray(os.fstat(descriptor).st_size)
    rest, done = memoryview(data), 0
    while done < len(data):
        done += os.preadv(descriptor, [rest[done:]], done)
    return data


def bundle(blocks: Sequence[Block]) -> Block:
    """Several blocks as one."""
    return Block.pack(None, [block.as_array() for block in blocks])


def unbundle(block: Block) -> list[Block]:
    """The blocks of a bundle, as views of it."""
    return [Block(array.data) for array in block.unpack()[1]]


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
