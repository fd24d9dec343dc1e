"""A snapshot of a world as the factory made it: a played world is restored instead of making another.

The objects stay the same; their contents are restored. A world that holds an object that cannot be restored,
such as an open file, is not reused; the snapshot names that object.
"""

import types
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from senju.environments.objects import (
    GENERATORS,
    Child,
    ObjectKind,
    Path,
    children_of,
    fill_dict,
    fill_slot,
    hides_fields,
    path_text,
    read_slot,
    slots_of,
    walk,
)

_OURS = "senju.environments."
_PAGE = 4096  # bytes
_LARGE = 2**16  # bytes of an array; from here on, only changed pages are written
_Fill = Callable[[Any, Any], object]


class WorldSnapshot:
    """All that `root` refers to. First `take` the contents; then `restore` them as often as needed."""

    def __init__(self, root: object) -> None:
        self.obstacle: str | None = None  # an object that cannot be restored: its class and path
        self.num_bytes = 0  # of arrays and tensors
        self.generators: list[Any] = []  # in an order that depends on the factory alone
        self._found: list[tuple[_Fill, Any, Callable[[Any], Any]]] = []
        self._contents: list[tuple[_Fill, Any, Any]] = []
        self._weights: list[tuple[Tensor, Tensor]] = []  # each with its copy
        self._arrays: list[tuple[Any, Any]] = []  # each with its copy
        for path, value, kind, children in walk(root, "world"):
            children.extend(self._visit(path, value, kind))

    def _visit(self, path: Path, value: Any, kind: ObjectKind) -> Iterable[Child]:
        """Note what can change in an object; return what it refers to."""
        if (kind.fill is None and kind.contents in ("none", "array")) or _is_ours(value):
            return ()
        if isinstance(value, GENERATORS):
            if value is not torch.default_generator:
                self.generators.append(value)
            return ()
        if kind.name == "array" and _is_plain_array(value):
            return self._visit_array(value)
        if kind.name == "tensor" and _is_plain_tensor(value):
            return self._visit_tensor(value)
        if kind.name not in ("array", "tensor") and not hides_fields(type(value)):
            return self._visit_object(value, kind)
        self.obstacle = f"{type(value).__qualname__} at {path_text(path)}"
        return ()

    def _visit_array(self, array: Any) -> Iterable[Child]:
        if not array.flags.writeable:
            return [("base", array.base)] if isinstance(array.base, np.ndarray) else ()
        self.num_bytes += array.nbytes
        self._found.append((_restore_array, array, _copy_array))
        return enumerate(array.ravel().tolist()) if array.dtype == object else ()

    def _visit_tensor(self, tensor: Tensor) -> Iterable[Child]:
        self.num_bytes += tensor.nbytes
        fill = _restore_all_but_data if type(tensor) is nn.Parameter else _restore_tensor
        self._found.append((fill, tensor, _copy_tensor))
        return [("grad", tensor.grad)]

    def _visit_object(self, value: Any, kind: ObjectKind) -> Iterable[Child]:
        if kind.fill is not None and kind.contents in ("array", "items", "dict", "code"):
            self._found.append((kind.fill, value, kind.read))
        if type(getattr(value, "__dict__", None)) is dict:
            self._found.append((_restore_attributes, value, _copy_attributes))
        for slot in slots_of(type(value)):
            self._found.append((partial(fill_slot, slot), value, partial(read_slot, slot)))
        return children_of(value, kind)

    def take(self) -> None:
        """Copy everything as it is now."""
        self._contents = [(fill, value, read(value)) for fill, value, read in self._found]
        self._weights = [copy[:2] for fill, _, copy in self._contents if fill is _restore_all_but_data]
        self._arrays = [(array, copy) for fill, array, copy in self._contents if fill is _restore_array]

    def restore(self) -> bool:
        """Restore all but weights; False: an array has another shape, so the world cannot be used again."""
        if any(value.shape != copy.shape or value.dtype != copy.dtype for value, copy in self._arrays):
            return False
        for fill, value, content in self._contents:
            fill(value, content)
        return True

    def restore_weights(self, filled: Container[int]) -> None:
        """Restore the weights, except for those at the addresses in `filled`."""
        for place, data in self._weights:
            if place.data_ptr() not in filled:
                place.copy_(data)


def _is_ours(value: object) -> bool:
    """Whether senju put it there, to record what agents remember and do."""
    owner = value if isinstance(value, types.FunctionType) else type(value)
    return str(owner.__module__).startswith(_OURS)


def _is_plain_array(array: Any) -> bool:
    return type(array) is np.ndarray and (array.dtype == object or not array.dtype.hasobject)


def _is_plain_tensor(tensor: Tensor) -> bool:
    is_plain = type(tensor) in (Tensor, nn.Parameter) and tensor.layout is torch.strided
    return is_plain and all(step or size < 2 for step, size in zip(*_layout(tensor), strict=True))


def _layout(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tensor.stride(), tuple(tensor.shape)


def _copy_attributes(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return value.__dict__, dict(value.__dict__)


def _restore_attributes(value: Any, content: tuple[dict[str, Any], dict[str, Any]]) -> None:
    attributes, before = content
    if value.__dict__ is not attributes:
        value.__dict__ = attributes
    fill_dict(attributes, before)


def _copy_array(array: Any) -> Any:
    """A copy; of a large array of zeros, as replay memories are at first, only its shape."""
    is_zero = array.nbytes > _LARGE and array.flags.c_contiguous and not array.dtype.hasobject
    is_zero = is_zero and not array.reshape(-1).view(np.uint8).any()
    return np.broadcast_to(np.zeros((), array.dtype), array.shape) if is_zero else array.copy()


def _restore_array(array: Any, content: Any) -> None:
    if content.flags.writeable:
        array[...] = content
        return
    data = array.reshape(-1).view(np.uint8)
    # to zeros: only changed pages are written, since reading is faster
    pages = data[: len(data) // _PAGE * _PAGE].reshape(-1, _PAGE)
    pages[pages.max(axis=1) > 0] = 0
    data[pages.size :] = 0


def _copy_tensor(tensor: Tensor) -> tuple[Tensor, Tensor, bool, Tensor | None]:
    return tensor.data, tensor.data.clone(), tensor.requires_grad, tensor.grad


def _restore_all_but_data(tensor: Tensor, content: tuple[Tensor, Tensor, bool, Tensor | None]) -> None:
    place, _, requires_grad, grad = content
    if tensor.data_ptr() != place.data_ptr() or _layout(tensor) != _layout(place):
        tensor.data = place
    if tensor.requires_grad != requires_grad:
        tensor.requires_grad_(requires_grad)
    if tensor.is_leaf:
        tensor.grad = grad


def _restore_tensor(tensor: Tensor, content: tuple[Tensor, Tensor, bool, Tensor | None]) -> None:
    _restore_all_but_data(tensor, content)
    content[0].copy_(content[1])
