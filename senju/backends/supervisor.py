"""The supervisor: a thread that keeps workers playing, and replaces those that die or hang.

It waits for the workers' messages and for their ends in one place, so that a death is noticed the
moment the system closes the dead worker's connection. Everything it knows changes under one lock;
whoever waits for rollouts waits on its condition.
"""

import contextlib
import copy
import logging
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import senju.errors
from senju.backends.arena import BEAT
from senju.backends.backend import Activity, Event, happened
from senju.backends.member import Hand, Member, Place, State
from senju.backends.messages import Broken, Done, Failed, Ready, Stop, receive, send
from senju.backends.schedule import Finished, Schedule, Task
from senju.collect.seating import Failure
from senju.errors import ConfigError, ControlError, SenjuError, WorkerError

logger = logging.getLogger(__name__)

_MOST_ACTIVITIES = 50_000  # kept for the timeline until they are taken
_VAIN_STARTS = 5  # in a row, before a place is given up
_LEAVING_SECONDS = 5.0
_SAID_BYTES = 4_000
_KILLS_PER_FAILURE = 4  # somebody else may have killed the worker; a rollout is blamed only for many
_PIPE_BYTES = 65_536  # what a pipe holds, and so all that a dead worker may have left there


class Patience(NamedTuple):
    """How long the supervisor waits, and how often it tries."""

    worker_timeout: float
    start_timeout: float
    shard_attempts: int
    reset_interval: int


class Ending:
    """What the supervisor's thread and the garbage collector share: it holds neither supervisor nor backend.

    The garbage collector may call in any thread and at any time, so nothing here takes a lock.
    """

    def __init__(self, selector: selectors.BaseSelector, wake_in: int, wake_out: int) -> None:
        self.is_dropped = False
        self._may_close = self._is_over = False
        self._wake_in = wake_in
        self._closers: list[Callable[[], None]] = [
            selector.close,
            partial(os.close, wake_in),
            partial(os.close, wake_out),
        ]

    def wake(self) -> None:
        """Have the thread look what has changed."""
        with contextlib.suppress(BlockingIOError):  # so many calls lie there that it will wake
            os.write(self._wake_in, b".")

    def drop(self, files: list[int]) -> None:
        """The backend was dropped: the thread is to end all workers; its files are closed after that."""
        self._closers += [partial(os.close, number) for number in files]
        self.is_dropped = True
        self.wake()
        self._may_close = True
        if self._is_over:
            self.close_files()

    def on_thread_over(self) -> None:
        """The thread needs its files no more."""
        self._is_over = True
        if self._may_close:
            self.close_files()

    def close_files(self) -> None:
        """Close all files, but for those that another thread is closing."""
        with contextlib.suppress(IndexError):
            while True:
                self._closers.pop()()


