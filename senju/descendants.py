"""Ends processes that the user's code started in one of our processes. Uses the standard library only."""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection

_PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants, so that it can end them (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(spared: Collection[int] = ()) -> None:
    """Kill the children of this process, except `spared`, and then their children, which it adopts."""
    if not _has_children():
        return
    seen = set(spared)
    while found := [pid for pid, parent in parents().items() if parent == os.getpid() and pid not in seen]:
        seen.update(found)
        killed = [pid for pid in found if _kill(pid)]
        for pid in killed:
            with contextlib.suppress(ChildProcessError):  # the user's code has waited for it
                os.waitpid(pid, 0)


def _has_children() -> bool:
    if sys.platform != "linux":  # `parents` needs /proc
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_descendants(ancestor: int) -> None:
    """Kill the descendants of a process that is not our child, as far as they can be found."""
    found, known = {ancestor}, parents()
    while more := {pid for pid, parent in known.items() if parent in found} - found:
        found |= more
    for pid in found - {ancestor}:
        _kill(pid)


def _kill(pid: int) -> bool:
    """Kill a process; False if it has ended or belongs to another user."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def parents() -> dict[int, int]:
    """The parent of every process; empty on systems without /proc."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc/self") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # it may have ended
            found[int(pid)] = int(file.read().rpartition(b")")[2].split()[1])
    return found
