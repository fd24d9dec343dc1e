"""What is to be done: episodes of copies of the world, and lessons of agents; and what came of it."""

from typing import NamedTuple

from senju.training.environments.block import Block


class Published(NamedTuple):
    """What an agent acts by: its networks and numbers, and how often it has been published."""

    version: int
    block: Block


class Episode(NamedTuple):
    """One epoch of one copy of the world is to be played."""

    copy: int
    epoch: int
    acting: tuple[Published, ...]  # by agent

    @property
    def what(self) -> str:
        """As messages name it."""
        return f"epoch {self.epoch} of copy {self.copy}"


class Played(NamedTuple):
    """An episode, and what each agent is to remember of it."""

    copy: int
    epoch: int
    experience: tuple[Block, ...]  # by agent
    rewards: tuple[float, ...]  # by agent, summed
    num_turns: int
    began: float  # time.monotonic
    ended: float
    track: str = ""  # who played


class Lesson(NamedTuple):
    """An agent is to remember an epoch's episodes, and to train on what it remembers."""

    agent: int
    epoch: int
    experience: Block  # a bundle of the copies' blocks, in order
    trains: bool
    keeps: bool  # its whole state is to be written down afterwards

    @property
    def what(self) -> str:
        """As messages name it."""
        return f"agent {self.agent} in epoch {self.epoch}"


class Learnt(NamedTuple):
    """What came of a lesson."""

    agent: int
    epoch: int
    loss: float | None
    acting: Block
    state: Block | None
    began: float
    ended: float
    keeping_seconds: float  # that writing the state took
    track: str = ""  # who trained


Task = Episode | Lesson
Result = Played | Learnt
