"""The nursery: a process that has loaded what every process of ours needs, and of which they are forked.

It has one thread and starts none, so that whatever is forked of it is whole.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
from typing import Any

import numpy as np

from senju import descendants

LARGEST = 2**17  # bytes of a request
MOST_FILES = 64  # of a request
_loaded: set[str] = set()  # modules of entries

Told = dict[str, Any]


def serve(connection: int) -> Told | None:
    """Fork a process for each request; return in each of them what it is told, and None at the end."""
    importlib.import_module("senju.backends.processes.main")  # which takes seconds
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descendants.adopt_orphans()
    with socket.socket(fileno=connection) as parent:
        return _serve(parent)


def _serve(parent: socket.socket) -> Told | None:
    statuses: dict[int, int] = {}  # where each child's status goes, by the child's pidfd
    pids: dict[int, int] = {}  # of the children, by the pidfd
    while True:
        ready = _wait_for([parent.fileno(), *statuses])
        _tell_ends(ready, statuses, pids)
        if parent.fileno() not in ready:
            continue
        request, files, _, _ = socket.recv_fds(parent, LARGEST, MOST_FILES)
        if not request:  # the parent is gone, or needs nobody any more
            break
        told = _bear(parent, json.loads(request), files, statuses, pids)
        if told is not None:
            return told
    while statuses:  # they end by themselves, and what they have started must end, too
        _tell_ends(_wait_for(list(statuses)), statuses, pids)
    return None


def _tell_ends(ready: set[int], statuses: dict[int, int], pids: dict[int, int]) -> None:
    """Take the ends of children; all that they had started is ended before anybody hears of it."""
    ended = ready & statuses.keys()
    if ended:
        descendants.end_children(spared=pids.values())
    for child in ended:
        del pids[child]
        _tell_end(child, statuses.pop(child))


def _wait_for(numbers: list[int]) -> set[int]:
    """Those that have something to say."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLIN)
    return {number for number, _ in poll.poll()}


def _tell_end(child: int, status: int) -> None:
    """Take a child's end, and pass on how it ended."""
    found = os.waitid(os.P_PIDFD, child, os.WEXITED)
    assert found is not None
    code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know
        os.write(status, array.array("i", [code]).tobytes())
    os.close(status)
    os.close(child)


def _load(entry: str) -> None:
    """Load what a process of this kind will need, for it and the next of its kind."""
    module = importlib.import_module(entry.partition(":")[0])
    if module.__name__ in _loaded:
        return
    _loaded.add(module.__name__)
    if hasattr(module, "preload"):
        module.preload()
    gc.collect()
    gc.freeze()  # pages that are not written to stay shared


def _bear(
    parent: socket.socket, told: Told, files: list[int], statuses: dict[int, int], pids: dict[int, int]
) -> Told | None:
    """Fork; return what it is told in the child, and None in the nursery."""
    status, output, *theirs = files
    _load(told["entry"])
    try:
        pid = os.fork()
    except OSError as error:
        parent.send(json.dumps({"errno": error.errno, "error": error.strerror}).encode())
        for number in files:
            os.close(number)
        return None
    if pid == 0:
        for number in (status, parent.detach(), *statuses, *statuses.values()):
            os.close(number)
        return _begin(told, output, theirs)
    child = os.pidfd_open(pid)
    socket.send_fds(parent, [json.dumps({"pid": pid}).encode()], [child])
    for number in (output, *theirs):
        os.close(number)
    statuses[child], pids[child] = status, pid
    return None


def _begin(told: Told, output: int, files: list[int]) -> Told:
    """Become a process like one that was spawned."""
    os.setpgid(0, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(told["folder"])
    os.environ.update(told["environment"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    np.random.seed()  # not every child the same; `random` sees to that itself
    connection, lifeline, *descriptors = files
    return told | {"connection": connection, "lifeline": lifeline, "descriptors": descriptors}
