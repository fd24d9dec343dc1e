"""Equal bytes: the serial backend and another, update by update, until something differs."""

import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic
from typing import NamedTuple

from torch import Tensor

from senju.backends.backend import Backend
from senju.machine import available_cores, math_threads
from senju.models.weights import Weights
from senju.runs.run import new_models
from senju.runs.run_config import RunConfig
from senju.trials.differences import Difference, compare_rollouts, compare_states, compare_weights
from senju.trials.disturbances import processes_of, send_signal
from senju.trials.rig import SERIAL, Rig, backend_settings, backend_text, has_workers
from senju.trials.scale import require_sync

CHECK_SECONDS = 0.0005  # between two checks whether a worker plays
RECOVERY_EVENTS = ("worker_failed", "worker_lost", "worker_hung")


class Candidate(NamedTuple):
    """A backend that is compared with the serial one."""

    backend: str
    num_workers: int

    @property
    def name(self) -> str:
        """The backend and its workers; the second serial run is called one."""
        text = backend_text(self.backend, self.num_workers)
        return f"{text}, once more" if text == "serial" else text


@dataclass(frozen=True)
class Verdict:
    """The result of comparing a candidate with the serial backend."""

    candidate: Candidate
    updates: int  # compared, including the one that differs
    difference: Difference | None
    num_bytes: int  # found equal
    digest: str  # of the reference's last weights
    kills: int
    recovered: int  # rollouts played again and workers replaced
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether every byte was the same."""
        return self.difference is None


def candidates(backends: Sequence[str], workers: Sequence[int]) -> list[Candidate]:
    """Every backend with every number of workers; a backend without workers appears once."""
    return [
        Candidate(backend, number)
        for backend in backends
        for number in (workers if has_workers(backend) else [1])
    ]


def verify(
    config: RunConfig,
    candidate: Candidate,
    updates: int,
    *,
    kill: bool = False,
    on_update: Callable[[int], None] = lambda update: None,
) -> Verdict:
    """Run the candidate beside the serial backend, each with a learner of its own.

    Rollouts, weights and shards' states are compared after every update; the first difference ends it.
    With `kill`, a worker process of the candidate is killed in each update, chosen by the config's seed.
    """
    require_sync(config)
    settings = backend_settings(config, candidate.backend, candidate.num_workers)
    began, moment = monotonic(), random.Random(config.seed)
    disturbed: AbstractContextManager[list[int]]
    threads = math_threads(config.threads or available_cores())
    with threads, Rig(config, SERIAL) as reference, Rig(config, settings) as rig:
        tensors = new_models(reference.game, config)[0].state_dict()
        update = kills = num_bytes = 0
        difference = None
        while difference is None and update < updates:
            update += 1
            disturbed = killing(rig.backend, moment) if kill else nullcontext([])
            with disturbed as killed:
                difference, num_equal = _advance(reference, rig, tensors)
            kills += len(killed)
            num_bytes += num_equal
            on_update(update)
        return Verdict(
            candidate=candidate,
            updates=update,
            difference=difference,
            num_bytes=num_bytes,
            digest=digest_of(reference.learner.weights()),
            kills=kills,
            recovered=sum(event.kind in RECOVERY_EVENTS for event in rig.backend.report().events),
            seconds=monotonic() - began,
        )


def _advance(reference: Rig, rig: Rig, tensors: Mapping[str, Tensor]) -> tuple[Difference | None, int]:
    """Update both; return the first difference, if there is any, and how many bytes were equal before it."""
    rigs = reference, rig
    rollouts = [each.collect() for each in rigs]
    difference = compare_rollouts(*rollouts)
    if difference is not None:
        return difference, 0
    arrays = [array for rollout in rollouts[0] for array in (*rollout.data, rollout.clock)]
    num_bytes = sum(array.nbytes for array in arrays)
    for each, collected in zip(rigs, rollouts, strict=True):
        each.learn(collected)
    expected, found = (each.learner.weights() for each in rigs)
    difference = compare_weights(expected, found, tensors)
    if difference is not None:
        return difference, num_bytes
    for each in rigs:
        each.publish()
    return compare_states(*(each.backend.snapshot() for each in rigs)), num_bytes + expected.nbytes


def digest_of(weights: Weights, size: int = 4) -> str:
    """A fingerprint of weights, `size` bytes as hexadecimal digits."""
    return blake2b(weights.tobytes(), digest_size=size).hexdigest()


@contextmanager
def killing(backend: Backend, moment: random.Random) -> Iterator[list[int]]:
    """Kill one worker process while the block collects, at a random moment.

    Yields a list that gets the killed process's number; it stays empty where workers are not processes.
    """
    killed: list[int] = []
    is_over = threading.Event()
    choice, skipped = moment.random(), moment.randrange(4)

    def kill_one_of(pids: Sequence[int]) -> None:
        chosen = pids[int(choice * len(pids)) :][:1]
        killed.extend(pid for pid in chosen if send_signal(pid, signal.SIGKILL))

    def watch() -> None:
        """Kill a playing worker after `skipped` checks that found one; at the end, a waiting one."""
        found = 0
        while not killed and not is_over.wait(CHECK_SECONDS):
            playing = processes_of(backend.status(), ["playing"])
            found += bool(playing)
            if found > skipped:
                kill_one_of(playing)
        if not killed:
            kill_one_of(processes_of(backend.status()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()
