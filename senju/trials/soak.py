"""Soak test: train under random disturbances, then compare with an undisturbed serial run."""

import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import monotonic
from typing import NamedTuple

from senju.backends.backend import BackendStatus
from senju.collect.shard import ShardState
from senju.config import Settings
from senju.errors import WorkerError
from senju.machine import available_cores, math_threads
from senju.models.weights import Weights
from senju.runs.interrupt import StopRequest
from senju.runs.run import new_models
from senju.runs.run_config import RunConfig
from senju.trials.differences import Difference, compare_states, compare_weights
from senju.trials.disturbances import READY, Disturber
from senju.trials.equality import RECOVERY_EVENTS, digest_of
from senju.trials.leftovers import process_resources, temporary_folder
from senju.trials.rig import SERIAL, Rig
from senju.trials.scale import require_sync

# Disturbances may hit one rollout many times, through no fault of the shard.
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
_DIGEST_BYTES = 8  # of the weights after each update


class Growth(NamedTuple):
    """Medians of the first and of the last quarter of the time, in bytes."""

    first: int
    last: int

    @property
    def bytes(self) -> int:
        """How much it grew."""
        return self.last - self.first


@dataclass(frozen=True)
class SoakStatistics:
    """What a soak test did, and what it cost."""

    seconds: float
    updates: int
    disturbances: dict[str, int]
    events: dict[str, int]  # number of the backend's events, by kind
    own_memory: Growth  # of this process
    worker_memory: Growth  # of one worker, on average

    @property
    def recovered(self) -> int:
        """Rollouts played again and workers replaced."""
        return sum(self.events.get(kind, 0) for kind in RECOVERY_EVENTS)


class SoakProgress(NamedTuple):
    """Progress of a soak test."""

    stage: str  # disturbing or checking
    seconds: float  # of this stage
    updates: int  # in this stage
    workers: int
    statistics: SoakStatistics  # of the disturbances so far


ProgressCallback = Callable[[SoakProgress], None]


@dataclass(frozen=True)
class SoakReport:
    """Statistics of a soak test, what it left behind, and whether its result is correct."""

    statistics: SoakStatistics
    leftovers: dict[str, list[str]]
    first_different_update: int | None  # by the weights after it
    difference: Difference | None  # of the last weights, or of the last states

    @property
    def is_equal(self) -> bool:
        """Whether weights and states are those of the undisturbed run."""
        return self.difference is None and self.first_different_update is None


class _Result(NamedTuple):
    """The final state of a run, and a fingerprint of the weights after each update."""

    weights: Weights
    states: list[ShardState]
    fingerprints: list[str]


def soak(
    config: RunConfig,
    seconds: float,
    seed: int,
    on_progress: ProgressCallback = lambda progress: None,
    stop: StopRequest | None = None,
) -> SoakReport:
    """Train under disturbances for this time; then repeat the updates undisturbed, and compare."""
    require_sync(config)
    with Rig(config, SERIAL) as rig:
        rig.update()  # compiles and imports everything, so that only what the run itself opens is new
    with temporary_folder() as folder:
        before = process_resources(folder)
        result, statistics = _Disturbed(config, seed, on_progress, stop or StopRequest()).run(seconds)
        leftovers = process_resources(folder).beyond(before)
    return SoakReport(statistics, leftovers, *_check(config, result, statistics, on_progress))


