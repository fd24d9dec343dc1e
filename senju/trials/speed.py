"""Speed: every stage alone, all stages in turn, and the ratio of the two."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Any, Generic, NamedTuple, TypeVar

from senju.backends.backend import Backend
from senju.config import Settings
from senju.errors import WorkerError
from senju.machine import math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig
from senju.timing import add_seconds
from senju.trials.rig import SERIAL, Rig, backend_settings, has_workers

STAGES_PER_ENTRANT = ("start", "collecting", "learning", "publishing", "end to end")
_FEWEST_TURNS = 2
_QUIET_SECONDS = 60.0  # for workers to finish the running rollouts


class Spread(NamedTuple):
    """Median and range of repeated measurements."""

    median: float
    min: float
    max: float

    def as_text(self) -> str:
        """`median (min..max)`, in three digits or in whole numbers.

        >>> Spread(1.5, 1.25, 2000.0).as_text()
        '1.50 (1.25..2,000)'
        """
        return f"{_short(self.median)} ({_short(self.min)}..{_short(self.max)})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


def spread(figures: Sequence[float]) -> Spread:
    """Median, smallest and largest."""
    return Spread(median(figures), min(figures), max(figures))


def ratio_spread(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The spread of the ratios repeat by repeat, whose figures were measured close in time."""
    return spread([over / under for over, under in zip(numerators, denominators, strict=True)])


class Entrant(NamedTuple):
    """A backend with its threads: one line of the comparison."""

    name: str
    backend: Settings
    threads: int  # math threads of the learner; workers have one each

    @property
    def num_workers(self) -> int:
        """Number of workers; 0 for the serial backend."""
        return int(self.backend.get("num_workers", 0))


Figure = TypeVar("Figure")


@dataclass(frozen=True)
class Figures(Generic[Figure]):
    """Measurements of one entrant; speeds are in steps (decisions) a second."""

    start_seconds: Figure
    collecting: Figure
    learning: Figure
    publish_seconds: Figure  # once
    end_to_end: Figure
    allowed: Figure  # the end-to-end speed that the stages alone allow
    memory_bytes: Figure  # of all processes
    worker_bytes: Figure  # of the largest worker
    collecting_stages: dict[str, float]  # seconds
    learning_stages: dict[str, float]


_MEASURED = tuple(field.name for field in fields(Figures) if not field.name.endswith("_stages"))


@dataclass(frozen=True)
class Summary(Figures[Spread]):
    """An entrant's figures and stages over all repeats; ratios are taken repeat by repeat."""

    entrant: Entrant
    reached: Spread  # end to end ÷ what the stages alone allow
    efficiency: Spread | None  # collecting ÷ (workers × that of one); None for the serial backend
    collecting_over_serial: Spread  # ÷ the serial backend's with one thread
    end_to_end_over_serial: Spread  # ÷ the serial backend's with the same threads


def entrants(config: RunConfig, backend: str, workers: Sequence[int]) -> list[Entrant]:
    """The serial backend with one math thread and with all, and the other with each number of workers."""
    found = [Entrant("serial, 1 thread", SERIAL, 1)]
    if config.threads > 1:
        found.append(Entrant(f"serial, {config.threads} threads", SERIAL, config.threads))
    if not has_workers(backend):
        return found
    for number in workers:
        name = f"{number} worker{'s' if number > 1 else ''}"
        found.append(Entrant(name, backend_settings(config, backend, number), config.threads))
    return found


def measure(
    config: RunConfig, entrant: Entrant, seconds: float, on_stage: Callable[[str], None]
) -> Figures[float]:
    """Start an entrant and measure each stage alone, then all in turn, for about `seconds` each."""
    keep_freed_memory()  # as the trainer does
    on_stage("start")
    began = perf_counter()
    with math_threads(entrant.threads), Rig(config, entrant.backend) as rig:
        start_seconds = perf_counter() - began
        steps = rig.warm_up()
        on_stage("collecting")
        rig.backend.report()
        collecting = steps * _turns_a_second(rig.backend.collect, seconds)
        collecting_stages = rig.backend.report().timings
        on_stage("learning")
        learning, learning_stages = _measure_learning(rig, seconds)
        with at_rest(rig.backend):
            on_stage("publishing")
            publish_seconds = 1.0 / _turns_a_second(rig.publish, min(seconds, 0.2))
        on_stage("end to end")
        end_to_end = steps * _turns_a_second(rig.update, seconds)
        status = rig.backend.status()
    return Figures(
        start_seconds=start_seconds,
        collecting=collecting,
        learning=learning,
        publish_seconds=publish_seconds,
        end_to_end=end_to_end,
        allowed=_allowed(config, collecting, learning, publish_seconds / steps),
        memory_bytes=status.memory_bytes,
        worker_bytes=max(worker.memory_bytes for worker in status.workers),
        collecting_stages=collecting_stages,
        learning_stages=learning_stages,
    )


