"""What an agent has learned, found by walking through its attributes; no pickle, and no change to the agent.

Networks, optimizers, memories, numbers, arrays, lists, dictionaries, generators and plain objects are
written down and put into another agent that the same factory made. What else an agent refers to
(functions, locks, devices, paths) stays as the factory made it.
"""

import random
import sys
import types
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from senju.models.weights import WeightBlock
from senju.registry import import_named
from senju.training.environments.block import Block

Node = Any  # a plain value, or a list that begins with the kind of what it describes
_PLAIN = (type(None), bool, int, float, str)
_TORCH_OWN = set(vars(nn.Module()))  # attributes of every module, which are torch's business
HAVE_STATE = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)
_OPAQUE_HOMES = frozenset(sys.stdlib_module_names) | {"builtins", "torch", "numpy", "omegaconf"}
_MAIN_NAMES = ("__main__", "__mp_main__")  # here, and in a process that imported the script
_PLAIN_OBJECTS = (types.SimpleNamespace, Namespace)


def write_down(root: object, leave_out: Callable[[object], bool] = lambda value: False) -> Block:
    """The state of an object and of all it refers to, but for what is to be left out."""
    writer = _Writer(leave_out)
    return Block.pack(writer.node(root), writer.arrays)


def attributes(value: object) -> Iterator[tuple[str, Any]]:
    """The attributes an object itself has, by `__dict__` or by slots."""
    yield from list(getattr(value, "__dict__", {}).items())
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                yield slot, getattr(value, slot)


def own_attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """The attributes that a module's author gave it, besides parameters, buffers and modules."""
    for name, value in attributes(module):
        if name not in _TORCH_OWN or name == "training":
            yield name, value


class _Writer:
    """Turns objects into nodes; an object that comes again is referred to by its number."""

    def __init__(self, leave_out: Callable[[object], bool]) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._leave_out = leave_out
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []  # so that no number of an object is given again

    def node(self, value: Any) -> Node:
        """What describes a value."""
        if type(value) in _PLAIN:
            return value
        if self._leave_out(value):
            return ["as it is"]
        if id(value) in self._numbers:
            return ["again", self._numbers[id(value)]]
        return self._described(value)

    def _number(self, value: object) -> int:
        self._alive.append(value)
        return self._numbers.setdefault(id(value), len(self._numbers))

    def _array(self, array: NDArray[Any]) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _pairs(self, items: Any) -> list[Node]:
        return [[self.node(key), self.node(value)] for key, value in items]

    def _described(self, value: Any) -> Node:
        if isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.names is None:
            return ["array", self._number(value), self._array(value)]
        if isinstance(value, np.generic) and value.dtype.names is None:
            return ["number", self._array(np.asarray(value))]
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, HAVE_STATE):
            return ["state", self._number(value), self.node(value.state_dict())]
        if isinstance(value, (list, tuple, set, frozenset, deque, dict, bytes, bytearray)):
            return self._container(value)
        return self._generator(value) or self._object(value)

    def _tensor(self, tensor: Tensor) -> Node:
        number, plain = self._number(tensor), tensor.detach().cpu().contiguous()
        data = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.empty(0, np.uint8)
        kind = str(tensor.dtype).removeprefix("torch.")
        return ["tensor", number, self._array(data), kind, list(tensor.shape), str(tensor.device)]

    def _module(self, module: nn.Module) -> Node:
        modules = list(module.modules())
        numbers = [self._number(part) for part in modules]  # before anything can refer to them
        weights = self._array(WeightBlock(module).read())
        parts = [self._pairs(own_attributes(part)) for part in modules]
        return ["module", numbers, weights, parts]

    def _container(self, value: Any) -> Node:
        cls = type(value)
        if isinstance(value, (bytes, bytearray)):
            return ["bytes", cls is bytearray, value.hex()]
        if isinstance(value, dict):
            return ["dict", self._number(value), class_name(cls), self._pairs(value.items())]
        number = self._number(value) if isinstance(value, (list, set, deque)) else -1
        items = [self.node(item) for item in value]
        if isinstance(value, deque):
            return ["deque", number, value.maxlen, items]
        kinds: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
        if cls in kinds:
            return [kinds[cls], number, items]
        is_record = isinstance(value, tuple) and hasattr(cls, "_make")
        return ["record", class_name(cls), items] if is_record else ["as it is"]

    def _generator(self, value: Any) -> Node:
        if isinstance(value, random.Random):
            return ["random", self._number(value), self.node(value.getstate())]
        if isinstance(value, np.random.Generator):
            return ["generator", self._number(value), self.node(value.bit_generator.state)]
        if isinstance(value, np.random.RandomState):
            return ["old generator", self._number(value), self.node(value.get_state(legacy=False))]
        if isinstance(value, torch.Generator) and value is not torch.default_generator:
            return ["torch generator", self._number(value), self._array(value.get_state().numpy())]
        return None

    def _object(self, value: object) -> Node:
        if is_opaque(value):
            return ["as it is"]
        return ["object", self._number(value), class_name(type(value)), self._pairs(attributes(value))]


def is_opaque(value: object) -> bool:
    """Whether it holds nothing that is learned, or nothing that could be looked into."""
    if isinstance(value, _PLAIN_OBJECTS):
        return False
    cls = type(value)
    return (
        isinstance(value, (type, Enum, PurePath, types.FunctionType, types.ModuleType))
        or cls.__module__.partition(".")[0] in _OPAQUE_HOMES
        or "<locals>" in cls.__qualname__
    )


def class_name(cls: type) -> str:
    """How any process of the run finds a class again: what a script defines, each has under another name."""
    module = cls.__module__
    return f"{_main_name() if module in _MAIN_NAMES else module}:{cls.__qualname__}"


def find_class(name: str) -> Any:
    """The class of that name, in this process."""
    module, _, cls = name.partition(":")
    return import_named("class", f"__main__:{cls}" if module == _main_name() else name)


def _main_name() -> str:
    """The script's name; a module's own where Python was started with -m, since others import it by that."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "__main__" if spec is None or spec.name in _MAIN_NAMES else str(spec.name)
