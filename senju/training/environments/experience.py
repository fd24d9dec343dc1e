"""What one agent is to remember of one episode: the arguments of its `add_memory`, turn by turn."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.training.environments.block import Block

_NUMERIC = "biufc"
Changes = dict[str, float]  # by attribute: how much a count grew, or what another number is now
Shape = Any  # how a value is built of leaves: a kind, or a list that begins with one


class Recorder:
    """Stands in for an agent's `add_memory`: writes the arguments down and passes them on."""

    def __init__(self, add_memory: Callable[..., Any], who: str) -> None:
        self._add_memory, self._who = add_memory, who
        self._signature = _signature(add_memory)
        self._names = _plain_names(self._signature)
        self.begin()

    def begin(self) -> None:
        """A new episode."""
        self._shape: Shape = None
        self._leaves: list[list[Any]] = []
        self._usual: dict[
            str, Any
        ] = {}  # by argument, where none is built of others: what each is every turn
        self.reward = 0.0
        self.turn = 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Remember something, as the agent does."""
        arguments = self._bound(given, named)
        self._take(arguments)
        if "reward" in arguments:
            self.reward += float(arguments["reward"])
        return self._add_memory(*given, **named)

    def _bound(self, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if not named and len(given) == len(self._names):  # as almost everybody calls it
            return dict(zip(self._names, given, strict=True))
        if self._signature is None:
            return {str(number): value for number, value in enumerate(given)} | named
        bound = self._signature.bind(*given, **named)
        return dict(bound.arguments)

    def _take(self, arguments: dict[str, Any]) -> None:
        kinds = {name: _kind(value) for name, value in arguments.items()}
        if self._usual == kinds:
            for column, value in zip(self._leaves, arguments.values(), strict=True):
                column.append(value.copy() if isinstance(value, np.ndarray) else value)
            return
        leaves: list[NDArray[Any]] = []
        shape = [[name, self._split(name, value, leaves)] for name, value in arguments.items()]
        if self._shape is None:
            self._shape, self._leaves = shape, [[] for _ in leaves]
            self._usual = {} if None in kinds.values() else kinds
        if shape != self._shape:
            raise ConfigError(
                f"{self._who} remembers {_text(shape)} in turn {self.turn}, and {_text(self._shape)} before; "
                "expected the same kinds and shapes every turn"
            )
        for column, leaf in zip(self._leaves, leaves, strict=True):
            column.append(leaf)

    def _split(self, name: str, value: Any, leaves: list[NDArray[Any]]) -> Shape:
        """Add a value's leaves; say how it is built of them."""
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return [kind, [self._split(name, item, leaves) for item in value]]
        if isinstance(value, dict):
            return ["dict", [[key, self._split(name, item, leaves)] for key, item in value.items()]]
        is_tensor = isinstance(value, torch.Tensor)
        array = value.detach().cpu().numpy() if is_tensor else np.asarray(value)
        if array.dtype.kind not in _NUMERIC:
            raise ConfigError(
                f"{self._who} remembers {name}={value!r} in turn {self.turn}; expected numbers, arrays or "
                "tensors, or tuples, lists and dictionaries of them"
            )
        is_array = is_tensor or isinstance(value, np.ndarray)
        leaves.append(array.copy() if is_array else array)  # the world may write into it in the next turn
        return ["tensor" if is_tensor else "array" if is_array else "number", list(array.shape)]

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to remember."""
        return self._shape is None

    def packed(self, changes: Changes) -> Block:
        """The episode so far, and what acting changed in the agent's numbers."""
        columns = [np.array(column) for column in self._leaves]
        if any(column.dtype.kind not in _NUMERIC for column in columns):
            raise ConfigError(f"{self._who} remembers numbers that are too large for 64 bits")
        return Block.pack([self._shape, changes], columns)


def _kind(value: Any) -> Any:
    """What two values have in common that lie in one column; None where that takes a closer look."""
    cls = type(value)
    if cls is np.ndarray:
        return value.shape, value.dtype
    return cls if cls in (int, float, bool) else None


def changes_in(block: Block) -> Changes:
    """What acting changed in the agent's numbers."""
    changes: Changes = block.unpack()[0][1]
    return changes


def remember(add_memory: Callable[..., Any], block: Block) -> None:
    """Give an episode to `add_memory`, turn by turn, with the arguments that it had there."""
    signature = _signature(add_memory)
    names = dict.fromkeys(_plain_names(signature)).keys()
    (shape, _), columns = block.unpack()
    columns = [column.copy() for column in columns]  # an agent may keep what it is given
    for turn in range(len(columns[0]) if columns else 0):
        leaves = iter(columns)
        arguments = {name: _joined(part, leaves, turn) for name, part in shape}
        if signature is None or arguments.keys() == names:
            add_memory(*arguments.values())
        else:
            bound = inspect.BoundArguments(signature, OrderedDict(arguments))
            add_memory(*bound.args, **bound.kwargs)


def _plain_names(signature: inspect.Signature | None) -> tuple[str, ...]:
    """The parameters' names, where all of them can be given by their place."""
    parameters = signature.parameters.values() if signature is not None else ()
    is_plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    return tuple(parameter.name for parameter in parameters) if is_plain else ()


def _signature(method: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(method)
    except (TypeError, ValueError):  # written in C
        return None


def _joined(shape: Shape, leaves: Iterator[NDArray[Any]], turn: int) -> Any:
    kind, inner = shape
    if kind == "tuple":
        return tuple(_joined(part, leaves, turn) for part in inner)
    if kind == "list":
        return [_joined(part, leaves, turn) for part in inner]
    if kind == "dict":
        return {key: _joined(part, leaves, turn) for key, part in inner}
    leaf = next(leaves)[turn]
    if kind == "tensor":
        return torch.from_numpy(np.asarray(leaf))
    return leaf if kind == "array" else leaf.item()


def _text(shape: Shape) -> str:
    return ", ".join(f"{name} as {_kinds(part)}" for name, part in shape)


def _kinds(shape: Shape) -> str:
    kind, inner = shape
    if kind == "number":
        return "a number"
    if kind in ("array", "tensor"):
        return f"{kind} of shape {tuple(inner)}"
    return f"{kind} of {len(inner)}"
