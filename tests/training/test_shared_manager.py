"""A ParallelManager that threads share, and one that is dropped without being stopped."""

import gc
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from senju.collect.experiences import Experiences
from senju.environments.environment import ParallelEnvironment
from senju.errors import ControlError, WorkerError
from senju.training.fair_lock import FairLock
from tests.backends.common import PLAN as BACKEND_PLAN
from tests.backends.common import children_of_this_process, new_backend, wait_until
from tests.backends.trap_games import order, trap_plan
from tests.environments.meadow import Meadow, make_config
from tests.training.test_parallel_manager import BACKENDS, PARALLEL, TURN, contents, joined, make, serial_run

NUM_THREADS = 6
GUARD = 120.0  # seconds: longer than that is a hang


def in_threads(*calls: Callable[[], Any]) -> list["Future[Any]"]:
    """All at once; none is waited for."""
    pool = ThreadPoolExecutor(len(calls))
    futures = [pool.submit(call) for call in calls]
    pool.shutdown(wait=False)
    return futures


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_that_collect_are_served_in_turn_and_get_whole_batches(backend: str) -> None:
    with make(backend=backend) as manager:
        futures = in_threads(*[manager.collect_experiences] * NUM_THREADS)
        batches: list[Experiences] = [future.result(GUARD) for future in futures]
    assert [len(batch) for batch in batches] == [TURN] * NUM_THREADS
    expected = serial_run("connect_four", NUM_THREADS)
    turns = [contents(expected.select(slice(i * TURN, (i + 1) * TURN))) for i in range(NUM_THREADS)]
    assert sorted(map(str, map(contents, batches))) == sorted(map(str, turns))


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_threads_with_targets_lose_and_double_nothing(backend: str) -> None:
    with make(backend=backend) as manager:

        def collect() -> list[Experiences]:
            return [manager.collect_experiences(target_steps=TURN // 2) for _ in range(4)]

        batches = [
            batch for future in in_threads(collect, collect, collect) for batch in future.result(GUARD)
        ]
    assert {len(batch) for batch in batches} == {TURN // 2}
    expected = serial_run("connect_four", 6)
    halves = [contents(expected.select(slice(i * TURN // 2, (i + 1) * TURN // 2))) for i in range(12)]
    assert sorted(map(str, map(contents, batches))) == sorted(map(str, halves))


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_time_that_is_up_before_ones_turn_gives_an_empty_batch(backend: str) -> None:
    with make(backend=backend) as manager:
        manager.pause_workers()
        [first] = in_threads(manager.collect_experiences)
        wait_until(lambda: len(manager._collecting._queue) == 1)
        assert len(manager.collect_experiences(timeout=0.05)) == 0
        assert not first.done()
        manager.resume_workers()
        assert contents(first.result(GUARD)) == contents(serial_run("connect_four", 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_stopping_the_workers_raises_in_all_threads_that_collect(backend: str) -> None:
    manager = make(backend=backend)
    manager.start_workers()
    manager.pause_workers()
    futures = in_threads(*[manager.collect_experiences] * NUM_THREADS)
    wait_until(lambda: len(manager._collecting._queue) == NUM_THREADS)
    for future in in_threads(*[manager.stop_workers] * 3):
        future.result(GUARD)
    for future in futures:
        with pytest.raises(ControlError, match="stopped"):
            future.result(GUARD)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_methods_may_be_called_from_threads_at_once(backend: str) -> None:
    with make(backend=backend) as manager:
        model, is_over = manager.new_model(), threading.Event()

        def again_and_again(*calls: Callable[[], Any]) -> Callable[[], int]:
            def loop() -> int:
                count = 0
                while not is_over.is_set():
                    for call in calls:
                        call()
                    count += 1
                return count

            return loop

        others = in_threads(
            again_and_again(lambda: manager.sync_model_to_workers(model, force=True)),
            again_and_again(lambda: manager.sync_model_to_workers(model, force=True)),
            again_and_again(manager.get_status),
            again_and_again(manager.pause_workers, manager.resume_workers),
            again_and_again(lambda: manager.reset_workers([0]))
            if backend != "processes"
            else manager.get_status,
        )
        batches = [future.result(GUARD) for future in in_threads(*[manager.collect_experiences] * 12)]
        is_over.set()
        counts = [future.result(GUARD) for future in others]
        assert manager.get_status()["version"] == counts[0] + counts[1]
    batches.sort(key=lambda batch: (int(batch.game.sum()), int(batch.step.sum())))
    assert {len(batch) for batch in batches} == {TURN}
    assert len({str(contents(batch)) for batch in batches}) == len(batches)


@pytest.mark.parametrize("backend", BACKENDS)
def test_workers_started_by_many_threads_are_started_once(backend: str) -> None:
    manager = make(backend=backend)
    errors = [future.exception(GUARD) for future in in_threads(*[manager.start_workers] * 3)]
    manager.stop_workers()
    assert sum(error is None for error in errors) == 1
    assert {type(error) for error in errors if error is not None} == {ControlError}


def test_turns_come_in_the_order_of_asking() -> None:
    turns, served = FairLock(), list[int]()

    def take(number: int) -> None:
        with turns.acquire(None, lambda: None):
            served.append(number)

    with turns.acquire(None, lambda: None):
        futures = []
        for number in range(5):
            futures += in_threads(lambda number=number: take(number))  # type: ignore[misc]
            wait_until(lambda number=number: len(turns._queue) == number + 2)  # type: ignore[misc]
    for future in futures:
        future.result(GUARD)
    assert served == list(range(5))


def senju_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("senju")}


class Belongings:
    """Threads, processes and files of this process."""

    def __init__(self) -> None:
        gc.collect()
        self.threads, self.processes = senju_threads(), children_of_this_process()
        self.files = set(os.listdir("/proc/self/fd"))

    def are_all_again(self) -> bool:
        now = Belongings()
        return now.threads <= self.threads and now.processes <= self.processes and now.files <= self.files


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_manager_dropped_without_being_stopped_leaves_nothing(backend: str) -> None:
    before = Belongings()
    manager = make(backend=backend)
    manager.start_workers()
    manager.collect_experiences()
    held = weakref.ref(manager)
    del manager
    wait_until(before.are_all_again)
    assert held() is None


@pytest.mark.slow
@pytest.mark.parametrize("backend", PARALLEL)
def test_backend_dropped_without_being_closed_leaves_nothing(backend: str) -> None:
    before = Belongings()
    dropped = new_backend(backend, num_workers=2)
    dropped.start(BACKEND_PLAN)
    dropped.collect()
    del dropped
    wait_until(before.are_all_again)


@pytest.mark.slow
@pytest.mark.parametrize("backend", PARALLEL)
def test_backend_dropped_after_its_failure_leaves_nothing(backend: str) -> None:
    before = Belongings()
    dropped: Any = new_backend(backend, num_workers=1)
    dropped.start(BACKEND_PLAN)

    def fail(now: float) -> None:
        raise ZeroDivisionError

    dropped.team._roster.overdue = fail
    with pytest.raises(ZeroDivisionError):
        dropped.collect()
    del dropped
    wait_until(before.are_all_again)


@pytest.mark.slow
@pytest.mark.parametrize("backend", PARALLEL)
def test_backend_dropped_after_an_error_of_its_game_leaves_nothing(tmp_path: Path, backend: str) -> None:
    """The team keeps the error, and its thread goes on."""
    before, plan = Belongings(), trap_plan(tmp_path, spared=0)
    dropped = new_backend(backend, num_workers=1, shard_attempts=1, failing_shard="stop")
    dropped.start(plan)
    order(plan, "raise", shard=1, at=1, always=True)
    for _ in range(2):
        with pytest.raises(WorkerError, match="the trap is sprung"):
            dropped.collect()
    del dropped
    wait_until(before.are_all_again)


def test_batches_of_a_dropped_manager_stay_as_they_are() -> None:
    manager = make(backend="threads")
    manager.start_workers()
    batch = manager.collect_experiences()
    del manager
    gc.collect()
    assert joined([batch]) == contents(serial_run("connect_four", 1))


@pytest.mark.slow
def test_environment_that_is_dropped_leaves_nothing() -> None:
    before = Belongings()
    env = ParallelEnvironment(Meadow, make_config(num_workers=1, num_learners=1))
    env.run_experiment_parallel()
    del env
    wait_until(before.are_all_again)
