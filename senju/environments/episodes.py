"""The role of workers that play episodes, and the worlds that a worker keeps."""

import gc
import logging
from typing import Any, NamedTuple

from senju.algorithms.optimising import load_optimizers
from senju.environments.experience import ExperienceSlot, Region, write_block
from senju.environments.factory import WorldSource
from senju.environments.generators import Purpose, generators_lock
from senju.environments.runners import WorldRole
from senju.environments.world_copy import WorldCopy, locating_errors
from senju.workers.block import Block
from senju.workers.role import Handler, Payload, Start
from senju.workers.tasks import Assignment

preload = load_optimizers  # called by the fork server
logger = logging.getLogger(__name__)

_MOST_KEPT_BYTES = 64 * 2**20  # of arrays in all worlds that a worker keeps


class EpisodeTask(NamedTuple):
    """Play one epoch of one copy of the world."""

    epoch: int
    copy: int
    acting: tuple[Block, ...]  # by agent: the networks and numbers that it acts with
    slot: ExperienceSlot

    def __str__(self) -> str:
        return f"epoch {self.epoch} of copy {self.copy}"


class PlayedEpisode(NamedTuple):
    """The result of an episode."""

    rewards: list[float]  # by agent, summed over turns
    num_turns: int
    experience: list[Region]  # by agent
    slot: ExperienceSlot  # holds the experience


class EpisodeRole(WorldRole):
    """Plays episodes in copies of the world. Any worker plays any episode."""

    activity = "playing"
    repeats = "It is played again, with the same result."
    new_handler = "senju.environments.episodes:new_handler"

    def local_handler(self, start: Start) -> "EpisodeHandler":
        return EpisodeHandler(self.source, self.experience.descriptor)

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        """The episode, with the agents' networks that have changed since the worker's last episode."""
        episode: EpisodeTask = task.task
        known = worker.setdefault("acting", {})
        new = [agent for agent, block in enumerate(episode.acting) if known.get(agent) is not block]
        known |= {agent: episode.acting[agent] for agent in new}
        values = [episode.epoch, episode.copy, episode.slot.start, new]
        return Payload(values, [episode.acting[agent] for agent in new])

    def _read(self, task: EpisodeTask, payload: Payload) -> PlayedEpisode:
        rewards, num_turns, experience = payload.values
        return PlayedEpisode(rewards, num_turns, experience, task.slot)


class EpisodeHandler(Handler):
    """Plays episodes in worlds that it makes and keeps."""

    def __init__(self, source: WorldSource, descriptor: int) -> None:
        self._source, self._descriptor = source, descriptor
        self._options = source.settings.parallel
        self._acting: dict[int, Block] = {}  # by agent: its last published state
        self._kept: dict[int, WorldCopy] = {}  # by number of the copy, if the factory takes it or a seed
        self._can_keep = True

    def execute(self, task: Payload) -> Payload:
        """Play an episode, with the process's random generators reserved for it."""
        epoch, copy, offset, agents = task.values
        self._acting |= zip(agents, task.blocks, strict=True)
        acting = [self._acting[agent] for agent in range(len(self._acting))]
        with generators_lock:
            world = self._world(epoch, copy)
            rewards, num_turns, blocks = world.play(epoch, copy, acting, self._source.settings)
        parts: list[Region] = []
        for block in blocks:
            parts.append(write_block(self._descriptor, block, offset))
            offset += len(block)
        return Payload([rewards, num_turns, parts])

    def _world(self, epoch: int, copy: int) -> WorldCopy:
        """A world as the factory makes it: a new one, or a played one that is restored."""
        number = copy if self._source.factory.takes_copy_or_seed else 0
        world = self._kept.pop(number, None)
        if world is None or not self._renew(world):
            world = self._new_kept_world(number) if self._can_keep else None
        if world is None:
            return self._new_world(copy, epoch)
        self._kept[number] = world
        return world

    def _renew(self, world: WorldCopy) -> bool:
        if self._options.fresh_worlds:
            return world.snapshot.restore()
        world.clear_memories()
        return True

    def _new_kept_world(self, number: int) -> WorldCopy | None:
        """A world to keep, or None if a world cannot be restored, or takes too much memory."""
        world = self._new_world(number)
        if self._options.fresh_worlds:
            if reason := self._reason_to_make_anew(world):
                logger.info("the world %s; it is made again for each episode", reason)
                self._can_keep = False
                return None
            world.snapshot.take()
        self._renew(world)  # before it is played: raises if its memories cannot be cleared
        return world

    def _reason_to_make_anew(self, world: WorldCopy) -> str | None:
        num_worlds = self._options.copies if self._source.factory.takes_copy_or_seed else 1
        num_bytes, obstacle = world.snapshot.num_bytes, world.snapshot.obstacle
        if num_worlds * num_bytes > _MOST_KEPT_BYTES:
            return f"takes {num_worlds} × {num_bytes:,} bytes for arrays, more than {_MOST_KEPT_BYTES:,}"
        return f"has a {obstacle}, which cannot be restored" if obstacle else None

    def _new_world(self, copy: int, *numbers: int) -> WorldCopy:
        # SystemExit would end this process without a message
        with locating_errors(lambda _: f"making copy {copy} of the world raised", unchanged=Exception):
            return WorldCopy(self._source.new_world(copy, Purpose.MAKING, copy, *numbers))


def new_handler(start: Start) -> EpisodeHandler:
    """Make the handler in a worker process."""
    handler = EpisodeHandler(WorldSource.unpacked(start.payload), start.descriptors[0])
    gc.freeze()  # imported modules are not scanned again and again
    return handler
