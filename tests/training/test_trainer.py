"""Training: the same bits for one seed, however often it is stopped, killed or watched."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import senju
from senju.config import Settings, merged
from senju.errors import CheckpointError, RunFolderError
from senju.evaluation.matches import MatchResult
from senju.runs.interrupt import StopRequest
from senju.runs.metrics import read_metrics
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.training.trainer import Trainer, TrainingListener, TrainingProgress
from tests.conftest import Options, Start, Train, WaitUntil
from tests.facts import mentions

MODELS: dict[str, Settings] = {
    "mlp": {"name": "mlp", "hidden": [16]},
    "resnet": {"name": "resnet", "channels": 4, "blocks": 1, "head_width": 8},
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Settings:
    return MODELS[request.param]


def saved_bytes(run: Run) -> bytes:
    """All tensors of the newest checkpoint: weights, optimizer, running games."""
    return (run.checkpoints.latest() / "tensors.safetensors").read_bytes()


def saved_state(run: Run) -> dict[str, Any]:
    state = run.load(run.checkpoints.latest()).state
    return {key: value for key, value in state.items() if key != "seconds"}


def assert_equal(one: Run, other: Run) -> None:
    assert saved_state(one) == saved_state(other)
    assert saved_bytes(one) == saved_bytes(other)


def updates_in(run: Run) -> list[int]:
    records = read_metrics(run.path / "metrics.jsonl")
    return [record["update"] for record in records if record["kind"] == "update"]


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four"])
def test_two_runs_of_one_seed_are_equal_byte_for_byte(train_small: Train, model: Settings, game: str) -> None:
    one = train_small("one", game, model=model, seed=3)
    other = train_small("other", game, model=model, seed=3)
    assert_equal(one, other)
    for mine, yours in zip(one.agent.model.parameters(), other.agent.model.parameters(), strict=True):
        assert mine.numpy().tobytes() == yours.numpy().tobytes()


def test_another_seed_gives_another_run(train_small: Train) -> None:
    assert saved_bytes(train_small("one", seed=3)) != saved_bytes(train_small("other", seed=4))


def test_stopping_and_resuming_changes_no_byte(train_small: Train, model: Settings) -> None:
    whole = train_small("whole", updates=10, model=model)
    train_small("halves", updates=10, model=model, max_updates=5)
    halves = senju.train(resume=whole.path.parent / "halves", max_updates=5)
    assert_equal(whole, halves)
    assert updates_in(halves) == updates_in(whole) == list(range(1, 11))


def test_stopping_after_every_update_changes_no_byte_of_several_shards(train_small: Train) -> None:
    shards = {"num_games": 32, "games_per_shard": 8}
    whole = train_small("whole", "connect_four", updates=5, collect=shards)
    pieces = train_small("pieces", "connect_four", updates=5, collect=shards, max_updates=1)
    for _ in range(4):
        pieces = senju.train(resume=pieces.path, max_updates=1)
    assert_equal(whole, pieces)


def test_the_size_of_a_shard_decides_the_bits_and_says_so(train_small: Train) -> None:
    one = train_small("one", collect={"games_per_shard": 32})
    two = train_small("two", collect={"games_per_shard": 16})
    names = [set(run.load(run.checkpoints.latest()).tensors) for run in (one, two)]
    assert {"shard.0.states", "shard.0.clock", "shard.0.seated"} <= names[0]
    assert names[1] - names[0] == {"shard.1.states", "shard.1.clock", "shard.1.seated"}


def test_evaluation_and_saving_do_not_change_training(train_small: Train) -> None:
    quiet = train_small("quiet", updates=6)
    evaluation = {"interval": 1, "opponents": ["random", "minimax:2"]}
    watched = train_small("watched", updates=6, evaluation=evaluation, checkpoint={"interval": 1})
    assert_equal(quiet, watched)
    assert len(watched.evaluations) == 12


@pytest.mark.slow
def test_killed_run_resumes_to_the_weights_of_an_undisturbed_one(
    train_small: Train,
    model: Settings,
    start_senju: Start,
    small_options: Options,
    wait_until: WaitUntil,
    tmp_path: Path,
) -> None:
    endless: Settings = {"updates": 10**6, "model": model, "checkpoint": {"interval": 3}}
    process = start_senju("train", "tic_tac_toe", "--run", "killed", "--json", *small_options(**endless))
    checkpoints, metrics = tmp_path / "killed" / "checkpoints", tmp_path / "killed" / "metrics.jsonl"

    def is_beyond_its_checkpoint() -> bool:
        return any(checkpoints.glob("update_*")) and metrics.read_text().count("\n") % 3 != 0

    wait_until(is_beyond_its_checkpoint, process)
    process.kill()
    assert process.wait() == -signal.SIGKILL

    reached = int(Run(tmp_path / "killed").checkpoints.latest().name.removeprefix("update_"))
    resumed = senju.train(resume=tmp_path / "killed", max_updates=4)
    undisturbed = train_small("undisturbed", **endless, max_updates=reached + 4)
    assert_equal(resumed, undisturbed)
    assert updates_in(resumed) == list(range(1, reached + 5))


@pytest.mark.slow
def test_process_killed_while_saving_leaves_a_checkpoint_to_go_on_from(
    start_senju: Start,
    small_options: Options,
    wait_until: WaitUntil,
    tmp_path: Path,
) -> None:
    large = {"model": {"name": "mlp", "hidden": [512, 512]}, "checkpoint": {"interval": 1}}
    process = start_senju("train", "tic_tac_toe", "--run", "run", *small_options(updates=10**6, **large))
    folder = tmp_path / "run" / "checkpoints"
    wait_until(lambda: any(folder.glob("update_*")) and any(folder.glob(".unfinished-update_*")), process)
    process.kill()
    assert process.wait() == -signal.SIGKILL

    reached = int(Run(tmp_path / "run").checkpoints.latest().name.removeprefix("update_"))
    resumed = senju.train(resume=tmp_path / "run", max_updates=1)
    assert saved_state(resumed)["update"] == reached + 1
    assert not list(folder.glob(".unfinished-*"))


def test_older_checkpoint_can_be_resumed_and_newer_ones_are_set_aside(train_small: Train) -> None:
    run = train_small(updates=6, checkpoint={"interval": 2})
    undisturbed = saved_bytes(run)
    again = senju.train(resume=run.path, from_checkpoint="update_000000002", max_updates=1)
    names = sorted(path.name for path in (run.path / "checkpoints").iterdir())
    assert names == [
        "abandoned_update_000000004",
        "abandoned_update_000000006",
        "update_000000002",
        "update_000000003",
    ]
    assert updates_in(again) == [1, 2, 3]
    assert saved_bytes(senju.train(resume=run.path)) == undisturbed
    assert updates_in(again) == [1, 2, 3, 4, 5, 6]


def test_what_was_set_aside_twice_is_kept_twice(train_small: Train) -> None:
    run = train_small(updates=2, checkpoint={"interval": 1})
    for _ in range(2):
        senju.train(resume=run.path, from_checkpoint="update_000000001")
    names = sorted(path.name for path in (run.path / "checkpoints").iterdir())
    assert names == [
        "abandoned_update_000000002",
        "abandoned_update_000000002_2",
        "update_000000001",
        "update_000000002",
    ]


def test_damaged_newest_checkpoint_is_refused_and_the_one_named_instead_works(train_small: Train) -> None:
    run = train_small(updates=4, checkpoint={"interval": 2})
    undisturbed = saved_bytes(run)
    newest = run.checkpoints.latest() / "tensors.safetensors"
    newest.write_bytes(undisturbed[:-1])
    with pytest.raises(senju.SenjuError, match=r"is damaged.*--checkpoint update_000000002"):
        senju.train(resume=run.path)
    resumed = senju.train(resume=run.path, from_checkpoint="update_000000002")
    assert saved_bytes(resumed) == undisturbed


def test_run_stopped_before_its_first_checkpoint_starts_from_nothing(train_small: Train) -> None:
    whole = train_small("whole")
    run = train_small("run")
    for checkpoint in run.checkpoints.all():
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    resumed = senju.train(resume=run.path)
    assert_equal(whole, resumed)
    assert updates_in(resumed) == [1, 2, 3, 4]


def test_more_steps_go_on_where_the_run_had_ended(train_small: Train) -> None:
    run = train_small(updates=2)
    longer = senju.train(resume=run.path, total_steps=5 * 256)
    assert updates_in(longer) == [1, 2, 3, 4, 5]
    assert Run(run.path).config.total_steps == 5 * 256


@pytest.mark.parametrize("total_steps", [2 * 256, 256])
def test_run_at_or_past_its_end_is_finished_and_trains_no_more(train_small: Train, total_steps: int) -> None:
    run = train_small(updates=2)
    before = saved_bytes(run)
    recorder = Recorder()
    senju.train(resume=run.path, total_steps=total_steps, listener=recorder)
    assert recorder.events == ["start 2"]
    assert saved_bytes(run) == before


class Recorder(TrainingListener):
    """Records all events that it gets."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.progress: list[TrainingProgress] = []

    def on_start(self, run: Run, update: int) -> None:
        self.events.append(f"start {update}")

    def on_update(self, progress: TrainingProgress) -> None:
        self.events.append(f"update {progress.update}")
        self.progress.append(progress)

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        self.events.append(f"evaluation {update} {result.opponent} {result.score.games}")

    def on_checkpoint(self, name: str) -> None:
        self.events.append(name)


