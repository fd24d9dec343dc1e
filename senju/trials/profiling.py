"""Where the time goes: a few updates on one backend, timed stage by stage and drawn."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter

from senju.backends.backend import Event
from senju.config import Settings
from senju.errors import RunFolderError
from senju.files import describe_os_error
from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.training.run_config import RunConfig
from senju.training.stages import Setting, explain
from senju.training.timeline import LEARNER, Timeline, timeline_svg
from senju.trials.rig import Rig


@dataclass(frozen=True)
class Profile:
    """Some updates on one backend."""

    backend: str
    num_workers: int
    updates: int
    start_seconds: float
    seconds: float
    steps: int
    stages: dict[str, float]  # seconds
    busy_shares: tuple[float, ...]  # of each worker
    events: tuple[Event, ...]
    explanation: str
    timeline: Timeline

    @property
    def name(self) -> str:
        """As people call it."""
        if self.backend == "serial":
            return "serial"
        return f"{self.backend}, {self.num_workers} worker{'s' if self.num_workers > 1 else ''}"

    @property
    def steps_per_second(self) -> float:
        """End to end."""
        return self.steps / self.seconds


def profile(
    config: RunConfig,
    backend: Settings,
    updates: int,
    on_update: Callable[[int], None] = lambda update: None,
) -> Profile:
    """Train for so many updates, after those that only warm up."""
    keep_freed_memory()
    threads, began = config.threads or available_cores(), perf_counter()
    with math_threads(threads), Rig(config, backend) as rig:
        start_seconds = perf_counter() - began
        rig.warm_up()
        watched = WatchedRig(rig)
        for update in range(1, updates + 1):
            watched.update(update)
            on_update(update)
        status = rig.backend.status()
        watched.close()
        setting = Setting(
            backend=backend["name"],
            num_workers=len(status.workers),
            cores=available_cores(),
            num_shards=config.plan.num_shards,
            device=config.device,
            mode=config.collect.mode,
            is_replaying=config.demands.is_replaying,
        )
    return Profile(
        backend=backend["name"],
        num_workers=len(status.workers),
        updates=updates,
        start_seconds=start_seconds,
        seconds=watched.seconds,
        steps=watched.steps,
        stages=watched.stages,
        busy_shares=watched.busy_shares(),
        events=tuple(rig.backend.take_events()),
        explanation=explain(watched.stages, setting=setting),
        timeline=watched.timeline,
    )


class WatchedRig:
    """Updates of a rig that has been warmed up, with their stages and their timeline."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self.timeline = rig, Timeline()
        self.stages: dict[str, float] = {}
        self.steps = 0
        self._busy: dict[int, float] = {worker.index: 0.0 for worker in rig.backend.status().workers}
        rig.backend.take_timings(), rig.learner.take_timings(), rig.backend.take_activities()
        self._began = monotonic()
        self.seconds = 0.0

    def update(self, number: int) -> None:
        """One update, timed."""
        rig = self._rig
        began = monotonic()
        rollouts = rig.collect()
        collected = monotonic()
        rig.learn(rollouts)
        learned = monotonic()
        rig.publish()
        published = monotonic()
        for name, start, end in (
            ("collect", began, collected),
            ("learn", collected, learned),
            ("publish", learned, published),
        ):
            self.timeline.add(LEARNER, name, start, end, update=number)
        self.steps += rig.count_steps(rollouts)
        timings = {**rig.backend.take_timings(), **rig.learner.take_timings(), "publish": published - learned}
        for stage, seconds in timings.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + seconds
        self.seconds = published - self._began

    def close(self) -> None:
        """Take in what the workers did."""
        activities = self._rig.backend.take_activities()
        self.timeline.add_activities(activities)
        for activity in activities:
            inside = min(activity.ended, self._began + self.seconds) - max(activity.began, self._began)
            self._busy[activity.worker] = self._busy.get(activity.worker, 0.0) + max(inside, 0.0)

    def busy_shares(self) -> tuple[float, ...]:
        """The share of the time that each worker played, by the workers' order."""
        return tuple(busy / self.seconds for _, busy in sorted(self._busy.items()))


def write_timeline(profile: Profile, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a profile's timeline as a Chrome trace and as a picture; return where."""
    trace, picture = folder / f"{name}.json", folder / f"{name}.svg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trace.write_text(json.dumps(profile.timeline.chrome_trace()), encoding="utf-8")
        picture.write_text(timeline_svg(profile.timeline), encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write the timeline to {folder}: {describe_os_error(error)}") from error
    return trace, picture
