"""The first lines of a worker process: watch the parent, then load the rest, which takes seconds.

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

_ALIVE_SECONDS = 1.0  # a connection that stays open for so long belongs to a live process
_TRIES = 10


def main() -> None:
    """Become a worker, or a fork server whose forks become workers."""
    boot_info = json.loads(sys.argv[1])
    sys.path[:] = boot_info["path"]  # the parent's: it may be the only way to find senju
    if "fork_server" in boot_info:
        with ending_if_closed(boot_info["fork_server"]):
            server = importlib.import_module("senju.workers.fork_server_main")
        boot_info = server.serve(boot_info["fork_server"])
        if boot_info is None:
            os._exit(0)
    descendants = importlib.import_module("senju.descendants")
    descendants.adopt_orphans()
    watcher = threading.Thread(
        target=end_with_the_parent, args=(boot_info["lifeline"], boot_info["sockets"]), daemon=True
    )
    watcher.start()
    worker = importlib.import_module("senju.workers.worker_main")
    if not worker.run(boot_info):  # the team is gone: the watcher ends this process
        watcher.join()
    descendants.end_children()
    os._exit(0)  # at once: torch takes long to clean up


@contextlib.contextmanager
def ending_if_closed(connection: int) -> Iterator[None]:
    """End this process if the other side closes the connection meanwhile; leaves no thread behind."""
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
    poll.register(connection, 0)  # 0: report only that it was closed
    poll.register(done, 0)
    if (connection, select.POLLHUP) in poll.poll():
        os._exit(0)


def end_with_the_parent(lifeline: int, sockets: list[str]) -> None:
    """Wait for the end of the lifeline, to which nothing is ever written: it closes when the parent ends."""
    os.read(lifeline, 1)
    for path in sockets:
        remove_unless_alive(path)
    importlib.import_module("senju.descendants").end_children()
    if os.getpgrp() == os.getpid():  # in case this process has just started another
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def remove_unless_alive(path: str) -> None:
    """Remove a socket's file, unless another process listens on it by now."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):  # a link may lead to another process's socket
            return
    for _ in range(_TRIES):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_ALIVE_SECONDS)
            try:
                client.connect(path)
                client.recv(1)
            except ConnectionRefusedError:
                with contextlib.suppress(OSError):  # another worker removed it first
                    os.unlink(path)
                return
            except ConnectionResetError:  # the system was not yet done with closing the parent's files
                continue
            except OSError:  # a process listens, or the file is gone, or its path is too long
                return


if __name__ == "__main__":
    main()
