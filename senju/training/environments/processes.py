"""Doing tasks in processes: who dies or hangs is replaced, and its task done again with the same result."""

import contextlib
import json
import logging
import os
from abc import ABC, abstractmethod
from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from senju import errors
from senju.backends.processes.hand import ChildHand
from senju.backends.processes.nursery import Kept
from senju.errors import SenjuError, WorkerError
from senju.machine import memory_available
from senju.training.environments.block import Block
from senju.training.environments.channel import Channel, Message
from senju.training.environments.config import RunSettings, WorldConfig
from senju.training.environments.factory import WorldFactory
from senju.training.environments.main import of_messages
from senju.training.environments.stations import Station, readable
from senju.training.environments.tasks import Result, Task

logger = logging.getLogger(__name__)

_ENTRY = "senju.training.environments.main:work"
_MOST_DEATHS = 3  # of processes with the same task
_KEPT_OUTPUT = 4_000  # characters of what a process printed
PROCESS_BYTES = 350 * 2**20  # what a process with torch takes, at least


@dataclass(eq=False)
class Member:
    """A process and what it is doing."""

    index: int
    hand: ChildHand
    channel: Channel
    deadline: float
    is_ready: bool = False
    task: Task | None = None
    is_redone: bool = False  # the task's result is known already: it was lost with the process before
    blocks: dict[str, list[Block]] = field(default_factory=dict)  # that came before their message
    versions: dict[int, int] = field(default_factory=dict)  # of what each agent acts by, as sent
    output: str = ""  # the end of what it printed
    prints: bool = True  # has not closed its output
    is_closed: bool = False


class Start:
    """What every process is told first."""

    def __init__(
        self, factory: WorldFactory, config: WorldConfig, settings: RunSettings, num_agents: int
    ) -> None:
        name, script = factory.importable()
        self._kind, self.config = config.packed()
        self.options = settings.parallel
        self._told: dict[str, Any] = {
            "factory": name,
            "script": script,
            "config_kind": self._kind,
            "settings": settings.model_dump(mode="json"),
            "num_agents": num_agents,
            "worker_timeout": settings.parallel.timeout,
        }

    def message(self, role: str) -> bytes:
        """For a process of that role."""
        return json.dumps(self._told | {"role": role}).encode()


