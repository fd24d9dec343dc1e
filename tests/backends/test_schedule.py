"""The schedule: whatever happens in whatever order, every rollout is handed over once, and in order."""

import heapq
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from senju.backends import schedule as schedule_module
from senju.backends.schedule import Finished, RolloutTask, TurnSchedule


def finished(task: RolloutTask, version: int = 0, seconds: float = 0.0) -> Finished:
    return Finished(task.shard, task.turn, version, seconds=seconds)


class AnySchedule(RuleBasedStateMachine):
    """Plays the supervisor and the caller at random, and keeps books of its own."""

    @initialize(
        num_shards=st.sampled_from([4, 3, 2, 1]),
        depth=st.sampled_from([1, 2, 4]),
        num_parts=st.sampled_from([3, 2, 1]),
    )
    def start(self, num_shards: int, depth: int, num_parts: int) -> None:
        self.num_parts = num_parts if depth == 1 else 1
        self.schedule = TurnSchedule(num_shards, depth, self.num_parts)
        self.parts: dict[int, tuple[int, int]] = {}  # shard: (parts played of its rollout, their version)
        self.begun_again: set[int] = set()  # shards whose weights changed between parts of their rollout
        self.num_shards, self.depth = num_shards, depth
        self.playing: list[RolloutTask] = []
        self.late: list[RolloutTask] = []  # tasks that are no longer waited for
        self.numbers: set[int] = set()
        self.ready: dict[tuple[int, int], int] = {}  # (shard, turn): version
        self.held: set[tuple[int, int]] = set()
        self.next_turn = [0] * num_shards  # that each shard hands over
        self.given_back = 0  # whole turns
        self.failures: dict[int, int] = {}
        self.version = 0

    def places(self) -> list[tuple[int, int]]:
        """The slots in use."""
        used = [*self.ready, *self.held, *((task.shard, task.turn) for task in self.playing)]
        return [(shard, turn % self.depth) for shard, turn in used]

    @rule(num_workers=st.none() | st.integers(0, 3))
    def begin(self, num_workers: int | None) -> None:
        """None: as many workers as shards wait, so that parts are played if any shard is being played."""
        waiting = self.waiting()
        if num_workers is None:
            num_workers = len(waiting)
        task = self.schedule.begin(0, range(num_workers))
        if task is None:
            assert not waiting, "a worker could have played"
            return
        assert task.shard in waiting
        assert task.turn == self.first_missing(task.shard)
        assert self.progress(task.shard) == min(map(self.progress, waiting)), (
            "the furthest behind comes first"
        )
        assert task.part == self.progress(task.shard)[1]
        assert task.end in (self.num_parts, task.part + 1)
        if not len(waiting) <= num_workers < len(waiting) + len(self.playing):
            assert task.end == self.num_parts, "parts are for workers that would be idle"
        if task.shard in self.begun_again:
            assert task.end == self.num_parts, "it would never end if the weights went on changing"
        assert task.number not in self.numbers
        assert (task.shard, task.turn % self.depth) not in self.places(), "the slot is in use"
        self.numbers.add(task.number)
        self.playing.append(task)

    def progress(self, shard: int) -> tuple[int, int]:
        """The turn and the part that a shard plays next."""
        return self.first_missing(shard), self.parts.get(shard, (0, 0))[0]

    def waiting(self) -> list[int]:
        """The shards that could be played now."""
        return [
            shard
            for shard in range(self.num_shards)
            if shard not in self.schedule.set_aside
            and all(task.shard != shard for task in self.playing)
            and self.first_missing(shard) < self.given_back + self.depth
        ]

    def first_missing(self, shard: int) -> int:
        turn = self.next_turn[shard]
        while (shard, turn) in self.ready:
            turn += 1
        return turn

    @precondition(lambda self: self.playing)
    @rule(data=st.data(), is_new_version=st.booleans(), seconds=st.sampled_from([1.0, 1.0, 0.0]))
    def finish(self, data: Any, is_new_version: bool, seconds: float) -> None:
        task = self.playing.pop(data.draw(st.integers(0, len(self.playing) - 1)))
        self.version += is_new_version
        assert self.schedule.finish(task, finished(task, self.version, seconds))
        assert not self.schedule.finish(task, finished(task, self.version + 1)), "a second message of it"
        self.failures.pop(task.shard, None)
        num_played, version = self.parts.pop(task.shard, (0, self.version))
        assert num_played == task.part
        self.begun_again.discard(task.shard)
        if version != self.version:  # no rollout is played by two versions
            self.begun_again.add(task.shard)
        elif task.end == self.num_parts:
            self.ready[task.shard, task.turn] = self.version
        else:
            self.parts[task.shard] = (task.end, version)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def finish_too_late(self, data: Any) -> None:
        task = self.late[data.draw(st.integers(0, len(self.late) - 1))]
        assert not self.schedule.finish(task, finished(task, 10**9))

    @precondition(lambda self: self.playing)
    @rule(data=st.data(), is_its_fault=st.booleans())
    def lose(self, data: Any, is_its_fault: bool) -> None:
        task = self.playing.pop(data.draw(st.integers(0, len(self.playing) - 1)))
        self.late.append(task)
        self.failures[task.shard] = self.failures.get(task.shard, 0) + is_its_fault
        assert self.schedule.lose(task, is_its_fault) == self.failures[task.shard]
        assert self.schedule.lose(task) == self.failures[task.shard], "one loss counts once"

    @rule()
    def collect(self) -> None:
        """As the caller does: give back what it has, and take what is there."""
        self.schedule.release()
        self.held.clear()
        self.given_back = self.schedule.turn
        turn, is_complete, ready = self.schedule.turn, self.schedule.is_due(), self.schedule.ready()
        taken = self.schedule.take()
        assert [each.shard for each in taken] == sorted(ready)
        for shard, taken_turn, version, *_ in taken:
            assert taken_turn == turn == self.next_turn[shard]
            assert version == self.ready.pop((shard, turn))
            self.held.add((shard, turn))
            self.next_turn[shard] += 1
        assert (self.schedule.turn == turn + 1) == is_complete
        assert self.schedule.turn in (turn, turn + 1)

    @precondition(lambda self: len(self.schedule.set_aside) < self.num_shards - 1)
    @rule(data=st.data())
    def abandon(self, data: Any) -> None:
        shard = data.draw(st.integers(0, self.num_shards - 1))
        for task in [task for task in self.playing if task.shard == shard]:
            self.schedule.lose(task)  # the team abandons a shard only when it has failed
            self.playing.remove(task)
            self.late.append(task)
        self.schedule.abandon(RolloutTask(0, shard, 0))

    @rule()
    def rewind(self) -> None:
        self.schedule.rewind()
        self.parts.clear()
        self.begun_again.clear()
        self.late += self.playing
        self.playing.clear()
        self.ready.clear()
        self.held.clear()
        self.failures.clear()
        self.given_back = self.schedule.turn
        self.next_turn = [self.schedule.turn] * self.num_shards

    @invariant()
    def all_that_wait_are_counted(self) -> None:
        assert self.schedule.count_waiting() == len(self.waiting())

    @invariant()
    def turn_is_complete_when_nothing_of_it_is_missing(self) -> None:
        turn = self.schedule.turn
        missing = [
            shard
            for shard in range(self.num_shards)
            if self.next_turn[shard] == turn
            and (shard, turn) not in self.ready
            and shard not in self.schedule.set_aside
        ]
        assert self.schedule.is_due() == (not missing)

    @invariant()
    def no_slot_has_two_uses(self) -> None:
        places = self.places()
        assert len(places) == len(set(places))

    @invariant()
    def no_shard_is_played_twice_at_once(self) -> None:
        shards = [task.shard for task in self.playing]
        assert len(shards) == len(set(shards))

    @invariant()
    def no_rollout_is_too_far_ahead(self) -> None:
        begun = [task.turn for task in self.playing] + [turn for _, turn in self.ready]
        assert all(turn < self.given_back + self.depth for turn in begun)

    @invariant()
    def counts_add_up(self) -> None:
        ready, playing, held, free = self.schedule.counts()
        assert (ready, playing, held) == (len(self.ready), len(self.playing), len(self.held))
        assert ready + playing + held + free == self.num_shards * self.depth
        assert free >= 0

    @invariant()
    def snapshot_is_of_what_is_handed_over_next(self) -> None:
        assert [self.schedule.next_turn(shard) for shard in range(self.num_shards)] == self.next_turn