def test_listener_gets_all_events_in_order(train_small: Train) -> None:
    recorder = Recorder()
    evaluation = {"interval": 2, "opponents": ["random"], "final_opponents": ["minimax:1"]}
    train_small(updates=3, evaluation=evaluation, checkpoint={"interval": 2}, listener=recorder)
    assert recorder.events == [
        "start 0",
        "update 1",
        "update 2",
        "update_000000002",
        "evaluation 2 random 4",
        "update 3",
        "update_000000003",
        "evaluation 3 random 4",
        "evaluation 3 minimax:1 4",
    ]


def test_progress_counts_steps_and_the_time_left(train_small: Train) -> None:
    recorder = Recorder()
    train_small(updates=3, listener=recorder)
    assert [progress.steps for progress in recorder.progress] == [256, 512, 768]
    assert {progress.total_updates for progress in recorder.progress} == {3}
    assert recorder.progress[0].seconds_left > 0 == recorder.progress[2].seconds_left
    assert all(progress.steps_per_second > 0 for progress in recorder.progress)
    assert {"start", "evaluate", "step", "forward", "backward", "publish"} <= set(recorder.progress[2].stages)


def test_record_of_an_update_has_losses_games_and_stage_times(tic_tac_toe_run: Run) -> None:
    lines = (tic_tac_toe_run.path / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    last = [record for record in records if record["kind"] == "update"][-1]
    assert last["steps"] == 6 * 256
    assert {"policy_loss", "value_loss", "entropy", "learning_rate", "seconds", "stages"} <= set(last)
    assert last["games_finished"] > 0
    assert 5 <= last["steps_per_game"] <= 9  # tic-tac-toe lasts from five to nine moves, less at the edges
    assert -1 <= last["first_seat_mean_reward"] <= 1


def test_seconds_go_on_counting_after_a_resume(train_small: Train) -> None:
    run = train_small(updates=4, max_updates=2)
    before = run.metrics[-1]["seconds"]
    seconds = [record["seconds"] for record in senju.train(resume=run.path).metrics]
    assert seconds[2] >= before
    assert seconds == sorted(seconds)


class StopsAtEvaluation(TrainingListener):
    """Asks to stop as soon as the first opponent of an update was played."""

    def __init__(self, stop: StopRequest) -> None:
        self.stop = stop

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        self.stop.signal = signal.SIGINT


def test_interrupted_evaluation_is_completed_on_resume(tmp_path: Path, small: Settings) -> None:
    opponents = ["random", "minimax:1", "minimax:2"]
    settings = merged(small, {"evaluation": {"opponents": opponents}, "total_steps": 256})
    run = Run.create(tmp_path / "run", resolve_config("tic_tac_toe", settings))
    stop = StopRequest()
    assert not Trainer(run, StopsAtEvaluation(stop)).train(stop)
    assert [record["opponent"] for record in run.evaluations] == ["random"]
    assert Trainer(run).train()
    assert [record["opponent"] for record in run.evaluations] == opponents
    assert Trainer(run).train()
    assert len(run.evaluations) == 3


def test_opponent_whose_run_vanishes_while_training_is_played_all_the_same(
    train_small: Train, tmp_path: Path
) -> None:
    other = train_small("other")

    class RemovesOther(TrainingListener):
        def on_update(self, progress: TrainingProgress) -> None:
            shutil.rmtree(other.path, ignore_errors=True)

    evaluation = {"interval": 1, "opponents": [str(other.path)]}
    run = train_small("one", updates=2, evaluation=evaluation, listener=RemovesOther())
    assert [record["update"] for record in run.evaluations] == [1, 2]


def test_run_that_is_being_trained_cannot_be_trained_twice(train_small: Train) -> None:
    run = train_small()
    with run.locked(), pytest.raises(RunFolderError, match=mentions(run.path.name, "another process")):
        senju.train(resume=run.path)
    senju.train(resume=run.path)


def test_stop_before_the_first_update_saves_a_run_that_can_be_resumed(
    tmp_path: Path, small: Settings
) -> None:
    run = Run.create(tmp_path / "run", resolve_config("tic_tac_toe", merged(small, {"total_steps": 512})))
    stop = StopRequest()
    stop.signal = signal.SIGINT
    assert not Trainer(run).train(stop)
    assert [path.name for path in run.checkpoints.all()] == ["update_000000000"]
    assert Trainer(run).train()
    assert updates_in(run) == [1, 2]


def test_edited_config_that_would_make_another_run_is_refused(train_small: Train) -> None:
    run = train_small()
    text = (run.path / "config.yaml").read_text()
    (run.path / "config.yaml").write_text(text.replace("rollout_steps: 8", "rollout_steps: 16"))
    with pytest.raises(CheckpointError, match=r"collect .*rollout_steps=8.*the run .*=16"):
        senju.train(resume=run.path)
