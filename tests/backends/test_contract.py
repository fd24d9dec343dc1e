"""The Backend contract: what every backend does, and what the serial one does to the byte."""

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from senju.backends.backend import Backend
from senju.errors import ConfigError, ControlError, ModelError
from tests.backends.common import (
    PLAN,
    Content,
    Restartable,
    changed,
    contents,
    new_backend,
    oracle,
    play,
    started,
    wait_for_workers,
    weights_of,
    workers_of,
)
from tests.facts import assert_mentions, mentions

BACKENDS = {"serial": {}, "threads": {"num_workers": 2}, "processes": {"num_workers": 2}}
POOLS = ["threads", "processes"]


@pytest.fixture(scope="module")
def all_started() -> Iterator[dict[str, Restartable]]:
    found = {name: Restartable(PLAN, name, **settings) for name, settings in BACKENDS.items()}
    yield found
    for restartable in found.values():
        restartable.backend.close()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, all_started: dict[str, Restartable]) -> Backend:
    """Each backend in turn, at its start."""
    return all_started[request.param].from_the_start()


@pytest.fixture(params=POOLS)
def pool(request: pytest.FixtureRequest, all_started: dict[str, Restartable]) -> Backend:
    """Each backend that has several workers, at its start."""
    return all_started[request.param].from_the_start()


@pytest.mark.slow
def test_plays_what_the_serial_backend_plays(backend: Backend) -> None:
    assert play(backend, PLAN, 5) == oracle(PLAN, 5)


def test_rollouts_come_one_per_shard_in_order(backend: Backend) -> None:
    for _ in range(3):
        assert [rollout.shard for rollout in backend.collect()] == [0, 1, 2]


def test_restored_snapshot_replays_to_equal_bytes(backend: Backend) -> None:
    backend.collect()
    snapshot = backend.snapshot()
    expected = [contents(backend.collect()) for _ in range(2)]
    assert expected[0] != expected[1]
    backend.restore(snapshot)
    assert [contents(backend.collect()) for _ in range(2)] == expected


def test_snapshot_is_a_copy_that_any_backend_restores(backend: Backend) -> None:
    backend.collect()
    snapshot = backend.snapshot()
    expected = contents(backend.collect())
    with started(PLAN) as elsewhere:
        elsewhere.restore(snapshot)
        assert contents(elsewhere.collect()) == expected


def test_published_weights_act_from_the_next_rollout_on(backend: Backend) -> None:
    weights = weights_of(PLAN, seed=99)
    with started(PLAN) as unchanged:
        assert contents(backend.collect()) == contents(unchanged.collect())
        backend.publish(weights, version=5)
        with_new, with_old = backend.collect(), unchanged.collect()
        assert [rollout.version for rollout in with_new] == [5, 5, 5]
        assert [rollout.version for rollout in with_old] == [0, 0, 0]
        assert backend.status().version == 5
        first_seen = [rollouts[0].data.observation[0].tobytes() for rollouts in (with_new, with_old)]
        assert first_seen[0] == first_seen[1], "publishing moved the games"
        first_values = [rollouts[0].data.values[0].tobytes() for rollouts in (with_new, with_old)]
        assert first_values[0] != first_values[1]


def test_only_the_newest_weights_count(backend: Backend) -> None:
    weights = weights_of(PLAN, seed=99)
    backend.publish(weights_of(PLAN, seed=98), version=4)
    backend.publish(weights, version=5)
    with started(PLAN) as always_new:
        always_new.publish(weights, version=5)
        assert contents(backend.collect()) == contents(always_new.collect())


def test_weights_are_taken_anew_where_their_version_is_the_same(backend: Backend) -> None:
    with started(PLAN) as serial:
        for seed in (98, 99, 98):
            found = []
            for each in (backend, serial):
                each.publish(weights_of(PLAN, seed), version=1)
                found.append(contents(each.collect()))
            assert found[0] == found[1]


def test_publishing_copies_the_weights(backend: Backend) -> None:
    own = weights_of(PLAN, seed=99)
    with started(PLAN) as other:
        other.publish(own.copy(), version=1)
        backend.publish(own, version=1)
        own.fill(0)  # the caller may use its block again
        assert contents(backend.collect()) == contents(other.collect())


