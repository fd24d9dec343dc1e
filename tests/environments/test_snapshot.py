"""A world that has been played is restored to its state from the factory, object by object."""

import itertools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from senju.environments.serialise import serialise
from senju.environments.snapshot import WorldSnapshot
from tests.environments.things import Holder, Slotted


def counting() -> Any:
    count = 0

    def increase() -> int:
        nonlocal count
        count += 1
        return count

    return increase


def grow(value: dict[Any, Any]) -> None:
    value["new"] = value.pop("old", 0)


def let_go(value: Any) -> None:
    del value.more


CHANGES: dict[str, tuple[Any, Any]] = {  # what the factory made, and what playing does to it
    "list": ([1, [2]], lambda value: value[1].append(3)),
    "dict": ({"old": 1, "b": 2}, grow),
    "ordered": (OrderedDict(old=1, b=2), grow),
    "default": (defaultdict(list, old=[1]), lambda value: value["other"].append(2)),
    "counter": (Counter("aab"), lambda value: value.update("c")),
    "deque": (deque([1], maxlen=2), lambda value: value.extend([2, 3])),
    "set": ({1, 2}, lambda value: value.add(5)),
    "bytes": (bytearray(b"ab"), lambda value: value.extend(b"c")),
    "array": (np.arange(3), lambda value: value.fill(7)),
    "large array of zeros": (np.zeros((300, 101)), lambda value: value.__setitem__((slice(5), 3), 1)),
    "tensor": (torch.arange(3), lambda value: value.zero_()),
    "tuple": ((1, [2]), lambda value: value[1].clear()),
    "slots": (Slotted(1, [2]), lambda value: value.more.append(3)),
    "slot without a value": (Slotted(1, [2]), let_go),
    "attributes": (Holder(a=1, b=Holder(c=[2])), lambda value: value.__dict__.update(a=2, d=3, b=None)),
    "namespace": (types.SimpleNamespace(a=[1]), lambda value: value.a.append(2)),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_contents_come_back_in_the_same_objects(kind: str) -> None:
    value, change = CHANGES[kind]
    holder = Holder(value=value)
    before = bytes(serialise(holder).as_array())
    snapshot = WorldSnapshot(holder)
    snapshot.take()
    for _ in range(2):
        change(value)
        assert bytes(serialise(holder).as_array()) != before
        holder.value = None  # type: ignore[attr-defined]
        assert snapshot.restore()
        assert holder.value is value  # type: ignore[attr-defined]
        assert bytes(serialise(holder).as_array()) == before
    assert snapshot.obstacle is None


def test_arrays_of_objects_come_back_with_what_the_objects_hold() -> None:
    array = np.array([[1], None], object)
    snapshot = WorldSnapshot(Holder(value=array))
    snapshot.take()
    array[0].append(2)
    array[1] = 3
    snapshot.restore()
    assert array.tolist() == [[1], None]


@pytest.mark.parametrize("is_bound", [False, True])
def test_what_functions_remember_comes_back(is_bound: bool) -> None:
    count: Any = counting()
    holder = Holder(count=partial(count) if is_bound else count)
    count()
    snapshot = WorldSnapshot(holder)
    snapshot.take()
    assert [count(), count()] == [2, 3]
    snapshot.restore()
    assert count() == 2


def test_object_from_outside_the_world_is_not_written_to() -> None:
    elsewhere = np.full(3, 5)
    holder: Any = Holder(board=np.zeros(3, int))
    snapshot = WorldSnapshot(holder)
    snapshot.take()
    holder.board = elsewhere
    snapshot.restore()
    assert holder.board.tolist() == [0, 0, 0]
    assert elsewhere.tolist() == [5, 5, 5]


def test_networks_and_optimizers_come_back_but_for_weights_that_were_written_over() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    holder = Holder(net=net, optimizer=torch.optim.Adam(net.parameters()))
    before = bytes(serialise(holder).as_array())
    first = net[0].weight.data_ptr()
    snapshot = WorldSnapshot(holder)
    snapshot.take()

    def train() -> None:
        net(torch.ones(4, 2)).sum().backward()
        holder.optimizer.step()  # type: ignore[attr-defined]
        net[0].weight.data = torch.ones(3, 2)

    train()
    snapshot.restore()
    snapshot.restore_weights(())
    assert bytes(serialise(holder).as_array()) == before
    assert net[0].weight.grad is None
    train()
    snapshot.restore()
    with torch.no_grad():
        net[0].weight.fill_(8)
    assert net[0].weight.data_ptr() == first
    snapshot.restore_weights({first})
    assert net[0].weight.eq(8).all()
    assert not net[0].bias.eq(8).any()


OBSTACLES: dict[str, Any] = {
    "count": itertools.count(),
    "generator": (number for number in range(3)),
    "MaskedArray": np.ma.zeros(3),
    "Tensor": torch.zeros(1).expand(3),
}


@pytest.mark.parametrize("kind", OBSTACLES)
def test_what_cannot_be_restored_is_named(kind: str) -> None:
    assert str(WorldSnapshot(Holder(parts=[{"value": OBSTACLES[kind]}])).obstacle).startswith(kind)


def test_array_that_got_another_shape_makes_the_world_useless() -> None:
    array = np.zeros(3)
    snapshot = WorldSnapshot([array])
    snapshot.take()
    array.resize(5, refcheck=False)
    assert not snapshot.restore()
