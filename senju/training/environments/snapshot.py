"""A world as the factory made it: every object in it is put back, so that no other world need be made.

The objects stay the same ones; it is their contents that come back. What a world can be made of without
being seen from here (open files, objects of other C extensions) is named instead: such a world is not kept.
"""

import logging
import random
import re
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import is_
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

_OURS = "senju.training.environments."
_LEAVES = (  # that cannot change, or that are no part of one world
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type, Enum, PurePath),
    *(np.generic, np.dtype, np.ufunc, torch.dtype, torch.device, torch.Size),
    *(types.ModuleType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GenericAlias),
    *(re.Pattern, date, time, timedelta, tzinfo, Decimal, type(...), type(NotImplemented)),
    *(logging.Logger, weakref.ref, type(threading.Lock()), type(threading.RLock())),
)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_KNOWN = {  # what classes may build on: what these hold is put back
    *(object, dict, OrderedDict, defaultdict, list, deque, set, bytearray, tuple, frozenset),
    *(types.FunctionType, types.MethodType, types.BuiltinMethodType, types.CellType, partial),
}
_POINTER, _PAGE = 8, 4096  # bytes
_MANY = 2**16  # bytes of an array that is worth a look at what changed
_EMPTY = object()  # what a cell holds that nothing was put into


class _Kind(NamedTuple):
    """How one kind of contents is read, and put back."""

    read: Callable[[Any], Any]
    put: Callable[[Any, Any], None]


class Snapshot:
    """All that `root` refers to. First `take` what it is like; `restore` as often as needed."""

    def __init__(self, root: object) -> None:
        self.obstacle: str | None = None  # the kind of something that cannot be put back
        self.num_bytes = 0  # of arrays and tensors
        self.generators: list[Any] = []  # in an order that depends on nothing but the factory
        self._found: list[tuple[_Kind, Any]] = []
        self._contents: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self._weights: list[tuple[Tensor, Tensor]] = []  # where they lie, and what they were
        self._walk(root)

    def _walk(self, root: object) -> None:
        seen: dict[int, object] = {}  # holds them too, so that no number is given again
        left = [root]
        while left:
            value = left.pop()
            if id(value) in seen or isinstance(value, _LEAVES) or _is_ours(value):
                continue
            seen[id(value)] = value
            left.extend(self._look_into(value))

    def _look_into(self, value: Any) -> list[Any]:
        """Note what can change in a value; return what it refers to."""
        if isinstance(value, _GENERATORS):
            if value is not torch.default_generator:
                self.generators.append(value)
            return []
        if isinstance(value, Tensor):
            return self._look_into_tensor(value)
        if isinstance(value, np.ndarray):
            return self._look_into_array(value)
        if _has_hidden_fields(type(value)):
            self.obstacle = type(value).__qualname__
            return []
        for cls, kind in _CONTAINERS.items():
            if isinstance(value, cls):
                self._found.append((kind, value))
        return [*_references(value), *self._attributes(value)]

    def _look_into_tensor(self, tensor: Tensor) -> list[Any]:
        is_plain = type(tensor) in (Tensor, nn.Parameter) and tensor.layout is torch.strided
        if not is_plain or any(not step and size > 1 for step, size in zip(*_steps(tensor), strict=True)):
            self.obstacle = f"{type(tensor).__qualname__} with another layout"
            return []
        self.num_bytes += tensor.nbytes
        self._found.append((_WEIGHTS if type(tensor) is nn.Parameter else _TENSOR, tensor))
        return [tensor.grad]

    def _look_into_array(self, array: Any) -> list[Any]:
        is_of_objects = array.dtype == object
        if type(array) is not np.ndarray or (array.dtype.hasobject and not is_of_objects):
            self.obstacle = f"{type(array).__qualname__} of {array.dtype}"
            return []
        if not array.flags.writeable:
            return [array.base] if isinstance(array.base, np.ndarray) else []
        self.num_bytes += array.nbytes
        self._found.append((_ARRAY, array))
        return array.ravel().tolist() if is_of_objects else []

    def _attributes(self, value: Any) -> list[Any]:
        found: list[Any] = []
        own = getattr(value, "__dict__", None)
        if type(own) is dict:
            self._found.append((_ATTRIBUTES, value))
            found += own.values()
        for slot in _slots(type(value)):
            self._found.append((_Kind(partial(_read_slot, slot), partial(_put_slot, slot)), value))
            found.append(_read_slot(slot, value))
        return found

    def take(self) -> None:
        """Copy everything as it is now."""
        self._contents = [(kind.put, value, kind.read(value)) for kind, value in self._found]
        self._weights = [content[:2] for put, _, content in self._contents if put is _WEIGHTS.put]

    def restore(self) -> bool:
        """Make all but weights as it was; False where that cannot be, and the world is of no more use."""
        try:
            for put, value, content in self._contents:
                put(value, content)
        except _OutOfShapeError:
            return False
        return True

    def restore_weights(self, filled: Container[int]) -> None:
        """Make weights as they were, but for those at addresses that others have been written to."""
        for place, data in self._weights:
            if place.data_ptr() not in filled:
                place.copy_(data)


class _OutOfShapeError(Exception):
    """An array was given another shape in its place."""


def _is_ours(value: object) -> bool:
    """Whether we put it there, to look at what agents remember and do."""
    owner = value if isinstance(value, types.FunctionType) else type(value)
    return str(owner.__module__).startswith(_OURS)


