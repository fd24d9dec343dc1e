"""Which worker does which task, and which task is to blame. No thread and no process is needed."""

import pytest

from senju.errors import ConfigError, WorkerError
from senju.workers.channel import WorkerFailure
from senju.workers.records import Worker
from senju.workers.role import WorkerEnding
from tests.workers.squaring import Decisions

RAISED = WorkerFailure("RuntimeError", "no number", "Traceback", is_senju_error=False)


def replacement(decisions: Decisions) -> Worker:
    [worker] = decisions.start_missing()
    decisions.assign()
    return worker


def test_free_workers_get_one_task_each() -> None:
    decisions = Decisions(2)
    decisions.put(5, 6, 7)
    assert decisions.assign() == []
    first, _ = decisions.start_missing()
    assert decisions.assign() == [(0, 5), (1, 6)]
    decisions.finish(first, 25)
    assert decisions.assign() == [(0, 7)]
    assert decisions.tasks.take() == [(5, 25)]


def test_no_task_begins_before_the_team_is_open() -> None:
    decisions = Decisions(1)
    decisions.start_missing()
    decisions.put(5)
    decisions.dispatcher.is_open = False
    assert decisions.assign() == []


def test_second_tasks_are_given_only_while_more_wait_than_there_are_workers() -> None:
    decisions = Decisions(2, has_prefetch=True)
    first, second = decisions.start_missing()
    decisions.put(*range(6))
    assert decisions.assign() == [(0, 0), (1, 1), (0, 2), (1, 3)]
    decisions.finish(first)
    assert decisions.assign() == [], "the last tasks go to the workers that are free first"
    decisions.finish(first)
    assert decisions.assign() == [(0, 4)]
    decisions.finish(first)
    assert decisions.assign() == [(0, 5)]
    assert second.task.task == 1


def test_tasks_of_a_lost_worker_are_done_by_others() -> None:
    decisions = Decisions(2, has_prefetch=True)
    first, second = decisions.start_missing()
    decisions.put(*range(6))
    decisions.assign()
    decisions.lose(first)
    assert sorted(decisions.tasks.pending()) == list(range(6))
    for _ in range(2):
        decisions.finish(second)
        decisions.assign()
    assert decisions.event_kinds() == ["worker_lost"]
    assert decisions.roster.restarts == 1


def test_result_of_a_task_that_was_given_back_does_not_count() -> None:
    decisions = Decisions(1)
    [worker] = decisions.start_missing()
    decisions.put(5)
    decisions.assign()
    number = worker.task.number
    decisions.dispatcher.on_failed(worker, number, RAISED)
    decisions.assign()
    decisions.dispatcher.on_failed(worker, number, RAISED)
    assert isinstance(decisions.journal.failure, WorkerError), "it belongs to no task of this worker"


@pytest.mark.parametrize("attempts", [1, 3])
def test_task_that_fails_as_often_as_it_may_stops_the_team(attempts: int) -> None:
    decisions = Decisions(1, attempts=attempts)
    [worker] = decisions.start_missing()
    decisions.put("raise")
    for _ in range(attempts):
        assert decisions.journal.failure is None
        decisions.assign()
        decisions.dispatcher.on_failed(worker, worker.task.number, RAISED)
    assert isinstance(decisions.journal.failure, WorkerError)
    assert f"failed {attempts} times" in str(decisions.journal.failure)
    assert decisions.tasks.pending() == []
    assert decisions.event_kinds() == ["worker_failed"] * (attempts - 1)


def test_error_of_senju_stops_the_team_at_once() -> None:
    decisions = Decisions(1)
    [worker] = decisions.start_missing()
    decisions.put("refuse")
    decisions.assign()
    refusal = WorkerFailure("ConfigError", "numbers only", "Traceback", is_senju_error=True)
    decisions.dispatcher.on_failed(worker, worker.task.number, refusal)
    assert isinstance(decisions.journal.failure, ConfigError)


def test_kills_by_other_programs_count_a_quarter() -> None:
    decisions = Decisions(1, attempts=2)
    decisions.put("killed")
    for kill in range(8):
        assert decisions.journal.failure is None, kill
        decisions.lose(replacement(decisions), was_killed=True)
    assert "failed 2 times" in str(decisions.journal.failure)


def test_success_ends_the_count_of_kills() -> None:
    decisions = Decisions(1, attempts=1)
    for _ in range(4):
        decisions.put("killed")
        for _ in range(3):
            decisions.lose(replacement(decisions), was_killed=True)
        worker = replacement(decisions)
        decisions.finish(worker)
        decisions.lose(worker)
    assert decisions.journal.failure is None


def test_worker_without_memory_is_given_up_while_others_can_go_on() -> None:
    decisions = Decisions(2)
    first, second = decisions.start_missing()
    decisions.put(5, 6)
    decisions.assign()
    decisions.lose(first, lacks_memory=True)
    assert decisions.start_missing() == []
    assert decisions.event_kinds() == ["fewer_workers"]
    decisions.lose(second, lacks_memory=True)
    assert len(decisions.start_missing()) == 1, "the last one is tried again"


def test_worker_that_cannot_be_killed_and_hangs_stops_the_team() -> None:
    decisions = Decisions(1)
    [worker] = decisions.start_missing()
    decisions.put(5, 6)
    decisions.assign()
    decisions.dispatcher.on_hung_thread(worker, WorkerEnding("gave no sign of life for 8.0 s"))
    assert "worker 0" in str(decisions.journal.failure)
    assert "8.0 s" in str(decisions.journal.failure)
    assert decisions.assign() == []
