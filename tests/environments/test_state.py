"""An agent's learned state is found in its objects, and restored into another agent of the factory."""

import os
import random
from argparse import Namespace
from collections import OrderedDict, defaultdict, deque
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from senju.environments.experience import ExperienceFile, read_block, write_block
from senju.environments.lessons import save_interval
from senju.environments.serialise import restore, serialise
from senju.errors import ModelError
from senju.workers.block import Block
from tests.environments.things import Holder, Slotted


class Experience(NamedTuple):
    state: Any
    reward: float


def same_bytes(one: object, other: object) -> bool:
    return bytes(serialise(one).as_array()) == bytes(serialise(other).as_array())


VALUES: dict[str, tuple[Any, Any]] = {  # the serialised value, and the value that the factory builds
    "numbers": ([1, 2.5, True, None, "text", 2**80], []),
    "numpy numbers": (np.float32(1.5), np.float32(0)),
    "array": (np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((2, 3), np.int16)),
    "array of another shape": (np.arange(4), np.zeros(2)),
    "no elements": (np.empty((0, 3)), None),
    "tensor": (torch.arange(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)),
    "new tensor": (torch.ones(2, 2), None),
    "empty tensor": (torch.empty(0), None),
    "containers": ({"a": [1, (2, {3, 4})], 5: frozenset({6})}, {"a": [0]}),
    "ordered": (OrderedDict(b=1, a=2), OrderedDict()),
    "bytes": ([b"\x00\xff", bytearray(b"ab")], None),
    "replay": (deque([Experience(np.ones(3), 1.0)] * 2, maxlen=4), deque(maxlen=4)),
    "records": ([Slotted(1, [2]), Slotted(3)], []),
    "namespace": (Namespace(a=1, b=Namespace(c=[2])), Namespace(a=0)),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_arrive_as_they_were(kind: str) -> None:
    value, existing = VALUES[kind]
    made = restore(Holder(value=existing), serialise(Holder(value=value)))
    assert type(made.value) is type(value)
    assert same_bytes(made, Holder(value=value))


def test_arrays_and_tensors_are_filled_in_place() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    restore(Holder(a=array, t=tensor), serialise(Holder(a=np.ones(3), t=torch.ones(3))))
    assert array.tolist() == tensor.tolist() == [1, 1, 1]


def test_what_is_the_same_stays_the_same_and_what_was_shared_by_the_factory_does_not() -> None:
    shared = np.ones(2)
    made = restore(Holder(a=None, b=None), serialise(Holder(a=shared, b=[shared])))
    assert made.a is made.b[0]
    one = np.zeros(2)
    made = restore(Holder(a=one, b=one), serialise(Holder(a=np.ones(2), b=np.full(2, 2.0))))
    assert (made.a.tolist(), made.b.tolist()) == ([1, 1], [2, 2])


def test_objects_that_refer_to_each_other_come_back_so() -> None:
    one, other = Holder(), Holder()
    one.other, other.other = other, one  # type: ignore[attr-defined]
    made = restore(None, serialise(one))
    assert made.other.other is made


class Net(nn.Module):
    """A network that holds its optimizer, its memory and numbers, as many models do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.parts = {"body": self.body}
        self.optimizer = torch.optim.Adam(self.parameters())
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.memory: deque[Any] = deque(maxlen=8)
        self.table: defaultdict[Any, float] = defaultdict(float)
        self.count = 0

    def learn(self) -> None:
        self.optimizer.zero_grad()
        self.body(torch.randn(5, 3)).square().sum().backward()
        self.optimizer.step()
        self.schedule.step()
        self.memory.append((np.ones(2), self.count, 0.5))
        self.table[self.count, "key"] += 1.5
        self.count += 1


def test_a_model_goes_on_exactly_where_another_was() -> None:
    first, second = Net(), Net()
    for _ in range(3):
        first.learn()
    restore(second, serialise(first))
    for net in (first, second):
        torch.manual_seed(1)
        net.learn()
    assert same_bytes(first, second)
    assert second.parts["body"] is second.body
    assert second.table[2, "key"] == 1.5
    assert second.table["never seen"] == 0  # still a table with a default


def test_generators_go_on_where_they_were() -> None:
    def new(seed: int) -> Holder:
        return Holder(
            plain=random.Random(seed),
            old=np.random.RandomState(seed),
            new=np.random.default_rng(seed),
            torch=torch.Generator().manual_seed(seed),
        )

    def draw(holder: Any) -> list[float]:
        numbers = [holder.plain.random(), holder.old.rand(), holder.new.random()]
        return [*numbers, torch.rand(1, generator=holder.torch).item()]

    one, other = new(1), new(2)
    draw(one)
    restore(other, serialise(one))
    assert draw(one) == draw(other)
    assert draw(restore(None, serialise(one))) == draw(one)


def test_what_is_not_learned_stays_as_the_factory_made_it() -> None:
    lock, place = object(), Path("here")
    existing = Holder(function=len, device=torch.device("cpu"), path=place, kind=int, thing=lock)
    restore(
        existing,
        serialise(Holder(function=max, device=torch.device("meta"), path=Path("x"), kind=str, thing=1)),
    )
    assert existing.function is len  # type: ignore[attr-defined]
    assert existing.path is place  # type: ignore[attr-defined]
    assert existing.kind is int  # type: ignore[attr-defined]


def test_networks_of_another_shape_are_refused() -> None:
    with pytest.raises(ModelError, match="same networks"):
        restore(nn.Linear(2, 2), serialise(nn.Sequential(nn.Linear(2, 2))))
    with pytest.raises(ModelError, match="bytes"):
        restore(nn.Linear(2, 3), serialise(nn.Linear(2, 2)))


def test_what_is_left_out_is_neither_written_nor_touched() -> None:
    secret = np.ones(1000)
    block = serialise(Holder(a=secret, b=1), lambda value: value is secret)
    assert len(block) < 1000
    existing = Holder(a=3, b=0)
    restore(existing, block)
    assert vars(existing) == {"a": 3, "b": 1}


@pytest.mark.parametrize("is_passed_on", [False, True])
def test_blocks_travel_through_shared_memory(is_passed_on: bool) -> None:
    block = Block.pack({"number": 2}, [np.arange(3)])
    arrived = Block.of_descriptor(os.dup(block.descriptor()), is_passed_on)
    tree, (array,) = arrived.unpack()
    assert tree == {"number": 2}
    assert array.tolist() == [0, 1, 2]


def test_experience_is_read_as_it_was_written_and_free_slots_are_used_again() -> None:
    with closing(ExperienceFile()) as experience:
        slots = [experience.new_slot() for _ in range(2)]
        blocks = [Block.pack(number, [np.full(1000, number)]) for number in range(2)]
        parts = [
            write_block(experience.descriptor, block, slot.start)
            for slot, block in zip(slots, blocks, strict=True)
        ]
        for block, part in zip(blocks, parts, strict=True):
            assert bytes(read_block(experience.descriptor, *part).as_array()) == bytes(block.as_array())
        freed = slots.pop().start
        slots += [experience.new_slot(), experience.new_slot()]
        assert slots[1].start == freed
        assert len({slot.start for slot in slots}) == 3


def test_states_are_saved_as_often_as_there_is_time_for() -> None:
    assert save_interval(learning_seconds=1.0, saving_seconds=0.1) == 10
    assert save_interval(learning_seconds=1.0, saving_seconds=2.0) == 40
    assert save_interval(learning_seconds=1.0, saving_seconds=60.0) == 100
    assert save_interval(learning_seconds=0.0, saving_seconds=1.0) == 100
