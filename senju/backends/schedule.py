"""Which rollout is played next, which are finished, which are handed over: bookkeeping, and nothing else.

A shard's rollouts are numbered by turns. The caller takes them turn by turn; a shard may be up to
`depth` rollouts beyond the last turn that the caller has taken and given back as a whole. With a depth
of 1 it waits for the caller: that is the `sync` mode.
"""

import heapq
from typing import NamedTuple


class Task(NamedTuple):
    """One rollout to play; the ticket tells it from earlier attempts at the same one."""

    ticket: int
    shard: int
    turn: int


class Finished(NamedTuple):
    """A rollout that lies in its slot."""

    shard: int
    turn: int
    version: int


class _Line:
    """One shard's rollouts: released < handed over <= finished <= being played."""

    def __init__(self) -> None:
        self.released = 0  # turns below are the caller's no more
        self.taken = 0  # turns below were handed over
        self.next = 0  # the turn to play, or being played
        self.versions: dict[int, int] = {}  # of turns that are finished and not released
        self.task: Task | None = None
        self.failures = 0  # of the next turn


class Schedule:
    """The rollouts of all shards.

    >>> schedule = Schedule(num_shards=2, depth=1)
    >>> first, second = schedule.begin(), schedule.begin()
    >>> schedule.finish(second, version=0), schedule.ready()
    (True, [1])
    >>> schedule.finish(first, version=0), schedule.ready()
    (True, [0, 1])
    """

    def __init__(self, num_shards: int, depth: int) -> None:
        self.depth = depth
        self.turn = 0  # what the caller takes now
        self.set_aside: set[int] = set()
        self._given_back = 0  # whole turns below are the caller's no more
        self._lines = [_Line() for _ in range(num_shards)]
        self._tickets = 0
        self._idle = [(0, shard) for shard in range(num_shards)]  # heap of (turn, shard) that nobody plays
        self._missing = num_shards  # rollouts of the current turn that are not finished

    def begin(self) -> Task | None:
        """Something to play, the furthest behind first; None where all must wait."""
        end = self._given_back + self.depth  # of a turn taken in parts, no shard begins the one after
        while self._idle and self._idle[0][1] in self.set_aside:
            heapq.heappop(self._idle)
        if not self._idle or self._idle[0][0] >= end:
            return None
        turn, shard = heapq.heappop(self._idle)
        self._tickets += 1
        task = Task(self._tickets, shard, turn)
        self._lines[shard].task = task
        return task

    def count_playable(self) -> int:
        """How many rollouts could begin now."""
        end = self._given_back + self.depth
        return sum(turn < end and shard not in self.set_aside for turn, shard in self._idle)

    def finish(self, task: Task, version: int) -> bool:
        """The rollout lies in its slot; False where the task is not the one being waited for."""
        line = self._lines[task.shard]
        if line.task != task:
            return False
        line.task, line.failures = None, 0
        line.versions[task.turn] = version
        line.next += 1
        self._missing -= task.turn == self.turn
        heapq.heappush(self._idle, (line.next, task.shard))
        return True

    def lose(self, task: Task, is_its_fault: bool = True) -> int:
        """The rollout is to be played again; return how often it has failed."""
        line = self._lines[task.shard]
        if line.task == task:
            line.task = None
            line.failures += is_its_fault
            heapq.heappush(self._idle, (line.next, task.shard))
        return line.failures

    def abandon(self, shard: int) -> None:
        """Play this shard no more."""
        self.set_aside.add(shard)
        self._count_missing()

    def ready(self) -> list[int]:
        """The shards whose rollout of the current turn is finished and not yet taken."""
        return [shard for shard in self._awaited() if self.turn in self._lines[shard].versions]

    def is_complete(self) -> bool:
        """Whether every rollout of the current turn is finished."""
        return self._missing == 0

    def _count_missing(self) -> None:
        self._missing = len(self._awaited()) - len(self.ready())

    def _awaited(self) -> list[int]:
        """The shards that have not been handed over in the current turn."""
        return [
            shard
            for shard, line in enumerate(self._lines)
            if line.taken == self.turn and (shard not in self.set_aside or self.turn in line.versions)
        ]

    def next_turn(self, shard: int) -> int:
        """The shard's turn that is handed over next."""
        return self._lines[shard].taken

    def take(self) -> list[Finished]:
        """Hand over what is ready; after the last of a turn comes the next turn."""
        taken = []
        for shard in self.ready():
            line = self._lines[shard]
            line.taken += 1
            taken.append(Finished(shard, self.turn, line.versions[self.turn]))
        if not self._awaited():
            self.turn += 1
            self._count_missing()
        return taken

    def release(self) -> None:
        """What was handed over may be written over."""
        for line in self._lines:
            for turn in range(line.released, line.taken):
                del line.versions[turn]
            line.released = line.taken
        self._given_back = self.turn

    def rewind(self, turn: int | None = None) -> None:
        """Forget all rollouts that were not handed over; those being played will come too late.

        Turns are counted on from `turn`, if it is given.
        """
        self.release()
        if turn is not None:
            self.turn = self._given_back = turn
        for line in self._lines:
            line.versions.clear()
            line.released = line.taken = line.next = self.turn
            line.task, line.failures = None, 0
        self._idle = [(self.turn, shard) for shard in range(len(self._lines))]
        self._count_missing()

    def counts(self) -> tuple[int, int, int, int]:
        """How many slots are ready, being played, held by the caller, and free."""
        ready = sum(len(line.versions) - (line.taken - line.released) for line in self._lines)
        held = sum(line.taken - line.released for line in self._lines)
        playing = sum(line.task is not None for line in self._lines)
        return ready, playing, held, len(self._lines) * self.depth - ready - playing - held
