"""The timeline: what workers, learner and GPUs did when, as a Chrome trace and as a picture."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from senju.gpus import GpuSample, mean_load
from senju.svg import round_step, svg_picture, svg_text, xml_escaped
from senju.workers.role import Activity

LEARNER = "learner"
KEPT_SPANS = 20_000
DRAWN_UPDATES = 10


class Span(NamedTuple):
    """Something done from one time to another. Times are seconds of `time.monotonic`."""

    track: str  # `learner`, `worker 3` or `agent 0`
    name: str  # rollout, collect, learn, train, publish, checkpoint, match, …
    began: float
    ended: float
    details: dict[str, Any]  # plain values, as JSON has them


class TimelineMark(NamedTuple):
    """An event at one time: a worker was lost, replaced or paused, …"""

    time: float
    message: str


class Timeline:
    """The newest spans and marks of a run, recorded while it trains and drawn afterwards.

    The spans of one track follow or contain each other. One thread feeds and reads it.

    >>> timeline = Timeline()
    >>> timeline.add("worker 0", "rollout", 10.0, 10.5, shard=3, turn=0)
    >>> timeline.add("learner", "learn", 10.5, 11.0, update=1)
    >>> [span.track for span in timeline.spans()]
    ['worker 0', 'learner']
    """

    def __init__(self, kept_spans: int = KEPT_SPANS) -> None:
        self._spans: deque[Span] = deque(maxlen=kept_spans)
        self._marks: deque[TimelineMark] = deque(maxlen=kept_spans)
        self._gpu_samples: deque[GpuSample] = deque(maxlen=kept_spans)
        self._num_added = 0

    def add_activities(self, activities: Sequence[Activity]) -> None:
        """Record rollouts that workers played."""
        for worker, task, began, ended in activities:
            self.add(f"worker {worker}", "rollout", began, ended, shard=task.shard, turn=task.turn)

    def add(self, track: str, name: str, began: float, ended: float, **details: Any) -> None:
        """Record a span, mostly of the learner."""
        self._spans.append(Span(track, name, began, ended, details))
        self._num_added += 1

    def add_gpu_samples(self, samples: Iterable[GpuSample]) -> None:
        """Record how busy GPUs were."""
        self._gpu_samples.extend(samples)

    def mark(self, time: float, message: str) -> None:
        """Record an event."""
        self._marks.append(TimelineMark(time, message))

    @property
    def left_out(self) -> int:
        """How many older spans are no longer kept."""
        return self._num_added - len(self._spans)

    def spans(self) -> list[Span]:
        """The kept spans, in the order in which they were added."""
        return list(self._spans)

    def marks(self) -> list[TimelineMark]:
        """The marks; if older spans were left out, only those since the first kept span."""
        first = self._first_kept()
        return [mark for mark in self._marks if mark.time >= first]

    def gpu_samples(self) -> list[GpuSample]:
        """The load of GPUs; if older spans were left out, only since the first kept span."""
        first = self._first_kept()
        return [sample for sample in self._gpu_samples if sample.began >= first]

    def _first_kept(self) -> float:
        return min(span.began for span in self._spans) if self.left_out else -math.inf

    def chrome_trace(self) -> dict[str, Any]:
        """The timeline in Chrome's trace event format, for chrome://tracing and ui.perfetto.dev."""
        spans, marks, samples = self.spans(), self.marks(), self.gpu_samples()
        times = [span.began for span in spans] + [sample.began for sample in samples]
        origin = min(times + [mark.time for mark in marks], default=0.0)
        if self.left_out:
            marks.insert(0, TimelineMark(origin, f"{self.left_out} older spans were left out"))
        tracks = tracks_of(spans)
        names = [_event("M", "process_name", args={"name": "senju"})]
        for index, track in enumerate(tracks):
            names.append(_event("M", "thread_name", index, args={"name": track}))
            names.append(_event("M", "thread_sort_index", index, args={"sort_index": index}))
        events = [_complete(span, tracks.index(span.track), origin) for span in spans]
        # scope g: a line through all tracks
        events += [
            _event("i", mark.message, cat="mark", ts=_microseconds(mark.time - origin), s="g")
            for mark in marks
        ]
        events += [event for sample in samples for event in _counters(sample, origin)]
        # a span comes before the spans it contains, also if both begin at once
        events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
        return {
            "traceEvents": names + events,
            "displayTimeUnit": "ms",
            "otherData": {"spans": len(spans), "spans_left_out": self.left_out},
        }


