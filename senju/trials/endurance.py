"""Endurance: training under random disturbances, held against a quiet serial run of the same length."""

import sys
import threading
import traceback
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from statistics import median
from time import monotonic
from typing import NamedTuple

from senju.backends.backend import BackendStatus
from senju.collect.shard import ShardState
from senju.config import Settings
from senju.errors import WorkerError
from senju.games import make_game
from senju.machine import available_cores, math_threads
from senju.models.weights import Weights
from senju.training.interrupt import StopRequest
from senju.training.run import new_model
from senju.training.run_config import RunConfig
from senju.trials.differences import Difference, compare_states, compare_weights
from senju.trials.disturbances import Disturber
from senju.trials.equality import EVENTS_OF_HEALING
from senju.trials.leftovers import belongings, temporary_folder
from senju.trials.rig import SERIAL, Rig
from senju.trials.scale import require_sync
from senju.trials.signals import READY

# One rollout may be hit several times by chance, which is not the shard's fault.
SOAK_BACKEND: Settings = {
    "name": "processes",
    "worker_timeout": 2.0,
    "start_timeout": 60.0,
    "shard_attempts": 1000,
    "failing_shard": "stop",
}
STALL_SECONDS = 180.0  # without an update, after which it counts as stuck
_CLOSING_SECONDS = 60.0
_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True)
class Moment:
    """Where a soak stands."""

    stage: str  # disturbing or checking
    seconds: float
    updates: int
    disturbances: dict[str, int]
    healed: int
    workers: int


class Growth(NamedTuple):
    """Medians of the first and of the last quarter of the time, in bytes."""

    first: int
    last: int

    @property
    def bytes(self) -> int:
        """How much it grew."""
        return self.last - self.first


@dataclass(frozen=True)
class Ordeal:
    """What was done to a run, and how it took it."""

    seconds: float
    updates: int
    disturbances: dict[str, int]
    events: dict[str, int]  # what the backend told, by kind
    own_memory: Growth  # of this process
    worker_memory: Growth  # of one worker, on average

    @property
    def healed(self) -> int:
        """Rollouts played again and workers replaced."""
        return sum(self.events.get(kind, 0) for kind in EVENTS_OF_HEALING)


@dataclass(frozen=True)
class SoakReport:
    """An ordeal and what came of it."""

    ordeal: Ordeal
    leftovers: dict[str, list[str]]
    first_different_update: int | None  # by the weights after it
    difference: Difference | None  # of the last weights, or of the last states

    @property
    def is_equal(self) -> bool:
        """Whether weights and states are those of the undisturbed run."""
        return self.difference is None and self.first_different_update is None


class _Result(NamedTuple):
    """What a run ends with, and a fingerprint of the weights after each update."""

    weights: Weights
    states: list[ShardState]
    fingerprints: "array[int]"


def soak(
    config: RunConfig,
    seconds: float,
    seed: int,
    on_moment: Callable[[Moment], None] = lambda moment: None,
    stop: StopRequest | None = None,
) -> SoakReport:
    """Train for so long under disturbances; then repeat the updates undisturbed, and compare."""
    require_sync(config)
    _get_warm(config)
    with temporary_folder() as folder:
        before = belongings(folder)
        result, ordeal = _Disturbed(config, seed, on_moment, stop or StopRequest()).run(seconds)
        leftovers = belongings(folder).beyond(before)
    return SoakReport(ordeal, leftovers, *_check(config, result, ordeal, on_moment))


def _get_warm(config: RunConfig) -> None:
    """Compile and import everything, so that only what the run itself opens is new."""
    with Rig(config, SERIAL) as rig:
        rig.update()


