"""Tasks in threads."""

import socket
import threading

import pytest

from senju.training.environments import threads
from senju.training.environments.tasks import Episode, Result, Task
from senju.training.environments.threads import Threads


def test_socket_is_not_closed_while_a_late_thread_writes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a descriptor closed meanwhile could be another file's by then."""
    monkeypatch.setattr(threads, "_MOMENT", 0.0)
    were_open: list[bool] = []
    has_written = threading.Event()

    class Watched(socket.socket):
        def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
            closing.start()
            closing.join(0.2)  # would be over by then
            were_open.append(self.fileno() >= 0)
            has_written.set()
            return super().send(data, flags)

    def fail(task: Task) -> Result:
        raise ValueError(task)

    station = Threads(lambda: fail, 1, "late", 60.0)
    closing = threading.Thread(target=station.close)
    station._wake = Watched(fileno=station._wake.detach())
    station.give(Episode(0, 0, ()))
    assert has_written.wait(60)
    closing.join(60)
    assert were_open == [True]
    assert not closing.is_alive()
