"""Workers as threads of this process.

Compiled games and matrix products run without Python's lock, so threads can share the work, and nothing has
to be started or serialised. A thread cannot be killed: one that hangs ends the run.
"""

import sys
import threading
import traceback

import torch

from senju.workers.channel import LocalChannel, local_pair
from senju.workers.role import Executor, Payload, Role, Start, WorkerEnding, WorkerHandle
from senju.workers.worker_main import serve


class ThreadHandle(WorkerHandle):
    """A worker thread."""

    can_be_killed = False

    def __init__(self, role: Role, index: int) -> None:
        self.channel, theirs = local_pair()
        start = Start(index, Payload())
        self._thread = threading.Thread(
            target=_work, args=(role, start, theirs), name=f"senju {role.worker_name} {index}", daemon=True
        )
        self._thread.start()

    def kill(self) -> None:
        """A thread ends by itself, after its task, when it finds the channel closed."""

    def wait(self) -> WorkerEnding:
        return WorkerEnding("has ended")

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def close(self) -> None:
        self.channel.close()


def _work(role: Role, start: Start, channel: LocalChannel) -> None:
    torch.set_num_threads(1)  # of this thread: workers share the cores already
    try:
        serve(channel, start, role.local_handler)
    finally:
        channel.close()


class ThreadExecutor(Executor):
    """Starts worker threads."""

    def start(self, role: Role, index: int) -> ThreadHandle:
        return ThreadHandle(role, index)
