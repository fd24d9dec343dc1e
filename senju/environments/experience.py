"""One agent's experience of one episode: the arguments of its `add_memory`, turn by turn.

Copies of the world record it, and learners get it through a file in shared memory.
"""

import inspect
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.environments.contract import signature_of
from senju.errors import ConfigError
from senju.workers.block import Block
from senju.workers.shared_memory import open_anonymous

_NUMERIC = "biufc"
_CONTAINERS = ("tuple", "list", "dict")
_SLOT_BYTES = 2**36  # of the sparse file; only written pages take memory
Region = tuple[int, int]  # offset and size of a block in the file of experience
Changes = dict[str, float]  # by attribute: the growth of a whole number, or another number's new value
Shape = Any  # a value's structure: its kind, and its parts or the shape of its array
_Copy = Callable[[Any], NDArray[Any]]
# Of arguments that are no containers: the class of each, and (index, shape, dtype, copy) of each array.
_FlatSignature = tuple[tuple[type, ...], list[tuple[int, Any, Any, _Copy]]]


class Recorder:
    """Replaces an agent's `add_memory`: records the arguments and passes them on."""

    def __init__(self, add_memory: Callable[..., Any], who: str) -> None:
        self._add_memory, self._who = add_memory, who
        self._signature = signature_of(add_memory)
        self._names = _plain_names(self._signature)
        self._reward_at = self._names.index("reward") if "reward" in self._names else None
        self.begin()

    def begin(self) -> None:
        """Begin a new episode."""
        self._shape: Shape = None
        self._leaves: list[list[Any]] = []
        self._flat: _FlatSignature | None = None
        self._rows: list[list[Any]] = []  # flat arguments, not in `_leaves` yet; one row for each turn
        self.reward = 0.0  # of the turns in `_leaves`
        self.turn = 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Record a call, and pass it on."""
        flat = self._flat
        if flat is None or named or tuple(map(type, given)) != flat[0]:
            self._take(self._bound(given, named))
            return self._add_memory(*given, **named)
        row = list(given)
        for index, shape, dtype, copy in flat[1]:
            value = given[index]
            if value.shape != shape or value.dtype != dtype:
                self._take(self._bound(given, named))
                break
            row[index] = copy(value)
        else:
            self._rows.append(row)
        return self._add_memory(*given)

    def _bound(self, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if not named and len(given) == len(self._names):
            return dict(zip(self._names, given, strict=True))
        if self._signature is None:
            return {str(number): value for number, value in enumerate(given)} | named
        bound = self._signature.bind(*given, **named)
        return dict(bound.arguments)

    def _take(self, arguments: dict[str, Any]) -> None:
        leaves: list[NDArray[Any]] = []
        shape = [[name, self._split(name, value, leaves)] for name, value in arguments.items()]
        if self._shape is None:
            self._shape, self._leaves = shape, [[] for _ in leaves]
            is_flat = tuple(arguments) == self._names
            self._flat = _flat_signature(tuple(arguments.values())) if is_flat else None
        if shape != self._shape:
            raise ConfigError(
                f"{self._who} called add_memory with {_text(shape)} in turn {self.turn}, and "
                f"{_text(self._shape)} before; expected the same kinds and shapes every turn"
            )
        self._put_rows()
        for column, leaf in zip(self._leaves, leaves, strict=True):
            column.append(leaf)
        if "reward" in arguments:
            self.reward += float(arguments["reward"])

    def _put_rows(self) -> None:
        if self._reward_at is not None:
            self.reward += sum(float(row[self._reward_at]) for row in self._rows)
        for column, leaves in zip(self._leaves, zip(*self._rows, strict=True), strict=False):
            column.extend(leaves)
        self._rows = []

    def _split(self, name: str, value: Any, leaves: list[NDArray[Any]]) -> Shape:
        """Add a value's arrays to `leaves`; return its structure."""
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return [kind, [self._split(name, item, leaves) for item in value]]
        if isinstance(value, dict):
            return ["dict", [[key, self._split(name, item, leaves)] for key, item in value.items()]]
        is_tensor = isinstance(value, torch.Tensor)
        array = _array_of(value) if is_tensor else np.asarray(value)
        if array.dtype.kind not in _NUMERIC:
            raise ConfigError(
                f"{self._who} called add_memory with {name}={value!r} in turn {self.turn}; expected numbers, "
                "arrays or tensors, or tuples, lists and dictionaries of them"
            )
        is_array = isinstance(value, np.ndarray)
        leaves.append(array.copy() if is_array else array)
        return ["tensor" if is_tensor else "array" if is_array else "number", list(array.shape)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded."""
        return self._shape is None

    def packed(self, changes: Changes) -> Block:
        """The episode so far, and what acting changed in the agent's numbers."""
        self._put_rows()
        columns = [np.array(column) for column in self._leaves]
        if any(column.dtype.kind not in _NUMERIC for column in columns):
            raise ConfigError(f"{self._who} called add_memory with numbers that are too large for 64 bits")
        return Block.pack([self._shape, changes], columns)


def _flat_signature(given: tuple[Any, ...]) -> _FlatSignature | None:
    """The classes, shapes and dtypes of arguments; None if they hold containers or other objects."""
    arrays: list[tuple[int, Any, Any, _Copy]] = []
    for index, value in enumerate(given):
        cls = type(value)
        if cls is np.ndarray or cls is torch.Tensor:
            copy = np.ndarray.copy if cls is np.ndarray else _array_of
            arrays.append((index, value.shape, value.dtype, copy))
        elif cls not in (int, float, bool) and not issubclass(cls, (np.number, np.bool_)):
            return None
    return tuple(map(type, given)), arrays


def _array_of(tensor: torch.Tensor) -> NDArray[Any]:
    return np.array(tensor.detach().cpu().numpy())


def remember(add_memory: Callable[..., Any], block: Block) -> Changes:
    """Call `add_memory` with an episode's recorded arguments, turn by turn.

    Returns what acting changed in the agent's numbers.
    """
    signature = signature_of(add_memory)
    (shape, changes), columns = block.unpack()
    leaves, num_turns = iter(columns), len(columns[0]) if columns else 0
    arguments = {name: _values(part, leaves, num_turns) for name, part in shape or ()}
    is_plain = tuple(arguments) == _plain_names(signature)
    for values in zip(*arguments.values(), strict=True):
        if signature is None or is_plain:
            add_memory(*values)
        else:
            bound = inspect.BoundArguments(signature, OrderedDict(zip(arguments, values, strict=True)))
            add_memory(*bound.args, **bound.kwargs)
    return changes  # type: ignore[no-any-return]  # JSON has no types


def _plain_names(signature: inspect.Signature | None) -> tuple[str, ...]:
    """The parameters' names if all can be passed by position, otherwise none."""
    parameters = signature.parameters.values() if signature is not None else ()
    is_plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    return tuple(parameter.name for parameter in parameters) if is_plain else ()


def _values(shape: Shape, leaves: Iterator[NDArray[Any]], num_turns: int) -> list[Any]:
    """An argument's values, turn by turn, rebuilt from its arrays."""
    kind, inner = shape
    if kind in _CONTAINERS:
        parts = [_values(part[1] if kind == "dict" else part, leaves, num_turns) for part in inner]
        rows = list(zip(*parts, strict=True)) if parts else [()] * num_turns
        if kind == "dict":
            keys = [key for key, _ in inner]
            return [dict(zip(keys, row, strict=True)) for row in rows]
        return rows if kind == "tuple" else list(map(list, rows))
    column = next(leaves)
    if kind == "number":
        return column.tolist()  # type: ignore[no-any-return]
    return [torch.from_numpy(np.asarray(leaf)) for leaf in column] if kind == "tensor" else list(column)


def _text(shape: Shape) -> str:
    parts = (
        (name, kind, len(inner) if kind in _CONTAINERS else tuple(inner)) for name, (kind, inner) in shape
    )
    return ", ".join(f"{name} as {kind} of shape {size}" for name, kind, size in parts)


class ExperienceFile:
    """Shared memory where workers write experience and learners read it; it does not pass through the parent.

    An episode gets a slot. When nothing refers to the slot any more, another episode gets it.
    """

    def __init__(self) -> None:
        self.descriptor = open_anonymous(0)
        self._free: list[int] = []
        self._unused = count()

    def new_slot(self) -> "ExperienceSlot":
        """A slot that is not in use."""
        index = self._free.pop() if self._free else next(self._unused)
        slot = ExperienceSlot(index * _SLOT_BYTES)
        weakref.finalize(slot, self._free.append, index)
        return slot

    def close(self) -> None:
        """Free the memory."""
        os.close(self.descriptor)


@dataclass(eq=False)
class ExperienceSlot:
    """A region of the file, in use as long as this object exists."""

    start: int


def write_block(descriptor: int, block: Block, offset: int) -> Region:
    """Write a block to the file of experience."""
    data, done = block.as_array().data, 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)
    return offset, len(data)


def read_block(descriptor: int, offset: int, size: int) -> Block:
    """Read a block of the file of experience."""
    data, done = bytearray(size), 0
    while done < size:
        done += os.preadv(descriptor, [memoryview(data)[done:]], offset + done)
    return Block(data)
