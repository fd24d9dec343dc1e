"""The arena's worker processes, and the threads that read from them."""

import socket
import threading

from senju.training.arena.tasks import ArenaSettings, Schedule
from senju.training.arena.workers import _Crew, _Worker


def test_socket_is_not_closed_while_a_late_reader_writes_to_it() -> None:
    """The number of a descriptor closed meanwhile could be another file's by then."""
    were_open: list[bool] = []

    class Watched(socket.socket):
        def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
            closing.start()
            closing.join(0.2)  # would be over by then
            were_open.append(self.fileno() >= 0)
            return super().send(data, flags)

    crew = _Crew(Schedule(["one", "other"], ArenaSettings()), {}, lambda task, counts: None)
    worker = _Worker({}, crew._tell)
    closing = threading.Thread(target=crew.close)
    crew._wake = Watched(fileno=crew._wake.detach())
    worker.end()  # its reader says that it has ended
    closing.join(60)
    assert were_open == [True]
    assert not closing.is_alive()
