"""Learner processes seen from the run: orders go out, reports come in, and who dies or hangs is replaced.

There is no thread: whoever waits for reports attends to the processes meanwhile, and a run that does not
wait attends to them in passing.
"""

import logging
import os
import selectors
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import senju.errors
from senju.algorithms.independent import Incident, LearnerStatus, SeatSettings
from senju.backends.member import Hand, Member, State
from senju.backends.messages import Failed, Ready
from senju.errors import SenjuError, WorkerError
from senju.machine import private_bytes
from senju.training.learners.messages import Order, Report, receive_from_learner, send_to_learner

logger = logging.getLogger(__name__)

_VAIN_STARTS = 5  # in a row, before a place is given up
_KILLS_PER_FAILURE = 4  # somebody else may have killed the process; a training is blamed only for many
_SAID_BYTES = 4_000
_PIPE_BYTES = 65_536


class Patience(NamedTuple):
    """How long a process is waited for, and how often a training is tried."""

    learner_timeout: float
    start_timeout: float
    attempts: int


@dataclass(eq=False)
class LearnerMember(Member):
    """A learner process with what it has to do; the first order is under way."""

    orders: deque[Order] = field(default_factory=deque)

    @property
    def doing(self) -> str:
        """As people read it."""
        return "learning" if self.state == State.PLAYING else self.state.value