def tracks_of(spans: Iterable[Span], samples: Iterable[GpuSample] = ()) -> list[str]:
    """The tracks in the order in which they are shown: learner, GPUs, workers, agents by index, others.

    >>> tracks = ("agent 0", "worker 10", "worker 9", "learner")
    >>> tracks_of([Span(track, "", 0.0, 1.0, {}) for track in tracks])
    ['learner', 'worker 9', 'worker 10', 'agent 0']
    """

    def order(track: str) -> tuple[int, int, str]:
        kind, _, index = track.partition(" ")
        rank = {LEARNER: 0, "gpu": 1, "worker": 2, "agent": 3}.get(kind, 4)
        return rank, int(index) if index.isdecimal() else 0, track

    return sorted({span.track for span in spans} | {_gpu_track(sample) for sample in samples}, key=order)


def _gpu_track(sample: GpuSample) -> str:
    return f"gpu {sample.device}"


# The fields are those of "Trace Event Format" (Chromium). Perfetto is the stricter reader: it wants no
# thread 0, no time in metadata, no negative times, and no spans of a thread that cross. Hence numbers
# from 1, and whole microseconds: fractions would be cut, and neighbours could come to overlap.


def _event(phase: str, name: str, track: int = 0, **fields: Any) -> dict[str, Any]:
    return {"name": name, "ph": phase, "pid": 1, "tid": track + 1, **fields}


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _complete(span: Span, track: int, origin: float) -> dict[str, Any]:
    name = f"shard {span.details['shard']}" if "shard" in span.details else span.name
    began, colour = _microseconds(span.began - origin), SPAN_STYLES.get(span.name, OTHER).trace_colour
    duration = max(_microseconds(span.ended - origin) - began, 0)
    event = _event("X", name, track, cat=span.name, ts=began, dur=duration, args=span.details)
    return event | {"cname": colour} if colour else event


def _counters(sample: GpuSample, origin: float) -> list[dict[str, Any]]:
    """A GPU's load as counters, which trace viewers draw as areas."""
    values = {"busy": {"%": round(100 * sample.busy)}, "memory": {"MiB": sample.memory >> 20}}
    when, track = _microseconds(sample.began - origin), _gpu_track(sample)
    return [_event("C", f"{track} {name}", ts=when, args=value) for name, value in values.items()]


# The picture's measures, in pixels.
WIDTH, LEFT, RIGHT, TOP = 960, 84, 64, 48
LANE, BLOCK = 24, 18  # a lane, and the block in it
LEGEND_LINE = 20
SMALLEST = 0.25  # a block so narrow and so close to the one before is not seen, and not drawn
INK, GRID, GROUND = "#222222", "#e2e8f0", "#f7fafc"
INKED = f' fill="{INK}"'


class SpanStyle(NamedTuple):
    """How a kind of span is drawn."""

    colour: str
    label: str
    is_busy: bool = True
    trace_colour: str = ""  # by the name that chrome://tracing has for it; Perfetto chooses by itself


# Okabe and Ito's colours, which colour-blind people can tell apart.
SPAN_STYLES = {
    "rollout": SpanStyle("#56b4e9", "rollout (shard)", trace_colour="rail_response"),  # blue
    "collect": SpanStyle("#d9d9d9", "waiting for rollouts", is_busy=False),
    "learn": SpanStyle("#d55e00", "learn"),
    "await": SpanStyle("#b0b0b0", "waiting for agents that learn", is_busy=False),
    "train": SpanStyle("#e69f00", "an agent learns", trace_colour="thread_state_iowait"),  # orange
    "episode": SpanStyle("#3fa0dc", "episode (of a copy)", trace_colour="rail_response"),
    "lesson": SpanStyle("#f0ad1e", "lesson (of an agent)", trace_colour="thread_state_iowait"),
    "publish": SpanStyle("#f0e442", "publish"),
    "checkpoint": SpanStyle("#009e73", "checkpoint"),
    "match": SpanStyle("#cc79a7", "match"),
    "episodes": SpanStyle("#882255", "episodes to measure"),
}
OTHER = SpanStyle("#0072b2", "other")
GPU_STYLE = SpanStyle("#7570b3", "GPU busy (full height: 100 %)")
MOST_STEPS = 400  # of a GPU's area: one for two pixels


