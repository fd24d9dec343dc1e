"""Evaluates for worker processes: the training process alone uses the device.

Each worker has a thread here. It waits for a request, evaluates as a worker thread would, and replies. While
a thread waits for the device or for its worker, the other threads go on.
"""

import contextlib
import copy
import os
import socket
import threading
from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from senju.backends.building import acting_policies, device_slots
from senju.backends.exchange import Exchange, Line, Request
from senju.backends.plan import Plan
from senju.backends.shared_block import RolloutBlock
from senju.collect.device_actor import DeviceProgram
from senju.collect.device_columns import DeviceSlot
from senju.collect.policy_groups import device_groups
from senju.collect.rollout import policies_in_play
from senju.collect.slots import Slot
from senju.collect.step_actor import StepActor
from senju.cuda import is_out_of_memory
from senju.errors import SenjuError
from senju.games.game import Game
from senju.models.model import Model
from senju.models.weights import WeightBlock
from senju.workers.shared_memory import map_shared, open_anonymous

_END_SECONDS = 10.0  # for the threads to serve their last requests
_OUT_OF_MEMORY = "the device has too little free memory; use fewer workers, or a smaller games_per_shard"


class Task(NamedTuple):
    """What a worker plays."""

    shard: int
    turn: int
    attempt: int
    slots: Sequence[Slot]  # of each policy
    kept: Sequence[DeviceSlot]  # of each policy; empty if the device keeps none


class _Group(NamedTuple):
    """Policies that are evaluated together."""

    actor: StepActor
    policies: list[int]  # their indices


class Networks:
    """The networks of one worker index on the device. A replacement of the worker uses them again."""

    def __init__(self, plan: Plan, game: Game, models: Sequence[Model], block: RolloutBlock) -> None:
        self.lock = threading.Lock()  # held while a request is served
        self._plan, self._game, self._models, self._block = plan, game, models, block
        self._stamp, self._published = -1, np.empty(block.weights.num_bytes, np.uint8)
        self.groups: list[_Group] = []

    def prepare(self, program: DeviceProgram) -> None:
        """Move the networks to the device and compile, if that was not done before."""
        if self.groups:
            return
        models, num_rows = [copy.deepcopy(model) for model in self._models], self._plan.games_per_shard
        policies = policies_in_play(self._game, acting_policies(self._plan, models), num_rows)
        positions = {id(policy): index for index, policy in enumerate(policies)}
        for group in device_groups(policies):
            first, streams = group[0], [policy.stream for policy in group]
            own = [policy.model for policy in group]
            actor = program.new_actor(first.view, own, first.acting, streams, num_rows)
            self.groups.append(_Group(actor, [positions[id(policy)] for policy in group]))
        self._weights = WeightBlock(nn.ModuleList(models))

    def take_weights(self, exchange: Exchange) -> int:
        """Take over the newest weights, and pass on their orders; return their stamp."""
        if self._block.weights.stamp != self._stamp:
            self._stamp, _ = self._block.weights.read(self._published)
            self._weights.write(self._published[: self._weights.num_bytes])
            for group in self.groups:
                group.actor.refresh()
        exchange.orders[:] = self._published[self._weights.num_bytes :]
        return self._stamp

    def finish(self) -> None:
        """Wait until nothing is written to a rollout's slots any more."""
        with self.lock:
            for group in self.groups:
                group.actor.finish()


