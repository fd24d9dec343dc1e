"""The first lines of a process of ours: watch the parent, then load the rest, which takes seconds.

This file is run by its path and imports nothing of senju before it knows where to find it.
"""

import contextlib
import importlib
import json
import os
import socket
import sys
import threading

_ALIVE_SECONDS = 1.0  # whoever keeps a connection open so long is no process that just died
_TRIES = 10


def main() -> None:
    """Begin with what `SpawnedHand` says, as JSON; its entry gets index, connection and descriptors."""
    told = json.loads(sys.argv[1])
    watcher = threading.Thread(
        target=end_with_the_parent, args=(told["lifeline"], told["sockets"]), daemon=True
    )
    watcher.start()
    sys.path[:] = told["path"]  # the parent's, since it may be the only way to find senju
    module, _, function = told["entry"].partition(":")
    serve = getattr(importlib.import_module(module), function)
    was_told_to_end = serve(told["index"], told["connection"], *told["descriptors"])
    if not was_told_to_end:
        watcher.join()
    os._exit(0)  # at once: torch takes its time to end


def end_with_the_parent(lifeline: int, sockets: list[str]) -> None:
    """Nothing is ever written to the lifeline: it ends when the parent does, however that ends."""
    os.read(lifeline, 1)
    for path in sockets:
        remove_unless_alive(path)
    os._exit(0)


def remove_unless_alive(path: str) -> None:
    """Remove a socket's file, unless another process listens there by now."""
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