class _Window(NamedTuple):
    """The time that is shown."""

    began: float
    ended: float

    def x_of(self, time: float) -> float:
        """The x coordinate of a time; times outside the window are at its edges."""
        share = (time - self.began) / max(self.ended - self.began, 1e-9)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0), 2)


def timeline_svg(timeline: Timeline) -> str:
    """A picture of the last `DRAWN_UPDATES` of the learner, or of all that was recorded."""
    spans = timeline.spans()
    if not spans:
        return svg_picture(WIDTH, 64, [svg_text(LEFT, 36, "nothing recorded yet")], INKED)
    began, ended = min(span.began for span in spans), max(span.ended for span in spans)
    learned = sorted(span.ended for span in spans if (span.track, span.name) == (LEARNER, "learn"))
    window = _Window(learned[-DRAWN_UPDATES - 1] if len(learned) > DRAWN_UPDATES else began, ended)
    samples = timeline.gpu_samples()
    samples = [each for each in samples if each.ended > window.began and each.began < window.ended]
    tracks = tracks_of(spans, samples)
    shown = [span for span in spans if span.ended > window.began and span.began < window.ended]
    shown.sort(key=lambda span: (span.began, -span.ended))
    marks = [mark for mark in timeline.marks() if window.began <= mark.time <= window.ended]
    bottom = TOP + LANE * len(tracks)
    legend, height = _legend(shown, bool(samples), bool(marks), bottom + 52)
    caption = f"the last {_duration(ended - window.began)} of {_duration(ended - began)} recorded"
    parts = [svg_text(LEFT, 16, caption), *_axis(window, bottom)]
    for index, track in enumerate(tracks):
        lane = [span for span in shown if span.track == track]
        load = [sample for sample in samples if _gpu_track(sample) == track]
        parts += _lane(track, lane, load, window, TOP + LANE * index)
    for mark in marks:
        x = window.x_of(mark.time)
        parts.append(
            f'<g stroke="{INK}" fill="{INK}"><title>{xml_escaped(mark.message)}</title>'
            f'<line x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{bottom}" stroke-dasharray="3 2"/>'
            f'<circle cx="{x}" cy="{TOP - 10}" r="4"/></g>'
        )
    return svg_picture(WIDTH, bottom + 44 + height, [*parts, *legend], INKED)


def _axis(window: _Window, bottom: float) -> list[str]:
    length = window.ended - window.began
    unit, size = ("ms", 1e-3) if length < 2.0 else ("s", 1.0)
    step = round_step(length / size / 8)
    parts = [svg_text(WIDTH - RIGHT + 6, TOP - 8, "busy"), svg_text(LEFT - 8, bottom + 16, unit, "end")]
    for tick in range(math.floor(length / size / step * (1 + 1e-9)) + 1):
        x = window.x_of(window.began + tick * step * size)
        parts.append(f'<line x1="{x}" y1="{TOP - 4}" x2="{x}" y2="{bottom}" stroke="{GRID}"/>')
        parts.append(svg_text(x, bottom + 16, f"{tick * step:.6g}", "middle"))
    return parts


def _lane(
    track: str, spans: Sequence[Span], load: Sequence[GpuSample], window: _Window, top: float
) -> list[str]:
    width, middle = WIDTH - LEFT - RIGHT, top + BLOCK - 5
    busy = mean_load(load) if load else busy_share(spans, window.began, window.ended)
    parts = [
        svg_text(LEFT - 8, middle, track, "end"),
        f'<rect x="{LEFT}" y="{top}" width="{width}" height="{BLOCK}" fill="{GROUND}"/>',
        svg_text(WIDTH - RIGHT + 6, middle, f"{100 * busy:.0f} %"),
    ]
    last = 0.0
    for span in spans:
        left, right = window.x_of(span.began), window.x_of(span.ended)
        if max(right - left, right - last) >= SMALLEST:
            parts += _block(span, left, right, top)
            last = right
    return parts + (_area(track, load, window, top) if load else [])


