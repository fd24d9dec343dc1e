"""Healing: whatever happens to workers, and whenever, the rollouts are the serial backend's.

They die, hang, print, are paused, replaced, made fewer and more.
"""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from senju.backends.backend import Backend, Plan
from senju.collect.slots import Rollout
from tests.backends.common import (
    PLAN,
    Restartable,
    changed,
    contents,
    gather_events,
    oracle,
    pid_of,
    play,
    publish_turn,
    started,
    wait_for_workers,
    wait_until,
    weights_of,
    workers_of,
)
from tests.backends.trap_games import call_off, order, trap_plan, was_sprung
from tests.facts import assert_mentions

TURNS = 5
HAS_HUNG = "sign of life"


@pytest.fixture(scope="module")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    plan = trap_plan(tmp_path_factory.mktemp("traps"))
    team = Restartable(plan, "processes", num_workers=3, worker_timeout=0.5)
    yield team
    team.backend.close()


@pytest.fixture
def plan(shared_team: Restartable) -> Iterator[Plan]:
    yield shared_team.plan
    call_off(shared_team.plan)


@pytest.fixture
def team(shared_team: Restartable, plan: Plan) -> Backend:
    """Three worker processes at the start of a plan, that count as hung after half a second.

    One of them is there; others, that an earlier test has killed, may still be starting.
    """
    wait_until(lambda: "starting" not in {worker.state for worker in workers_of(shared_team.backend)[:1]})
    return shared_team.from_the_start()


GOES_WRONG = {
    "raises": ("raise", "step", "failed", r"RuntimeError: the trap is sprung\nTraceback .*trap_games\.py"),
    "exits": ("exit", "step", "lost", "exit code 3"),
    "crashes": ("segfault", "step", "lost", r"signal 11 \(SIGSEGV\).*Segmentation fault.*in spring"),
    "is killed in the middle": ("kill", "step", "lost", r"signal 9 \(SIGKILL"),
    "is killed with its slot full": ("kill", "observe", "lost", r"signal 9 \(SIGKILL"),
    "is killed before it hands over": ("kill", "sending", "lost", r"signal 9 \(SIGKILL"),
    "is killed in mid-message": ("half_sent", "sending", "lost", r"signal 9 \(SIGKILL"),
    "is stopped": ("stop", "step", "hung", HAS_HUNG),
    "hangs": ("hang", "step", "hung", rf"{HAS_HUNG}.* \d\.\d s .*in spring"),
    "hangs with Python's lock": ("hang_in_c", "step", "hung", rf"{HAS_HUNG} .*in spring"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "where", "event", "expected"), GOES_WRONG.values(), ids=GOES_WRONG)
def test_rollout_of_a_worker_that_goes_wrong_is_played_again(
    team: Backend, plan: Plan, kind: str, where: str, event: str, expected: str
) -> None:
    before = team.status().team.restarts
    found = play(team, plan, 2)
    # in the third rollout of shard 1: its second step, or what comes after its last
    order(plan, kind, shard=1, at=12 if where == "observe" else 9, where=where)
    found += play(team, plan, TURNS, first=2)
    assert was_sprung(plan)
    assert found == oracle(plan, TURNS)
    [message] = gather_events(team, f"worker_{event}")
    assert re.search(r"worker \d.* shard 1 \(rows 2 to 3\), rollout \d+, seed 8", message, re.DOTALL)
    assert re.search(expected, message, re.DOTALL), message
    assert team.status().team.restarts == before + (kind != "raise")


@pytest.mark.slow
def test_idle_worker_that_is_killed_is_replaced_before_the_next_collect(team: Backend, plan: Plan) -> None:
    found = play(team, plan, 2)
    pid, before = pid_of(team, 1), team.status().team.restarts
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(team, 1) != pid)
    [message] = gather_events(team, "worker_lost")
    assert_mentions(message, f"worker 1 (process {pid})", "signal 9")
    assert team.status().team.restarts == before + 1
    assert found + play(team, plan, TURNS, first=2) == oracle(plan, TURNS)


@pytest.mark.slow
def test_workers_that_are_killed_while_they_start_are_replaced(team: Backend, plan: Plan) -> None:
    for _ in range(2):
        for index in range(3):
            pid = pid_of(team, index)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda index=index, pid=pid: pid_of(team, index) != pid)  # type: ignore[misc]
    assert {worker.state for worker in workers_of(team)} == {"starting"}
    assert play(team, plan, TURNS) == oracle(plan, TURNS)
    assert len(gather_events(team, "worker_lost")) == 6