class _Training(threading.Thread):
    """Updates a rig until it is told to stop; an error waits for whoever asks."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(name="senju soak", daemon=True)
        self._rig = rig
        self.fingerprints = array("Q")
        self.must_stop, self.has_ended = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    @property
    def updates(self) -> int:
        return len(self.fingerprints)

    def run(self) -> None:
        try:
            with math_threads(self._rig.config.threads or available_cores()):
                while not self.must_stop.is_set():
                    self._rig.update()
                    self.fingerprints.append(_fingerprint(self._rig.learner.weights()))
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            self.error = error
        finally:
            self.has_ended.set()


class _Disturbed:
    """A run that is trained by one thread and disturbed by this one."""

    def __init__(
        self,
        config: RunConfig,
        seed: int,
        on_moment: Callable[[Moment], None],
        stop: StopRequest,
    ) -> None:
        self._on_moment, self._stop = on_moment, stop
        self._rig = Rig(config, config.backend)
        most = min(int(config.backend.get("num_workers") or available_cores()) + 1, config.plan.num_shards)
        self._disturber = Disturber(self._rig.backend, seed, most)
        self._training = _Training(self._rig)
        self._events: Counter[str] = Counter()
        self._samples: list[tuple[int, float]] = []  # bytes of this process, and of a worker on average
        self._sampled = self._progressed = monotonic()
        self._seen_updates = 0

    def run(self, seconds: float) -> tuple[_Result, Ordeal]:
        """Start, disturb for so long, calm down, and close."""
        rig, training = self._rig.__enter__(), self._training
        try:
            began = monotonic()
            training.start()
            self._disturb_until(began, began + seconds)
            training.must_stop.set()
            self._disturber.calm()
            while not training.has_ended.wait(0.1):
                self._notice_stall()
            self._look(monotonic() - began)
            if training.error is not None:
                raise training.error
            result = _Result(rig.learner.weights(), rig.backend.snapshot(), training.fingerprints)
        finally:
            self._close()
        return result, self._describe(monotonic() - began)

    def _disturb_until(self, began: float, end: float) -> None:
        while not self._stop.is_set and monotonic() < end:
            if self._training.has_ended.wait(min(self._disturber.next_wait(), end - monotonic())):
                return
            self._disturber.disturb()
            self._look(monotonic() - began)
            self._notice_stall()

    def _look(self, seconds: float) -> None:
        backend, now = self._rig.backend, monotonic()
        self._events.update(event.kind for event in backend.take_events())
        backend.take_activities()
        status = backend.status()
        if now - self._sampled >= _SAMPLE_SECONDS or not self._samples:
            self._sampled = now
            self._samples.append(_sample(status))
        counts = dict(self._disturber.counts)
        healed = sum(self._events[kind] for kind in EVENTS_OF_HEALING)
        workers = len(status.workers)
        self._on_moment(Moment("disturbing", seconds, self._training.updates, counts, healed, workers))

    def _notice_stall(self) -> None:
        now = monotonic()
        if self._training.updates != self._seen_updates:
            self._seen_updates, self._progressed = self._training.updates, now
        elif now - self._progressed > STALL_SECONDS:
            raise WorkerError(
                f"no update for {STALL_SECONDS:.0f} s after update {self._seen_updates}; disturbances so "
                f"far: {dict(self._disturber.counts)}; threads were at:\n{_stacks()}"
            )

    def _close(self) -> None:
        """Close backend and learners, but do not wait for ever: a soak is there to find out."""
        closing = threading.Thread(target=self._rig.close, name="senju closing", daemon=True)
        closing.start()
        closing.join(_CLOSING_SECONDS)
        if closing.is_alive():
            raise WorkerError(
                f"the run did not close within {_CLOSING_SECONDS:.0f} s; threads are at:\n{_stacks()}"
            )

    def _describe(self, seconds: float) -> Ordeal:
        self._events.update(event.kind for event in self._rig.backend.take_events())
        return Ordeal(
            seconds=seconds,
            updates=self._training.updates,
            disturbances=dict(self._disturber.counts),
            events=dict(self._events),
            own_memory=growth([own for own, _ in self._samples]),
            worker_memory=growth([worker for _, worker in self._samples if worker]),
        )


def _sample(status: BackendStatus) -> tuple[int, float]:
    of_workers = [worker.memory_bytes for worker in status.workers]
    ready = [
        worker.memory_bytes for worker in status.workers if worker.state in READY and worker.memory_bytes
    ]
    return status.memory_bytes - sum(of_workers), sum(ready) / len(ready) if ready else 0.0


def growth(samples: list[float]) -> Growth:
    """Medians of the first and of the last quarter.

    >>> growth([1, 2, 3, 4, 5, 6, 7, 9])
    Growth(first=1, last=8)
    """
    if not samples:
        return Growth(0, 0)
    quarter = max(1, len(samples) // 4)
    return Growth(int(median(samples[:quarter])), int(median(samples[-quarter:])))


def _fingerprint(weights: Weights) -> int:
    return int.from_bytes(blake2b(weights.tobytes(), digest_size=8).digest(), "big")


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


def _check(
    config: RunConfig, result: _Result, ordeal: Ordeal, on_moment: Callable[[Moment], None]
) -> tuple[int | None, Difference | None]:
    """Repeat as many updates serially, and compare; nothing of an update but its fingerprint is kept."""
    began, first_different = monotonic(), None
    with math_threads(config.threads or available_cores()), Rig(config, SERIAL) as oracle:
        for update, fingerprint in enumerate(result.fingerprints, 1):
            oracle.update()
            oracle.backend.take_activities()  # or they would pile up
            is_same = _fingerprint(oracle.learner.weights()) == fingerprint
            if not is_same and first_different is None:
                first_different = update
            elapsed = monotonic() - began
            on_moment(Moment("checking", elapsed, update, ordeal.disturbances, ordeal.healed, 1))
        tensors = new_model(make_game(**config.game), config).state_dict()
        weights = compare_weights(oracle.learner.weights(), result.weights, tensors)
        return first_different, weights or compare_states(oracle.backend.snapshot(), result.states)
