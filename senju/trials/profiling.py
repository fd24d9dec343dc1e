"""Where the time goes: a few updates on one backend, timed stage by stage and drawn."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic, perf_counter

from senju.config import Settings
from senju.errors import RunFolderError
from senju.events import Event
from senju.files import describe_os_error
from senju.gpus import GpuSampler, summarise
from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig, resolve_config
from senju.runs.stages import explain
from senju.runs.timeline import LEARNER, Timeline, timeline_svg
from senju.timing import add_seconds
from senju.trials.rig import Rig, backend_text
from senju.workers.role import Activity


@dataclass
class Profile:
    """Some updates on one backend, with the time of every stage."""

    backend: str
    updates: int
    num_workers: int = 0
    start_seconds: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    stages: dict[str, float] = field(default_factory=dict)  # seconds
    busy_shares: tuple[float, ...] = ()  # of each worker
    events: list[Event] = field(default_factory=list)
    explanation: str = ""
    gpu: dict[str, float] = field(default_factory=dict)  # its load; empty where it was not measured
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def name(self) -> str:
        """The backend and its workers."""
        return backend_text(self.backend, self.num_workers)

    @property
    def steps_per_second(self) -> float:
        """Steps per second of whole updates: collecting, learning and publishing in turn."""
        return self.steps / self.seconds


def profile(
    config: RunConfig, backend: Settings, updates: int, on_update: Callable[[int], None] = lambda update: None
) -> Profile:
    """Train for this number of updates, after warming up, and time each stage."""
    keep_freed_memory()
    found, called = Profile(backend["name"], updates), perf_counter()
    gpus = GpuSampler(each.device for each in config.learner_settings)
    with math_threads(config.threads or available_cores()), Rig(config, backend) as rig:
        found.start_seconds = perf_counter() - called
        rig.warm_up()
        rig.backend.report(), rig.learner.take_timings()  # those of warming up are dropped
        activities: list[Activity] = []
        with gpus:
            began = ended = monotonic()
            for update in range(1, updates + 1):
                ended = _update(rig, update, found)
                activities += _take_report(rig, found)
                on_update(update)
        workers = [worker.index for worker in rig.backend.status().workers]
        activities += _take_report(rig, found)
    found.num_workers, found.seconds = len(workers), ended - began
    found.busy_shares = _busy_shares(workers, activities, began, ended)
    samples = gpus.take()
    found.timeline.add_gpu_samples(samples)
    found.gpu = summarise(samples)
    setting = rig.setting(found.num_workers)
    found.explanation = explain(found.stages, setting=setting, gpu_busy=found.gpu.get("gpu_busy"))
    return found


def _update(rig: Rig, number: int, found: Profile) -> float:
    """Update once, record its stages, and return when it ended."""
    times = [monotonic()]
    rollouts = rig.collect()
    times.append(monotonic())
    rig.learn(rollouts)
    times.append(monotonic())
    rig.publish()
    times.append(monotonic())
    for name, (began, ended) in zip(("collect", "learn", "publish"), pairwise(times), strict=True):
        found.timeline.add(LEARNER, name, began, ended, update=number)
    found.steps += rig.count_steps(rollouts)
    add_seconds(found.stages, rig.learner.take_timings() | {"publish": times[3] - times[2]})
    return times[3]


def _take_report(rig: Rig, found: Profile) -> Sequence[Activity]:
    report = rig.backend.report()
    add_seconds(found.stages, report.timings)
    found.timeline.add_activities(report.activities)
    found.events += report.events
    return report.activities


def _busy_shares(
    workers: Sequence[int], activities: Sequence[Activity], began: float, ended: float
) -> tuple[float, ...]:
    """The share of the time that each worker played; these workers and those that left, by index."""
    busy = dict.fromkeys(workers, 0.0)
    for activity in activities:
        inside = min(activity.ended, ended) - max(activity.began, began)
        busy[activity.worker] = busy.get(activity.worker, 0.0) + max(inside, 0.0)
    return tuple(seconds / (ended - began) for _, seconds in sorted(busy.items()))


@dataclass(frozen=True)
class Probe:
    """Decisions per second of collecting and of learning alone, and of both in turn."""

    game: str
    collecting: float
    learning: float
    end_to_end: float
    explanation: str


def probe(game: str, updates: int = 3) -> Probe:
    """Train a game for a few updates, and keep nothing."""
    config = resolve_config(game, {"total_steps": 2**40, "device": "cpu", "evaluation": {"interval": 0}})
    found = profile(config, config.backend, updates)
    seconds: dict[str, float] = {}
    for span in found.timeline.spans():
        add_seconds(seconds, {span.name: span.ended - span.began})
    decisions = updates * config.decisions_per_update
    return Probe(
        game=config.game["name"],
        collecting=decisions / seconds["collect"],
        learning=decisions / seconds["learn"],
        end_to_end=decisions / (seconds["collect"] + seconds["learn"]),
        explanation=explain({name: spent for name, spent in found.stages.items() if name != "publish"}),
    )


def write_timeline(profile: Profile, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a profile's timeline as a Chrome trace and as a picture; return both paths."""
    trace, picture = folder / f"{name}.json", folder / f"{name}.svg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trace.write_text(json.dumps(profile.timeline.chrome_trace()), encoding="utf-8")
        picture.write_text(timeline_svg(profile.timeline), encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write the timeline to {folder}: {describe_os_error(error)}") from error
    return trace, picture
