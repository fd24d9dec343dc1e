"""Metrics: lines that survive a crash, and the same numbers in TensorBoard."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import senju
from senju.errors import RunFolderError
from senju.runs.metrics import MetricsWriter, read_metrics
from senju.runs.monitor import read_events
from senju.runs.run import Run
from tests.conftest import Train
from tests.facts import mentions


def record(update: int) -> dict[str, object]:
    return {"kind": "update", "update": update, "loss": 1 / update}


def lines(*updates: int) -> str:
    return "".join(json.dumps(record(update)) + "\n" for update in updates)


def test_file_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_last_line_is_left_out_wherever_a_crash_cut_it(tmp_path: Path) -> None:
    file, whole = tmp_path / "metrics.jsonl", lines(1, 2, 3)
    last = len(lines(1, 2))
    for length in range(last, len(whole) - 1):  # one more, and the record is there
        file.write_text(whole[:length])
        assert read_metrics(file) == [record(1), record(2)]
    file.write_text(whole[:-1])
    assert read_metrics(file) == [record(1), record(2), record(3)]


def test_broken_line_in_the_middle_is_an_error_that_quotes_it(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(lines(1) + '{"kind": "upd\n' + lines(3))
    with pytest.raises(RunFolderError, match=mentions("metrics.jsonl", "line 2", "JSON", '{"kind": "upd')):
        read_metrics(file)


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"[1, 2]", b"7", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"{}", b'{"kind": 3}']
)
@pytest.mark.parametrize("read", [read_metrics, lambda path: read_events(path.parent)])
def test_line_that_is_no_record_is_left_out_at_the_end_and_refused_elsewhere(
    tmp_path: Path, line: bytes, read: Callable[[Path], list[Any]]
) -> None:
    for file in ("metrics.jsonl", "events.jsonl"):
        (tmp_path / file).write_bytes(lines(1).encode() + line)
    assert read(tmp_path / "metrics.jsonl") == [record(1)]
    for file in ("metrics.jsonl", "events.jsonl"):
        (tmp_path / file).write_bytes(lines(1).encode() + line + b"\n" + lines(2).encode())
    with pytest.raises(RunFolderError, match=r"\.jsonl, line 2 is no"):
        read(tmp_path / "metrics.jsonl")


def test_named_pipe_in_place_of_records_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "events.jsonl"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(RunFolderError, match=mentions("metrics.jsonl", "regular file")):
        read_metrics(tmp_path / "metrics.jsonl")
    with pytest.raises(RunFolderError, match=mentions("events.jsonl", "regular file")):
        read_events(tmp_path)


@pytest.mark.parametrize("missing", ["steps", "seconds", "stages"])
def test_record_without_what_its_kind_has_is_named(
    tmp_path: Path, tic_tac_toe_run: Run, missing: str
) -> None:
    shutil.copytree(tic_tac_toe_run.path, tmp_path / "run")
    file = tmp_path / "run" / "metrics.jsonl"
    records = read_metrics(file)
    del next(each for each in records if each["kind"] == "update" and each["update"] == 3)[missing]
    file.write_text("".join(json.dumps(each) + "\n" for each in records))
    with pytest.raises(RunFolderError, match=mentions("update 3", missing)):
        assert Run(tmp_path / "run").metrics


def test_writer_drops_what_will_be_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(lines(1, 2, 3, 4) + '{"kind": "upd')
    writer = MetricsWriter(tmp_path, after_update=2)
    writer.write(record(3), {})
    writer.close()
    assert file.read_text() == lines(1, 2, 3)
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.jsonl", "tensorboard"}


def test_every_record_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path)
    for update in (1, 2):
        writer.write(record(update), {})
        assert read_metrics(tmp_path / "metrics.jsonl")[-1] == record(update)
    writer.close()


def test_closing_twice_is_allowed(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path)
    writer.close()
    writer.close()


def scalars(run: Run, name: str) -> list[tuple[int, float]]:
    board = EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()
    return [(event.step, event.value) for event in board.Scalars(name)]


def test_tensorboard_holds_the_same_numbers(tic_tac_toe_run: Run) -> None:
    for name in ("policy_loss", "value_loss", "entropy", "steps_per_game"):
        expected = [(r["update"], pytest.approx(r[name], rel=1e-6)) for r in tic_tac_toe_run.metrics]
        assert scalars(tic_tac_toe_run, f"train/{name}") == expected
    strength = [(r["update"], pytest.approx(r["score"])) for r in tic_tac_toe_run.evaluations]
    assert scalars(tic_tac_toe_run, "strength/random") == strength


def test_tensorboard_shows_each_update_once_after_a_resume(train_small: Train) -> None:
    run = train_small(updates=6, checkpoint={"interval": 3})
    again = senju.train(resume=run.path, from_checkpoint="update_000000003")
    assert [step for step, _ in scalars(again, "train/entropy")] == [1, 2, 3, 4, 5, 6]