def affordable(wanted: int, what: str) -> tuple[int, list[str]]:
    """As many processes as there is memory for, and a sentence where that is fewer."""
    fitting = int(memory_available() * 0.8 // PROCESS_BYTES)
    if wanted <= fitting:
        return wanted, []
    said = f"there is memory for {fitting} of {wanted} {what} processes; " + (
        "working with fewer" if fitting else "doing without"
    )
    logger.warning(said)
    return fitting, [said]


class Processes(Station, ABC):
    """Processes of one role."""

    role: str  # player or learner
    name: str  # as messages call its processes

    def __init__(self, start: Start, num_processes: int) -> None:
        self._start = start
        num_processes, self.events = affordable(num_processes, self.name)
        self._queues: dict[int, deque[tuple[Task, bool]]] = {}
        self._deaths: Counter[str] = Counter()
        self.members: list[Member] = []
        self._kept = Kept()
        try:
            for index in range(num_processes):
                self._hire_at_first(index)
        except BaseException:
            self.close()
            raise

    def _hire_at_first(self, index: int) -> None:
        if len(self.members) < index:  # one could not be started, so neither can others
            return
        try:
            self.members.append(self._new_member(index))
        except OSError as error:
            self._note(f"{self.name} {index} could not be started ({error}); working with {index}")

    def _note(self, event: str) -> None:
        self.events.append(event)
        logger.warning(event)

    def _new_member(self, index: int) -> Member:
        ours, theirs = Channel.pair(passed_on=("acting",))
        try:
            hand = ChildHand(index, _ENTRY, [theirs.fileno()], (), self._start.message(self.role))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.set_patience(self._start.options.timeout)
        member = Member(index, hand, ours, monotonic() + self._start.options.start_timeout)
        with contextlib.suppress(ConnectionError):  # its end, which comes next, tells more
            ours.send("config", self._start.config)
        return member

    @abstractmethod
    def _queue_of(self, task: Task) -> int:
        """Tasks of one queue may be done by any process that serves it."""

    @abstractmethod
    def _serves(self, member: Member, queue: int) -> bool:
        """Whether a process takes tasks of that queue."""

    @abstractmethod
    def _send(self, member: Member, task: Task) -> None:
        """Send a task, and what it needs."""

    def _prepare(self, member: Member) -> list[Task]:
        """Bring a new process to where the one before it was; return what must be done again for that."""
        return []

    def _learn_of(self, task: Task, result: Result) -> None:
        """Something was finished."""

    @property
    def room(self) -> int:
        """Processes without a task, less the tasks that wait for one."""
        free = sum(member.task is None for member in self.members)
        return free - sum(map(len, self._queues.values()))

    def give(self, task: Task) -> None:
        """Queue it, and send it if somebody is free."""
        self._queues.setdefault(self._queue_of(task), deque()).append((task, False))
        self._employ()

    def _employ(self) -> None:
        for member in self.members:
            for key, queue in self._queues.items():
                if queue and member.is_ready and member.task is None and self._serves(member, key):
                    self._begin(member, *queue.popleft())

    def _begin(self, member: Member, task: Task, is_redone: bool) -> None:
        member.task, member.is_redone, member.blocks = task, is_redone, {}
        member.deadline = monotonic() + self._start.options.timeout
        with contextlib.suppress(ConnectionError, TimeoutError):  # its end, or the deadline, tells more
            self._send(member, task)

    def sources(self) -> list[int]:
        """What processes say and print."""
        outputs = [m.hand.output for m in self.members if m.hand.output is not None and m.prints]
        return [member.channel.fileno() for member in self.members] + outputs

    def deadline(self) -> float | None:
        """The next time at which a process has taken too long."""
        return min((m.deadline for m in self.members if m.task is not None or not m.is_ready), default=None)

    def excuse(self, seconds: float) -> None:
        """Give them as much longer."""
        for member in self.members:
            member.deadline += seconds

    def take(self) -> list[Result]:
        """Hear everybody; raises what a task raised."""
        results: list[Result] = []
        for member in list(self.members):
            _listen_to_output(member)
            while readable([member.channel.fileno()], 0.0):
                message = member.channel.receive()
                if message is None:
                    member.hand.kill()  # it closed its end: it has died, or is about to
                    self._replace(member, member.hand.wait())
                    break
                results += self._handle(member, message)
            else:
                if (member.task is not None or not member.is_ready) and monotonic() > member.deadline:
                    self._give_up(member)
        self._employ()
        return results

    def _handle(self, member: Member, message: Message) -> list[Result]:
        if message.kind == "error":
            error = getattr(errors, message.values["error"], SenjuError)
            raise error(f"{self.name} {member.index}: {message.values['text']}")
        if message.kind == "ready":
            member.is_ready = True
            del self._deaths["its start"]
        elif message.block is not None:
            member.blocks.setdefault(message.kind, []).append(message.block)
        else:
            return self._finish(member, message)
        return []

    def _finish(self, member: Member, message: Message) -> list[Result]:
        task, is_redone = member.task, member.is_redone
        assert task is not None
        track = f"{self.name} {member.index}"
        result = of_messages(message.kind, message.values, member.blocks, track)
        member.task, member.blocks = None, {}
        self._learn_of(task, result)
        return [] if is_redone else [result]

    def _give_up(self, member: Member) -> None:
        """End a process that takes too long."""
        options = self._start.options
        seconds = options.timeout if member.is_ready else options.start_timeout
        where = member.hand.where()
        member.hand.kill()
        member.hand.wait()
        self._replace(member, f"was silent for {seconds:g} s and was ended", where)

    def _replace(self, member: Member, how: str, where: str = "") -> None:
        _listen_to_output(member)
        what = member.task.what if member.task is not None else "nothing" if member.is_ready else "its start"
        self._close_member(member)
        self._deaths[what] += member.task is not None or not member.is_ready
        last_words = (where or member.output).strip()
        if self._deaths[what] >= _MOST_DEATHS:
            raise WorkerError(
                f"{self.name} {member.index} {how} at {what}, as {_MOST_DEATHS - 1} others before it; its "
                f"last words:\n{last_words or '(none)'}"
            )
        self._note(f"{self.name} {member.index} {how} at {what}; {self._successor(member)}")
        if last_words:
            logger.info("%s %d said last:\n%s", self.name, member.index, last_words)

    def _successor(self, member: Member) -> str:
        """Put another process in its place; say so."""
        again = [(member.task, False)] if member.task is not None and not member.is_redone else []
        if member.hand.lacks_memory and self._can_do_without(member):
            self.members.remove(member)
            self._requeue(again)
            return "there is too little memory, so the others do its work"
        try:
            new = self._new_member(member.index)
        except OSError as error:
            if not self._can_do_without(member):
                raise WorkerError(f"{self.name} {member.index} cannot be started again: {error}") from error
            self.members.remove(member)
            self._requeue(again)
            return f"no other can be started ({error}), so the rest do its work"
        self.members[self.members.index(member)] = new
        for key, queue in self._queues.items():
            if self._serves(new, key):  # what the one before had not done again, this one must
                self._queues[key] = deque(entry for entry in queue if not entry[1])
        redone = [(task, True) for task in self._prepare(new)]
        self._requeue(redone + again)
        return "another takes its place"

    def _can_do_without(self, member: Member) -> bool:
        return False

    def _requeue(self, entries: list[tuple[Task, bool]]) -> None:
        for task, is_redone in reversed(entries):
            self._queues.setdefault(self._queue_of(task), deque()).appendleft((task, is_redone))

    def _close_member(self, member: Member) -> None:
        if not member.is_closed:  # one whose death ends the run is still among the members
            member.is_closed = True
            member.channel.close()
            member.hand.close()

    def close(self) -> None:
        """End all processes; may be called twice."""
        for member in self.members:
            member.hand.kill()
        for member in self.members:
            member.hand.wait()
            self._close_member(member)
        self.members = []
        self._kept.close()


def _listen_to_output(member: Member) -> None:
    """Take what a process printed; it goes to the log, and its end is kept."""
    assert member.hand.output is not None
    while member.prints and readable([member.hand.output], 0.0):
        text = os.read(member.hand.output, 65536).decode(errors="replace")
        member.prints = bool(text)
        logger.debug("process %d: %s", member.hand.pid, text.rstrip())
        member.output = (member.output + text)[-_KEPT_OUTPUT:]
