"""Which rollout is played next, which are finished, which were handed over.

A shard's rollouts are numbered by turns. The caller takes them turn by turn; a shard may be up to
`depth` rollouts beyond the last turn that the caller has taken and given back as a whole. With a depth
of 1 it waits for the caller: that is the `sync` mode.

At the end of a turn some workers would have nothing to do while others play the last rollouts. So the last
rollouts are handed out in parts, which any worker can continue, those furthest behind first. Where each
unfinished rollout has a worker of its own, parts would gain nothing.
"""

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from senju.collect.seating import Failure
from senju.workers.role import TaskQueue

_SHORTEST_TASK = 0.008  # seconds of a task that is a part of a rollout; its message takes about 0.0002


class RolloutTask(NamedTuple):
    """One rollout to play, or parts of it; the number tells it from earlier attempts at the same one."""

    number: int
    shard: int
    turn: int
    part: int = 0  # the first part to play
    end: int = 1  # the part to stop before


class Finished(NamedTuple):
    """A rollout, or a part of one, that lies in its slot."""

    shard: int
    turn: int
    version: int  # of the weights that acted
    failures: tuple[Failure, ...] = ()  # opponents that failed
    seconds: float = 0.0  # that playing took
    stamp: int = 0  # of the weights: another one for every publication, even of the same version


class _Line:
    """One shard's rollouts: handed over <= finished <= being played."""

    def __init__(self) -> None:
        self.taken = 0  # turns below were handed over
        self.next = 0  # the turn to play, or being played
        self.part = 0  # the part of it to play next
        self.weights = 0, 0  # version and stamp of those that played its earlier parts
        self.is_whole = False  # whether the turn is played as one task, since weights changed between parts
        self.played: dict[int, Finished] = {}  # turns that are finished and not given back
        self.task: RolloutTask | None = None
        self.failures = 0  # of the next turn


