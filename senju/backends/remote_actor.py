"""A worker process's side of evaluation in the training process, which alone uses the device."""

import os
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.backends.exchange import Exchange, Line, Request
from senju.backends.plan import Plan
from senju.collect.device_columns import DeviceSlot
from senju.collect.exploration import Acting
from senju.collect.step_actor import Results, StepActor, StepProgram
from senju.games.game import Game, Observations, SeatView
from senju.models.model import Model
from senju.workers.shared_memory import map_shared


class RemoteProgram(StepProgram):
    """Lets the training process evaluate, with weights that it keeps for this worker."""

    def __init__(self, plan: Plan, game: Game, connection: int, memory: int) -> None:
        """Take over two files: the connection and the exchange."""
        self._line = Line(socket.socket(fileno=connection))
        self.exchange = Exchange(plan, game, map_shared(memory, os.fstat(memory).st_size))
        os.close(memory)
        self._num_actors = 0
        self.ask(Request.READY)

    def new_actor(
        self,
        view: Game | SeatView,
        models: Sequence[Model],
        acting: Acting,
        streams: Sequence[int],
        num_rows: int,
    ) -> "RemoteActor":
        self._num_actors += 1
        return RemoteActor(self, self._num_actors - 1, len(models))

    def ask(self, request: Request, *values: Any) -> list[Any]:
        """Send a request and wait for its reply."""
        self._line.send((request, *values))  # ConnectionError if it is already gone
        reply = self._line.receive()
        if reply is None:
            raise ConnectionError("the training process evaluates no more")
        return reply

    def take_weights(self, shard: int, turn: int, attempt: int) -> int:
        """Play this rollout with the newest weights; return their stamp. Their orders are in the exchange."""
        (stamp,) = self.ask(Request.TAKE, shard, turn, attempt)
        return int(stamp)

    def close(self) -> None:
        """End the connection."""
        self._line.close()

    def end(self, is_complete: bool) -> None:
        """End a task; `is_complete` if the rollout is."""
        self.ask(Request.END, is_complete)


class RemoteActor(StepActor):
    """One group of policies, which the training process evaluates."""

    def __init__(self, program: RemoteProgram, group: int, num_policies: int) -> None:
        self._program, self._group, self._exchange = program, group, program.exchange
        self._results = program.exchange.results(num_policies)

    def begin(self, seed: np.uint64, epsilons: Sequence[float]) -> None:
        self._program.ask(Request.BEGIN, self._group, int(seed), list(epsilons))

    def act(
        self, seen: Sequence[Observations], clock: NDArray[np.void], kept: Sequence[DeviceSlot], time: int
    ) -> Results:
        self._exchange.clock[:] = clock
        self._program.ask(Request.ACT, self._group, time)
        return self._results

    def evaluate(self, observations: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        count = len(observations[0])
        for policy, observation in enumerate(observations):
            own = self._exchange.observation[policy, :count]
            own[...] = observation.reshape(own.shape)
        self._program.ask(Request.EVALUATE, self._group, count)
        return self._results.values[:, :count].copy()

    def logits_at(self, policy: int, position: int) -> NDArray[np.float32]:
        self._program.ask(Request.LOGITS, self._group, policy, position)
        return self._exchange.logits.copy()

    def finish(self) -> None:
        """Nothing to do: the end of the task finishes all actors."""

    def refresh(self) -> None:
        """Nothing to do: the training process reads the weights that it evaluates with."""
