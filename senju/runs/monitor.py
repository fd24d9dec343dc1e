"""Monitoring a run in training: busy workers and GPUs, slots, memory, events, and the timeline."""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Any

from senju.backends.backend import Backend
from senju.events import Event
from senju.files import describe_os_error, encoded, replace_durably
from senju.gpus import GpuSample, GpuSampler, summarise
from senju.runs.metrics import Record, append_record, read_records
from senju.runs.timeline import LEARNER, Timeline, timeline_svg

logger = logging.getLogger(__name__)

EVENTS, TRACE, PICTURE = "events.jsonl", "timeline.json", "timeline.svg"
SAMPLE_SECONDS = 1.0  # between two samples of workers, slots and memory; one costs a millisecond


class Monitor:
    """Records the activities of workers and learner, and samples their load and memory."""

    def __init__(self, folder: Path, backend: Backend, devices: Iterable[str] = ()) -> None:
        self._folder, self._backend = folder, backend
        self.timeline = Timeline()
        self._gpus = GpuSampler(devices)
        self._gpu_samples: list[GpuSample] = []  # since the last sample of the engine
        self._gpu_seconds = self._gpu_busy_seconds = 0.0  # of all devices, without pauses
        self._sampled = monotonic()
        self._busy: dict[int, float] = defaultdict(float)  # seconds of each worker since the last sample

    @contextmanager
    def sampling_gpus(self) -> Iterator[None]:
        """Sample the load of the run's GPUs inside the block; a run on the CPU has none."""
        with self._gpus:
            yield

    @property
    def gpu_busy(self) -> float | None:
        """The share of this session's time in which the GPU was busy; None if it was not measured."""
        return self._gpu_busy_seconds / self._gpu_seconds if self._gpu_seconds else None

    @contextmanager
    def span(self, name: str, **details: Any) -> Iterator[None]:
        """Record the block as a span of the learner."""
        began = monotonic()
        try:
            yield
        finally:
            self.timeline.add(LEARNER, name, began, monotonic(), **details)

    def after_update(self, update: int) -> tuple[dict[str, float], dict[str, Any]]:
        """Seconds of each stage of collecting since the last call; now and then, a sample of the engine."""
        timings, now = self._take_report(update), monotonic()
        self._take_gpu_samples()
        if now - self._sampled < SAMPLE_SECONDS:
            return timings, {}
        sample, self._sampled = self._sample(now - self._sampled), now
        return timings, sample

    def pause_ended(self) -> None:
        """Record what the GPUs did while the run was paused; it does not count as training."""
        self.timeline.add_gpu_samples(self._gpus.take())

    def _take_gpu_samples(self) -> None:
        taken = self._gpus.take()
        self.timeline.add_gpu_samples(taken)
        self._gpu_samples += taken
        self._gpu_seconds += sum(sample.ended - sample.began for sample in taken)
        self._gpu_busy_seconds += sum(sample.busy * (sample.ended - sample.began) for sample in taken)

    def _take_report(self, update: int) -> dict[str, float]:
        """Record activities and events since the last report; return its timings."""
        report = self._backend.report()
        self.timeline.add_activities(report.activities)
        for activity in report.activities:
            self._busy[activity.worker] += activity.ended - activity.began
        for event in report.events:
            self.note(event, update)
        return report.timings

    def _sample(self, seconds: float) -> dict[str, Any]:
        status = self._backend.status()
        shares = {worker.index: self._busy[worker.index] / seconds for worker in status.workers}
        self._busy.clear()
        gpus = summarise(self._gpu_samples)
        self._gpu_samples.clear()
        slots = ("slots_ready", "slots_playing", "slots_held", "slots_free")
        return {
            "workers": len(status.workers),
            "busy": [round(min(share, 1.0), 4) for _, share in sorted(shares.items())],
            **{name: getattr(status, name) for name in slots},
            "restarts": status.team.restarts,
            "set_aside": len(status.set_aside),
            "memory_bytes": status.memory_bytes,
            **gpus,
        }

    def note(self, event: Event, update: int) -> None:
        """Write an event to the run's folder, and mark it in the timeline; the log has it already."""
        self.timeline.mark(monotonic() - (time() - event.time), event.message.partition("\n")[0])
        when = datetime.fromtimestamp(event.time, UTC).isoformat(timespec="milliseconds")
        record = {"update": update, **event._asdict(), "time": when}
        try:
            append_record(self._folder / EVENTS, record)
        except OSError as error:  # a report, not a result: training goes on
            logger.warning("cannot write %s: %s", self._folder / EVENTS, describe_os_error(error))

    def finish(self, update: int) -> None:
        """Process the last report, and write the timeline's trace and picture into the run's folder."""
        self._take_report(update)
        self._take_gpu_samples()
        if not self.timeline.spans():
            return
        trace = json.dumps(self.timeline.chrome_trace())
        try:
            replace_durably(self._folder / TRACE, encoded(trace))
            replace_durably(self._folder / PICTURE, encoded(timeline_svg(self.timeline)))
        except OSError as error:  # a report, not a result
            logger.warning("cannot write the timeline in %s: %s", self._folder, describe_os_error(error))


def read_events(folder: Path) -> list[Record]:
    """The events of a run, in order; a last line cut off by a crash is left out."""
    return read_records(folder / EVENTS, {"kind": str})
