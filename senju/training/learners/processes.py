"""Learners in processes: each agent is trained by one of them, from its own ring, into its own memory.

The run and the processes share anonymous memory only. After every training an agent's whole state lies
there, complete, so that the run can save it without asking, and so that a learner that dies or hangs is
replaced by one that goes on from there: in sync it repeats the training, and the same bytes come out.
"""

import logging
import math
import os
import threading
from collections.abc import Sequence
from time import monotonic

import numpy as np
import torch

from senju.algorithms.independent import (
    Incident,
    Learned,
    LearnerStatus,
    SeatSettings,
    Task,
    Way,
    summed,
)
from senju.algorithms.learner import Learner, LearnerState
from senju.backends.arena import map_shared, open_anonymous
from senju.backends.backend import Plan
from senju.backends.processes import WORKER_BYTES
from senju.backends.processes.nursery import Kept
from senju.backends.script import refuse_unguarded
from senju.backends.threads import ThreadHand, connected_pair
from senju.collect.slots import Ring
from senju.games.game import SeatView
from senju.machine import available_cores, even_learners, memory_available
from senju.models.weights import Weights
from senju.training.learners.bench import Bench, serve
from senju.training.learners.crew import Crew, Patience
from senju.training.learners.memory import LearnerMemory, room_for
from senju.training.learners.messages import Order
from senju.training.learners.process import describe_start, hire_process
from senju.training.seats import new_learner

logger = logging.getLogger(__name__)


class LearnerThread(ThreadHand):
    """A thread of this process that trains, for when no process can be had."""

    def __init__(self, bench: Bench, index: int) -> None:
        self.connection, self._theirs = connected_pair()
        self._thread = threading.Thread(
            target=self._train, args=(bench,), name=f"senju learner {index}", daemon=True
        )
        self._thread.start()

    def _train(self, bench: Bench) -> None:
        torch.set_num_threads(1)  # of this thread
        with self._theirs as connection:
            serve(connection, bench)


