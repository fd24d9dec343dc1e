"""Decides which rollout is played next; keeps track of finished and handed over rollouts.

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
    """A finished rollout, or a part of one, in its slot."""

    shard: int
    turn: int
    version: int  # of the weights that acted
    failures: tuple[Failure, ...] = ()  # opponents that failed
    seconds: float = 0.0  # of playing it
    stamp: int = 0  # of the weights: another one for every publication, even of the same version


class _Progress:
    """One shard's rollouts: handed over <= finished <= being played."""

    def __init__(self) -> None:
        self.taken = 0  # turns below were handed over
        self.next = 0  # the turn to play, or being played
        self.part = 0  # the part of it to play next
        self.weights = 0, 0  # version and stamp of the weights that played its earlier parts
        self.is_whole = False  # whether the turn is played as one task, since weights changed between parts
        self.played: dict[int, Finished] = {}  # turns that are finished and not given back
        self.task: RolloutTask | None = None
        self.failures = 0  # of the turn `next`


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
        self._progress = [_Progress() for _ in range(num_shards)]
        self._number = 0
        self._idle = [(0, 0, shard) for shard in range(num_shards)]  # heap of (turn, part, shard)
        self._part_seconds = 0.0  # of the last part; 0: none was timed yet
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
        progress, is_near_end = self._progress[shard], self._num_waiting <= len(workers) < self._missing
        end = part + self._parts_per_task() if is_near_end and not progress.is_whole else self.num_parts
        self._num_waiting -= 1
        self._number += 1
        task = RolloutTask(self._number, shard, turn, part, min(end, self.num_parts))
        progress.task = task
        return task

    def _parts_per_task(self) -> int:
        """As many parts as make the cost of a message small; all parts until one was timed."""
        if not self._part_seconds:
            return self.num_parts
        return math.ceil(_SHORTEST_TASK / self._part_seconds)

    def count_waiting(self) -> int:
        return self._num_waiting

    def count_running(self) -> int:
        return sum(progress.task is not None for progress in self._progress)

    def _push(self, shard: int) -> None:
        progress = self._progress[shard]
        self._num_waiting += progress.next < self._end and shard not in self.set_aside
        heapq.heappush(self._idle, (progress.next, progress.part, shard))

    def _count(self) -> None:
        """Recount the waiting and the missing rollouts."""
        end = self._end
        self._num_waiting = sum(turn < end and shard not in self.set_aside for turn, _, shard in self._idle)
        self._missing = len(self._awaited()) - len(self.ready())

    def finish(self, task: RolloutTask, result: Finished) -> bool:
        progress = self._progress[task.shard]
        if progress.task != task:
            return False
        progress.task, progress.failures = None, 0
        self._part_seconds = result.seconds / (task.end - task.part)
        # if weights were published between its parts (after an interrupt), the rollout is played again
        weights = result.version, result.stamp
        progress.is_whole = task.part > 0 and weights != progress.weights
        progress.part, progress.weights = (0 if progress.is_whole else task.end), weights
        if progress.part == self.num_parts:
            progress.played[task.turn] = result
            progress.next, progress.part = progress.next + 1, 0
            self._missing -= task.turn == self.turn
        self._push(task.shard)
        return True

    def lose(self, task: RolloutTask, is_its_fault: bool = True) -> int:
        progress = self._progress[task.shard]
        if progress.task == task:
            progress.task = None
            progress.failures += is_its_fault
            self._push(task.shard)
        return progress.failures

    def is_due(self) -> bool:
        """Whether every rollout of the current turn is finished."""
        return self._missing == 0

    def abandon(self, task: RolloutTask) -> None:
        """Set the shard aside: it is not played any more."""
        self.set_aside.add(task.shard)
        self._count()

    def ready(self) -> list[int]:
        """The shards whose rollout of the current turn is finished and not yet taken."""
        return [shard for shard in self._awaited() if self.turn in self._progress[shard].played]

    def _awaited(self) -> list[int]:
        """The shards that have not been handed over in the current turn."""
        return [
            shard
            for shard, progress in enumerate(self._progress)
            if progress.taken == self.turn and (shard not in self.set_aside or self.turn in progress.played)
        ]

    def next_turn(self, shard: int) -> int:
        """The shard's turn that is handed over next."""
        return self._progress[shard].taken

    def take(self) -> list[Finished]:
        """Hand over what is ready; the last rollout of a turn starts the next turn."""
        taken = []
        for shard in self.ready():
            self._progress[shard].taken += 1
            taken.append(self._progress[shard].played[self.turn])
        if not self._awaited():
            self.turn += 1
            self._count()
        return taken

    def release(self) -> None:
        """The caller gives back the taken rollouts: their slots may be overwritten."""
        for progress in self._progress:
            for turn in [turn for turn in progress.played if turn < progress.taken]:
                del progress.played[turn]
        self._given_back = self.turn
        self._count()

    def rewind(self, turn: int | None = None) -> None:
        """Forget rollouts not handed over, also running ones; go on at `turn`, if it is given."""
        self.release()
        if turn is not None:
            self.turn = self._given_back = turn
        for progress in self._progress:
            progress.played.clear()
            progress.taken = progress.next = self.turn
            progress.task, progress.failures, progress.part, progress.is_whole = None, 0, 0, False
        self._idle = [(self.turn, 0, shard) for shard in range(len(self._progress))]
        self._count()

    def counts(self) -> tuple[int, int, int, int]:
        """How many slots are ready, being played, held by the caller, and free."""
        held = sum(turn < progress.taken for progress in self._progress for turn in progress.played)
        ready = sum(len(progress.played) for progress in self._progress) - held
        playing = self.count_running()
        return ready, playing, held, len(self._progress) * self.depth - ready - playing - held