class _Disturbed:
    """A run that another thread trains while this one disturbs it."""

    def __init__(
        self, config: RunConfig, seed: int, on_progress: ProgressCallback, stop: StopRequest
    ) -> None:
        self._on_progress, self._stop = on_progress, stop
        self._rig = Rig(config, config.backend)
        most = min(int(config.backend.get("num_workers") or available_cores()) + 1, config.plan.num_shards)
        self._disturber = Disturber(self._rig.backend, seed, most)
        self._must_stop, self._has_ended = threading.Event(), threading.Event()  # of the training thread
        self._error: BaseException | None = None  # of the training thread
        self._fingerprints: list[str] = []
        self._events: Counter[str] = Counter()
        self._samples: list[tuple[int, float]] = []  # by `_sample`
        self._began = self._sampled = self._progressed = monotonic()

    def run(self, seconds: float) -> tuple[_Result, SoakStatistics]:
        """Start, disturb for `seconds`, end the disturbances, and close."""
        rig = self._rig.__enter__()
        try:
            self._began = began = monotonic()
            threading.Thread(target=self._train, name="senju soak", daemon=True).start()
            self._disturb_until(began + seconds)
            self._must_stop.set()
            self._disturber.end_pause()
            while not self._has_ended.wait(0.1):
                self._require_progress()
            self._look()
            if self._error is not None:
                raise self._error
            result = _Result(rig.learner.weights(), rig.backend.snapshot(), self._fingerprints)
        finally:
            self._close()
        return result, self._statistics()

    def _train(self) -> None:
        """Update the rig until asked to stop."""
        try:
            with math_threads(self._rig.config.threads or available_cores()):
                while not self._must_stop.is_set():
                    self._rig.update()
                    self._fingerprints.append(digest_of(self._rig.learner.weights(), _DIGEST_BYTES))
                    self._progressed = monotonic()
        except BaseException as error:  # noqa: BLE001  # the main thread raises it again
            self._error = error
        finally:
            self._has_ended.set()

    def _disturb_until(self, end: float) -> None:
        while not self._stop.is_set and monotonic() < end:
            if self._has_ended.wait(min(self._disturber.next_wait(), end - monotonic())):
                return
            self._disturber.disturb()
            self._look()
            self._require_progress()

    def _look(self) -> None:
        """Sample the memory now and then, and report the progress."""
        now, status = monotonic(), self._rig.backend.status()
        if now - self._sampled >= _SAMPLE_SECONDS or not self._samples:
            self._sampled = now
            self._samples.append(_sample(status))
        so_far, workers = self._statistics(), len(status.workers)
        self._on_progress(SoakProgress("disturbing", so_far.seconds, so_far.updates, workers, so_far))

    def _require_progress(self) -> None:
        if monotonic() - self._progressed > STALL_SECONDS:
            raise WorkerError(
                f"no update for {STALL_SECONDS:.0f} s after update {len(self._fingerprints)}; "
                f"disturbances so far: {dict(self._disturber.counts)}; threads were at:\n{_stacks()}"
            )

    def _close(self) -> None:
        """Close backend and learners; fail if that takes too long."""
        closing = threading.Thread(target=self._rig.close, name="senju closing", daemon=True)
        closing.start()
        closing.join(_CLOSING_SECONDS)
        if closing.is_alive():
            raise WorkerError(
                f"the run did not close within {_CLOSING_SECONDS:.0f} s; threads are at:\n{_stacks()}"
            )

    def _statistics(self) -> SoakStatistics:
        self._events.update(event.kind for event in self._rig.backend.report().events)
        return SoakStatistics(
            seconds=monotonic() - self._began,
            updates=len(self._fingerprints),
            disturbances=dict(self._disturber.counts),
            events=dict(self._events),
            own_memory=growth([own for own, _ in self._samples]),
            worker_memory=growth([worker for _, worker in self._samples if worker]),
        )


def _sample(status: BackendStatus) -> tuple[int, float]:
    """Bytes of this process, and of a worker on average."""
    workers = status.workers
    ready = [worker.memory_bytes for worker in workers if worker.state in READY and worker.memory_bytes]
    own = status.memory_bytes - sum(worker.memory_bytes for worker in workers)
    return own, sum(ready) / len(ready) if ready else 0.0


def growth(samples: list[float]) -> Growth:
    """Medians of the first and of the last quarter.

    >>> growth([1, 2, 3, 4, 5, 6, 7, 9])
    Growth(first=1, last=8)
    """
    if not samples:
        return Growth(0, 0)
    quarter = max(1, len(samples) // 4)
    return Growth(int(median(samples[:quarter])), int(median(samples[-quarter:])))


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


def _check(
    config: RunConfig, result: _Result, statistics: SoakStatistics, on_progress: ProgressCallback
) -> tuple[int | None, Difference | None]:
    """Repeat the updates serially, and compare the weights after each and the state at the end."""
    began, first_different = monotonic(), None
    with math_threads(config.threads or available_cores()), Rig(config, SERIAL) as reference:
        for update, fingerprint in enumerate(result.fingerprints, 1):
            reference.update()
            reference.backend.report()  # activities would pile up
            digest = digest_of(reference.learner.weights(), _DIGEST_BYTES)
            if first_different is None and digest != fingerprint:
                first_different = update
            on_progress(SoakProgress("checking", monotonic() - began, update, 1, statistics))
        tensors = new_models(reference.game, config)[0].state_dict()
        weights = compare_weights(reference.learner.weights(), result.weights, tensors)
        return first_different, weights or compare_states(reference.backend.snapshot(), result.states)
