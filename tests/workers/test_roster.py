"""Which workers there are: started, paused, replaced, given up. No thread and no process is needed."""

import pytest

from senju.errors import ConfigError, WorkerError
from senju.workers.records import WorkerState
from tests.workers.squaring import Decisions, NoHandle


def leaving(decisions: Decisions) -> list[int]:
    return [worker.index for worker in decisions.roster.departures()]


def test_missing_workers_are_started_once() -> None:
    decisions = Decisions(3)
    assert [worker.index for worker in decisions.start_missing()] == [0, 1, 2]
    assert decisions.start_missing() == []
    assert decisions.roster.is_ready()


def test_superfluous_workers_leave_after_their_task() -> None:
    decisions = Decisions(3)
    workers = decisions.start_missing()
    decisions.put(7, 8, 9)
    decisions.assign()
    decisions.roster.resize(1)
    assert leaving(decisions) == []
    decisions.finish(workers[2])
    assert leaving(decisions) == [2]
    workers[2].enter(WorkerState.LEAVING)
    decisions.lose(workers[2])
    assert [status.index for status in decisions.roster.status().workers] == [0, 1]
    assert decisions.event_kinds() == []


def test_reset_worker_is_replaced_after_its_task() -> None:
    decisions = Decisions(1)
    [worker] = decisions.start_missing()
    decisions.put(7, 8)
    decisions.assign()
    decisions.roster.reset(None)
    decisions.finish(worker)
    assert decisions.assign() == []
    assert leaving(decisions) == [0]
    worker.enter(WorkerState.LEAVING)
    decisions.lose(worker)
    assert len(decisions.start_missing()) == 1
    assert decisions.assign() == [(0, 8)]


def test_paused_workers_get_no_tasks_and_neither_do_later_ones() -> None:
    decisions = Decisions(2)
    decisions.start_missing()
    decisions.put(7, 8)
    decisions.roster.set_paused([0], True)
    assert decisions.assign() == [(1, 7)]
    decisions.roster.set_paused(None, True)
    decisions.roster.resize(3)
    decisions.start_missing()
    assert decisions.assign() == []
    assert [status.state for status in decisions.roster.status().workers] == ["paused", "working", "paused"]
    decisions.roster.set_paused(None, False)
    assert decisions.assign() == [(0, 8)]


def test_unknown_worker_is_refused() -> None:
    decisions = Decisions(2)
    decisions.start_missing()
    with pytest.raises(ConfigError, match=r"worker 5.*\[0, 1\]"):
        decisions.roster.reset([5])


def test_worker_that_cannot_start_is_given_up_until_the_next_resize() -> None:
    decisions = Decisions(2)
    for _ in range(5):
        while (index := decisions.roster.next_missing()) is not None:
            decisions.lose(decisions.roster.add(index, NoHandle()))
            if index == 1:
                break
    assert not decisions.roster.workers
    assert decisions.roster.next_missing() is None
    assert decisions.roster.needs_fallback()
    assert [kind for kind in decisions.event_kinds() if kind != "worker_lost"] == [
        "fewer_workers",
        "sequential",
    ]
    decisions.roster.resize(2)
    assert len(decisions.start_missing()) == 2
    assert not decisions.roster.needs_fallback()


def test_no_worker_is_started_after_a_failure() -> None:
    decisions = Decisions(2)
    first, _ = decisions.start_missing()
    decisions.journal.fail(WorkerError("impossible"))
    decisions.lose(first)
    assert decisions.start_missing() == []
    assert not decisions.roster.needs_fallback()


def test_worker_that_was_being_started_when_the_team_closed_leaves_at_once() -> None:
    decisions = Decisions(1)
    decisions.roster.close()
    decisions.roster.add(0, NoHandle())
    assert decisions.roster.next_missing() is None
    assert leaving(decisions) == [0]


def test_workers_on_demand_come_with_tasks_and_leave_without() -> None:
    decisions = Decisions(4, is_on_demand=True)
    assert decisions.start_missing() == []
    decisions.put(7, 8)
    first, second = decisions.start_missing()
    assert len(decisions.assign()) == 2
    decisions.finish(first)
    assert leaving(decisions) == [0]
    assert second.state is WorkerState.BUSY


def test_worker_on_demand_that_dies_while_it_starts_is_replaced_by_one_that_does_its_task() -> None:
    """A worker that has left stays away: no task waits for it."""
    decisions = Decisions(2, prefer=lambda task, workers: task, is_on_demand=True, reset_interval=1)
    decisions.put(0, 1)
    [first, second] = (decisions.roster.add(index, NoHandle()) for index in range(2))
    decisions.dispatcher.on_ready(first)
    assert decisions.assign() == [(0, 0)]
    decisions.finish(first)
    assert leaving(decisions) == [0]
    first.enter(WorkerState.LEAVING)
    decisions.lose(first)
    decisions.lose(second)
    assert [worker.index for worker in decisions.start_missing()] == [1]
    assert decisions.assign() == [(1, 1)]


def test_silent_worker_is_overdue_at_its_deadline_and_one_with_a_heartbeat_is_not() -> None:
    decisions = Decisions(2, task_timeout=8.0)
    silent, _ = decisions.start_missing()
    decisions.put(7, 8)
    decisions.assign()
    for step in range(40):
        decisions.role.beats[1] = step
        found = decisions.roster.overdue(100.0 + step / 2)
        if found:
            break
    assert found == [silent]
    assert 8.0 <= step / 2 <= 10.0


def test_time_in_which_the_team_itself_stood_still_does_not_count() -> None:
    decisions = Decisions(1, task_timeout=8.0)
    decisions.start_missing()
    decisions.put(7)
    decisions.assign()
    assert [decisions.roster.overdue(now) for now in (100.0, 101.0, 5000.0, 5001.0)] == [[]] * 4


def test_waiting_worker_has_no_deadline() -> None:
    decisions = Decisions(1)
    decisions.start_missing()
    assert decisions.roster.is_quiet()
    assert not any(decisions.roster.overdue(100.0 + second) for second in range(100))
