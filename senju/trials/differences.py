"""The first byte in which two results differ, and what it belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from senju.collect.shard import ShardState
from senju.collect.slots import Rollout
from senju.models.weights import Weights

# The arrays of a slot in the order in which a step fills them, so that the cause comes before its effects.
STEP_ORDER: tuple[str, ...] = ("observation", "legal", "seated", "seats", "values", "actions", "explored")
STEP_ORDER += ("log_probs", "rewards", "terminated", "truncated", "bootstrap", "final_at")
FINAL_ORDER = ("final_seats", "final_observation", "final_legal")  # by final position, not by time


@dataclass(frozen=True)
class Difference:
    """The first place where two results differ, and both values."""

    array: str  # with the field of a record: `clock.step`, `states.board[3]`, `weights trunk.0.bias`
    index: tuple[int, ...]  # [time, row, …] in rollouts, [row] in states and clocks
    byte: int | None  # from the array's beginning; None where shapes or plain numbers differ
    expected: str
    found: str
    shard: int | None = None  # None for weights

    @property
    def place(self) -> str:
        """The array with its index.

        >>> Difference("actions", (3, 0, 0), 24, "1", "2").place
        'actions[3, 0, 0]'
        """
        return f"{self.array}[{', '.join(map(str, self.index))}]" if self.index else self.array


def first_difference(array: str, expected: NDArray[Any], found: NDArray[Any]) -> Difference | None:
    """Compare two arrays byte for byte.

    >>> first_difference("row", np.array([1, 2], np.int16), np.array([1, 258], np.int16))
    Difference(array='row', index=(1,), byte=3, expected='2', found='258', shard=None)
    """
    if (expected.shape, expected.dtype) != (found.shape, found.dtype):
        return Difference(array, (), None, _kind(expected), _kind(found))
    one, other = _as_bytes(expected), _as_bytes(found)
    if np.array_equal(one, other):
        return None
    byte = int(np.argmax(one != other))
    item, inside = divmod(byte, expected.dtype.itemsize)
    index = tuple(int(i) for i in np.unravel_index(item, expected.shape))
    field, dtype, start = _field_at(expected.dtype, inside)
    begin = item * expected.dtype.itemsize + start
    values = [block[begin : begin + dtype.itemsize] for block in (one, other)]
    texts = [str(value.view(dtype)[0]) for value in values]
    if texts[0] == texts[1]:  # two kinds of NaN
        texts = [f"{text} ({value.tobytes().hex()})" for text, value in zip(texts, values, strict=True)]
    return Difference(array + field, index, byte, texts[0], texts[1])


def _kind(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _field_at(dtype: "np.dtype[Any]", byte: int) -> "tuple[str, np.dtype[Any], int]":
    """Name, dtype and start of the plain value that a byte of a record belongs to."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        item, inside = divmod(byte, base.itemsize)
        index = ", ".join(str(int(i)) for i in np.unravel_index(item, shape))
        name, plain, start = _field_at(base, inside)
        return f"[{index}]{name}", plain, item * base.itemsize + start
    for field, (inner, offset, *_) in (dtype.fields or {}).items():
        if offset <= byte < offset + inner.itemsize:
            name, plain, start = _field_at(inner, byte - offset)
            return f".{field}{name}", plain, offset + start
    return "", dtype, 0


def compare_rollouts(expected: Sequence[Rollout], found: Sequence[Rollout]) -> Difference | None:
    """The first difference in the first shard that has any: the earliest step counts."""
    shards = [rollout.shard for rollout in expected], [rollout.shard for rollout in found]
    if shards[0] != shards[1]:
        return Difference("shards", (), None, str(shards[0]), str(shards[1]))
    for one, other in zip(expected, found, strict=True):
        if difference := _compare_rollout(one, other):
            return replace(difference, shard=one.shard)
    return None


def _compare_rollout(expected: Rollout, found: Rollout) -> Difference | None:
    if expected.version != found.version:
        return Difference("version", (), None, str(expected.version), str(found.version))
    if clock := first_difference("clock", expected.clock, found.clock):
        return clock
    steps, finals = (_differences(expected.data, found.data, names) for names in (STEP_ORDER, FINAL_ORDER))
    return min(steps or finals, key=lambda difference: difference.index[:1], default=None)


def _differences(expected: object, found: object, names: Sequence[str]) -> list[Difference]:
    """The first difference in each of these arrays that has any."""
    pairs = ((name, getattr(expected, name), getattr(found, name)) for name in names)
    return [difference for pair in pairs if (difference := first_difference(*pair))]


def compare_states(expected: Sequence[ShardState], found: Sequence[ShardState]) -> Difference | None:
    """The first difference between two snapshots."""
    if len(expected) != len(found):
        return Difference("shards", (), None, str(len(expected)), str(len(found)))
    for shard, (one, other) in enumerate(zip(expected, found, strict=True)):
        for difference in _differences(one, other, ShardState._fields):
            return replace(difference, shard=shard)
    return None


def compare_weights(
    expected: Weights, found: Weights, tensors: Mapping[str, Tensor] | None = None
) -> Difference | None:
    """The first difference of two blocks; `tensors` are those of the model, in the blocks' order."""
    tensors = tensors or {}
    if expected.nbytes == found.nbytes == sum(tensor.nbytes for tensor in tensors.values()):
        start = 0
        for name, tensor in tensors.items():
            end = start + tensor.nbytes
            one, other = (_like(tensor, block[start:end]) for block in (expected, found))
            if difference := first_difference(f"weights {name}", one, other):
                return difference
            start = end
    return first_difference("weights", expected, found)


def _like(tensor: Tensor, block: Weights) -> NDArray[Any]:
    """A tensor's bytes as an array; as bytes where NumPy lacks its dtype, as for bfloat16."""
    name = str(tensor.dtype).removeprefix("torch.")
    return block.view(name).reshape(tensor.shape) if name in np.sctypeDict else block
