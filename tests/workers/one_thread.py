"""Another kind of executor: one thread executes the tasks of all workers in turn, in memory.

A cluster's actors, or a thread that steps the games of all workers for one GPU, fit in the same way: a
channel for each worker, and a handle. Roles do not notice.
"""

import selectors
import threading
from functools import partial
from time import monotonic

from senju.workers.channel import Kind, LocalChannel, Message, failed, local_pair
from senju.workers.role import Executor, Handler, Payload, Role, Start, WorkerEnding, WorkerHandle


class OneThreadHandle(WorkerHandle):
    can_be_killed = False

    def __init__(self, channel: LocalChannel) -> None:
        self.channel = channel

    def kill(self) -> None:
        pass

    def wait(self) -> WorkerEnding:
        return WorkerEnding("has ended")

    def stack(self) -> str:
        return ""

    def close(self) -> None:
        self.channel.close()


class OneThreadExecutor(Executor):
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, role: Role, index: int) -> OneThreadHandle:
        ours, theirs = local_pair()

        def note(values: object) -> None:
            theirs.send(Message(Kind.NOTE, 0, values))

        handler = role.local_handler(Start(index, Payload(), note=note))
        self._selector.register(theirs, selectors.EVENT_READ, partial(self._work, theirs, handler))
        theirs.send(Message(Kind.READY))
        if self._thread.ident is None:
            self._thread.start()
        return OneThreadHandle(ours)

    def _run(self) -> None:
        while self._selector.get_map():
            for key, _ in self._selector.select():
                key.data()
        self._selector.close()

    def _work(self, channel: LocalChannel, handler: Handler) -> None:
        task = channel.receive()
        if task is None or task.kind == Kind.STOP:
            self._selector.unregister(channel)
            channel.close()
            return
        began = monotonic()
        try:
            values, blocks = handler.execute(Payload(task.values, task.blocks))
        except Exception as error:  # noqa: BLE001  # the team decides
            channel.send(failed(error, task.number))
        else:
            channel.send(Message(Kind.DONE, task.number, [began, monotonic(), values], blocks))
