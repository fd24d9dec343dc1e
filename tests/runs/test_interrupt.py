"""Signals: the first asks, the second ends."""

import os
import signal
import socket
import threading

import pytest

from senju.runs.interrupt import StopRequest, stop_on_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_first_signal_is_a_request_with_the_exit_code_shells_expect(
    number: signal.Signals, code: int
) -> None:
    with stop_on_signals() as stop:
        assert (stop.is_set, stop.exit_code) == (False, 0)
        signal.raise_signal(number)
        assert (stop.is_set, stop.signal, stop.exit_code) == (True, number, code)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_interrupts_at_once(second: signal.Signals) -> None:
    with stop_on_signals():
        signal.raise_signal(signal.SIGINT)  # only asks
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)


def test_earlier_handlers_are_restored_even_after_an_error() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(RuntimeError), stop_on_signals():
        raise RuntimeError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_get_a_request_that_is_never_set() -> None:
    requests: list[StopRequest] = []
    before = signal.getsignal(signal.SIGINT)

    def use() -> None:
        with stop_on_signals() as stop:
            requests.append(stop)
            assert signal.getsignal(signal.SIGINT) is before

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(timeout=60)
    assert [request.is_set for request in requests] == [False]


def test_sleeper_is_woken_by_an_earlier_signal_and_by_its_socket() -> None:
    reader, writer = socket.socketpair()
    with reader, writer, stop_on_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        stop.wait(reader)  # would last for ever
        assert stop.signal is signal.SIGTERM
        writer.send(b".")
        stop.wait(reader)
        reader.setblocking(False)
        with pytest.raises(BlockingIOError):  # taken away: the next sleep waits for something new
            reader.recv(1)


def test_earlier_wakeup_descriptor_is_restored() -> None:
    told, tell = socket.socketpair()
    tell.setblocking(False)
    with told, tell:
        before = signal.set_wakeup_fd(tell.fileno())
        try:
            with stop_on_signals():
                pass
            assert signal.set_wakeup_fd(before) == tell.fileno()
        finally:
            signal.set_wakeup_fd(before)


def test_descriptor_that_signals_write_to_is_open_until_they_write_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal in between would write into whatever file has got the number."""
    set_wakeup_fd, replaced = signal.set_wakeup_fd, list[int]()

    def watched(descriptor: int, **options: bool) -> int:
        before = set_wakeup_fd(descriptor, **options)
        if before >= 0:
            os.fstat(before)  # OSError where it is closed
        replaced.append(before)
        return before

    monkeypatch.setattr(signal, "set_wakeup_fd", watched)
    with stop_on_signals():
        pass
    assert len(replaced) == 2