def _turns_a_second(turn: Callable[[], object], seconds: float) -> float:
    began, turns = perf_counter(), 0
    while True:
        turn()
        turns += 1
        elapsed = perf_counter() - began
        if elapsed >= seconds and turns >= _FEWEST_TURNS:
            return turns / elapsed


def _measure_learning(rig: Rig, seconds: float) -> tuple[float, dict[str, float]]:
    """Steps a second of the learner alone, each time from rollouts of its own weights."""
    rig.learner.take_timings()
    spent, steps, turns = 0.0, 0, 0
    while spent < seconds or turns < _FEWEST_TURNS:
        rig.publish()
        rollouts = rig.collect()
        with at_rest(rig.backend):
            began = perf_counter()
            rig.learn(rollouts)
            spent += perf_counter() - began
        steps += rig.count_steps(rollouts)
        turns += 1
    return steps / spent, rig.learner.take_timings()


@contextmanager
def at_rest(backend: Backend) -> Iterator[None]:
    """Pause the workers, which in async mode would go on playing."""
    backend.team.pause()
    try:
        deadline = monotonic() + _QUIET_SECONDS
        while backend.status().slots_playing:
            if monotonic() > deadline:
                raise WorkerError(f"running rollouts were not finished within {_QUIET_SECONDS:.0f} s")
            sleep(0.001)
        yield
    finally:
        backend.team.resume()


def _allowed(config: RunConfig, collecting: float, learning: float, publishing: float) -> float:
    """The speed that the stages alone allow: times add up, unless games go on while a GPU learns."""
    if config.collect.mode == "async" and config.device != "cpu":  # the slower one counts
        return 1.0 / (max(1.0 / collecting, 1.0 / learning) + publishing)
    return 1.0 / (1.0 / collecting + 1.0 / learning + publishing)


Results = dict[str, list[Figures[float]]]  # the repeats of each entrant, by its name


def measure_all(
    config: RunConfig,
    field: Sequence[Entrant],
    seconds: float,
    repeats: int,
    on_stage: Callable[[int, Entrant, str], None] = lambda repeat, entrant, stage: None,
) -> Results:
    """Measure all entrants in turn, then all again, so that ratios are of figures close in time."""
    results: Results = {entrant.name: [] for entrant in field}
    for repeat in range(repeats):
        for entrant in field:
            figures = measure(config, entrant, seconds, partial(on_stage, repeat, entrant))
            results[entrant.name].append(figures)
    return results


def summarise(field: Sequence[Entrant], results: Results) -> list[Summary]:
    """Spreads of the figures and of their ratios."""
    return [_summarise(entrant, field, results) for entrant in field]


def _summarise(entrant: Entrant, field: Sequence[Entrant], results: Results) -> Summary:
    def of(one: Entrant, name: str) -> list[float]:
        return [float(getattr(figures, name)) for figures in results[one.name]]

    stages: dict[str, Any] = {"collecting_stages": {}, "learning_stages": {}}
    for name, total in stages.items():
        for figures in results[entrant.name]:
            add_seconds(total, getattr(figures, name))
    serial = next((one for one in field if not one.num_workers and one.threads == entrant.threads), field[0])
    single = next((one for one in field if one.num_workers == 1), field[0])
    share = [rate / max(entrant.num_workers, 1) for rate in of(entrant, "collecting")]
    spreads: dict[str, Any] = {name: spread(of(entrant, name)) for name in _MEASURED}
    return Summary(
        entrant=entrant,
        reached=ratio_spread(of(entrant, "end_to_end"), of(entrant, "allowed")),
        efficiency=ratio_spread(share, of(single, "collecting")) if entrant.num_workers else None,
        collecting_over_serial=ratio_spread(of(entrant, "collecting"), of(field[0], "collecting")),
        end_to_end_over_serial=ratio_spread(of(entrant, "end_to_end"), of(serial, "end_to_end")),
        **spreads,
        **stages,
    )
