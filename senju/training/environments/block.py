"""A tree of plain values and arrays as one block of bytes, which another process can map."""

import json
import os
import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.backends.arena import map_shared, open_anonymous

_ALIGNMENT = 64
_LENGTH = struct.Struct("<Q")  # of the description, which is JSON


class Block:
    """Bytes that nobody changes any more; in shared memory too as soon as another process needs them."""

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._descriptor: int | None = None

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
        tree, shapes = json.loads(self._data[_LENGTH.size : _LENGTH.size + length])
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
            self._descriptor = open_anonymous(len(self._data))
            weakref.finalize(self, os.close, self._descriptor)
            with map_shared(self._descriptor, len(self._data)) as memory:
                memory[:] = self._data
        return self._descriptor

    @classmethod
    def of_descriptor(cls, descriptor: int) -> "Block":
        """What another process packed, as a copy: a mapping would keep a descriptor open for each block."""
        try:
            with map_shared(descriptor, os.fstat(descriptor).st_size) as memory:
                return cls(bytearray(memory))
        finally:
            os.close(descriptor)


def bundle(blocks: Sequence[Block]) -> Block:
    """Several blocks as one."""
    return Block.pack(None, [block.as_array() for block in blocks])


def unbundle(block: Block) -> list[Block]:
    """The blocks of a bundle, as copies."""
    return [Block(bytearray(array)) for array in block.unpack()[1]]


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
