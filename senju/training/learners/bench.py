"""The agents' learners in the process that runs them."""

from collections.abc import Sequence
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from senju.algorithms.independent import Learned, SeatSettings, rollouts_of
from senju.algorithms.learner import Learner
from senju.backends.messages import Failed, Ready, Stop
from senju.backends.worker import describe_failure
from senju.collect.slots import Ring
from senju.games.game import SeatView
from senju.training.learners.memory import LearnerMemory
from senju.training.learners.messages import Order, Report, receive_order, send_to_run
from senju.training.seats import new_learner
from senju.usercode import ending_forked_child


class Bench:
    """Learners that are built when they are needed, from the state that lies in shared memory.

    So any process can train any agent, and a learner that went wrong in the middle of a training is
    thrown away: the next one goes on from the last complete state.
    """

    def __init__(
        self,
        seats: Sequence[SeatSettings],
        view: SeatView,
        rings: Sequence[Ring],
        memory: LearnerMemory,
        is_following: bool,
    ) -> None:
        self._seats, self._view, self._rings, self._memory = seats, view, rings, memory
        self._is_following = is_following
        self._learners: dict[int, Learner] = {}
        self._stamps: dict[int, int] = {}  # of the states that the learners are in

    def prepare(self, seats: Sequence[int]) -> None:
        """Take agents up before the first order, which then takes no longer than others."""
        for seat in seats:
            self._learners[seat] = self._take_up(seat)

    def train(self, order: Order) -> Report:
        """Train an agent, unless that was done already by somebody who could not say so any more."""
        seat = order.task.seat
        shared = self._memory.states[seat]
        learner = self._learners.pop(seat, None)  # where this raises, it does not come back
        if learner is None or self._stamps[seat] != shared.stamp:
            learner = self._take_up(seat)
        if shared.number == order.number:
            report = shared.read().report
            assert report is not None
        else:
            report = self._learn(learner, order)
            shared.write(order.number, learner.state(), report)
        self._memory.weights[seat].write(learner.weights(), order.number)
        self._learners[seat], self._stamps[seat] = learner, shared.stamp
        return report

    def _take_up(self, seat: int) -> Learner:
        """A learner in the state that lies there; what it replays is found in its ring."""
        learner = new_learner(self._seats[seat], self._view)
        learner.is_following = self._is_following
        learner.attach(self._rings[seat], self._view)
        saved = self._memory.states[seat].read()
        learner.load_state(saved.state)
        self._stamps[seat] = saved.stamp
        return learner

    def _learn(self, learner: Learner, order: Order) -> Report:
        task, began = order.task, monotonic()
        task.brief(learner)
        metrics = learner.update(rollouts_of(self._rings[task.seat], task))
        learned = Learned(task.seat, metrics, began, monotonic())
        return Report(order.number, learned, learner.epsilon, learner.take_timings())


def serve(connection: "Connection[Any, Any]", bench: Bench) -> bool:
    """Train whom the run asks for, until it says stop (True) or is gone (False)."""
    try:
        send_to_run(connection, Ready())
        while not isinstance(order := receive_order(connection), Stop):
            send_to_run(connection, _answer(connection, bench, order))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the run is gone, or waits no more
        return False
    return True


def _answer(connection: "Connection[Any, Any]", bench: Bench, order: Order) -> Report | Failed:
    try:
        with ending_forked_child(lambda error: send_to_run(connection, describe_failure(error, None))):
            return bench.train(order)
    except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; travels to the run
        return describe_failure(error, None)