def test_weights_of_another_model_are_refused(backend: Backend) -> None:
    larger = np.append(weights_of(PLAN, 0), np.zeros(4, np.uint8))
    with pytest.raises(ModelError, match="bytes"):
        backend.publish(larger, version=1)
    assert contents(backend.collect()) == oracle(PLAN, 1)[0], "nothing was published"


@pytest.mark.parametrize("name", ["serial", "threads"])
def test_starts_with_the_weights_that_the_seed_gives(name: str) -> None:
    with started(PLAN, name) as fresh, started(PLAN, name) as published:
        published.publish(weights_of(PLAN, PLAN.seed), version=0)
        assert contents(fresh.collect()) == contents(published.collect())


def test_rollouts_stay_as_they_are_until_the_next_call(backend: Backend) -> None:
    rollouts = backend.collect()
    before = contents(rollouts)
    backend.publish(weights_of(PLAN, seed=99), version=1)
    backend.snapshot()
    backend.status()
    assert contents(rollouts) == before


def test_timings_are_of_the_stages_and_taking_them_empties_them(backend: Backend) -> None:
    backend.report()
    backend.collect()
    timings = backend.report().timings
    assert timings.pop("opponents", 0.0) == 0.0, "no other player decides"
    assert set(timings) - {"waiting"} == {"observe", "evaluate", "choose", "step", "restart"}
    assert all(seconds >= 0 for seconds in timings.values())
    assert backend.report().timings == {}


def test_activities_name_every_rollout_once(backend: Backend) -> None:
    backend.report()
    for _ in range(2):
        backend.collect()
    activities = backend.report().activities
    turns = sorted({activity.task.turn for activity in activities})
    assert len(turns) == 2
    assert sorted((a.task.turn, a.task.shard) for a in activities if a.task.part == 0) == [
        (turn, s) for turn in turns for s in range(3)
    ]
    assert all(activity.began <= activity.ended for activity in activities)
    assert backend.report().activities == []


def test_turn_that_comes_in_parts_loses_nothing(backend: Backend) -> None:
    for expected in oracle(PLAN, 1):
        found: list[Content] = []
        while len(found) < len(expected):
            found += contents(backend.collect(timeout=0.001))
        assert sorted(found) == expected
    assert backend.report().events == []


def test_shard_that_came_early_waits_for_the_others_before_its_next_rollout(pool: Backend) -> None:
    """In sync mode no worker may play the next turn with the weights of this one."""
    for turn in range(12):
        pool.publish(weights_of(PLAN, PLAN.seed + turn), version=turn)
        count = 0
        while count < PLAN.num_shards:
            rollouts = pool.collect(timeout=0.0005)
            assert [rollout.version for rollout in rollouts] == [turn] * len(rollouts)
            count += len(rollouts)


def test_paused_backend_plays_on_when_resumed(backend: Backend) -> None:
    backend.team.pause()
    assert backend.collect(timeout=0.05) == []
    states = {worker.state for worker in workers_of(backend)}
    assert states == {"paused"}
    threading.Timer(0.05, backend.team.resume).start()
    assert contents(backend.collect()) == oracle(PLAN, 1)[0]


def test_one_paused_worker_leaves_its_work_to_the_others(pool: Backend) -> None:
    wait_for_workers(pool, 2)
    pool.team.pause([0])
    assert play(pool, PLAN, 3) == oracle(PLAN, 3)
    by_index = {worker.index: worker.state for worker in workers_of(pool)}
    assert by_index == {0: "paused", 1: "waiting"}
    pool.report()
    pool.collect()
    assert {activity.worker for activity in pool.report().activities} == {1}