class Crew:
    """Processes by their places, and which place trains which agent.

    `hire(place)` starts a process; `hire_here(place)` a thread, for when no process can be had.
    """

    def __init__(
        self,
        seats: Sequence[SeatSettings],
        patience: Patience,
        hire: Callable[[int], Hand],
        hire_here: Callable[[int], Hand],
    ) -> None:
        self._names = {seat.seat: f"{seat.name} (seat {seat.seat})" for seat in seats}
        self._patience, self._hire, self._hire_here = patience, hire, hire_here
        self.reports: list[Report] = []
        self.incidents: list[Incident] = []
        self.members: dict[int, LearnerMember] = {}
        self._place_of: dict[int, int] = {}  # seat to place
        self._failures: Counter[int] = Counter()  # in a row, of the training of a seat
        self._kills: Counter[int] = Counter()
        self._vain_starts: Counter[int] = Counter()
        self._trainings: Counter[int] = Counter()  # finished, by place; as are the next
        self._hirings: Counter[int] = Counter()
        self._selector = selectors.DefaultSelector()
        self._rhythm = max(0.02, min(patience.learner_timeout / 8, 1.0))

    def start(self, places: Mapping[int, Sequence[int]]) -> None:
        """Start a process for the agents of each place; with no place, all agents learn here."""
        self._place_of = {seat: place for place, seats in places.items() for seat in seats}
        failed = {place: error for place in places if (error := self._try_to_hire(place))}
        for place, error in failed.items():
            self._give_up(place, f"learner process {place} cannot be started: {error}", ())

    def start_here(self, seats: Iterable[int]) -> None:
        """Let all agents learn in this process, one after another."""
        self._place_of = dict.fromkeys(seats, 0)
        self._admit(0, self._hire_here(0))

    def _try_to_hire(self, place: int) -> Exception | None:
        try:
            hand = self._hire(place)
        except (OSError, MemoryError) as error:
            return error
        self._admit(place, hand)
        return None

    def _admit(self, place: int, hand: Hand) -> None:
        self._hirings[place] += 1
        member = self.members[place] = LearnerMember(place, hand, beat=0.0)
        self._selector.register(hand.connection, selectors.EVENT_READ, (member, self._hear))
        if hand.output is not None:
            self._selector.register(hand.output, selectors.EVENT_READ, (member, self._read_output))

    def give(self, order: Order) -> None:
        """Have an agent trained, after what its process has to do already."""
        assert not self.is_busy(order.task.seat), "an agent is trained once at a time"
        member = self.members[self._place_of[order.task.seat]]
        member.orders.append(order)
        if member.state == State.WAITING:
            member.enter(State.PLAYING)
        try:
            send_to_learner(member.hand.connection, order)
        except (BrokenPipeError, ConnectionResetError, BlockingIOError):
            logger.debug("learner process %d is gone", member.index)  # its end, which comes next, tells more

    def is_busy(self, seat: int | None = None) -> bool:
        """Whether an agent, or any of them, is being trained or is to be."""
        orders = (order for member in self.members.values() for order in member.orders)
        return any(seat in (None, order.task.seat) for order in orders)

    @property
    def is_starting(self) -> bool:
        """Whether somebody is not ready yet."""
        return any(member.state == State.STARTING for member in self.members.values())

    def attend(self, seconds: float) -> None:
        """Take in what the processes say, for which it waits so long at most; replace those that need it."""
        for key, _ in self._selector.select(min(seconds, self._rhythm)):
            member, handle = key.data
            if self.members.get(member.index) is member:  # what came before may have removed it
                handle(member)
        for member in list(self.members.values()):
            self._look_whether_hung(member)

    def status(self) -> tuple[LearnerStatus, ...]:
        """Everybody now; may be asked from another thread."""
        places = dict(self._place_of)
        return tuple(
            LearnerStatus(
                member.index,
                member.doing,
                tuple(seat for seat, place in places.items() if place == member.index),
                self._trainings[member.index],
                self._hirings[member.index] - 1,
                private_bytes(member.hand.pid),
                member.hand.pid,
            )
            for member in sorted(self.members.copy().values(), key=lambda each: each.index)
        )

    def close(self) -> None:
        """End all processes; may be called twice."""
        for member in list(self.members.values()):
            self._remove(member)
        self._selector.close()
        del self.reports[:], self.incidents[:]
        self._hire = self._hire_here = _hire_nobody  # these hold the memory

    def _tell(self, kind: str, message: str) -> None:
        logger.warning("%s", message)
        self.incidents.append(Incident(kind, message))

    def _who(self, member: LearnerMember) -> str:
        names = [self._names[seat] for seat, place in self._place_of.items() if place == member.index]
        process = f"process {member.hand.pid}; " if member.hand.pid else ""
        return f"learner process {member.index} ({process}{', '.join(names)})"

    def _describe(self, order: Order) -> str:
        turns = order.task.turns
        when = f"turn {turns[0]}" if len(turns) == 1 else f"turns {turns[0]} to {turns[-1]}"
        return f"{self._names[order.task.seat]}, training {order.number}, {when}"

    def _hear(self, member: LearnerMember) -> None:
        try:
            message = receive_from_learner(member.hand.connection)
        except (EOFError, OSError):  # gone, perhaps in the middle of a message
            self._lose(member)
            return
        if isinstance(message, Ready):
            self._vain_starts[member.index] = 0
        elif isinstance(message, Failed):
            self._on_failed(member, message)
        else:
            order = member.orders.popleft()
            assert order.number == message.number
            self._failures[order.task.seat] = self._kills[order.task.seat] = 0
            self._trainings[member.index] += 1
            self.reports.append(message)
        if not member.lacks_memory:
            member.enter(State.PLAYING if member.orders else State.WAITING)

    def _on_failed(self, member: LearnerMember, failed: Failed) -> None:
        """An exception in the process, which goes on."""
        what = f"{failed.error}: {failed.text}\n{failed.traceback}"
        if member.state == State.STARTING:
            if failed.error != "MemoryError":
                raise WorkerError(f"{self._who(member)} could not get ready: {what}")
            member.lacks_memory = True  # its end, which comes next, leads to fewer processes
            return
        if not member.orders:  # a child that the user's code forked came back later than the process itself
            raise WorkerError(f"{self._who(member)}: {what}")
        order = member.orders.popleft()
        where = f"{self._describe(order)}, in {self._who(member)}"
        if failed.is_senju_error:  # would come again, and is what learning one by one raises
            kind: type[SenjuError] = getattr(senju.errors, failed.error, WorkerError)
            error = kind(f"{failed.text} ({where})")
            error.add_note(f"In the learner process:\n{failed.traceback}")
            raise error
        self._count_failure(order, f"{where}: {what}")
        self._tell("learner_failed", f"{where}: {what}\nIt is trained again from its last complete state.")
        self.give(order)

    def _count_failure(self, order: Order, cause: str) -> None:
        seat, attempts = order.task.seat, self._patience.attempts
        self._failures[seat] += 1
        if self._failures[seat] >= attempts:
            raise WorkerError(
                f"{self._describe(order)}: failed {attempts} times in a row and is given up; the last time: "
                f"{cause.rstrip()}\nThe run goes on from its last checkpoint when it is resumed."
            )

    def _lose(self, member: LearnerMember) -> None:
        """A process has ended by itself, or was killed."""
        who, was_starting, order = self._who(member), member.state == State.STARTING, _first(member)
        how = self._remove(member)
        if member.lacks_memory or member.hand.lacks_memory:
            self._give_up(member.index, f"{who} ran out of memory: it {how}", member.orders)
            return
        cause = f"{who} {how}"
        if order is not None and not was_starting:
            cause += f" while it trained {self._describe(order)}"
            self._kills[order.task.seat] += member.hand.was_killed
            if not member.hand.was_killed or self._kills[order.task.seat] % _KILLS_PER_FAILURE == 0:
                self._count_failure(order, cause)
        self._replace(member, "learner_lost", cause, was_starting)

    def _look_whether_hung(self, member: LearnerMember) -> None:
        limits = {
            State.STARTING: self._patience.start_timeout,
            State.PLAYING: self._patience.learner_timeout,
        }
        if member.state not in limits:
            return
        limit = limits[member.state]
        # a run that was away for long may have kept it waiting, so that the half of it does not count
        still = member.look(0.0, longest_gap=limit / 2)
        if still >= limit:
            self._on_hung(member, still)

    def _on_hung(self, member: LearnerMember, seconds: float) -> None:
        was_starting, order = member.state == State.STARTING, _first(member)
        doing = "was getting ready" if order is None or was_starting else f"trained {self._describe(order)}"
        cause = f"{self._who(member)} gave no answer for {seconds:.1f} s while it {doing}"
        where = member.hand.where()
        if where:
            cause += f"; it was at:\n{where.rstrip()}\n"
        if not member.hand.can_be_killed:
            raise WorkerError(f"{cause}\nA thread cannot be replaced; a learner process can.")
        self._remove(member)
        if order is not None and not was_starting:
            self._count_failure(order, cause)
        self._replace(member, "learner_hung", cause, was_starting)

    def _replace(self, member: LearnerMember, kind: str, cause: str, was_starting: bool) -> None:
        """Let another process go on; what was under way comes last there: others are not to wait for it."""
        place, orders = member.index, list(member.orders)
        self._vain_starts[place] += was_starting
        if self._vain_starts[place] >= _VAIN_STARTS:
            vain = f"learner process {place} ended {_VAIN_STARTS} times before it was ready"
            self._give_up(place, f"{vain}; the last time: {cause}", orders)
            return
        self._tell(kind, f"{cause.rstrip()}; another goes on from the last complete state")
        error = self._try_to_hire(place)
        if error is not None:
            self._give_up(place, f"learner process {place} cannot be started: {error}", orders)
            return
        for order in orders[1:] + orders[:1]:
            self.give(order)

    def _give_up(self, place: int, reason: str, orders: Iterable[Order]) -> None:
        """Go on with fewer processes; where none is left, this one learns."""
        orphans, left = [seat for seat, at in self._place_of.items() if at == place], sorted(self.members)
        if left:
            self._tell("fewer_learners", f"{reason}; going on with {len(left)} learner processes")
            for number, seat in enumerate(orphans):
                self._place_of[seat] = left[number % len(left)]
        else:
            self._tell("sequential", f"{reason}; the agents learn in this process alone, one after another")
            self._admit(place, self._hire_here(place))
        for order in orders:
            self.give(order)

    def _remove(self, member: LearnerMember) -> str:
        """End a process, if it has not ended, and say how it did and what it said."""
        hand = member.hand
        del self.members[member.index]
        hand.kill()
        how = hand.wait()
        if hand.output is not None:
            self._read_output(member)
        for each in (hand.connection, hand.output):
            if each is not None and each in self._selector.get_map():
                self._selector.unregister(each)
        hand.close()
        return f"{how}; it said:\n{member.said.rstrip()}\n" if member.said else how

    def _read_output(self, member: LearnerMember) -> None:
        """What a process prints goes to the log; its end is kept for when it dies."""
        assert member.hand.output is not None
        try:
            data = os.read(member.hand.output, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not data and member.hand.output in self._selector.get_map():
            self._selector.unregister(member.hand.output)
        text = data.decode(errors="replace")
        member.said = (member.said + text)[-_SAID_BYTES:]
        for line in text.splitlines():
            logger.info("learner process %d: %s", member.index, line)


def _first(member: LearnerMember) -> Order | None:
    return member.orders[0] if member.orders else None


def _hire_nobody(place: int) -> Hand:
    raise AssertionError(f"nobody is hired for place {place} after the end")