class _Attempts:
    """The newest attempt at a rollout of each shard. Requests for older ones come from workers that ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[int, tuple[int, Networks]] = {}  # by shard

    def begin(self, shard: int, attempt: int, networks: Networks) -> bool:
        """Make an attempt the newest, and wait for requests of the one before; return whether it is newer.

        The lock of `networks` must not be held.
        """
        with self._lock:
            number, before = self._newest.get(shard, (-1, networks))
            if number >= attempt:
                return False
            self._newest[shard] = attempt, networks
        if before is not networks:
            before.finish()
        return True

    def is_newest(self, shard: int, attempt: int) -> bool:
        with self._lock:
            return self._newest[shard][0] == attempt


class _Session:
    """One worker process, from its start to its end."""

    def __init__(self, service: "EvaluationService", index: int, line: Line, exchange: Exchange) -> None:
        self.line, self.index = line, index
        self.is_serving = True  # whether the worker, if it waits, waits for this process
        self._service, self._exchange = service, exchange
        self._networks = service.networks_of(index)
        self._task: Task | None = None

    def serve(self) -> None:
        """Answer requests until the worker ends, or until another one has its index."""
        with self._networks.lock:
            self._networks.prepare(self._service.program)
        self.is_serving = False
        while (request := self.line.receive()) is not None:
            self.is_serving = True
            reply = self._answer(Request(request[0]), request[1:])
            self.is_serving = False
            if reply is None:
                return
            try:
                self.line.send(reply)
            except OSError:  # the worker has ended
                return

    def _answer(self, request: Request, values: list[Any]) -> Sequence[Any] | None:
        """The reply; None if the worker has ended, as far as its replacement or its shard can tell."""
        if request is Request.TAKE:
            return self._take(*values)
        with self._networks.lock, torch.inference_mode():
            if not self._is_current():
                return None
            return _ANSWERS[request](self, *values)

    def _is_current(self) -> bool:
        attempts, task = self._service.attempts, self._task
        is_newest = task is None or attempts.is_newest(task.shard, task.attempt)
        return is_newest and self._service.is_newest(self)

    def _take(self, shard: int, turn: int, attempt: int) -> Sequence[Any] | None:
        if not self._service.attempts.begin(shard, attempt, self._networks):
            return None
        rings = self._service.block.rings
        with self._networks.lock:
            slots = [ring.slot(shard, turn) for ring in rings]
            self._task = Task(shard, turn, attempt, slots, device_slots(rings, shard, turn))
            if not self._is_current():
                return None
            for ring in rings:
                if ring.on_device is not None:
                    ring.on_device.open(shard, turn)
            return (self._networks.take_weights(self._exchange),)

    def _ready(self) -> Sequence[Any]:
        return ()

    def _begin(self, group: int, seed: int, epsilons: list[float]) -> Sequence[Any]:
        self._networks.groups[group].actor.begin(np.uint64(seed), epsilons)
        return ()

    def _act(self, index: int, time: int) -> Sequence[Any]:
        group, task = self._networks.groups[index], self._task
        assert task is not None
        seen = [task.slots[policy].observations_at(time) for policy in group.policies]
        kept = [task.kept[policy] for policy in group.policies] if task.kept else []
        results = group.actor.act(seen, self._exchange.clock, kept, time)
        for target, column in zip(self._exchange.results(len(group.policies)), results, strict=True):
            target[...] = column
        return ()

    def _evaluate(self, index: int, num_positions: int) -> Sequence[Any]:
        group = self._networks.groups[index]
        observations = self._exchange.observation[: len(group.policies), :num_positions]
        values = self._exchange.results(len(group.policies)).values
        values[:, :num_positions] = group.actor.evaluate(list(observations))
        return ()

    def _logits(self, index: int, policy: int, position: int) -> Sequence[Any]:
        self._exchange.logits[:] = self._networks.groups[index].actor.logits_at(policy, position)
        return ()

    def _end(self, is_complete: bool) -> Sequence[Any]:
        for group in self._networks.groups:
            group.actor.finish()
        task = self._task
        assert task is not None
        for ring in self._service.block.rings if is_complete else ():
            if ring.on_device is not None:
                ring.on_device.complete(task.shard, task.turn)
        return ()


_ANSWERS: dict[Request, Callable[..., Sequence[Any]]] = {
    Request.READY: _Session._ready,
    Request.BEGIN: _Session._begin,
    Request.ACT: _Session._act,
    Request.EVALUATE: _Session._evaluate,
    Request.LOGITS: _Session._logits,
    Request.END: _Session._end,
}


class EvaluationService:
    """Evaluates the policies of a plan for its worker processes."""

    def __init__(
        self,
        plan: Plan,
        game: Game,
        models: Sequence[Model],
        block: RolloutBlock,
        program: DeviceProgram,
        fail: Callable[[BaseException, str], object],
    ) -> None:
        """`fail` gets an error that ends the training, and where it was; it must not refer to the backend."""
        self.block, self.program, self.attempts = block, program, _Attempts()
        self._plan, self._game, self._models, self._fail = plan, game, models, fail
        self._networks: dict[int, Networks] = {}  # by worker index
        self._sessions: dict[int, _Session] = {}  # the newest of each worker index
        self._threads: list[threading.Thread] = []
        self._signs_of_life, self._lock = count(), threading.Lock()

    def networks_of(self, index: int) -> Networks:
        """The networks of a worker index."""
        if index not in self._networks:
            self._networks[index] = Networks(self._plan, self._game, self._models, self.block)
        return self._networks[index]

    def connect(self, index: int) -> tuple[int, int]:
        """Serve a worker that is about to start; return its files, which the caller passes on and closes."""
        num_bytes = Exchange(self._plan, self._game, None).num_bytes
        memory = open_anonymous(num_bytes)
        try:
            exchange = Exchange(self._plan, self._game, map_shared(memory, num_bytes))
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except BaseException:
            os.close(memory)
            raise
        session = _Session(self, index, Line(ours), exchange)
        with self._lock:
            self._sessions[index] = session
        name = f"senju evaluation {index}"
        thread = threading.Thread(target=self._serve, args=(session,), name=name, daemon=True)
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()
        return theirs.detach(), memory

    def is_newest(self, session: _Session) -> bool:
        """Whether no other worker process has the session's index."""
        return self._sessions.get(session.index) is session

    def sign_of_life(self, index: int) -> float:
        """A number that changes while a worker waits for this process: a slow device is not its fault."""
        session = self._sessions.get(index)
        return float(next(self._signs_of_life)) if session is not None and session.is_serving else 0.0

    def _serve(self, session: _Session) -> None:
        torch.set_num_threads(1)  # of this thread: as workers have
        try:
            session.serve()
        except BaseException as error:  # noqa: BLE001  # the user's network may raise anything
            self._report(session.index, error)
            while session.line.receive() is not None:  # the team ends the worker
                pass
        finally:
            self._forget(session)

    def _forget(self, session: _Session) -> None:
        session.line.close()
        with self._lock:
            if self.is_newest(session):
                del self._sessions[session.index]

    def _report(self, index: int, error: BaseException) -> None:
        where = f"evaluating on {self.program.device} for worker {index}"
        if is_out_of_memory(error):
            where = f"{where}: {_OUT_OF_MEMORY}"
        with contextlib.suppress(SenjuError):  # the backend was dropped
            self._fail(error, where)

    def close(self) -> bool:
        """End all threads, and return whether they have ended; may be called twice.

        A thread ends when it has served its request, so one whose network hangs does not end.
        """
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.line.hang_up()
        deadline = monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - monotonic(), 0.0))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._networks.clear()  # and with them what they hold on the device
        return True