AnySchedule.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestAnySchedule = AnySchedule.TestCase


def played(schedule: TurnSchedule, version: int = 0, seconds: float = 0.0) -> list[RolloutTask]:
    """Play all that can be played."""
    tasks = []
    while task := schedule.begin():
        tasks.append(task)
        schedule.finish(task, finished(task, version, seconds))
    return tasks


@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_lag_never_exceeds_its_bound_and_reaches_it(max_lag: int) -> None:
    """The learner publishes version n + 1 after turn n; workers play as far ahead as they may."""
    schedule, lags = TurnSchedule(2, max_lag + 1), []
    for learner_version in range(12):
        schedule.release()
        played(schedule, version=learner_version)
        lags += [learner_version - each.version for each in schedule.take()]
    assert max(lags) == max_lag
    assert min(lags) >= 0


def test_turn_that_is_taken_in_parts_holds_all_back() -> None:
    """Otherwise the shard that was first would play on with weights that are about to be replaced."""
    schedule = TurnSchedule(2, depth=1)
    first, second = schedule.begin(), schedule.begin()
    assert first is not None
    assert second is not None
    schedule.finish(first, finished(first))
    assert schedule.take() == [Finished(0, 0, 0)]
    schedule.release()
    assert schedule.begin() is None
    schedule.finish(second, finished(second))
    assert schedule.take() == [Finished(1, 0, 0)]
    assert schedule.begin() is None, "the caller still has it"
    schedule.release()
    assert [task.shard for task in played(schedule)] == [0, 1]


