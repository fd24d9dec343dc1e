"""Processes that the user's code started in one of ours: they end with it. Needs Python alone."""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection

_PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose parents end, so that it can end them (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(spared: Collection[int] = ()) -> None:
    """Kill the children of this process that the user's code started, and theirs, which become its own."""
    if not _has_children():
        return
    seen = set(spared)
    while found := [pid for pid, parent in parents().items() if parent == os.getpid() and pid not in seen]:
        seen.update(found)
        killed = [pid for pid in found if _kill(pid)]
        for pid in killed:
            with contextlib.suppress(ChildProcessError):  # the user's code waited for it
                os.waitpid(pid, 0)


def _has_children() -> bool:
    if sys.platform != "linux":  # nor could they be found
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_descendants(ancestor: int) -> None:
    """Kill all that come from a process that is not ours to wait for, as far as they can be found."""
    found, known = {ancestor}, parents()
    while more := {pid for pid, parent in known.items() if parent in found} - found:
        found |= more
    for pid in found - {ancestor}:
        _kill(pid)


def _kill(pid: int) -> bool:
    """Whether it could be."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended, or runs as another user
        return False
    return True


def parents() -> dict[int, int]:
    """The parent of every process; none where the system has no such list."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc/self") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # it may have ended
            found[int(pid)] = int(file.read().rpartition(b")")[2].split()[1])
    return found
