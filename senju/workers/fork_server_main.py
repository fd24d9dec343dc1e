"""The fork server: a process that has loaded what every worker needs, and forks workers.

It has one thread and starts none, because a fork copies only the thread that calls it.
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
from senju.workers.fork_server import name_files

LARGEST = 2**17  # bytes of a request
MOST_FILES = 64  # of a request
BootInfo = dict[str, Any]


def serve(connection: int) -> BootInfo | None:
    """Fork a process for each request; return its boot info in each child, and None in the server."""
    importlib.import_module("senju.workers.worker_main").preload()  # which takes seconds
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descendants.adopt_orphans()
    with socket.socket(fileno=connection) as parent:
        return _Server(parent).serve()


class _Server:
    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        self._children: dict[int, tuple[int, int]] = {}  # by pidfd: pid, and pipe for the exit code
        self._loaded: set[str] = set()  # modules of entries

    def serve(self) -> BootInfo | None:
        is_wanted = True
        while is_wanted or self._children:  # children end by themselves; their descendants must end too
            poll = select.poll()
            for number in [*self._children, *([self._parent.fileno()] if is_wanted else [])]:
                poll.register(number, select.POLLIN)
            ready = {number for number, _ in poll.poll()}
            self._report_ends(ready & self._children.keys())
            if self._parent.fileno() not in ready:
                continue
            request, files, _, _ = socket.recv_fds(self._parent, LARGEST, MOST_FILES)
            is_wanted = bool(request)  # else the parent is gone, or needs no more processes
            boot_info = self._fork(json.loads(request), files) if request else None
            if boot_info is not None:
                return boot_info
        return None

    def _report_ends(self, ended: set[int]) -> None:
        """Reap ended children. Their descendants are ended before the end is reported."""
        if ended:
            descendants.end_children(spared=[pid for pid, _ in self._children.values()])
        for handle in ended:
            found = os.waitid(os.P_PIDFD, handle, os.WEXITED)
            assert found is not None
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            _, status = self._children.pop(handle)
            with contextlib.suppress(BrokenPipeError):  # the parent no longer listens
                os.write(status, array.array("i", [code]).tobytes())
            os.close(status)
            os.close(handle)

    def _fork(self, boot_info: BootInfo, files: list[int]) -> BootInfo | None:
        """Fork; return the boot info in the child, and None in the server."""
        status, output, *theirs = files
        self._load(boot_info["entry"])
        try:
            pid = os.fork()
        except OSError as error:
            self._parent.send(json.dumps({"errno": error.errno, "error": error.strerror}).encode())
            for number in files:
                os.close(number)
            return None
        if pid == 0:
            others = [pipe for _, pipe in self._children.values()]
            for number in (status, self._parent.detach(), *self._children, *others):
                os.close(number)
            _become_like_spawned(boot_info, output)
            return boot_info | name_files(theirs)
        handle = os.pidfd_open(pid)
        socket.send_fds(self._parent, [json.dumps({"pid": pid}).encode()], [handle])
        for number in (output, *theirs):
            os.close(number)
        self._children[handle] = pid, status
        return None

    def _load(self, entry: str) -> None:
        """Load what a role needs, once for all its workers."""
        module = importlib.import_module(entry.partition(":")[0])
        if module.__name__ in self._loaded:
            return
        self._loaded.add(module.__name__)
        if hasattr(module, "preload"):
            module.preload()
        gc.collect()
        gc.freeze()  # the collector no longer writes to these pages, so they stay shared


def _become_like_spawned(boot_info: BootInfo, output: int) -> None:
    os.setpgid(0, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(boot_info["folder"])
    os.environ.update(boot_info["environment"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    np.random.seed()  # else all children would draw the same numbers; Python's `random` reseeds itself