@pytest.mark.slow
def test_worker_that_is_killed_while_weights_are_published_is_replaced(team: Backend, plan: Plan) -> None:
    """One thread publishes the same weights again and again, and workers read them each time."""
    found, is_over = [], threading.Event()

    def publish(turn: int) -> None:
        weights = weights_of(plan, plan.seed + turn)
        while not is_over.is_set():
            team.publish(weights, version=turn)

    for turn in range(TURNS):
        publish_turn(team, plan, turn)
        is_over.clear()
        publisher = threading.Thread(target=publish, args=(turn,))
        publisher.start()
        if turn == 2:
            order(plan, "kill", shard=1, at=9)
            os.kill(pid_of(team, 0), signal.SIGKILL)
        found.append(contents(team.collect()))
        is_over.set()
        publisher.join()
    assert found == oracle(plan, TURNS)
    assert was_sprung(plan)


@pytest.mark.slow
def test_sleeping_caller_and_pauses_are_no_reason_to_replace_workers(team: Backend, plan: Plan) -> None:
    wait_for_workers(team, 3)
    before = team.status().team.restarts
    found = play(team, plan, 2)
    time.sleep(1.5)  # three times what makes a worker count as hung
    found += play(team, plan, 3, first=2)
    team.team.pause()
    time.sleep(1.5)
    assert {worker.state for worker in workers_of(team)} == {"paused"}
    team.team.resume()
    assert found + play(team, plan, TURNS, first=3) == oracle(plan, TURNS)
    assert team.status().team.restarts == before
    assert team.report().events == []


@pytest.mark.slow
def test_paused_worker_that_dies_is_replaced_by_a_paused_one(team: Backend, plan: Plan) -> None:
    team.team.pause([1])
    pid = pid_of(team, 1)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(team, 1) != pid)
    wait_for_workers(team, 3)
    assert workers_of(team)[1].state == "paused"
    assert play(team, plan, 2) == oracle(plan, 2)


@pytest.mark.slow
def test_resizing_and_resetting_in_mid_run_change_no_byte(team: Backend, plan: Plan) -> None:
    wait_for_workers(team, 3)
    found, pid = play(team, plan, 1), pid_of(team, 0)
    team.team.resize(1)
    found += play(team, plan, 2, first=1)
    wait_for_workers(team, 1)
    team.team.reset([0])
    found += play(team, plan, 3, first=2)
    team.team.resize(2)
    found += play(team, plan, 4, first=3)
    team.team.resize(3)
    found += play(team, plan, 5, first=4)
    wait_for_workers(team, 3)
    assert pid_of(team, 0) != pid
    assert found + play(team, plan, 6, first=5) == oracle(plan, 6)
    assert team.report().events == []


@pytest.mark.slow
def test_worker_that_comes_while_all_are_paused_waits_too(team: Backend, plan: Plan) -> None:
    team.team.resize(2)
    wait_for_workers(team, 2)
    team.team.pause()
    team.team.resize(3)
    wait_for_workers(team, 3)
    assert {worker.state for worker in workers_of(team)} == {"paused"}
    assert team.collect(timeout=0.1) == []
    team.team.resume()
    assert play(team, plan, 2) == oracle(plan, 2)


def test_worker_is_replaced_after_its_interval() -> None:
    with started(PLAN, "threads", num_workers=1, reset_interval=4) as backend:
        assert play(backend, PLAN, 3) == oracle(PLAN, 3)  # nine rollouts
        assert sum(worker.num_finished for worker in workers_of(backend)) == 9
        assert backend.report().events == [], "nothing a person need know"


