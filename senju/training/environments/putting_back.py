"""Putting what was written down of an agent into another one that the same factory made."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from senju.errors import ModelError
from senju.models.weights import WeightBlock
from senju.training.environments.block import Block
from senju.training.environments.writing_down import Node, class_name, find_class


def put_into(root: Any, block: Block, filled: set[int] | None = None) -> Any:
    """Put a state into an object of the same kind; return it, or what was written down where it is None.

    The addresses of networks' weights that were written over are added to `filled`.
    """
    tree, arrays = block.unpack()
    return _Reader(arrays, filled if filled is not None else set()).value(tree, root)


class _Reader:
    """Turns nodes into values, in place where there is something of the same kind in that place."""

    def __init__(self, arrays: list[NDArray[Any]], filled: set[int]) -> None:
        self._arrays, self._filled = arrays, filled
        self._made: dict[int, Any] = {}
        self._used: set[int] = set()  # objects that have their state: what shared them then may not now

    def value(self, node: Node, existing: Any) -> Any:
        """What a node describes."""
        if not isinstance(node, list):
            return node
        if node[0] == "as it is":
            return existing
        if node[0] == "again":
            return self._made[node[1]]
        if id(existing) in self._used:
            existing = None
        made = _MAKERS[node[0]](self, node, existing)
        self._used.add(id(made))
        return made

    def _keep(self, number: int, made: Any) -> Any:
        self._made[number] = made
        return made

    def _array(self, node: Node, existing: Any) -> Any:
        array = self._arrays[node[2]]
        is_alike = isinstance(existing, np.ndarray) and existing.shape == array.shape
        if is_alike and existing.dtype == array.dtype and existing.flags.writeable:
            existing[...] = array
            return self._keep(node[1], existing)
        return self._keep(node[1], array.copy())

    def _scalar(self, node: Node, existing: Any) -> Any:
        return self._arrays[node[1]].copy()[()]

    def _tensor(self, node: Node, existing: Any) -> Any:
        _, number, index, kind, shape, device = node
        dtype = getattr(torch, kind)
        data = torch.from_numpy(self._arrays[index].copy())
        tensor = data.view(dtype).reshape(shape) if data.numel() else torch.empty(shape, dtype=dtype)
        is_alike = isinstance(existing, Tensor) and list(existing.shape) == shape
        if is_alike and existing.dtype == dtype and existing.is_leaf:
            with torch.no_grad():
                existing.copy_(tensor)
            return self._keep(number, existing)
        return self._keep(number, tensor.to(device))

    def _module(self, node: Node, existing: Any) -> Any:
        _, numbers, weights, parts = node
        modules = list(existing.modules()) if isinstance(existing, nn.Module) else []
        if len(modules) != len(numbers):
            raise ModelError(
                f"a network of {len(numbers)} modules does not fit {existing!r}; "
                "the factory must make the same networks each time"
            )
        for number, module in zip(numbers, modules, strict=True):
            self._keep(number, module)
            self._used.add(id(module))
        WeightBlock(existing).write(self._arrays[weights])
        self._filled.update(tensor.data_ptr() for tensor in existing.state_dict().values())
        for module, pairs in zip(modules, parts, strict=True):
            self._set_attributes(module, pairs)
        return existing

    def _set_attributes(self, value: Any, pairs: list[Node]) -> None:
        for name, node in pairs:
            if node != ["as it is"]:
                object.__setattr__(value, name, self.value(node, getattr(value, name, None)))

    def _state(self, node: Node, existing: Any) -> Any:
        existing.load_state_dict(self.value(node[2], None))
        return self._keep(node[1], existing)

    def _list(self, node: Node, existing: Any) -> Any:
        before = existing if isinstance(existing, list) else []
        made = self._keep(node[1], before)
        items = self._items(node[2], list(before))
        made[:] = items
        return made

    def _items(self, nodes: list[Node], before: list[Any]) -> list[Any]:
        olds = before + [None] * (len(nodes) - len(before))
        return [self.value(node, old) for node, old in zip(nodes, olds, strict=False)]

    def _tuple(self, node: Node, existing: Any) -> Any:
        return tuple(self._items(node[2], list(existing) if isinstance(existing, tuple) else []))

    def _record(self, node: Node, existing: Any) -> Any:
        cls = find_class(node[1])
        return cls._make(self._items(node[2], list(existing) if isinstance(existing, cls) else []))

    def _set(self, node: Node, existing: Any) -> Any:
        return self._keep(node[1], set(self._items(node[2], [])))

    def _frozenset(self, node: Node, existing: Any) -> Any:
        return frozenset(self._items(node[2], []))

    def _deque(self, node: Node, existing: Any) -> Any:
        before = list(existing) if isinstance(existing, deque) else []
        is_alike = isinstance(existing, deque) and existing.maxlen == node[2]
        made = self._keep(node[1], existing if is_alike else deque(maxlen=node[2]))
        items = self._items(node[3], before)
        made.clear()
        made.extend(items)
        return made

    def _dict(self, node: Node, existing: Any) -> Any:
        _, number, cls, pairs = node
        is_alike = isinstance(existing, dict) and class_name(type(existing)) == cls
        made = self._keep(number, existing if is_alike else _new_mapping(cls))
        before = dict(made)
        made.clear()
        for key_node, node_of_value in pairs:
            key = self.value(key_node, None)
            made[key] = self.value(node_of_value, before.get(key))
        return made

    def _bytes(self, node: Node, existing: Any) -> Any:
        data = bytes.fromhex(node[2])
        return bytearray(data) if node[1] else data

    def _object(self, node: Node, existing: Any) -> Any:
        _, number, name, pairs = node
        if existing is None or class_name(type(existing)) != name:
            cls = find_class(name)
            existing = cls.__new__(cls)
        self._keep(number, existing)
        self._set_attributes(existing, pairs)
        return existing

    def _random(self, node: Node, existing: Any) -> Any:
        made = existing if isinstance(existing, random.Random) else random.Random()
        made.setstate(self.value(node[2], None))
        return self._keep(node[1], made)

    def _numpy_generator(self, node: Node, existing: Any) -> Any:
        state = self.value(node[2], None)
        if not isinstance(existing, np.random.Generator):
            existing = np.random.Generator(getattr(np.random, state["bit_generator"])())
        existing.bit_generator.state = state
        return self._keep(node[1], existing)

    def _old_generator(self, node: Node, existing: Any) -> Any:
        made = existing if isinstance(existing, np.random.RandomState) else np.random.RandomState()
        made.set_state(self.value(node[2], None))
        return self._keep(node[1], made)

    def _torch_generator(self, node: Node, existing: Any) -> Any:
        made = existing if isinstance(existing, torch.Generator) else torch.Generator()
        made.set_state(torch.from_numpy(self._arrays[node[2]].copy()))
        return self._keep(node[1], made)


def _new_mapping(name: str) -> Any:
    cls = find_class(name)
    return cls() if issubclass(cls, dict) else {}


_MAKERS: dict[str, Callable[[_Reader, Node, Any], Any]] = {
    "array": _Reader._array,
    "number": _Reader._scalar,
    "tensor": _Reader._tensor,
    "module": _Reader._module,
    "state": _Reader._state,
    "list": _Reader._list,
    "tuple": _Reader._tuple,
    "record": _Reader._record,
    "set": _Reader._set,
    "frozenset": _Reader._frozenset,
    "deque": _Reader._deque,
    "dict": _Reader._dict,
    "bytes": _Reader._bytes,
    "object": _Reader._object,
    "random": _Reader._random,
    "generator": _Reader._numpy_generator,
    "old generator": _Reader._old_generator,
    "torch generator": _Reader._torch_generator,
}