def turn_seconds(num_shards: int, num_workers: int, part_seconds: float = 1.0) -> tuple[float, int]:
    """How long workers of one speed play a turn in four parts, and with how many tasks."""
    schedule, workers = TurnSchedule(num_shards, depth=1, num_parts=4), range(num_workers)
    for _ in range(2):  # how long a part takes is known after the first turn
        schedule.release()
        now, num_tasks, free = 0.0, 0, list(workers)
        running: list[tuple[float, int, RolloutTask]] = []
        while not schedule.is_due():
            while free and (task := schedule.begin(free[0], workers)) is not None:
                ends = now + part_seconds * (task.end - task.part)
                heapq.heappush(running, (ends, free.pop(0), task))
                num_tasks += 1
            now, worker, task = heapq.heappop(running)
            free.append(worker)
            schedule.finish(task, finished(task, seconds=part_seconds * (task.end - task.part)))
        assert [each.shard for each in schedule.take()] == list(range(num_shards))
    return now, num_tasks


def test_last_rollouts_of_a_turn_are_played_in_parts_by_workers_that_would_be_idle() -> None:
    """Four shards and three workers take 1.5 times a rollout's duration instead of twice."""
    assert turn_seconds(4, 3)[0] == 6
    for num_workers in range(1, 9):
        for num_shards in range(1, 33):
            at_least = max(4.0, 4 * num_shards / num_workers)
            assert at_least <= turn_seconds(num_shards, num_workers)[0] < at_least + 1


def test_rollouts_are_played_whole_where_parts_would_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker, a worker for each shard, or rollouts so short that messages would cost too much."""
    monkeypatch.setattr(schedule_module, "_SHORTEST_TASK", 0.008)
    for num_shards, num_workers, part_seconds in ((5, 1, 1.0), (3, 3, 1.0), (2, 4, 1.0), (5, 2, 0.001)):
        assert turn_seconds(num_shards, num_workers, part_seconds)[1] == num_shards


def test_parts_are_as_long_as_their_message_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_module, "_SHORTEST_TASK", 0.008)
    in_quarters, in_halves = turn_seconds(3, 2, 0.009)[1], turn_seconds(3, 2, 0.005)[1]
    assert (in_quarters, in_halves) == (7, 5)


def test_rollout_whose_weights_changed_between_its_parts_is_played_again_as_one_task() -> None:
    """However long another worker plays the first rollout, and however often weights are published."""
    schedule, workers, version = TurnSchedule(3, depth=1, num_parts=4), range(2), 0
    played(schedule, seconds=1.0)  # after this turn it is known how long a part takes
    schedule.take()
    schedule.release()
    schedule.begin(0, workers)
    tasks = []
    while task := schedule.begin(1, workers):
        version += 1
        schedule.finish(task, finished(task, version, seconds=float(task.end - task.part)))
        tasks.append((task.shard, task.part, task.end))
        assert len(tasks) < 9
    assert tasks == [(1, 0, 1), (2, 0, 1), (1, 1, 2), (1, 0, 4), (2, 1, 4), (2, 0, 4)]


def test_shard_that_is_set_aside_is_waited_for_no_more() -> None:
    schedule = TurnSchedule(3, depth=2)
    played(schedule)
    schedule.abandon(RolloutTask(0, 1, 2))  # with two rollouts finished
    handed_over = []
    for _ in range(4):
        schedule.release()
        played(schedule)
        assert schedule.is_due()
        handed_over.append([each.shard for each in schedule.take()])
    assert handed_over == [[0, 1, 2], [0, 1, 2], [0, 2], [0, 2]]


def test_failures_are_counted_until_the_rollout_is_finished() -> None:
    schedule = TurnSchedule(1, depth=1)
    for attempt in (1, 2):
        task = schedule.begin()
        assert task is not None
        assert schedule.lose(task) == attempt
    task = schedule.begin()
    assert task is not None
    assert schedule.lose(task, is_its_fault=False) == 2
    played(schedule)
    schedule.take()
    schedule.release()
    task = schedule.begin()
    assert task is not None
    assert schedule.lose(task) == 1