class Supervisor:
    """Members, schedule and events behind one lock.

    `hire(index)` starts a worker, `hire_here(index)` one in this process, for when no other can be had;
    `set_aside(task, cause)` is told of a shard that failed too often, and returns what to tell people
    or raises. None of them may hold the backend: it is dropped where only the supervisor's thread is left.
    """

    def __init__(
        self,
        schedule: Schedule,
        boards: NDArray[np.float64],
        patience: Patience,
        hire: Callable[[int], Hand],
        hire_here: Callable[[int], Hand],
        describe: Callable[[Task], str],
        set_aside: Callable[[Task, str], str],
    ) -> None:
        self.schedule = schedule
        self.changed = threading.Condition()
        self.wanted = 0
        self.restarts = 0  # of all workers, also of those that are no more
        self.members: dict[int, Member] = {}
        self.places: dict[int, Place] = {}
        self._given_up: set[int] = set()  # places that no worker can be had for
        self._kills: dict[int, int] = {}  # workers killed while they played a shard's rollout under way
        self._boards, self._patience = boards, patience
        self._hire, self._hire_here = hire, hire_here
        self._describe, self._set_aside = describe, set_aside
        self._is_open = self._is_closing = self._all_are_paused = False
        self.when_over: Callable[[], None] = lambda: None  # called by the thread, when no worker is left
        self._failure: BaseException | None = None
        self._events: list[Event] = []
        self._broken: list[Broken] = []  # opponents in rollouts that are finished and not handed over
        self._failures: list[Failure] = []
        self._activities: deque[Activity] = deque(maxlen=_MOST_ACTIVITIES)
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, partial(os.read, self._wake_out, 4096))
        self.ending = Ending(self._selector, self._wake_in, self._wake_out)
        self._thread = threading.Thread(target=self._run, name="senju supervisor", daemon=True)

    def start(self, num_workers: int) -> None:
        """Start so many workers and wait until each is ready or given up."""
        self.wanted = num_workers
        self._thread.start()
        with self.changed:
            self._wait_for(self._all_are_ready)

    def _all_are_ready(self) -> bool:
        members = self.members.values()
        is_full = bool(members) and len(members) >= self.wanted - len(self._given_up)
        return is_full and all(member.state != State.STARTING for member in members)

    def take(self, timeout: float | None) -> list[Finished]:
        """Wait for the rollouts of this turn; what was taken before may be written over from now on."""
        with self.changed:
            self._require_open()
            self.schedule.release()
            self._is_open = True
            self._dispatch_and_watch()
            self._wait_for(self.schedule.is_complete, timeout)
            taken = self.schedule.take()
            self._hand_over_failures(taken)
            return taken

    def _hand_over_failures(self, taken: list[Finished]) -> None:
        """Those of rollouts that are handed over, in the order of turns and shards."""
        if self._broken:
            rollouts = {(finished.turn, finished.shard) for finished in taken}
            now = [broken for broken in self._broken if (broken.task.turn, broken.task.shard) in rollouts]
            self._broken = [broken for broken in self._broken if broken not in now]
            self._failures += [b.failure for b in sorted(now, key=lambda b: (b.task.turn, b.task.shard))]

    def rest(self) -> None:
        """Begin no rollout until the next `take`, and wait for those under way."""
        with self.changed:
            self._is_open = False
            self._wait_for(lambda: self.schedule.counts()[1] == 0)

    def rewind(self, turn: int | None) -> None:
        """Forget, while at rest, all rollouts that were not handed over; go on counting from `turn`."""
        self.schedule.rewind(turn)
        self._broken.clear()

    def _wait_for(self, condition: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until it is so, or raise what makes that impossible."""
        self.changed.wait_for(lambda: self._failure or self._is_closing or condition(), timeout)
        if self._failure is not None:
            # a copy: the traceback of what is raised holds the backend, which would then never be dropped
            raise copy.copy(self._failure) if isinstance(self._failure, SenjuError) else self._failure
        self._require_open()

    def _require_open(self) -> None:
        if self._is_closing:
            raise ControlError("the workers were stopped; start another backend to go on")

    def pause(self, workers: Collection[int] | None, is_paused: bool) -> None:
        """Let workers begin no other rollout, or go on."""
        with self.changed:
            self._require_open()
            for index in self._known(workers):
                self.places[index].is_paused = is_paused
            if workers is None:
                self._all_are_paused = is_paused  # those that come later are meant too
            self._dispatch_and_watch()

    def reset(self, workers: Collection[int] | None) -> list[int]:
        """Replace workers, each after the rollout under way."""
        with self.changed:
            self._require_open()
            chosen = self._known(workers)
            for index in chosen:
                if index in self.members:
                    self.members[index].must_go = True
            self._wake()
            return chosen

    def _known(self, workers: Collection[int] | None) -> list[int]:
        unknown = sorted(set(workers or ()) - set(self.places))
        if unknown:
            raise ConfigError(f"there is no worker {unknown[0]}; workers are {sorted(self.places)}")
        return sorted(self.places if workers is None else set(workers))

    def resize(self, num_workers: int) -> None:
        """Go on with another number of workers; those too many leave after their rollout."""
        with self.changed:
            self._require_open()
            self.wanted = num_workers
            self._given_up.clear()
            for place in self.places.values():
                place.vain_starts = 0
            self._wake()

    def stop(self) -> None:
        """End all workers and the thread; may be called twice."""
        with self.changed:
            if self._is_closing:
                return
            self._is_closing = True
            self.changed.notify_all()
            self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        self.ending.close_files()

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        with self.changed:
            taken, self._events = self._events, []
            return taken

    def take_failures(self) -> list[Failure]:
        """The opponents that failed in rollouts that were handed over since the last call."""
        with self.changed:
            taken, self._failures = self._failures, []
            return taken

    def take_activities(self) -> list[Activity]:
        """What the workers did since the last call."""
        with self.changed:
            taken = list(self._activities)
            self._activities.clear()
            return taken

    def _tell(self, kind: str, message: str, worker: int | None = None, level: int = logging.WARNING) -> None:
        logger.log(level, "%s", message)
        self._events.append(happened(kind, message, worker))

    def _wake(self) -> None:
        self.ending.wake()

    def _run(self) -> None:
        try:
            self._start_missing()
            while self.members or not self._is_closing:
                happened = self._selector.select(self._rhythm())
                with self.changed:
                    self._is_closing = self._is_closing or self.ending.is_dropped
                    for key, _ in happened:
                        key.data()
                    self._look_for_hung()
                    self._dismiss_unwanted()
                    self._dispatch()
                self._start_missing()
        except BaseException as error:  # noqa: BLE001  # whoever waits for rollouts raises it again
            with self.changed:
                self._fail(error)
            for member in list(self.members.values()):
                self._remove(member)
        self.when_over()
        self.ending.on_thread_over()

    def _rhythm(self) -> float | None:
        """How long to wait for a message before looking whether somebody hangs; None: as long as it takes."""
        is_quiet = all(member.state == State.WAITING for member in self.members.values())
        return None if is_quiet else max(0.02, min(self._patience.worker_timeout / 8, 1.0))

    def _dismiss_unwanted(self) -> None:
        """Let members go that are too many, or are to be replaced."""
        for member in list(self.members.values()):
            if self._is_closing or member.index >= self.wanted or member.must_go:
                self._dismiss(member)
        for index in [i for i in self.places if i >= self.wanted and i not in self.members]:
            del self.places[index]

    def _start_missing(self) -> None:
        """Start the workers that are wanted and not there.

        Starting one may take seconds, and the fork server may not answer. So other threads can have
        the lock meanwhile: to ask for the status, to want fewer workers, or to stop.
        """
        with self.changed:
            missing = [index for index in range(self.wanted) if self._is_missing(index)]
        for index in missing:
            if self._is_closing or index >= self.wanted:
                continue
            hand = self._try_to_hire(index)
            if hand is not None:
                with self.changed:
                    self._admit(Member(index, hand))
        with self.changed:
            if not self.members and not self._is_closing:  # none can be had
                self.places.setdefault(0, self._new_place())
                self._admit(Member(0, self._hire_here(0)))

    def _is_missing(self, index: int) -> bool:
        """Whether a worker is to be started there; its place exists from now on."""
        if self._is_closing or index in self.members or index in self._given_up:
            return False
        place = self.places.setdefault(index, self._new_place())
        if place.vain_starts < _VAIN_STARTS:
            return True
        self._give_up(index, f"worker {index} ended {place.vain_starts} times before it was ready")
        return False

    def _new_place(self) -> Place:
        return Place(is_paused=self._all_are_paused)

    def _try_to_hire(self, index: int) -> Hand | None:
        try:
            return self._hire(index)
        except (OSError, MemoryError) as error:
            with self.changed:
                self._give_up(index, f"worker {index} cannot be started: {error}")
            return None

    def _admit(self, member: Member) -> None:
        member.beat = float(self._boards[member.index, BEAT])
        self.members[member.index] = member
        connection = member.hand.connection
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._attend(member, self._hear))
        output = member.hand.output
        if output is not None:
            self._selector.register(
                output, selectors.EVENT_READ, lambda: self._attend(member, self._read_output)
            )

    def _attend(self, member: Member, handle: Callable[[Member], None]) -> None:
        """What happened at the same moment may have removed the member, and closed what is to be read."""
        if self.members.get(member.index) is member:
            handle(member)

    def _give_up(self, index: int, reason: str) -> None:
        """Go on with fewer workers; where none is left, this process plays."""
        self._given_up.add(index)
        self.places.pop(index, None)
        left = self.wanted - len(self._given_up)
        if left:
            self._tell("fewer_workers", f"{reason}; going on with {left} of {self.wanted} workers")
        else:
            self._tell("sequential", f"{reason}; going on in this process alone, one rollout after another")
        self.changed.notify_all()

    def _dismiss(self, member: Member) -> None:
        """Let a member go: after its rollout, or at once where nobody waits for it."""
        if member.state == State.LEAVING:
            return
        is_busy = member.state in (State.PLAYING, State.STARTING)
        if is_busy and not self._is_closing:
            return
        if is_busy and member.hand.can_be_killed:
            member.hand.kill()
        else:
            self._send(member, Stop())
        member.enter(State.LEAVING)

    def _dispatch_and_watch(self) -> None:
        """For other threads: the supervisor may be waiting without a limit, and is to look who hangs."""
        self._dispatch()
        self._wake()

    def _dispatch(self) -> None:
        """Give each free worker a rollout, and as long as there are plenty one more to go on with.

        The second hides the time that messages take. The last ones of a turn go to whoever is free
        first, since no two rollouts take equally long.
        """
        if not self._is_open or self._is_closing:
            return
        members = [member for _, member in sorted(self.members.items()) if self._can_play(member)]
        for member in members:
            if not member.tasks and not self._assign(member):
                return
        for member in members:
            if len(member.tasks) == 1 and self.schedule.count_playable() > len(members):
                self._assign(member)

    def _can_play(self, member: Member) -> bool:
        is_there = member.state in (State.WAITING, State.PLAYING) and not member.must_go
        return is_there and member.index < self.wanted and not self.places[member.index].is_paused

    def _assign(self, member: Member) -> bool:
        task = self.schedule.begin()
        if task is None:
            return False
        member.tasks.append(task)
        if member.state == State.WAITING:
            member.enter(State.PLAYING)
        self._send(member, task)
        return True

    def _send(self, member: Member, message: Task | Stop) -> None:
        """A worker that died meanwhile is noticed by its end, which comes next."""
        try:
            send(member.hand.connection, message)
        except (BrokenPipeError, ConnectionResetError, BlockingIOError):
            logger.debug("worker %d is gone", member.index)

    def _hear(self, member: Member) -> None:
        try:
            message = receive(member.hand.connection)
        except (EOFError, OSError):  # gone, perhaps in the middle of a message
            self._lose(member)
            return
        if isinstance(message, Done):
            self._on_done(member, message)
        elif isinstance(message, Failed):
            self._on_failed(member, message)
        elif isinstance(message, Broken):
            member.broken.append(message)
        else:
            assert isinstance(message, Ready)
            member.enter(State.WAITING)
            self.changed.notify_all()

    def _on_done(self, member: Member, done: Done) -> None:
        self._kills.pop(done.task.shard, None)
        place = self.places[member.index]
        place.vain_starts = 0
        place.rollouts += 1
        place.busy_seconds += done.ended - done.began
        member.rollouts += 1
        interval = self._patience.reset_interval
        member.must_go = member.must_go or 0 < interval <= member.rollouts
        self._end_task(member, done.task)
        self._activities.append(
            Activity(member.index, done.task.shard, done.task.turn, done.began, done.ended)
        )
        if self.schedule.finish(done.task, done.version):
            self._broken += [broken for broken in member.broken if broken.task == done.task]
        member.broken.clear()
        if self.schedule.is_complete() or not self._is_open:
            self.changed.notify_all()

    def _end_task(self, member: Member, task: Task) -> None:
        if member.task == task:
            member.tasks.popleft()
        if member.state == State.PLAYING:
            member.enter(State.PLAYING if member.tasks else State.WAITING)

    def _on_failed(self, member: Member, failed: Failed) -> None:
        if failed.task is None:
            if failed.error == "MemoryError":
                member.lacks_memory = True  # its end, which comes next, leads to fewer workers
                return
            what = f"{failed.error}: {failed.text}\n{failed.traceback}"
            self._fail(WorkerError(f"worker {member.index} could not get ready: {what}"))
            return
        self._end_task(member, failed.task)
        self.changed.notify_all()
        where = f"worker {member.index}, {self._describe(failed.task)}"
        if failed.is_senju_error:  # would come again, and is what the serial backend raises
            kind: type[SenjuError] = getattr(senju.errors, failed.error, WorkerError)
            error = kind(f"{failed.text} ({where})")
            error.add_note(f"In the worker:\n{failed.traceback}")
            self._fail(error)
            return
        self._count_failure(
            failed.task, f"{where}: {failed.error}: {failed.text}\n{failed.traceback}", member
        )

    def _count_failure(self, task: Task, cause: str, member: Member) -> None:
        """Play the rollout again, or set its shard aside."""
        failures = self.schedule.lose(task)
        if failures < self._patience.shard_attempts:
            self._tell_replay(cause, member)
            return
        self.schedule.abandon(task.shard)
        try:
            self._tell("set_aside", self._set_aside(task, cause), member.index, logging.ERROR)
        except SenjuError as error:
            self._fail(error)
        self.changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Whoever waits for rollouts raises this; what follows from it is not told."""
        if isinstance(error, SenjuError):
            error.__traceback__ = None
        self._failure = self._failure or error
        self.changed.notify_all()

    def _lose(self, member: Member) -> None:
        """A member has ended: wanted or not."""
        was_leaving, was_starting = member.state == State.LEAVING, member.state == State.STARTING
        task = self._take_back(member)
        how = self._remove(member)
        self.changed.notify_all()
        if was_leaving:
            return
        self._count_restart(member.index, was_starting)
        who = f"worker {member.index}" + (f" (process {member.hand.pid})" if member.hand.pid else "")
        if (member.lacks_memory or member.hand.lacks_memory) and len(self.members):
            if task is not None:
                self.schedule.lose(task, is_its_fault=False)
            self._give_up(member.index, f"{who} ran out of memory: it {how}")
            return
        if task is None:
            self._tell("worker_lost", f"{who} {how}; another takes its place", member.index)
            return
        cause = f"{who} {how} while it played {self._describe(task)}"
        if member.hand.was_killed and self._count_kill(task.shard) % _KILLS_PER_FAILURE:
            self.schedule.lose(task, is_its_fault=False)
            self._tell_replay(cause, member)
            return
        self._count_failure(task, cause, member)

    def _count_kill(self, shard: int) -> int:
        self._kills[shard] = self._kills.get(shard, 0) + 1
        return self._kills[shard]

    def _tell_replay(self, cause: str, member: Member) -> None:
        self._tell("replay", f"{cause.rstrip()}\nIt is played again, exactly.", member.index)

    def _count_restart(self, index: int, was_starting: bool) -> None:
        place = self.places[index]
        place.restarts += 1
        self.restarts += 1
        place.vain_starts = place.vain_starts + 1 if was_starting else 0

    def _take_back(self, member: Member) -> Task | None:
        """What a member that is gone was playing; what it had not begun goes to others."""
        playing = member.task
        for waiting in list(member.tasks)[1:]:
            self.schedule.lose(waiting, is_its_fault=False)
        member.tasks.clear()
        return playing

    def _remove(self, member: Member) -> str:
        hand = member.hand
        hand.kill()
        how = hand.wait()
        if hand.output is not None:
            self._read_output(member)
            self._forget(hand.output)
        self._selector.unregister(hand.connection)
        hand.close()
        self.members.pop(member.index, None)
        return f"{how}; it said:\n{member.said.rstrip()}\n" if member.said else how

    def _forget(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def _read_output(self, member: Member) -> None:
        """What a worker printed goes to the log; its end is kept for when it dies."""
        output = member.hand.output
        assert output is not None
        try:
            data = os.read(output, _PIPE_BYTES)  # once: others must be heard, however much it prints
        except BlockingIOError:
            return
        if not data:
            self._forget(output)
        text = data.decode(errors="replace")
        member.said = (member.said + text)[-_SAID_BYTES:]
        for line in text.splitlines():
            logger.info("worker %d: %s", member.index, line)

    def _look_for_hung(self) -> None:
        gap = 2 * (self._rhythm() or 1.0)
        limits = {
            State.STARTING: self._patience.start_timeout,
            State.PLAYING: self._patience.worker_timeout,
            State.LEAVING: _LEAVING_SECONDS,
        }
        for member in list(self.members.values()):
            if member.state == State.WAITING:
                continue
            still = member.look(float(self._boards[member.index, BEAT]), gap)
            if still >= limits[member.state]:
                self._on_hung(member, still)

    def _on_hung(self, member: Member, seconds: float) -> None:
        if member.state == State.LEAVING:
            self._remove(member)
            return
        doing = "played " + self._describe(member.task) if member.task else "was getting ready"
        cause = f"worker {member.index} gave no sign of life for {seconds:.1f} s while it {doing}"
        where = member.hand.where()
        if where:
            cause += f"; it was at:\n{where.rstrip()}\n"
        if not member.hand.can_be_killed:
            self._fail(WorkerError(f"{cause}\nA thread cannot be replaced; the backend processes can."))
            self._send(member, Stop())  # for when it comes back
            member.enter(State.LEAVING)
            return
        task = self._take_back(member)
        member.said = ""
        self._remove(member)
        self._count_restart(member.index, was_starting=task is None)
        self.changed.notify_all()
        if task is None:
            self._tell("worker_hung", f"{cause}; another takes its place", member.index)
        else:
            self._count_failure(task, cause, member)
