"""Who did what, and when: as a Chrome trace and as a picture."""

import json
from collections import defaultdict
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senju.backends.schedule import RolloutTask
from senju.backends.serial import Serial
from senju.config import Settings, merged
from senju.gpus import GpuSample
from senju.runs import timeline as timeline_module
from senju.runs.run_config import resolve_config
from senju.runs.timeline import (
    BLOCK,
    DRAWN_UPDATES,
    GPU_STYLE,
    LANE,
    LEFT,
    MOST_STEPS,
    RIGHT,
    SPAN_STYLES,
    TOP,
    WIDTH,
    Timeline,
    busy_share,
    timeline_svg,
)
from senju.workers.role import Activity
from tests.facts import assert_mentions

SVG = "{http://www.w3.org/2000/svg}"
Event = dict[str, Any]


def played(worker: int, shard: int, turn: int, began: float, ended: float) -> Activity:
    """A worker played a rollout."""
    return Activity(worker, RolloutTask(1, shard, turn), began, ended)


def small_timeline() -> Timeline:
    """Two updates of one second each: 0.4 s of two rollouts, 0.5 s of learning, 0.1 s of publishing."""
    timeline = Timeline()
    for update in range(2):
        began = 100.0 + update
        timeline.add("learner", "collect", began, began + 0.4, update=update)
        timeline.add_activities(
            [
                played(worker=1, shard=1, turn=update, began=began, ended=began + 0.2),
                played(worker=0, shard=0, turn=update, began=began, ended=began + 0.4),
            ]
        )
        timeline.add("learner", "learn", began + 0.4, began + 0.9, update=update)
        timeline.add("learner", "publish", began + 0.9, began + 1.0)
    return timeline


def trace_of(timeline: Timeline) -> dict[str, Any]:
    """The trace as a program that opens the file sees it."""
    trace: dict[str, Any] = json.loads(json.dumps(timeline.chrome_trace(), allow_nan=False))
    return trace


def events_of(timeline: Timeline, phase: str) -> list[Event]:
    return [event for event in trace_of(timeline)["traceEvents"] if event["ph"] == phase]


def picture_of(timeline: Timeline) -> ElementTree.Element:
    return ElementTree.fromstring(timeline_svg(timeline))


def texts(picture: ElementTree.Element) -> list[str]:
    return [label.text or "" for label in picture.iter(f"{SVG}text")]