class TurnSchedule(TaskQueue):
    """The rollouts of all shards.

    >>> schedule = TurnSchedule(num_shards=2, depth=1)
    >>> first, second = schedule.begin(), schedule.begin()
    >>> schedule.finish(second, Finished(shard=1, turn=0, version=0)), schedule.ready()
    (True, [1])
    >>> schedule.finish(first, Finished(shard=0, turn=0, version=0)), schedule.ready()
    (True, [0, 1])
    """

    def __init__(self, num_shards: int, depth: int, num_parts: int = 1) -> None:
        """`num_parts`: of a rollout; more than 1 only if the weights do not change during a turn."""
        self.depth, self.num_parts = depth, num_parts
        self.turn = 0  # the caller takes this one next
        self.set_aside: set[int] = set()
        self._given_back = 0  # whole turns below were given back by the caller
        self._lines = [_Line() for _ in range(num_shards)]
        self._number = 0
        self._idle = [(0, 0, shard) for shard in range(num_shards)]  # heap of (turn, part, shard)
        self._part_seconds = 0.0  # that a part took last
        self._missing = num_shards  # rollouts of the current turn that are not finished
        self._num_waiting = num_shards

    @property
    def _end(self) -> int:
        """The first turn that must wait; while a turn is only partly taken, no shard begins the one after."""
        return self._given_back + self.depth

    def begin(self, worker: int = 0, workers: Sequence[int] = ()) -> RolloutTask | None:
        """The rollout that is furthest behind; None if all must wait."""
        while self._idle and self._idle[0][2] in self.set_aside:
            heapq.heappop(self._idle)
        if not self._idle or self._idle[0][0] >= self._end:
            return None
        turn, part, shard = heapq.heappop(self._idle)
        line, is_near_end = self._lines[shard], self._num_waiting <= len(workers) < self._missing
        end = part + self._parts_per_task() if is_near_end and not line.is_whole else self.num_parts
        self._num_waiting -= 1
        self._number += 1
        task = RolloutTask(self._number, shard, turn, part, min(end, self.num_parts))
        line.task = task
        return task

    def _parts_per_task(self) -> int:
        """So many parts that a message costs little beside them; all where that is not known yet."""
        if not self._part_seconds:
            return self.num_parts
        return math.ceil(_SHORTEST_TASK / self._part_seconds)

    def count_waiting(self) -> int:
        return self._num_waiting

    def count_running(self) -> int:
        return sum(line.task is not None for line in self._lines)

    def _push(self, shard: int) -> None:
        line = self._lines[shard]
        self._num_waiting += line.next < self._end and shard not in self.set_aside
        heapq.heappush(self._idle, (line.next, line.part, shard))

    def _count(self) -> None:
        """Count again, after a change of what may begin."""
        end = self._end
        self._num_waiting = sum(turn < end and shard not in self.set_aside for turn, _, shard in self._idle)
        self._missing = len(self._awaited()) - len(self.ready())

    def finish(self, task: RolloutTask, result: Finished) -> bool:
        line = self._lines[task.shard]
        if line.task != task:
            return False
        line.task, line.failures = None, 0
        self._part_seconds = result.seconds / (task.end - task.part)
        # the weights changed within the rollout (an interrupted caller may publish some): it is played again
        weights = result.version, result.stamp
        has_same_weights = task.part == 0 or weights == line.weights
        line.part, line.weights = (task.end if has_same_weights else 0), weights
        line.is_whole = not has_same_weights
        if line.part == self.num_parts:
            line.played[task.turn] = result
            line.next, line.part = line.next + 1, 0
            self._missing -= task.turn == self.turn
        self._push(task.shard)
        return True

    def lose(self, task: RolloutTask, is_its_fault: bool = True) -> int:
        line = self._lines[task.shard]
        if line.task == task:
            line.task = None
            line.failures += is_its_fault
            self._push(task.shard)
        return line.failures

    def is_due(self) -> bool:
        """Whether every rollout of the current turn is finished."""
        return self._missing == 0

    def abandon(self, task: RolloutTask) -> None:
        """Set the shard aside: it is not played any more."""
        self.set_aside.add(task.shard)
        self._count()

    def ready(self) -> list[int]:
        """The shards whose rollout of the current turn is finished and not yet taken."""
        return [shard for shard in self._awaited() if self.turn in self._lines[shard].played]

    def _awaited(self) -> list[int]:
        """The shards that have not been handed over in the current turn."""
        return [
            shard
            for shard, line in enumerate(self._lines)
            if line.taken == self.turn and (shard not in self.set_aside or self.turn in line.played)
        ]

    def next_turn(self, shard: int) -> int:
        """The shard's turn that is handed over next."""
        return self._lines[shard].taken

    def take(self) -> list[Finished]:
        """Hand over what is ready; after the last of a turn comes the next turn."""
        taken = []
        for shard in self.ready():
            self._lines[shard].taken += 1
            taken.append(self._lines[shard].played[self.turn])
        if not self._awaited():
            self.turn += 1
            self._count()
        return taken

    def release(self) -> None:
        """The caller gives back what it has taken: slots may be overwritten."""
        for line in self._lines:
            for turn in [turn for turn in line.played if turn < line.taken]:
                del line.played[turn]
        self._given_back = self.turn
        self._count()

    def rewind(self, turn: int | None = None) -> None:
        """Forget rollouts not handed over (running ones come too late); go on at `turn`, if it is given."""
        self.release()
        if turn is not None:
            self.turn = self._given_back = turn
        for line in self._lines:
            line.played.clear()
            line.taken = line.next = self.turn
            line.task, line.failures, line.part, line.is_whole = None, 0, 0, False
        self._idle = [(self.turn, 0, shard) for shard in range(len(self._lines))]
        self._count()

    def counts(self) -> tuple[int, int, int, int]:
        """How many slots are ready, being played, held by the caller, and free."""
        held = sum(turn < line.taken for line in self._lines for turn in line.played)
        ready = sum(len(line.played) for line in self._lines) - held
        playing = self.count_running()
        return ready, playing, held, len(self._lines) * self.depth - ready - playing - held
