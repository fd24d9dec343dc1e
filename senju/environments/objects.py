"""The objects of a user's world: the kinds there are, and a walk over all that an object leads to.

The table says how objects of each kind are read, filled again in place, and made. Serialising, snapshots, the
check for shared objects and the check of a configuration use it.
"""

import logging
import random
import re
import sys
import threading
import types
import weakref
from argparse import Namespace
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from operator import attrgetter, is_, methodcaller
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from senju.errors import ModelError
from senju.registry import import_named

PLAIN = frozenset((type(None), bool, int, float, str))  # the types that JSON has
STATEFUL = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
MISSING = object()  # the contents of an empty slot
_TORCH_OWN = frozenset(vars(nn.Module())) - {"training"}  # attributes that torch gives to every module
_OPAQUE_PACKAGES = frozenset(sys.stdlib_module_names) | {"builtins", "torch", "numpy", "omegaconf"}
_CONSTANTS = (  # they cannot change, or belong to no single world
    *(type(None), bool, int, float, complex, str, range, slice, type, Enum, PurePath),
    *(np.dtype, np.ufunc, torch.dtype, torch.device, torch.Size),
    *(types.ModuleType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GenericAlias),
    *(re.Pattern, date, time, timedelta, tzinfo, Decimal, type(...), type(NotImplemented)),
    *(logging.Logger, weakref.ref, type(threading.Lock()), type(threading.RLock())),
)
_MAIN_NAMES = ("__main__", "__mp_main__")  # here, and in a process that imported the script
T = TypeVar("T")
Path = Any  # of an object: a name, or a pair of its owner's path and a key
Child = tuple[Any, Any]  # of an object: a key, and the object at this key
Contents = Literal["none", "array", "items", "dict", "attributes", "state", "module", "code"]


def _cached(function: Callable[[type], T]) -> Callable[[type], T]:
    return cache(function)  # typed: mypy does not know that classes are hashable


class ObjectKind(NamedTuple):
    """How objects of one kind are read, filled again in place, and made."""

    name: str
    contents: Contents  # what `read` returns
    classes: Any
    read: Callable[[Any], Any] = lambda value: []
    fill: Callable[[Any, Any], object] | None = None  # puts contents into an object; None: it never changes
    new: Callable[[Any, Any], Any] | None = None  # from meta and contents; None: an empty object of its class
    meta: Callable[[Any], Any] = lambda value: None  # what else a new one is made from, as JSON values
    fits: Callable[[Any, Any, Any], bool] | None = None  # whether contents fit; None: if `meta` is equal

    def accepts(self, value: Any, meta: Any, contents: Any = None) -> bool:
        """Whether an object can be filled with contents of this kind."""
        if value is None or kind_of(type(value)) is not self:
            return False
        return self.meta(value) == meta if self.fits is None else self.fits(value, meta, contents)

    def make(self, meta: Any, contents: Any) -> Any:
        """A new object; one that can change is filled afterwards."""
        if self.new is not None:
            return self.new(meta, contents)
        if meta is None:
            return self.classes()
        cls = find_class(meta)
        return cls.__new__(cls)


def fill_dict(mapping: dict[Any, Any], contents: dict[Any, Any]) -> None:
    """Give a dictionary these items in this order; write only if something differs."""
    cls: Any = OrderedDict if isinstance(mapping, OrderedDict) else dict
    if len(mapping) != len(contents) or not all(map(is_, mapping, contents)):
        cls.clear(mapping)
    elif all(map(is_, mapping.values(), contents.values())):
        return
    for key, value in contents.items():
        cls.__setitem__(mapping, key, value)


def _fill_items(items: Any, contents: Any) -> None:
    items[:] = contents


def _refill(add: Any, items: Any, contents: list[Any]) -> None:
    items.clear()
    add(items, contents)


def _read_cell(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _fill_cell(cell: types.CellType, contents: list[Any]) -> None:
    if contents:
        cell.cell_contents = contents[0]
    elif _read_cell(cell):
        del cell.cell_contents


def _read_function(function: types.FunctionType) -> list[Any]:
    return [*(function.__closure__ or ()), function.__defaults__, function.__kwdefaults__]


def attributes_of(value: object) -> dict[str, Any]:
    """An object's attributes in `__dict__` and in slots, without those of torch."""
    found = dict(getattr(value, "__dict__", ()))
    if isinstance(value, nn.Module):
        found = {name: found[name] for name in found if name not in _TORCH_OWN}
    for slot in slots_of(type(value)):
        if (content := read_slot(slot, value)) is not MISSING:
            found[slot.__name__] = content
    return found


def fill_attributes(value: object, contents: dict[str, Any]) -> None:
    """Set these attributes, and leave others as they are."""
    for name, attribute in contents.items():
        object.__setattr__(value, name, attribute)


def read_slot(slot: Any, value: object) -> Any:
    """What a slot holds, or MISSING."""
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def fill_slot(slot: Any, value: object, content: Any) -> None:
    """Set a slot, or delete what it holds if `content` is MISSING."""
    if content is not MISSING:
        slot.__set__(value, content)
    elif read_slot(slot, value) is not MISSING:
        slot.__delete__(value)


def _refuse_new(*_: Any) -> Any:
    raise ModelError("an optimizer or schedule is missing; the factory must make the same ones each time")


def _array_fits(array: Any, _: Any, contents: NDArray[Any]) -> bool:
    return bool(array.shape == contents.shape and array.dtype == contents.dtype and array.flags.writeable)


def _as_bytes(value: bytes | bytearray) -> NDArray[np.uint8]:
    return np.array(bytearray(value), np.uint8)


def _tensor_bytes(tensor: Tensor) -> NDArray[Any]:
    plain = tensor.detach().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.empty(0, np.uint8)


def _fill_tensor_bytes(tensor: Tensor, contents: NDArray[Any]) -> None:
    if contents.size:  # torch cannot view an empty block as another dtype
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(contents).view(tensor.dtype).reshape(tensor.shape))


