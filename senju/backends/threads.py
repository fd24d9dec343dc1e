"""The threads backend: workers are threads of this process.

Compiled games and matrix products run without Python's lock, so that threads can share the work;
nothing has to be started or shared. A thread cannot be killed: one that hangs ends the run.
"""

import copy
import mmap
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from senju.backends.arena import Arena, map_shared, new_private_block, open_anonymous, require_room
from senju.backends.backend import Plan
from senju.backends.member import Hand
from senju.backends.messages import send
from senju.backends.pool import Pool
from senju.backends.worker import Worker, describe_failure, serve
from senju.games.game import Game
from senju.models.model import Model
from senju.usercode import ending_forked_child


def connected_pair() -> "tuple[Connection[Any, Any], Connection[Any, Any]]":
    """Two ends of a connection."""
    here, there = socket.socketpair()
    return Connection(here.detach()), Connection(there.detach())


class ThreadHand(Hand):
    """A worker thread, with copies of the models: building them would use this process's random numbers."""

    can_be_killed = False

    def __init__(self, plan: Plan, models: Sequence[Model], block: Any, index: int) -> None:
        self.connection, self._theirs = connected_pair()
        arguments = (plan, copy.deepcopy(models), block, index)
        self._thread = threading.Thread(
            target=self._work, args=arguments, name=f"senju worker {index}", daemon=True
        )
        self._thread.start()

    def _work(self, plan: Plan, models: Sequence[Model], block: Any, index: int) -> None:
        torch.set_num_threads(1)  # of this thread: workers share the cores already
        with self._theirs as connection:
            try:
                with ending_forked_child(lambda error: send(connection, describe_failure(error, None))):
                    worker = Worker(plan, models, block, index)
            except BaseException as error:  # noqa: BLE001  # the user's code may raise anything
                send(connection, describe_failure(error, None))
                return
            serve(connection, worker)

    def kill(self) -> None:
        """It ends after its rollout, when it finds nobody to tell."""

    def wait(self) -> str:
        """Nothing to wait for: it ends by itself."""
        return "has ended"

    def where(self) -> str:
        """The thread's stack."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def close(self) -> None:
        """Close this end; a thread that plays on finds out."""
        self.connection.close()


class Threads(Pool):
    """Workers are threads."""

    name = "threads"
    _block: NDArray[np.uint8] | mmap.mmap

    def _open_arena(self, game: Game, sizes: Sequence[int]) -> tuple[Arena, int]:
        num_bytes = require_room(self._plan, game, sizes)
        if not self._plan.is_shared:
            self._block = new_private_block(num_bytes)
            return Arena(self._plan, game, sizes, self._block), 0
        self._descriptor = open_anonymous(num_bytes)
        self._block = map_shared(self._descriptor, num_bytes)
        return Arena(self._plan, game, sizes, self._block), num_bytes

    def _hire(self, index: int) -> Hand:
        return ThreadHand(self._plan, self._models, self._block, index)

    def _hire_here(self, index: int) -> Hand:
        return self._hire(index)
