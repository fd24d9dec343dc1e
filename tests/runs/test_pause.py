"""The gate between two updates: waiting threads, their answers, and the effect of signals."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from senju.runs.interrupt import StopRequest
from senju.runs.live import PauseGate

SECONDS = 60.0


class Loop:
    """A training loop in a thread: passes the gate, is busy for a moment, counts."""

    def __init__(self, gate: PauseGate, stop: StopRequest) -> None:
        self.gate, self.stop = gate, stop
        self.updates, self.is_busy = 0, False
        self.has_updated = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.stop.is_set:
            self.gate.pass_through(self.stop)
            self.is_busy = True
            self.updates += 1
            self.has_updated.set()
            self.is_busy = False


@pytest.fixture
def gate() -> PauseGate:
    return PauseGate()


@pytest.fixture
def stop() -> StopRequest:
    return StopRequest()


@pytest.fixture
def loop(gate: PauseGate, stop: StopRequest) -> Iterator[Loop]:
    loop = Loop(gate, stop)
    loop.thread.start()
    yield loop
    stop.signal = signal.SIGINT
    gate.open()
    loop.thread.join(SECONDS)
    assert not loop.thread.is_alive()


def test_open_gate_is_passed_at_once(gate: PauseGate, stop: StopRequest) -> None:
    gate.pass_through(stop)
    assert (gate.is_closed, gate.is_waiting) == (False, False)


def test_closed_gate_holds_the_loop_until_it_is_opened(gate: PauseGate, loop: Loop) -> None:
    gate.close()
    assert gate.wait_until_reached(SECONDS)
    assert (gate.is_closed, gate.is_waiting) == (True, True)
    reached = loop.updates
    loop.has_updated.clear()
    assert not loop.has_updated.wait(0.05)
    gate.open()
    assert loop.has_updated.wait(SECONDS)
    assert loop.updates > reached


def test_gate_closed_again_at_once_reports_a_waiting_loop_only_while_it_waits(
    gate: PauseGate, loop: Loop
) -> None:
    for _ in range(300):
        gate.close()
        assert gate.wait_until_reached(SECONDS)
        standing = (loop.updates, loop.is_busy)
        gate.close()  # twice is once
        assert gate.wait_until_reached(SECONDS)
        assert standing == (loop.updates, False)
        gate.open()


def test_gate_opened_and_closed_faster_than_the_loop_can_see_never_blocks_for_ever(
    gate: PauseGate, loop: Loop
) -> None:
    gate.close()
    assert gate.wait_until_reached(SECONDS)
    for _ in range(1000):  # more than what a socket takes
        gate.open()
        gate.close()
    gate.open()
    loop.has_updated.clear()
    assert loop.has_updated.wait(SECONDS)


def test_loop_that_is_elsewhere_is_not_waited_for_longer_than_asked(gate: PauseGate) -> None:
    gate.close()
    assert not gate.wait_until_reached(0.01)
    assert gate.is_closed


def test_opening_ends_the_wait_for_the_loop(gate: PauseGate) -> None:
    gate.close()
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(gate.wait_until_reached(SECONDS)))
    waiting.start()
    gate.open()
    waiting.join(SECONDS)
    assert answers == [False]


def test_stop_requested_before_opens_the_gate(gate: PauseGate, stop: StopRequest) -> None:
    gate.close()
    stop.signal = signal.SIGINT
    gate.pass_through(stop)
    assert (gate.is_closed, gate.is_waiting) == (False, False)
    assert not gate.wait_until_reached(SECONDS)


# Other threads are there too, since the system may hand a signal to any of them.
AT_THE_GATE = """
import signal
import sys
import threading

from senju.runs.interrupt import StopRequest, stop_on_signals
from senju.runs.live import PauseGate

gate = PauseGate()
for _ in range(4):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def tell_when_waiting():
    assert gate.wait_until_reached(60)
    print("waiting", flush=True)

def wait_at_the_gate(stop):
    gate.close()
    threading.Thread(target=tell_when_waiting, daemon=True).start()
    gate.pass_through(stop)
    print("through", stop.exit_code, gate.is_closed, gate.is_waiting, flush=True)
"""
ONE_SIGNAL = """
with stop_on_signals() as stop:
    wait_at_the_gate(stop)
"""
TWO_SIGNALS = """
with stop_on_signals() as stop:
    try:
        wait_at_the_gate(stop)
        threading.Event().wait(60)
    except KeyboardInterrupt:
        print("interrupted", gate.is_waiting, flush=True)
"""
NOT_OURS = """
try:
    wait_at_the_gate(StopRequest())
except KeyboardInterrupt:
    print("interrupted", gate.is_waiting, flush=True)
"""
AT_ANY_MOMENT = """
import logging
import random

logging.disable()
chance = random.Random(1)
for _ in range(2000):
    with stop_on_signals() as stop:
        signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGINT))
        gate.close()
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 2e-4))
        gate.pass_through(stop)
        assert stop.is_set
print("through")
"""


@pytest.fixture
def start_script() -> Iterator[Any]:
    """Starts a script as a process of its own; none outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(script: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", AT_THE_GATE + script]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == line, process.communicate(timeout=SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_wakes_the_loop_at_the_gate(start_script: Any, number: signal.Signals, code: int) -> None:
    process = start_script(ONE_SIGNAL)
    wait_for(process, "waiting")
    process.send_signal(number)
    output, errors = process.communicate(timeout=SECONDS)
    assert output == f"through {code} False False\n"
    assert errors.startswith("stopping")


@pytest.mark.slow
def test_second_signal_interrupts_at_the_gate_or_behind_it(start_script: Any) -> None:
    process = start_script(TWO_SIGNALS)
    wait_for(process, "waiting")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=SECONDS)
    assert output.splitlines()[-1] == "interrupted False"


@pytest.mark.slow
def test_interrupt_without_a_handler_is_raised(start_script: Any) -> None:
    process = start_script(NOT_OURS)
    wait_for(process, "waiting")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=SECONDS)
    assert output == "interrupted False\n"


@pytest.mark.slow
def test_signal_at_any_moment_neither_is_missed_nor_locks(start_script: Any) -> None:
    output, errors = start_script(AT_ANY_MOMENT).communicate(timeout=SECONDS)
    assert (output, errors) == ("through\n", "")