def _tensor_meta(tensor: Tensor) -> list[Any]:
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), str(tensor.device)]


def _new_tensor(meta: Any, contents: NDArray[Any]) -> Tensor:
    dtype, shape, device = getattr(torch, meta[0]), meta[1], meta[2]
    if not contents.size:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(contents.copy()).view(dtype).reshape(shape).to(device)


def _tensor_fits(tensor: Tensor, meta: Any, _: Any) -> bool:
    return list(tensor.shape) == meta[1] and tensor.dtype == getattr(torch, meta[0]) and tensor.is_leaf


@_cached
def class_name(cls: type) -> str:
    """The name by which any process of the run finds a class; a script's module has several names."""
    module = cls.__module__
    return f"{_main_name() if module in _MAIN_NAMES else module}:{cls.__qualname__}"


def find_class(name: str) -> Any:
    """The class of that name, in this process."""
    module, _, cls = name.partition(":")
    return import_named("class", f"__main__:{cls}" if module == _main_name() else name)


def _main_name() -> str:
    """The script's name; with `python -m`, the module's, since other processes import it by that."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "__main__" if spec is None or spec.name in _MAIN_NAMES else str(spec.name)


def _class_of(value: object) -> str | None:
    """The class of a container, unless it is built-in or cannot be imported."""
    cls = type(value)
    return None if cls in _BUILT_IN or "<locals>" in cls.__qualname__ else class_name(cls)


def _new_deque(meta: Any, _: Any) -> deque[Any]:
    cls = deque if meta[0] is None else find_class(meta[0])
    made: deque[Any] = cls.__new__(cls)
    deque.__init__(made, (), meta[1])
    return made


def _new_tuple(meta: Any, contents: list[Any]) -> tuple[Any, ...]:
    return tuple(contents) if meta is None else find_class(meta)._make(contents)


_BUILT_IN = (dict, list, deque, set, tuple)
# fmt: off
_KINDS = (
    ObjectKind(
        "array", "array", np.ndarray, read=np.asarray, fill=np.copyto, new=lambda _, data: data.copy(),
        fits=_array_fits,
    ),
    ObjectKind("number", "array", np.generic, read=np.asarray, new=lambda _, data: data.copy()[()]),
    ObjectKind("bytes", "array", bytes, read=_as_bytes, new=lambda _, data: bytes(data)),
    ObjectKind(
        "bytearray", "array", bytearray, read=_as_bytes,
        fill=lambda value, data: _fill_items(value, bytes(data)), new=lambda _, data: bytearray(data),
    ),
    ObjectKind(
        "tensor", "array", Tensor, read=_tensor_bytes, fill=_fill_tensor_bytes, new=_new_tensor,
        meta=_tensor_meta, fits=_tensor_fits,
    ),
    ObjectKind("constant", "none", _CONSTANTS),
    ObjectKind("module", "module", nn.Module, fill=fill_attributes),
    ObjectKind(
        "optimizer", "state", STATEFUL, read=methodcaller("state_dict"),
        fill=lambda optimizer, state: optimizer.load_state_dict(state), new=_refuse_new,
    ),
    ObjectKind("random", "state", random.Random, read=random.Random.getstate, fill=random.Random.setstate),
    ObjectKind(
        "generator", "state", np.random.Generator, read=attrgetter("bit_generator.state"),
        fill=lambda generator, state: setattr(generator.bit_generator, "state", state),
        new=lambda meta, _: np.random.Generator(getattr(np.random, meta)()),
        meta=lambda generator: type(generator.bit_generator).__name__,
    ),
    ObjectKind(
        "old generator", "state", np.random.RandomState, read=methodcaller("get_state", legacy=False),
        fill=np.random.RandomState.set_state,
    ),
    ObjectKind(
        "torch generator", "state", torch.Generator, read=torch.Generator.get_state,
        fill=torch.Generator.set_state,
    ),
    ObjectKind("dict", "dict", dict, read=dict, fill=fill_dict, meta=_class_of),
    ObjectKind("list", "items", list, read=list, fill=_fill_items, meta=_class_of),
    ObjectKind(
        "deque", "items", deque, read=list, fill=partial(_refill, deque.extend), new=_new_deque,
        meta=lambda items: [_class_of(items), items.maxlen],
    ),
    ObjectKind("set", "items", set, read=list, fill=partial(_refill, set.update), meta=_class_of),
    ObjectKind("tuple", "items", tuple, read=list, new=_new_tuple, meta=_class_of),
    ObjectKind("frozenset", "items", frozenset, read=list, new=lambda _, contents: frozenset(contents)),
    ObjectKind("function", "code", types.FunctionType, read=_read_function),
    ObjectKind("cell", "code", types.CellType, read=_read_cell, fill=_fill_cell),
    ObjectKind("method", "code", types.MethodType, read=lambda method: [method.__self__, method.__func__]),
    ObjectKind("built-in method", "code", types.BuiltinMethodType, read=lambda method: [method.__self__]),
    ObjectKind("partial", "code", partial, read=lambda value: [value.func, value.args, value.keywords]),
    ObjectKind(
        "object", "attributes", object, read=attributes_of, fill=fill_attributes,
        meta=lambda value: class_name(type(value)),
    ),
)
# fmt: on
KINDS = {kind.name: kind for kind in _KINDS}
_BASES = {object, OrderedDict, defaultdict, bytearray} | {
    kind.classes for kind in _KINDS if kind.contents in ("items", "dict", "code")
}


@_cached
def kind_of(cls: type) -> ObjectKind:
    """The kind of a class's objects."""
    return next(kind for kind in _KINDS if issubclass(cls, kind.classes))


