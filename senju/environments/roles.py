"""The two roles of a user's own world share how a worker makes the world, and where experience is stored."""

import os
import weakref
from abc import abstractmethod
from typing import Any, NamedTuple

from senju.environments.config import RunSettings, WorldConfig
from senju.environments.contract import check_world
from senju.environments.factory import WorldFactory
from senju.environments.generators import Purpose, seed_of, set_generators
from senju.workers.block import Block
from senju.workers.role import Payload, Role, Start
from senju.workers.shared_memory import open_anonymous
from senju.workers.tasks import Assignment

_SLOT_BYTES = 2**36  # of addresses; only what is written takes memory
Part = tuple[int, int]  # offset and size of a block in the file of experience


class WorldSource(NamedTuple):
    """All that a process needs to make the user's world."""

    factory: WorldFactory
    config: WorldConfig
    settings: RunSettings

    def new_learning_world(self) -> Any:
        """The world whose agents learn: the same one in every process."""
        seed = self.settings.parallel.seed
        set_generators(seed, Purpose.CENTRE)
        env = self.factory.make(self.config.copy(), seed_of(seed, Purpose.CENTRE), 0)
        check_world(env)
        return env


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


def write_block(descriptor: int, block: Block, offset: int) -> Part:
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
        """The factory's name, the settings, and the user's configuration."""
        factory, config, settings = self.source
        kind, block = config.packed()
        return Payload([factory.importable()[0], kind, settings.model_dump(mode="json")], [block])

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


def source_of(start: Start) -> WorldSource:
    """In a worker process: what `start_payload` sent."""
    name, kind, settings = start.payload.values
    config = WorldConfig.unpacked(kind, start.payload.blocks[0])
    return WorldSource(WorldFactory(name), config, RunSettings(**settings))