def test_status_counts_workers_and_slots(pool: Backend) -> None:
    status = pool.status()
    assert (status.team.wanted_workers, len(status.workers), status.team.restarts) == (2, 2, 0)
    slots = (status.slots_ready, status.slots_playing, status.slots_held, status.slots_free)
    assert slots == (0, 0, 0, 3)
    assert all(worker.restarts == 0 for worker in status.workers)
    before = sum(worker.num_finished for worker in status.workers)
    pool.collect()
    status = pool.status()
    assert (status.slots_held, status.slots_free) == (3, 0)
    assert sum(worker.num_finished for worker in status.workers) == before + 3
    assert all(0 <= worker.busy_share <= 1 for worker in status.workers)
    assert status.memory_bytes > 0
    has_processes = status.backend == "processes"
    assert all((worker.pid is not None) == has_processes for worker in status.workers)
    assert all((worker.memory_bytes > 0) == has_processes for worker in status.workers)
    assert (status.shared_bytes > 0) == has_processes


def test_unknown_worker_is_refused(pool: Backend) -> None:
    for act in (pool.team.pause, pool.team.resume, pool.team.reset):
        with pytest.raises(ConfigError, match=mentions("worker 7", "[0, 1]")):
            act([1, 7])
    assert {worker.state for worker in workers_of(pool)} == {"waiting"}, "nothing was done"


def test_resize_to_zero_workers_is_refused(backend: Backend) -> None:
    with pytest.raises(ConfigError, match="num_workers=0"):
        backend.team.resize(0)


def test_snapshot_of_another_number_of_shards_is_refused(backend: Backend) -> None:
    with pytest.raises(ValueError, match="argument"):
        backend.restore(backend.snapshot()[:2])


def test_restoring_waits_for_rollouts_under_way_and_forgets_them(pool: Backend) -> None:
    snapshot = pool.snapshot()
    for _ in range(5):
        pool.collect(timeout=0.0)  # the workers have begun
        pool.restore(snapshot)
    assert contents(pool.collect()) == oracle(PLAN, 1)[0]
    assert pool.report().events == []


def test_more_workers_than_shards_are_not_started(caplog: pytest.LogCaptureFixture) -> None:
    with started(PLAN, "threads", num_workers=9) as backend:
        assert len(workers_of(backend)) == 3
    assert_mentions(caplog.text, "3 of 9 workers", "no more shards")


@pytest.mark.parametrize("name", BACKENDS)
def test_can_be_closed_twice_and_before_it_was_started(name: str) -> None:
    backend = new_backend(name)
    backend.close()
    backend.close()


@pytest.mark.parametrize("name", ["serial", "threads"])
def test_can_be_closed_twice(name: str) -> None:
    backend = new_backend(name)
    backend.start(PLAN)
    backend.collect()
    backend.close()
    backend.close()


def test_shared_memory_is_released_once_if_two_threads_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second release would close a file that has got the same number since."""
    close, closed = os.close, list[int]()
    with started(changed(PLAN, is_shared=True), "threads", num_workers=1) as backend:
        memory = backend.shared_memory

        def close_again(descriptor: int) -> None:
            if descriptor == memory:
                closed.append(descriptor)
                if len(closed) == 1:
                    backend.close()  # as another thread may at this moment
            close(descriptor)

        monkeypatch.setattr(os, "close", close_again)
        backend.close()
        monkeypatch.undo()
    assert closed == [memory]


@pytest.mark.parametrize("name", BACKENDS)
def test_can_be_closed_after_a_start_that_failed(name: str) -> None:
    backend = new_backend(name)
    with pytest.raises(ConfigError, match="unknown game"):
        backend.start(changed(PLAN, game={"name": "chequers"}))
    backend.close()


def test_closed_backend_says_so_and_ends_waiting_calls() -> None:
    with started(PLAN, "threads", num_workers=1) as backend:
        backend.team.pause()
        raised: list[BaseException] = []

        def collect() -> None:
            try:
                backend.collect()
            except ControlError as error:
                raised.append(error)

        waiting = threading.Thread(target=collect)
        waiting.start()
        backend.close()
        waiting.join(timeout=60)
        (error,) = raised
        assert_mentions(str(error), "stopped")
        for act in (
            backend.collect,
            backend.team.pause,
            backend.team.resume,
            backend.team.reset,
            lambda: backend.team.resize(2),
        ):
            with pytest.raises(ControlError, match="stopped"):
                act()
        backend.status()