@_cached
def is_opaque(cls: type) -> bool:
    """Whether a class's objects hold nothing learned, or cannot be inspected."""
    if issubclass(cls, (types.SimpleNamespace, Namespace)):
        return False
    return cls.__module__.partition(".")[0] in _OPAQUE_PACKAGES or "<locals>" in cls.__qualname__


def is_serialisable(value: Any) -> bool:
    """Whether an object can be described and made again, leaving aside what it refers to."""
    if isinstance(value, (np.ndarray, np.generic)):
        return not value.dtype.hasobject and value.dtype.names is None
    return _is_serialisable_class(type(value)) and value is not torch.default_generator


@_cached
def _is_serialisable_class(cls: type) -> bool:
    kind = kind_of(cls)
    if kind.name == "tuple":
        return cls is tuple or hasattr(cls, "_make")
    if kind.name == "object":
        return not is_opaque(cls)
    return cls in PLAIN or kind.contents not in ("none", "code")


@_cached
def hides_fields(cls: type) -> bool:
    """Whether a class's objects hold more than attributes, slots and the contents of their kind."""
    base = next(part for part in cls.__mro__ if part in _BASES)
    pointers = len(slots_of(cls))
    for offset in ("__dictoffset__", "__weakrefoffset__"):
        pointers += getattr(cls, offset) > 0 and not getattr(base, offset)
    return cls.__basicsize__ != base.__basicsize__ + 8 * pointers


@_cached
def slots_of(cls: type) -> tuple[Any, ...]:
    """The descriptors of a class's `__slots__`."""
    return tuple(
        member
        for part in cls.__mro__
        if "__slots__" in vars(part)
        for member in vars(part).values()
        if isinstance(member, types.MemberDescriptorType)
    )


def walk(root: object, name: str) -> Iterator[tuple[Path, Any, ObjectKind, list[Child]]]:
    """All objects that `root` leads to, each once, depth first, except for plain values.

    Yields an object's path, the object, its kind, and an empty list: the caller adds what to visit next.
    """
    seen: dict[int, object] = {}  # keeps the objects alive, so that no id comes twice
    left: list[tuple[Path, Any]] = [(name, root)]
    while left:
        path, value = left.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            children: list[Child] = []
            yield path, value, kind_of(type(value)), children
            left += [((path, key), key) for key, _ in children if type(key) not in PLAIN]
            left += [((path, key), item) for key, item in children if type(item) not in PLAIN]


def path_text(path: Path) -> str:
    """A path as messages name it.

    >>> path_text((("config", "sizes"), 2))
    'config.sizes[2]'
    """
    if isinstance(path, str):
        return path
    parent, key = path
    return path_text(parent) + (f".{key}" if isinstance(key, str) else f"[{key!r}]")


def children_of(value: Any, kind: ObjectKind) -> Iterator[Child]:
    """The objects that an object refers to: as a container, by its attributes, and by its slots."""
    if kind.contents == "dict":
        yield from dict.items(value)
        yield 0, getattr(value, "default_factory", None)
    elif kind.contents in ("items", "code"):
        yield from enumerate(kind.read(value))
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        yield from attributes.items()
    for index, slot in enumerate(slots_of(type(value))):
        yield index, read_slot(slot, value)
