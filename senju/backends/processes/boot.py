"""The first lines of a process of ours: watch the parent, then load the rest, which takes seconds.

This file is run by its path and imports nothing of senju before it knows where to find it.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from typing import Any

_ALIVE_SECONDS = 1.0  # whoever keeps a connection open so long is no process that just died
_TRIES = 10


def main() -> None:
    """Begin with what is said, as JSON, here or by the nursery that this process becomes."""
    told = json.loads(sys.argv[1])
    sys.path[:] = told["path"]  # the parent's, since it may be the only way to find senju
    if "nursery" in told:
        with ending_if_closed(told["nursery"]):
            nursery = importlib.import_module("senju.backends.processes.nursery_main")
        told = nursery.serve(told["nursery"])
        if told is None:
            os._exit(0)
    begin(told)


def begin(told: dict[str, Any]) -> None:
    """Watch the parent, and call the entry with index, connection and descriptors."""
    descendants = importlib.import_module("senju.descendants")
    descendants.adopt_orphans()
    watcher = threading.Thread(
        target=end_with_the_parent, args=(told["lifeline"], told["sockets"]), daemon=True
    )
    watcher.start()
    module, _, function = told["entry"].partition(":")
    serve = getattr(importlib.import_module(module), function)
    was_told_to_end = serve(told["index"], told["connection"], *told["descriptors"])
    if not was_told_to_end:
        watcher.join()
    descendants.end_children()
    os._exit(0)  # at once: torch takes its time to end


@contextlib.contextmanager
def ending_if_closed(connection: int) -> Iterator[None]:
    """End this process should the other side close the connection meanwhile; no thread is left after it."""
    done, finish = os.pipe()
    watcher = threading.Thread(target=_end_if_closed, args=(connection, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(finish)
        watcher.join()
        os.close(done)


def _end_if_closed(connection: int, done: int) -> None:
    poll = select.poll()
    poll.register(connection, 0)  # its end alone
    poll.register(done, 0)
    if (connection, select.POLLHUP) in poll.poll():
        os._exit(0)


def end_with_the_parent(lifeline: int, sockets: list[str]) -> None:
    """Nothing is ever written to the lifeline: it ends when the parent does, however that ends."""
    os.read(lifeline, 1)
    for path in sockets:
        remove_unless_alive(path)
    importlib.import_module("senju.descendants").end_children()
    if os.getpgrp() == os.getpid():  # in case this process has just started another
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def remove_unless_alive(path: str) -> None:
    """Remove a socket's file, unless another process listens there by now."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):  # a link may lead to another's
            return
    for _ in range(_TRIES):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_ALIVE_SECONDS)
            try:
                client.connect(path)
                client.recv(1)
            except ConnectionRefusedError:
                with contextlib.suppress(OSError):  # another worker was first
                    os.unlink(path)
                return
            except ConnectionResetError:  # the system was not yet done with closing the parent's files
                continue
            except OSError:  # somebody listens, or it is not there, or too long to be reached from here
                return


if __name__ == "__main__":
    main()
