"""Metrics: lines that survive a crash, and the same numbers in TensorBoard."""

import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import senju
from senju.errors import RunFolderError
from senju.training.metrics import MetricsWriter, read_metrics
from senju.training.run import Run
from tests.conftest import Train


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
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl, line 2 is not JSON: '\{\"kind\": \"upd'"):
        read_metrics(file)


def test_writer_drops_what_will_be_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(lines(1, 2, 3, 4) + '{"kind": "upd')
    writer = MetricsWriter(tmp_path, after_update=2, tensorboard=False)
    writer.write(record(3), {})
    writer.close()
    assert file.read_text() == lines(1, 2, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_every_record_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, tensorboard=False)
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