def _area(track: str, load: Sequence[GpuSample], window: _Window, top: float) -> list[str]:
    """A GPU's busy share over time as a filled area, in at most `MOST_STEPS` steps."""
    size, bottom = math.ceil(len(load) / MOST_STEPS), top + BLOCK
    path = f"M{window.x_of(load[0].began)} {bottom}"
    for first in range(0, len(load), size):
        step = load[first : first + size]
        path += f"V{round(bottom - BLOCK * mean_load(step), 2)}H{window.x_of(step[-1].ended)}"
    used, total = max(sample.memory for sample in load) / 2**30, load[-1].memory_total / 2**30
    tooltip = f"{track}: busy {100 * mean_load(load):.0f} %, at most {used:.1f} of {total:.1f} GiB in use"
    return [f'<path d="{path}V{bottom}Z" fill="{GPU_STYLE.colour}"><title>{tooltip}</title></path>']


def busy_share(spans: Iterable[Span], began: float, ended: float) -> float:
    """The share of a time in which at least one of the spans was running; waiting does not count.

    >>> spans = [Span("learner", "learn", 0.0, 2.0, {}), Span("learner", "publish", 1.0, 3.0, {})]
    >>> busy_share(spans, began=0.0, ended=4.0)
    0.75
    """
    busy, until = 0.0, began
    for span in sorted(spans, key=lambda span: span.began):
        if SPAN_STYLES.get(span.name, OTHER).is_busy:
            busy += max(min(span.ended, ended) - max(span.began, until), 0.0)
            until = max(until, span.ended)
    return busy / (ended - began) if ended > began else 0.0


def _block(span: Span, left: float, right: float, top: float) -> list[str]:
    width = round(right - left, 2)
    colour, edge = SPAN_STYLES.get(span.name, OTHER).colour, ' stroke="white" stroke-width="0.5"'
    details = ", ".join(f"{name} {value}" for name, value in span.details.items())
    tooltip = f"{span.name}: {_duration(span.ended - span.began)}" + (f" ({details})" if details else "")
    parts = [
        f'<rect x="{left}" y="{top}" width="{width}" height="{BLOCK}" fill="{colour}"'
        f"{edge if width > 3 else ''}><title>{xml_escaped(tooltip)}</title></rect>"
    ]
    shard = str(span.details.get("shard", ""))
    if shard and width >= 7 * len(shard) + 6:
        x, y = round(left + width / 2, 2), top + BLOCK - 5
        # let the pointer through to the block and its tooltip
        parts.append(svg_text(x, y, shard, "middle", ' pointer-events="none"'))
    return parts


def _legend(spans: Sequence[Span], has_gpus: bool, has_marks: bool, y: float) -> tuple[list[str], float]:
    """What the colours mean, in lines as wide as the picture; and the height of those lines."""
    names = {span.name for span in spans}
    kinds: list[SpanStyle | None] = [kind for name, kind in SPAN_STYLES.items() if name in names]
    kinds += [OTHER] if names - set(SPAN_STYLES) else []
    kinds += [GPU_STYLE] if has_gpus else []
    kinds += [None] if has_marks else []
    x, first, parts = float(LEFT), y, []
    for kind in kinds:
        label = kind.label if kind else "event (point at it)"
        width = 7 * len(label) + 34
        if x + width > WIDTH:
            x, y = float(LEFT), y + LEGEND_LINE
        if kind:
            parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{kind.colour}"/>')
        else:
            parts.append(f'<circle cx="{x + 6}" cy="{y - 4}" r="4" fill="{INK}"/>')
        parts.append(svg_text(x + 17, y, label))
        x += width
    return parts, y - first + LEGEND_LINE


def _duration(seconds: float) -> str:
    """A length of time with a fitting unit.

    >>> [_duration(seconds) for seconds in (0.00002, 0.0123, 1.5, 4000.0)]
    ['20 µs', '12.3 ms', '1.5 s', '4,000 s']
    """
    unit, size = ("µs", 1e-6) if seconds < 1e-3 else ("ms", 1e-3) if seconds < 1.0 else ("s", 1.0)
    number = seconds / size
    return f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"