@pytest.mark.slow
def test_what_workers_print_is_logged_however_much_it_is(
    team: Backend, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    order(plan, "print", shard=1, at=2)
    assert play(team, plan, 2) == oracle(plan, 2)
    assert re.search(r"worker \d: x{1000}\n", caplog.text)


# rollouts take about a twentieth of a second, and are so many that workers have one in reserve
SLOW_PLAN = changed(PLAN, rollout_steps=200, num_shards=8)


@pytest.fixture(scope="module")
def victims() -> Iterator[Restartable]:
    patience = {"worker_timeout": 0.5, "start_timeout": 10.0, "shard_attempts": 1000}
    team = Restartable(SLOW_PLAN, "processes", num_workers=2, **patience)
    yield team
    team.backend.close()


attacks = st.lists(
    st.tuples(
        st.integers(0, 2),  # the turn
        st.floats(0.0, 0.3),  # seconds after its beginning
        st.integers(0, 1),  # the worker
        st.sampled_from([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schedule=attacks)
def test_no_schedule_of_kills_changes_a_byte(
    victims: Restartable, schedule: list[tuple[int, float, int, signal.Signals]]
) -> None:
    backend = victims.from_the_start()

    def attack(index: int, number: signal.Signals) -> None:
        pids = [worker.pid for worker in workers_of(backend) if worker.index == index and worker.pid]
        for pid in pids:
            os.kill(pid, number)

    for turn, expected in enumerate(oracle(SLOW_PLAN, 3)):
        publish_turn(backend, SLOW_PLAN, turn)
        timers = [
            threading.Timer(delay, attack, (index, number))
            for when, delay, index, number in schedule
            if when == turn
        ]
        for timer in timers:
            timer.start()
        assert contents(backend.collect()) == expected
        for timer in timers:
            timer.join()


@pytest.mark.parametrize("max_lag", [0, 2])
def test_nothing_is_lost_when_the_caller_is_interrupted_while_it_waits(max_lag: int, tmp_path: Path) -> None:
    """Ctrl-C while waiting: a caller that catches it and collects again gets everything."""
    plan = changed(trap_plan(tmp_path), max_lag=max_lag)
    armed = changed(trap_plan(tmp_path, spared=0), max_lag=max_lag)
    with started(plan) as serial, started(armed, "threads", num_workers=2) as backend:
        order(plan, "wait", shard=1, at=5)
        assert contents(backend.collect()) == contents(serial.collect())
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            backend.collect()
        (tmp_path / "go").touch()
        for _ in range(3):
            assert contents(backend.collect()) == contents(serial.collect())


@pytest.mark.parametrize("backend_name", ["serial", "threads"])
def test_signal_whose_handler_raises_nothing_changes_nothing(backend_name: str, tmp_path: Path) -> None:
    """As the handler of a run, which stops after the update, or one that ignores Ctrl-C."""
    plan = trap_plan(tmp_path, spared=0)
    settings = {"num_workers": 2} if backend_name == "threads" else {}
    received = threading.Event()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        received.wait(60.0)
        (tmp_path / "go").touch()

    with started(trap_plan(tmp_path)) as serial, started(plan, backend_name, **settings) as backend:
        order(plan, "wait", shard=1, at=5)
        before = signal.signal(signal.SIGINT, lambda *_: received.set())
        try:
            assert contents(backend.collect()) == contents(serial.collect())
            threading.Timer(0.1, interrupt).start()
            for _ in range(2):  # the first one waits for the signal
                assert contents(backend.collect()) == contents(serial.collect())
        finally:
            signal.signal(signal.SIGINT, before)
        assert received.is_set()


@pytest.mark.parametrize("backend_name", ["serial", "threads"])
def test_caller_that_is_interrupted_again_and_again_gets_every_rollout_once(backend_name: str) -> None:
    """Ctrl-C at any moment of `collect`: also between its steps, and while tasks are handed out."""
    expected = oracle(PLAN, 40)
    is_over = threading.Event()

    def interrupt_often() -> None:
        delays = random.Random(5)
        while not is_over.wait(delays.uniform(0.0, 0.003)):
            os.kill(os.getpid(), signal.SIGINT)

    num_interrupted = 0
    with started(PLAN, backend_name, **({"num_workers": 2} if backend_name == "threads" else {})) as backend:
        interrupter = threading.Thread(target=interrupt_often)
        before = signal.signal(signal.SIGINT, interrupt_collecting)
        interrupter.start()
        try:
            for turn, rollouts in enumerate(expected):
                publish_turn(backend, PLAN, turn)
                found: list[Rollout] = []
                while not found:
                    try:
                        found = backend.collect()
                    except KeyboardInterrupt:
                        num_interrupted += 1
                assert contents(found) == rollouts
        finally:
            is_over.set()
            interrupter.join()
            signal.signal(signal.SIGINT, before)
    assert num_interrupted > 0


def interrupt_collecting(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt if it strikes in `collect`, and do nothing elsewhere."""
    if frame is not None and frame.f_code.co_name == "gc_callback":  # of the tests' tools: it would be lost
        return
    while frame is not None:
        if frame.f_code.co_name == "collect":
            raise KeyboardInterrupt
        frame = frame.f_back
