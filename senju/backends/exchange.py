"""What a worker process and the evaluation service pass to each other: requests, and arrays beside them.

Each worker process has a socket and a shared block of its own, so a replacement never meets what its
predecessor left. What the policies see is read from the rollout's slots.
"""

import contextlib
import json
import mmap
import socket
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.backends.plan import Plan
from senju.collect.orders import orders_bytes
from senju.collect.rollout import policy_view
from senju.collect.step_actor import Results
from senju.games.game import Game
from senju.games.rows import CLOCK
from senju.workers.shared_memory import ArrayAllocator

_LONGEST_REQUEST = 32_000  # bytes


class Request(IntEnum):
    """What a worker asks for. `group` is the index of policies that are evaluated together."""

    READY = 1  # () -> (): the networks are where they are evaluated
    TAKE = 2  # (shard, turn, attempt) -> (stamp,): the newest weights; their orders are in the exchange
    BEGIN = 3  # (group, seed, epsilons) -> ()
    ACT = 4  # (group, time) -> (): results are in the exchange
    EVALUATE = 5  # (group, count) -> (): observations and values are in the exchange
    LOGITS = 6  # (group, policy, position) -> (): logits are in the exchange
    END = 7  # (is_complete,) -> (): everything is where the learner reads it


class Exchange:
    """The arrays that a worker and the service share besides the rollouts."""

    def __init__(self, plan: Plan, game: Game, block: mmap.mmap | None) -> None:
        allocate, num_policies = ArrayAllocator(block), len(plan.policies)
        view = policy_view(game, num_policies)
        decisions = (num_policies, plan.games_per_shard * view.num_acting)
        self.orders: NDArray[np.uint8] = allocate(orders_bytes(plan.max_opponents, num_policies), np.uint8)
        self.clock: NDArray[np.void] = allocate(plan.games_per_shard, CLOCK)
        self.observation: NDArray[Any] = allocate(
            (*decisions, *view.observation_shape), view.observation_dtype
        )
        self.logits: NDArray[np.float32] = allocate((1, view.num_actions), np.float32)
        self._actions: NDArray[np.int32] = allocate(decisions, np.int32)
        self._log_probs: NDArray[np.float32] = allocate(decisions, np.float32)
        self._values: NDArray[np.float32] = allocate(decisions, np.float32)
        self._explored: NDArray[np.bool_] = allocate(decisions, np.bool_)
        self.num_bytes = allocate.num_bytes

    def results(self, num_policies: int) -> Results:
        """The arrays for the results of one group."""
        own = slice(num_policies)
        return Results(self._actions[own], self._log_probs[own], self._values[own], self._explored[own])


class Line:
    """One end of the connection between a worker and the service."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, values: Sequence[Any]) -> None:
        """Send a request or a reply; OSError if the other end is gone."""
        self._socket.send(json.dumps(values).encode())

    def receive(self) -> list[Any] | None:
        """Wait for the next one; None if the other end is gone."""
        with contextlib.suppress(OSError):
            data = self._socket.recv(_LONGEST_REQUEST)
            if data:
                found: list[Any] = json.loads(data)
                return found
        return None

    def hang_up(self) -> None:
        """End the connection, which wakes both ends."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end; may be called twice."""
        self._socket.close()
