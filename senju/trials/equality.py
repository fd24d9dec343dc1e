"""Equal bytes: the serial backend and another, update by update, until something differs."""

import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic
from typing import NamedTuple

from senju.backends import BACKENDS
from senju.backends.backend import Backend
from senju.collect.slots import Rollout
from senju.games import make_game
from senju.machine import available_cores, math_threads
from senju.models.weights import Weights
from senju.training.run import new_model
from senju.training.run_config import RunConfig
from senju.trials.differences import Difference, compare_rollouts, compare_states, compare_weights
from senju.trials.rig import SERIAL, Rig, backend_settings
from senju.trials.scale import require_sync
from senju.trials.signals import processes_of, strike

LOOK_SECONDS = 0.0005  # between two looks whether somebody plays
EVENTS_OF_HEALING = ("replay", "worker_lost", "worker_hung")


class Candidate(NamedTuple):
    """A backend that is held against the serial one."""

    backend: str
    num_workers: int

    @property
    def name(self) -> str:
        """As people call it."""
        if self.backend == "serial":
            return "serial, once more"
        return f"{self.backend}, {self.num_workers} worker{'s' if self.num_workers > 1 else ''}"


@dataclass(frozen=True)
class Verdict:
    """What came of holding a candidate against the oracle."""

    candidate: Candidate
    updates: int  # that were compared, the one that differs included
    difference: Difference | None
    num_bytes: int  # that were found equal
    digest: str  # of the oracle's last weights
    kills: int
    healed: int  # rollouts played again and workers replaced
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether every byte was the same."""
        return self.difference is None


def candidates(backends: Sequence[str], workers: Sequence[int]) -> list[Candidate]:
    """Every backend with every number of workers; what cannot have several comes once."""
    found = []
    for backend in backends:
        has_workers = "num_workers" in BACKENDS.config_class(backend).model_fields
        found += [Candidate(backend, number) for number in (workers if has_workers else [1])]
    return found


def verify(
    config: RunConfig,
    candidate: Candidate,
    updates: int,
    *,
    kill: bool = False,
    on_update: Callable[[int], None] = lambda update: None,
) -> Verdict:
    """Run the candidate beside the serial backend, each with a learner of its own.

    Rollouts, weights and shards' states are compared after every update; it ends with the first
    difference. With `kill`, a worker of the candidate is killed in each update, where it is a process;
    which one depends on the config's seed.
    """
    require_sync(config)
    settings = backend_settings(config, candidate.backend, candidate.num_workers)
    threads = config.threads or available_cores()
    began, moment = monotonic(), random.Random(config.seed)
    with math_threads(threads), Rig(config, SERIAL) as oracle, Rig(config, settings) as rig:
        lockstep = Lockstep(oracle, rig)
        update = kills = 0
        difference = None
        while difference is None and update < updates:
            update += 1
            with killing(rig.backend, moment) if kill else _sparing() as killed:
                difference = lockstep.advance()
            kills += len(killed)
            on_update(update)
        events = [event.kind for event in rig.backend.take_events()]
        return Verdict(
            candidate=candidate,
            updates=update,
            difference=difference,
            num_bytes=lockstep.num_bytes,
            digest=digest_of(oracle.learner.weights()),
            kills=kills,
            healed=sum(kind in EVENTS_OF_HEALING for kind in events),
            seconds=monotonic() - began,
        )


class Lockstep:
    """Two rigs that go on together for as long as they are equal."""

    def __init__(self, oracle: Rig, rig: Rig) -> None:
        self._oracle, self._rig = oracle, rig
        self._tensors = new_model(make_game(**oracle.config.game), oracle.config).state_dict()
        self.num_bytes = 0

    def advance(self) -> Difference | None:
        """One update of both; the first difference, if there is any."""
        oracle, rig = self._oracle, self._rig
        rollouts = oracle.collect(), rig.collect()
        difference = compare_rollouts(*rollouts)
        if difference is not None:
            return difference
        self.num_bytes += _num_bytes(rollouts[0])
        oracle.learn(rollouts[0])
        rig.learn(rollouts[1])
        weights = oracle.learner.weights(), rig.learner.weights()
        difference = compare_weights(*weights, self._tensors)
        if difference is not None:
            return difference
        self.num_bytes += weights[0].nbytes
        oracle.publish()
        rig.publish()
        return compare_states(oracle.backend.snapshot(), rig.backend.snapshot())


def _num_bytes(rollouts: Sequence[Rollout]) -> int:
    arrays = [array for rollout in rollouts for array in (*rollout.data, rollout.clock)]
    return sum(array.nbytes for array in arrays)


def digest_of(weights: Weights) -> str:
    """A short fingerprint of weights, for people to compare."""
    return blake2b(weights.tobytes(), digest_size=4).hexdigest()


@contextmanager
def _sparing() -> Iterator[list[int]]:
    yield []


@contextmanager
def killing(backend: Backend, moment: random.Random) -> Iterator[list[int]]:
    """Kill one worker process while the block collects, at a moment drawn by chance.

    Yields the list that the killed process's number is put into; it stays empty where workers are no
    processes.
    """
    killed: list[int] = []
    is_over = threading.Event()
    draws = moment.random(), moment.randrange(4)
    thread = threading.Thread(target=_kill_one, args=(backend, *draws, is_over, killed), daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()


def _kill_one(
    backend: Backend, choice: float, sightings: int, is_over: threading.Event, killed: list[int]
) -> None:
    """Kill one that plays, after some were seen playing; where it is over before, one that waits."""
    while not is_over.wait(LOOK_SECONDS):
        playing = processes_of(backend.status(), ["playing"])
        sightings -= bool(playing)
        if playing and sightings < 0 and _strike_one(playing, choice, killed):
            return
    _strike_one(processes_of(backend.status()), choice, killed)


def _strike_one(found: Sequence[tuple[object, int]], choice: float, killed: list[int]) -> bool:
    pids = [pid for _, pid in found[int(choice * len(found)) :][:1] if strike(pid, signal.SIGKILL)]
    killed += pids
    return bool(pids)