def _slots(cls: type) -> list[Any]:
    return [
        member
        for part in cls.__mro__
        if "__slots__" in vars(part)
        for member in vars(part).values()
        if isinstance(member, types.MemberDescriptorType)
    ]


def _has_hidden_fields(cls: type) -> bool:
    """Whether its objects hold more than attributes and what is known of the classes it builds on."""
    base = next(part for part in cls.__mro__ if part in _KNOWN)
    size = base.__basicsize__ + _POINTER * len(_slots(cls))
    for offset in ("__dictoffset__", "__weakrefoffset__"):
        if getattr(cls, offset) > 0 and not getattr(base, offset):
            size += _POINTER
    return cls.__basicsize__ != size


def _references(value: Any) -> Iterable[Any]:
    """What a container or a function holds."""
    if isinstance(value, dict):
        return [*value, *value.values(), getattr(value, "default_factory", None)]
    if isinstance(value, (list, deque, set, tuple, frozenset)):
        return list(value)
    if isinstance(value, types.FunctionType):
        return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__]
    if isinstance(value, types.CellType):
        return [_read_cell(value)]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.BuiltinMethodType):
        return [value.__self__]
    return [value.func, value.args, value.keywords] if isinstance(value, partial) else []


def _put_dict(mapping: dict[Any, Any], content: dict[Any, Any]) -> None:
    cls: Any = OrderedDict if isinstance(mapping, OrderedDict) else dict
    if len(mapping) != len(content) or not all(map(is_, mapping, content)):
        cls.clear(mapping)
    elif all(map(is_, mapping.values(), content.values())):
        return  # as it mostly is
    for key, value in content.items():
        cls.__setitem__(mapping, key, value)


def _put_attributes(value: Any, content: tuple[dict[str, Any], dict[str, Any]]) -> None:
    attributes, before = content
    if value.__dict__ is not attributes:
        value.__dict__ = attributes
    _put_dict(attributes, before)


def _put_list(items: Any, content: Any) -> None:
    items[:] = content


def _put_deque(items: deque[Any], content: list[Any]) -> None:
    items.clear()
    items.extend(content)


def _put_set(items: set[Any], content: list[Any]) -> None:
    items.clear()
    items.update(content)


def _read_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _put_cell(cell: types.CellType, content: Any) -> None:
    if content is not _EMPTY:
        cell.cell_contents = content
    elif _read_cell(cell) is not _EMPTY:
        del cell.cell_contents


def _read_slot(slot: Any, value: object) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _EMPTY


def _put_slot(slot: Any, value: object, content: Any) -> None:
    if content is not _EMPTY:
        slot.__set__(value, content)
    elif _read_slot(slot, value) is not _EMPTY:
        slot.__delete__(value)


def _read_array(array: Any) -> Any:
    """A copy; of a large array of zeros, as replay memories are at first, its shape."""
    is_zero = array.nbytes > _MANY and array.flags.c_contiguous and not array.dtype.hasobject
    is_zero = is_zero and not array.reshape(-1).view(np.uint8).any()
    return np.broadcast_to(np.zeros((), array.dtype), array.shape) if is_zero else array.copy()


def _put_array(array: Any, content: Any) -> None:
    if array.shape != content.shape or array.dtype != content.dtype:
        raise _OutOfShapeError
    if content.flags.writeable:
        array[...] = content
    else:
        _put_zeros(array.reshape(-1).view(np.uint8))


def _put_zeros(data: NDArray[np.uint8]) -> None:
    """Write to the pages that have changed alone: reading is faster."""
    pages = data[: len(data) // _PAGE * _PAGE].reshape(-1, _PAGE)
    pages[pages.max(axis=1) > 0] = 0
    data[pages.size :] = 0


def _steps(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tensor.stride(), tuple(tensor.shape)


def _read_tensor(tensor: Tensor) -> tuple[Tensor, Tensor, bool, Tensor | None]:
    return tensor.data, tensor.data.clone(), tensor.requires_grad, tensor.grad


def _put_place(tensor: Tensor, content: tuple[Tensor, Tensor, bool, Tensor | None]) -> None:
    """All of a tensor but its numbers."""
    place, _, requires_grad, grad = content
    if tensor.data_ptr() != place.data_ptr() or _steps(tensor) != _steps(place):
        tensor.data = place
    if tensor.requires_grad != requires_grad:
        tensor.requires_grad_(requires_grad)
    if tensor.is_leaf:
        tensor.grad = grad


def _put_tensor(tensor: Tensor, content: tuple[Tensor, Tensor, bool, Tensor | None]) -> None:
    _put_place(tensor, content)
    content[0].copy_(content[1])


_TENSOR = _Kind(_read_tensor, _put_tensor)
_WEIGHTS = _Kind(_read_tensor, _put_place)
_ARRAY = _Kind(_read_array, _put_array)
_ATTRIBUTES = _Kind(lambda value: (value.__dict__, dict(value.__dict__)), _put_attributes)
_CONTAINERS: dict[type, _Kind] = {
    dict: _Kind(dict, _put_dict),
    list: _Kind(list, _put_list),
    bytearray: _Kind(bytes, _put_list),
    deque: _Kind(list, _put_deque),
    set: _Kind(list, _put_set),
    types.CellType: _Kind(_read_cell, _put_cell),
}