class LearnerProcesses(Way):
    """The agents' learners in processes of their own, one or more agents each.

    way.share(plan, backend.shared_memory)
    way.attach(backend.rings, view)
    """

    def __init__(
        self,
        seats: Sequence[SeatSettings],
        num_processes: int | None = None,
        is_free_running: bool = False,
        learner_timeout: float = 120.0,
        start_timeout: float = 120.0,
        attempts: int = 3,
    ) -> None:
        self.seats, self.is_free_running = list(seats), is_free_running
        self._wanted, self._sockets = num_processes, tuple[str, ...]()
        self._patience = Patience(learner_timeout, start_timeout, attempts)
        self._descriptors: list[int] = []
        self._numbers = [0] * len(self.seats)  # of trainings that were ordered
        self._epsilons = [0.0] * len(self.seats)
        self._waited, self._stages = 0.0, list[dict[str, float]]()
        self._crew: Crew | None = None
        self._kept: Kept | None = None

    @property
    def _running(self) -> Crew:
        assert self._crew is not None, "attach() comes first"
        return self._crew

    def share(self, plan: Plan, shared_memory: int) -> None:
        """The rings that will be attached lie behind this descriptor; processes remove the plan's sockets."""
        self._descriptors, self._sockets = [os.dup(shared_memory)], plan.sockets

    def attach(self, rings: Sequence[Ring], view: SeatView) -> None:
        """Lay out the agents' memory, and start the processes.

        Where collecting goes on meanwhile, they are waited for: they would miss the first rollouts.
        """
        refuse_unguarded()
        self._rings, self._view = list(rings), view
        self._kept = Kept()
        try:
            self._lay_out()
            self._start()
            while self.is_free_running and self._running.is_starting:
                self._running.attend(self._patience.start_timeout)
        except BaseException:
            self.close()
            raise

    def _lay_out(self) -> None:
        """Everything but the processes, with the agents as they are at their start."""
        assert self._descriptors, "share() comes first"
        starts = [self._snapshot(self._new_learner(seat)) for seat in range(len(self.seats))]
        self._rooms = [room_for(state, weights) for state, weights, _ in starts]
        num_bytes = LearnerMemory(self._rooms, None).num_bytes
        self._descriptors.append(open_anonymous(num_bytes))
        self._memory = LearnerMemory(self._rooms, map_shared(self._descriptors[1], num_bytes))
        for seat, start in enumerate(starts):
            self._write(seat, *start)

    def _new_learner(self, seat: int) -> Learner:
        learner = new_learner(self.seats[seat], self._view)
        learner.is_following = self.is_free_running
        learner.attach(self._rings[seat], self._view)
        return learner

    @staticmethod
    def _snapshot(learner: Learner) -> tuple[LearnerState, Weights, float]:
        return learner.state(), learner.weights(), learner.epsilon

    def _write(self, seat: int, state: LearnerState, weights: Weights, epsilon: float) -> None:
        self._memory.states[seat].write(self._numbers[seat], state)
        self._memory.weights[seat].write(weights, self._numbers[seat])
        self._epsilons[seat] = epsilon

    def _start(self) -> None:
        learning = [seat.seat for seat in self.seats if seat.learns]
        count = self._how_many(len(learning))
        places = {place: learning[place::count] for place in range(count)}
        told = describe_start(
            self.seats,
            self._view,
            self._rings,
            self._rooms,
            places,
            self.is_free_running,
            self._patience.learner_timeout,
        )
        bench = Bench(self.seats, self._view, self._rings, self._memory, self.is_free_running)
        (rings, states), sockets = self._descriptors, self._sockets
        crew = self._crew = Crew(
            self.seats,
            self._patience,
            hire=lambda place: hire_process(place, rings, states, sockets, told),
            hire_here=lambda place: LearnerThread(bench, place),
        )
        if places:
            crew.start(places)
        else:
            crew.start_here(learning)

    def _how_many(self, num_agents: int) -> int:
        """As many processes as asked for, or fewer, and then it says so."""
        even = even_learners(num_agents, available_cores())
        wanted = min(self._wanted if self._wanted is not None else even, num_agents)
        affordable = min(wanted, memory_available() // WORKER_BYTES)
        if affordable < wanted:
            where = f"in {affordable} of {wanted} processes" if affordable else "one by one, in this process"
            logger.warning("the agents learn %s: there is no memory for more", where)
        return affordable

    def learn(self, tasks: Sequence[Task]) -> list[Learned]:
        """Have these agents trained; wait for all of them, unless they run free."""
        for task in tasks:
            self._numbers[task.seat] += 1
            self._running.give(Order(self._numbers[task.seat], task))
        if self.is_free_running:
            self._running.attend(0.0)
            return self._take_learned()
        learned = {each.seat: each for each in self.finish()}
        return [learned[task.seat] for task in tasks]

    def finish(self, seats: Sequence[int] | None = None, seconds: float | None = None) -> list[Learned]:
        """Wait for these that are being trained."""
        began = monotonic()
        wanted = [seat.seat for seat in self.seats] if seats is None else seats
        left = math.inf if seconds is None else seconds
        while left > 0 and any(map(self._running.is_busy, wanted)):
            self._running.attend(min(left, self._patience.learner_timeout))
            left = math.inf if seconds is None else began + seconds - monotonic()
        self._waited += monotonic() - began
        return self._take_learned()

    def is_busy(self, seat: int) -> bool:
        """Whether an agent is being trained meanwhile."""
        if self.is_free_running:
            self._running.attend(0.0)
        return self._running.is_busy(seat)

    def _take_learned(self) -> list[Learned]:
        reports, self._running.reports = self._running.reports, []
        for report in reports:
            self._epsilons[report.learned.seat] = report.epsilon
            self._stages.append(report.stages)
        return [report.learned for report in reports]

    def weights(self, seat: int) -> Weights:
        """An agent's newest weights, as they lie in shared memory."""
        shared = self._memory.weights[seat]
        block = np.empty(shared.num_bytes, np.uint8)
        shared.read(block)
        return block

    def epsilon(self, seat: int) -> float:
        """What an agent's learner asked for last."""
        return self._epsilons[seat]

    def state(self, seat: int) -> LearnerState:
        """An agent's last complete state; its process is not asked."""
        return self._memory.states[seat].read().state

    def load_state(self, seat: int, state: LearnerState) -> None:
        """Let an agent go on from a saved state; its process takes it up with the next training."""
        assert not self._running.is_busy(seat), "an agent that is being trained cannot be changed"
        learner = self._new_learner(seat)
        learner.load_state(state)
        self._write(seat, *self._snapshot(learner))

    def take_timings(self) -> dict[str, float]:
        """The time spent waiting here, shared out by what the learners did."""
        waited, self._waited = self._waited, 0.0
        spent, self._stages = summed(self._stages), []
        busy = sum(spent.values())
        return {stage: seconds * waited / busy for stage, seconds in spent.items()} if busy else {}

    def take_incidents(self) -> list[Incident]:
        """Who was lost, hung or replaced since the last call."""
        taken, self._running.incidents = self._running.incidents, []
        return taken

    def status(self) -> tuple[LearnerStatus, ...]:
        """The processes now."""
        return self._crew.status() if self._crew is not None else ()

    def close(self) -> None:
        """End the processes, and let go of the memory; states and weights can still be read."""
        if self._crew is not None:
            self._crew.close()
        if self._kept is not None:
            self._kept.close()
        while self._descriptors:
            os.close(self._descriptors.pop())
