"""What the two roles of a user's own world, playing and learning, have in common; the shared experience."""

import os
import weakref
from abc import abstractmethod
from typing import Any

from senju.environments.factory import WorldSource
from senju.workers.block import Block
from senju.workers.role import Payload, Role
from senju.workers.shared_memory import open_anonymous
from senju.workers.tasks import Assignment

_SLOT_BYTES = 2**36  # of addresses; only what is written takes memory
Region = tuple[int, int]  # offset and size of a block in the file of experience


class ExperienceFile:
    """Shared memory where workers write experience and learners read it; it does not pass through the parent.

    An episode gets a slot. When nothing refers to the slot any more, another episode gets it.
    """

    def __init__(self) -> None:
        self.descriptor = open_anonymous(0)
        self._free: list[int] = []
        self._num_slots = 0

    def new_slot(self) -> "ExperienceSlot":
        """A slot that is not in use."""
        if not self._free:
            self._free.append(self._num_slots)
            self._num_slots += 1
        index = self._free.pop()
        slot = ExperienceSlot(index * _SLOT_BYTES)
        weakref.finalize(slot, self._free.append, index)
        return slot

    def close(self) -> None:
        """Free the memory."""
        os.close(self.descriptor)


class ExperienceSlot:
    """A region of the file, in use as long as this object exists."""

    def __init__(self, start: int) -> None:
        self.start = start


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


class WorldRole(Role):
    """What playing and learning have in common."""

    def __init__(self, source: WorldSource, experience: ExperienceFile) -> None:
        self.source, self.experience = source, experience
        self.descriptors = [experience.descriptor]
        self._num_results = 0

    def start_payload(self, index: int) -> Payload:
        return self.source.packed()

    def describe(self, task: Assignment) -> str:
        return str(task.task)

    def heartbeat(self, index: int) -> float:
        """Changes with every result: threads take turns, so one waits while others work."""
        return float(self._num_results)

    def result(self, task: Assignment, payload: Payload) -> Any:
        self._num_results += 1
        return self._read(task.task, payload)

    @abstractmethod
    def _read(self, task: Any, payload: Payload) -> Any: ...
