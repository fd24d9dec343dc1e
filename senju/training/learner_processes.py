"""Learners in processes: each agent is trained by one of them, from its own ring, into its own memory.

The run and the learners share anonymous memory. After every training an agent's whole state lies there, so
the run can save it without asking. A learner that dies or hangs is replaced by one that goes on from there:
in sync mode it repeats the training, with the same bytes.
"""

import os
import weakref
from collections.abc import Sequence
from time import monotonic

import numpy as np

from senju.algorithms.learner import Learner, LearnerState
from senju.algorithms.learner_runner import (
    LearnerRunner,
    LearnerSettings,
    LearnerStatus,
    TrainingResult,
    TrainingTask,
)
from senju.backends.plan import Plan
from senju.collect.slots import Ring
from senju.events import Event
from senju.games.game import Game, SeatView
from senju.machine import available_cores, even_learners
from senju.models.weights import Weights
from senju.timing import add_seconds
from senju.training.learner_memory import LearnerMemory, agent_bytes
from senju.training.learner_role import LearnerRole, SharedAgents, Training, importable_seats
from senju.workers.process import ProcessExecutor
from senju.workers.role import Limits
from senju.workers.script import refuse_unguarded
from senju.workers.shared_memory import map_shared, open_anonymous
from senju.workers.tasks import Tasks
from senju.workers.team import Team
from senju.workers.thread import ThreadExecutor