def blocks(picture: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """Blocks of a kind; they have tooltips, the legend's squares have none."""
    found = [block for block in picture.iter(f"{SVG}rect") if block.get("fill") == SPAN_STYLES[kind].colour]
    return [block for block in found if block.find(f"{SVG}title") is not None]


def test_spans_are_complete_events_in_microseconds_since_the_first() -> None:
    spans = events_of(small_timeline(), "X")
    assert [(span["ts"], span["dur"], span["name"]) for span in spans if span["tid"] == 1] == [
        (0, 400_000, "collect"),
        (400_000, 500_000, "learn"),
        (900_000, 100_000, "publish"),
        (1_000_000, 400_000, "collect"),
        (1_400_000, 500_000, "learn"),
        (1_900_000, 100_000, "publish"),
    ]
    first = next(span for span in spans if span["cat"] == "rollout")
    assert first["args"] == {"shard": 0, "turn": 0}
    assert first["name"] == "shard 0"


def test_every_event_has_the_fields_its_phase_requires() -> None:
    timeline = small_timeline()
    timeline.mark(100.7, "worker 1 was lost")
    required = {
        "X": {"name", "ph", "ts", "dur", "pid", "tid"},
        "M": {"name", "ph", "pid", "tid", "args"},
        "i": {"name", "ph", "ts", "pid", "tid", "s"},
    }
    trace = trace_of(timeline)
    assert {event["ph"] for event in trace["traceEvents"]} == set(required)
    for event in trace["traceEvents"]:
        assert required[event["ph"]] <= set(event)
        assert event["tid"] >= 1  # readers take 0 for the system's idle thread
        if event["ph"] == "M":
            assert "ts" not in event
    assert trace["displayTimeUnit"] == "ms"


def test_tracks_are_named_with_the_learner_on_top_and_workers_by_index() -> None:
    timeline = Timeline()
    timeline.add("console", "draw", 0.0, 1.0)
    timeline.add_activities([played(worker, 0, 0, 0.0, 1.0) for worker in (10, 2, 0)])
    timeline.add("learner", "learn", 0.0, 1.0)
    names = events_of(timeline, "M")
    assert names[0]["name"] == "process_name"
    named = {event["tid"]: event["args"]["name"] for event in names if event["name"] == "thread_name"}
    places = {
        event["tid"]: event["args"]["sort_index"] for event in names if event["name"] == "thread_sort_index"
    }
    assert set(named) == set(places)
    in_order = [named[tid] for tid in sorted(places, key=lambda tid: places[tid])]
    assert in_order == ["learner", "worker 0", "worker 2", "worker 10", "console"]
    drawn = next(event for event in events_of(timeline, "X") if event["name"] == "draw")
    assert named[drawn["tid"]] == "console"


def test_marks_are_instants_through_all_tracks() -> None:
    timeline = small_timeline()
    timeline.mark(100.25, "worker 1 was lost")
    (instant,) = events_of(timeline, "i")
    assert (instant["ts"], instant["name"], instant["s"]) == (250_000, "worker 1 was lost", "g")


def test_mark_before_the_first_span_makes_no_time_negative() -> None:
    timeline = small_timeline()
    timeline.mark(99.0, "fewer workers than asked for")
    assert [event["ts"] for event in events_of(timeline, "i")] == [0]
    assert min(event["ts"] for event in events_of(timeline, "X")) == 1_000_000


moments = st.floats(min_value=1e3, max_value=1e6)


@given(times=st.lists(moments, min_size=2, max_size=30, unique=True))
def test_neighbours_on_a_track_never_overlap_however_their_times_are_rounded(times: list[float]) -> None:
    timeline = Timeline()
    for index, (began, ended) in enumerate(pairwise(sorted(times))):
        timeline.add_activities([played(0, index, 0, began, ended)])
    spans = events_of(timeline, "X")
    assert all(span["dur"] >= 0 for span in spans)
    ends = [span["ts"] + span["dur"] for span in spans]
    for earlier, later in combinations(range(len(spans)), 2):
        follows = spans[later]["ts"] >= ends[earlier]
        is_contained = ends[later] <= ends[earlier]  # only what is rounded to no length at all
        assert follows or (is_contained and not spans[later]["dur"])
    picture_of(timeline)


def test_what_contains_another_comes_before_it() -> None:
    timeline = Timeline()
    timeline.add("learner", "publish", 5.0, 6.0)
    timeline.add("learner", "learn", 5.0, 9.0)
    assert [event["name"] for event in events_of(timeline, "X")] == ["learn", "publish"]


def test_only_the_newest_spans_are_kept_and_the_trace_counts_the_others() -> None:
    timeline = Timeline(kept_spans=10)
    timeline.mark(0.5, "long forgotten")
    timeline.mark(14.5, "remembered")
    timeline.add_activities([played(0, shard, 0, float(shard), shard + 1.0) for shard in range(17)])
    timeline.add("learner", "learn", 17.0, 18.0)
    assert timeline.left_out == 8
    assert [span.began for span in timeline.spans()] == [float(second) for second in range(8, 18)]
    trace = trace_of(timeline)
    assert trace["otherData"] == {"spans": 10, "spans_left_out": 8}
    told = [event["name"] for event in trace["traceEvents"] if event["ph"] == "i"]
    assert told[1:] == ["remembered"]
    assert_mentions(told[0], "8 older spans")


def test_marks_are_bounded_too() -> None:
    timeline = Timeline(kept_spans=3)
    for second in range(5):
        timeline.mark(float(second), f"pause {second}")
    assert [mark.message for mark in timeline.marks()] == ["pause 2", "pause 3", "pause 4"]


def test_empty_timeline_is_a_valid_trace_and_a_picture_that_says_so() -> None:
    trace = trace_of(Timeline())
    assert [event["name"] for event in trace["traceEvents"]] == ["process_name"]
    assert texts(picture_of(Timeline())) == ["nothing recorded yet"]


def test_rollouts_of_a_real_backend_come_out_in_the_trace(small: Settings) -> None:
    config = resolve_config("tic_tac_toe", merged(small, {"collect": {"games_per_shard": 16}}))
    backend, timeline = Serial(), Timeline()
    backend.start(config.plan)
    backend.collect()
    backend.collect()
    timeline.add_activities(backend.report().activities)
    backend.close()
    spans = events_of(timeline, "X")
    assert [span["args"] for span in spans] == [
        {"shard": shard, "turn": turn} for turn in range(2) for shard in range(2)
    ]


def test_picture_has_a_lane_for_each_track_with_its_busy_share() -> None:
    picture = picture_of(small_timeline())
    labels = texts(picture)
    assert [label for label in labels if label == "learner" or label.startswith("worker ")] == [
        "learner",
        "worker 0",
        "worker 1",
    ]
    # learning and publishing 0.6 s of each second, rollouts 0.4 s and 0.2 s; waiting is not being busy
    assert [label for label in labels if label.endswith(" %")] == ["60 %", "40 %", "20 %"]
    assert len(blocks(picture, "rollout")) == 4
    assert len(blocks(picture, "learn")) == 2


def test_block_stands_where_its_time_is() -> None:
    first = blocks(picture_of(small_timeline()), "learn")[0]
    width = WIDTH - LEFT - RIGHT
    assert float(first.attrib["x"]) == pytest.approx(LEFT + 0.2 * width, abs=0.01)  # at 0.4 of 2 s
    assert float(first.attrib["width"]) == pytest.approx(0.25 * width, abs=0.02)  # 0.5 of 2 s
    title = first.find(f"{SVG}title")
    assert title is not None
    assert title.text == "learn: 500 ms (update 0)"


def test_picture_shows_the_last_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(blocks(picture_of(small_timeline()), "learn")) == 2
    monkeypatch.setattr(timeline_module, "DRAWN_UPDATES", 1)
    last_update = picture_of(small_timeline())
    assert len(blocks(last_update, "learn")) == 1
    assert len(blocks(last_update, "publish")) == 2  # from the end of the learning before
    assert "the last 1.1 s of 2 s recorded" in texts(last_update)
    timeline = small_timeline()
    timeline.add("learner", "learn", 102.0, 102.05)
    timeline.add("learner", "publish", 102.05, 102.1)
    timeline.add("learner", "learn", 102.1, 102.15)
    last_tenth = picture_of(timeline)
    assert len(blocks(last_tenth, "publish")) == 1
    assert not blocks(last_tenth, "rollout")
    assert "worker 1" in texts(last_tenth)  # idle, and shown to be
    assert texts(last_tenth).count("0 %") == 2


def test_time_axis_has_round_steps_in_a_fitting_unit() -> None:
    labels = texts(picture_of(small_timeline()))
    assert {"s", "0", "0.5", "1", "1.5", "2"} <= set(labels)
    assert not {"ms", "0.25", "2.5"} & set(labels)
    short = Timeline()
    short.add("learner", "learn", 100.0, 100.5)
    assert {"ms", "0", "100", "500"} <= set(texts(picture_of(short)))


def test_shard_is_written_in_blocks_that_are_wide_enough() -> None:
    timeline = Timeline()
    timeline.add_activities([played(0, 777, 0, 0.0, 99.0), played(0, 888, 1, 99.0, 100.0)])
    labels = texts(picture_of(timeline))
    assert "777" in labels
    assert "888" not in labels


def test_mark_is_a_line_with_its_message_as_tooltip_whatever_the_message_holds() -> None:
    timeline = small_timeline()
    timeline.mark(101.0, 'worker 1: <"boom" & \x1b[31mred\x00>\nTraceback')
    picture = picture_of(timeline)
    (group,) = picture.findall(f"{SVG}g")
    title, line = group.find(f"{SVG}title"), group.find(f"{SVG}line")
    assert title is not None
    assert line is not None
    assert title.text == 'worker 1: <"boom" &  [31mred > Traceback'
    assert line.get("x1") == line.get("x2") == str((LEFT + WIDTH - RIGHT) / 2)
    assert any(text.startswith("event") for text in texts(picture))
    for update in range(DRAWN_UPDATES):  # until it lies before what is drawn
        timeline.add("learner", "learn", 102.0 + update, 102.5 + update)
    assert not picture_of(timeline).findall(f"{SVG}g")


def test_legend_of_many_kinds_stays_inside_the_picture() -> None:
    timeline = Timeline()
    for kind in SPAN_STYLES:
        timeline.add("learner", kind, 1.0, 2.0)
    timeline.mark(1.5, "worker 1 was lost")
    picture = picture_of(timeline)
    labels = {
        *(kind.label for kind in SPAN_STYLES.values()),
        *(t for t in texts(picture) if t[:5] == "event"),
    }
    found = [text for text in picture.iter(f"{SVG}text") if text.text in labels]
    assert len(found) == len(labels) == len({kind.label for kind in SPAN_STYLES.values()}) + 1
    assert all(float(text.attrib["x"]) + 7 * len(text.text or "") < WIDTH for text in found)
    assert all(float(text.attrib["y"]) < float(picture.attrib["height"]) for text in found)


def test_legend_names_the_kinds_that_are_shown() -> None:
    labels = texts(picture_of(small_timeline()))
    assert {"rollout (shard)", "waiting for rollouts", "learn", "publish"} <= set(labels)
    assert not {"match", "checkpoint", "other"} & set(labels)
    assert not any(label.startswith("event") for label in labels)
    timeline = small_timeline()
    timeline.add("learner", "daydream", 102.0, 103.0)
    assert "other" in texts(picture_of(timeline))


def test_kinds_have_colours_of_their_own() -> None:
    assert len({kind.colour for kind in SPAN_STYLES.values()}) == len(SPAN_STYLES)


def test_crowded_lane_draws_no_more_than_can_be_seen() -> None:
    timeline = Timeline()
    timeline.add_activities([played(0, 0, turn, turn * 1e-3, (turn + 1) * 1e-3) for turn in range(15_000)])
    drawn: dict[str, int] = defaultdict(int)
    for block in blocks(picture_of(timeline), "rollout"):
        drawn[block.attrib["x"]] += 1
    assert 1000 < len(drawn) <= 4 * (WIDTH - LEFT - RIGHT)


def test_busy_share_counts_overlaps_once_and_only_what_lies_within() -> None:
    timeline = Timeline()
    timeline.add("learner", "learn", 0.0, 4.0)
    timeline.add("learner", "publish", 3.0, 5.0)
    timeline.add("learner", "collect", 5.0, 20.0)
    timeline.add("learner", "match", 9.0, 12.0)
    spans = timeline.spans()
    assert busy_share(spans, 0.0, 10.0) == pytest.approx(0.6)  # 0 to 5 and 9 to 10
    assert busy_share(spans, 2.0, 6.0) == pytest.approx(0.75)
    assert busy_share(spans, 5.0, 5.0) == 0.0
    assert busy_share([], 0.0, 1.0) == 0.0


def test_moment_without_length_is_still_a_valid_picture() -> None:
    timeline = Timeline()
    timeline.add("learner", "learn", 7.0, 7.0)
    assert "learner" in texts(picture_of(timeline))
    assert events_of(timeline, "X")[0]["dur"] == 0


def test_agents_have_lanes_after_the_workers_and_learn_in_a_colour_of_their_own() -> None:
    timeline = small_timeline()
    for agent in (10, 2):
        timeline.add(f"agent {agent}", "train", 100.1, 100.7, update=1)
    timeline.add("console", "draw", 100.0, 101.0)
    picture = picture_of(timeline)
    lanes = [
        label for label in texts(picture) if label.split()[0] in ("learner", "worker", "agent", "console")
    ]
    assert lanes == ["learner", "worker 0", "worker 1", "agent 2", "agent 10", "console"]
    assert len(blocks(picture, "train")) == 2
    assert "an agent learns" in texts(picture)
    acting, learning = blocks(picture, "rollout")[0], blocks(picture, "train")[0]
    begin, end = (float(learning.attrib["x"]), float(acting.attrib["x"]) + float(acting.attrib["width"]))
    assert begin < end  # both at once, one below the other
    traced = {event["cat"]: event.get("cname") for event in events_of(timeline, "X")}
    assert traced["rollout"] != traced["train"]
    assert None not in (traced["rollout"], traced["train"])


def load(device: int, began: float, ended: float, busy: float) -> GpuSample:
    return GpuSample(device, began, ended, busy, 3 * 2**30, 8 * 2**30)


def areas(picture: ElementTree.Element) -> list[ElementTree.Element]:
    return list(picture.iter(f"{SVG}path"))


def test_gpu_has_a_lane_below_the_learner_with_its_busy_share_as_an_area() -> None:
    timeline = small_timeline()
    timeline.add_gpu_samples([load(0, 100.0, 101.0, 1.0), load(0, 101.0, 102.0, 0.5)])
    picture = picture_of(timeline)
    labels = texts(picture)
    lanes = [label for label in labels if label.split()[0] in ("learner", "gpu", "worker")]
    assert lanes == ["learner", "gpu 0", "worker 0", "worker 1"]
    assert [label for label in labels if label.endswith(" %")] == ["60 %", "75 %", "40 %", "20 %"]
    [area] = areas(picture)
    top, middle = TOP + LANE, (LEFT + WIDTH - RIGHT) / 2
    bottom, half, right = top + BLOCK, top + BLOCK / 2, float(WIDTH - RIGHT)
    expected = f"M{float(LEFT)} {bottom}V{float(top)}H{middle}V{half}H{right}V{bottom}Z"
    assert area.get("d") == expected
    title = area.find(f"{SVG}title")
    assert title is not None
    assert_mentions(title.text or "", "gpu 0", "75 %", "3.0 of 8.0 GiB")
    assert GPU_STYLE.label in labels


def test_each_gpu_has_a_lane_and_only_the_drawn_time_counts() -> None:
    timeline = small_timeline()
    timeline.add_gpu_samples([load(0, 90.0, 91.0, 1.0), load(1, 100.5, 101.0, 0.25)])
    picture = picture_of(timeline)
    assert [label for label in texts(picture) if label.startswith("gpu")] == ["gpu 1"]
    assert len(areas(picture)) == 1


def test_long_run_draws_no_more_steps_than_can_be_seen() -> None:
    timeline = Timeline()
    timeline.add("learner", "learn", 0.0, 3000.0)
    timeline.add_gpu_samples(load(0, t / 5, (t + 1) / 5, t % 2) for t in range(15_000))
    [area] = areas(picture_of(timeline))
    assert 100 < area.attrib["d"].count("H") <= MOST_STEPS


def test_gpu_samples_are_counters_in_the_trace_and_spans_left_out_take_theirs_along() -> None:
    timeline = Timeline(kept_spans=2)
    timeline.add_gpu_samples([load(0, 0.0, 0.2, 0.5), load(0, 10.0, 10.2, 0.9)])
    for began in (0.0, 10.0, 11.0):
        timeline.add("learner", "learn", began, began + 1.0)
    counters = {event["name"]: (event["ts"], event["args"]) for event in events_of(timeline, "C")}
    assert counters == {"gpu 0 busy": (0, {"%": 90}), "gpu 0 memory": (0, {"MiB": 3 * 1024})}
    assert len(events_of(timeline, "C")) == 2


def test_run_without_a_gpu_has_no_gpu_in_its_pictures() -> None:
    assert not areas(picture_of(small_timeline()))
    assert not events_of(small_timeline(), "C")
    assert GPU_STYLE.label not in texts(picture_of(small_timeline()))