class LearnerProcesses(LearnerRunner):
    """The agents' learners in processes, one or more agents each; call `share` before `attach`."""

    def __init__(
        self,
        seats: Sequence[LearnerSettings],
        num_processes: int | None = None,
        is_free_running: bool = False,
        learner_timeout: float = 120.0,
        start_timeout: float = 120.0,
        attempts: int = 3,
    ) -> None:
        self.seats, self.is_free_running = list(seats), is_free_running
        self._wanted, self._sockets = num_processes, tuple[str, ...]()
        self._limits = Limits(learner_timeout, start_timeout, attempts)
        self._descriptors: list[int] = []
        self._numbers = [0] * len(self.seats)  # trainings so far, including those submitted
        self._epsilons = [0.0] * len(self.seats)
        self._waited, self._stages = 0.0, dict[str, float]()
        learning = [seat.seat for seat in self.seats if seat.learns]
        ranks = self._ranks = {seat: rank for rank, seat in enumerate(learning)}
        self._tasks = Tasks(prefer=lambda training, workers: _worker_of(ranks[training.task.seat], workers))
        self._team: Team | None = None

    def share(self, plan: Plan, shared_memory: int) -> None:
        """Share the rings' memory; learners remove the plan's sockets if this process is killed."""
        self._descriptors, self._sockets = [os.dup(shared_memory)], plan.sockets

    def attach(self, rings: Sequence[Ring], view: Game | SeatView) -> None:
        """Lay out the agents' memory, and start the processes.

        Waits until free-running learners are ready: they would miss the first rollouts.
        """
        refuse_unguarded()
        assert isinstance(view, SeatView), "each agent has one seat"
        try:
            self._lay_out(rings, view)
            if self._ranks:
                self._start()
        except BaseException:
            self.close()
            raise

    def _lay_out(self, rings: Sequence[Ring], view: SeatView) -> None:
        """Make the shared memory, and write each agent's first state into it."""
        assert self._descriptors, "share() comes first"
        unshared = SharedAgents(self.seats, view, list(rings), LearnerMemory((), None), self.is_free_running)
        learners = [unshared.new_learner(seat) for seat in range(len(self.seats))]
        sizes = [agent_bytes(learner.state(), learner.weights()) for learner in learners]
        num_bytes = LearnerMemory(sizes, None).num_bytes
        self._descriptors.append(open_anonymous(num_bytes))
        memory = LearnerMemory(sizes, map_shared(self._descriptors[1], num_bytes))
        self._agents = unshared._replace(memory=memory)
        for seat, learner in enumerate(learners):
            self._write(seat, learner)

    def _write(self, seat: int, learner: Learner) -> None:
        self._agents.memory.states[seat].save(self._numbers[seat], learner.state())
        self._agents.memory.weights[seat].write(learner.weights(), self._numbers[seat])
        self._epsilons[seat] = learner.epsilon

    def _start(self) -> None:
        first_seats: dict[int, Sequence[int]] = {}
        role = LearnerRole(self._agents, first_seats, list(self._descriptors), self._sockets)
        seats, wanted = list(self._ranks), self._wanted
        wanted = even_learners(len(seats), available_cores()) if wanted is None else min(wanted, len(seats))
        executor = self._new_process_executor() if wanted else ThreadExecutor()
        team = self._team = Team(role, self._tasks, executor, self._limits)
        self._dropped = weakref.finalize(self, team.drop, list(self._descriptors))
        self._dropped.atexit = False  # learners notice the end of this process by themselves
        count = team.affordable(max(wanted, 1))
        first_seats |= {index: seats[index::count] for index in range(count)}
        team.start(count, is_waiting=self.is_free_running)
        team.open()

    def _new_process_executor(self) -> ProcessExecutor:
        _, script = importable_seats(self.seats)
        names = [name for seat in self.seats for name in (seat.model["name"], seat.algorithm["name"])]
        return ProcessExecutor(self._limits.task_timeout, script, names)

    def _pending(self) -> set[int]:
        return {training.task.seat for training in self._tasks.pending()}

    def learn(self, tasks: Sequence[TrainingTask]) -> list[TrainingResult]:
        """Train these agents; wait for all trainings, unless the learners are free-running."""
        if not tasks and self._team is None:
            return []
        assert self._team is not None, "attach() comes first"
        with self._team.changed:
            for task in tasks:
                assert task.seat not in self._pending(), "an agent is trained once at a time"
                self._numbers[task.seat] += 1
                self._tasks.put(Training(self._numbers[task.seat], task))
            self._team.open()
        if self.is_free_running:
            return self.finish(())
        trained = {each.seat: each for each in self.finish()}
        return [trained[task.seat] for task in tasks]

    def finish(
        self, seats: Sequence[int] | None = None, seconds: float | None = None
    ) -> list[TrainingResult]:
        if self._team is None:
            return []
        began = monotonic()
        wanted = set(self._ranks if seats is None else seats)
        with self._team.changed:
            self._team.wait_for(lambda: wanted.isdisjoint(self._pending()), seconds)  # raises what went wrong
            reports = [report for _, report in self._tasks.take()]
        self._waited += monotonic() - began
        for report in reports:
            self._epsilons[report.trained.seat] = report.epsilon
            add_seconds(self._stages, report.stages)
        return [report.trained for report in reports]

    def is_busy(self, seat: int) -> bool:
        if self._team is None:
            return False
        with self._team.changed:
            return seat in self._pending()

    def weights(self, seat: int) -> Weights:
        shared = self._agents.memory.weights[seat]
        block = np.empty(shared.num_bytes, np.uint8)
        shared.read(block)
        return block

    def epsilon(self, seat: int) -> float:
        return self._epsilons[seat]

    def state(self, seat: int) -> LearnerState:
        """An agent's last complete state; its process is not asked."""
        return self.state_for_saving(seat)[0]

    def state_for_saving(self, seat: int) -> tuple[LearnerState, bool]:
        saved = self._agents.memory.states[seat].load()
        return saved.state, saved.number == self._numbers[seat]

    def load_state(self, seat: int, state: LearnerState) -> None:
        """Restore an agent; its process reads the state with the next training."""
        assert not self.is_busy(seat), "an agent that is being trained cannot be changed"
        learner = self._agents.new_learner(seat)
        learner.load_state(state)
        self._write(seat, learner)

    def take_timings(self) -> dict[str, float]:
        """The time spent waiting for learners, divided among their stages."""
        waited, self._waited = self._waited, 0.0
        spent, self._stages = self._stages, {}
        busy = sum(spent.values())
        return {stage: seconds * waited / busy for stage, seconds in spent.items()} if busy else {}

    def take_events(self) -> list[Event]:
        events = self._team.report().events if self._team is not None else []
        return [event._replace(worker=None) for event in events]  # it names no learners

    def status(self) -> tuple[LearnerStatus, ...]:
        if self._team is None:
            return ()
        status = self._team.status()
        indices = [worker.index for worker in status.workers]
        return tuple(
            LearnerStatus(
                worker.index,
                worker.state,
                tuple(
                    seat for seat, rank in self._ranks.items() if _worker_of(rank, indices) == worker.index
                ),
                worker.num_finished,
                worker.restarts,
                worker.memory_bytes,
                worker.pid,
            )
            for worker in status.workers
        )

    def close(self) -> None:
        """End the processes, and release the memory; states and weights can still be read."""
        if self._team is not None:
            self._dropped.detach()
            self._team.close()
        while self._descriptors:
            os.close(self._descriptors.pop())


def _worker_of(rank: int, workers: Sequence[int]) -> int:
    """The worker of the n-th learning agent: agents are assigned to workers in turn."""
    return workers[rank % len(workers)]
