"""`ParallelManager` for users with their own loop: batches, timeouts, and refused input."""

import copy
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

import senju
from senju.algorithms.returns import generalised_advantages
from senju.backends.serial import Serial
from senju.collect.experiences import Experiences, decisions_of
from senju.config import Settings
from senju.errors import ConfigError, ControlError, ModelError
from senju.games.tic_tac_toe import TicTacToe
from senju.machine import available_cores
from senju.models.weights import WeightBlock
from senju.training import parallel_manager
from senju.training.parallel_config import ParallelConfig, SettingWarning
from senju.training.parallel_manager import ParallelManager
from tests.backends.common import new_plan
from tests.facts import mentions

SEED = 4
MODEL = {"name": "mlp", "hidden": [16]}
PREFERENCE = {"name": "tests.collect.toy_models:ReadsObservation"}
RACE, MEETING = "tests.collect.toy_games:Race", "tests.collect.toy_games:Meeting"
SMALL: Settings = {"num_workers": 2, "games_per_worker": 4, "experience_batch_size": 40, "backend": "serial"}
TURN = 80  # decisions of both workers' batches
BACKENDS = ["serial", "threads", "processes"]
PARALLEL = BACKENDS[1:]


def make(game: str = "connect_four", model: Any = None, **changes: Any) -> ParallelManager:
    return ParallelManager(game, model or MODEL, {**SMALL, **changes}, seed=SEED)


def contents(experiences: Experiences) -> dict[str, bytes]:
    return {name: column.tobytes() for name, column in experiences.columns().items()}


def joined(batches: Iterable[Experiences]) -> dict[str, bytes]:
    return contents(Experiences.merge(list(batches)))


def serial_run(game: str, num_turns: int, rollout_steps: int = 10, **plan: Any) -> Experiences:
    """What the oracle plays, without ParallelManager."""
    backend = Serial()
    backend.start(
        new_plan(
            game={"name": game},
            model=MODEL,
            seed=SEED,
            num_shards=2,
            games_per_shard=4,
            rollout_steps=rollout_steps,
            **plan,
        )
    )
    turns = []
    for _ in range(num_turns):
        rollouts = backend.collect()
        turns.append(
            Experiences.merge([decisions_of(r, *generalised_advantages(r.data, 1.0, 0.95)) for r in rollouts])
        )
    return Experiences.merge(turns)


def wait_until(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def value_of(model: torch.nn.Module, experiences: Experiences) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        values: torch.Tensor = model(torch.from_numpy(experiences.observation).float())[1]
    return values.numpy()


def changed(model: senju.Model) -> senju.Model:
    """The network after some learning."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_small_calls_hand_over_one_long_serial_run_byte_for_byte(backend: str) -> None:
    sizes = [1, 7, 39, 40, 41, 80, 200, 5]
    with make(backend=backend) as manager:
        batches = [manager.collect_experiences(target_steps=size) for size in sizes]
        assert [len(batch) for batch in batches] == sizes
        batches.append(manager.collect_experiences())  # what waited, and a batch of every worker
    assert joined(batches) == contents(serial_run("connect_four", 7))


@pytest.mark.parametrize("backend", ["serial", "threads"])
@pytest.mark.parametrize(("game", "batch_size"), [(RACE, 40), (MEETING, 80), ("tic_tac_toe", 40)])
def test_any_game_is_handed_over_like_that(backend: str, game: str, batch_size: int) -> None:
    with make(game, backend=backend, experience_batch_size=batch_size) as manager:
        batches = [manager.collect_experiences(target_steps=size) for size in (3, 50, 11)]
        batches += [manager.collect_experiences() for _ in range(2)]
        waiting = manager.get_status()["decisions_waiting"]
    expected = serial_run(game, 5)
    total = sum(map(len, batches))
    assert waiting == 0
    assert joined(batches) == contents(expected.select(slice(total)))


def test_call_without_limits_hands_over_one_batch_of_every_worker() -> None:
    with make() as manager:
        first, second = manager.collect_experiences(), manager.collect_experiences()
    assert (len(first), len(second)) == (TURN, TURN)
    assert joined([first, second]) == contents(serial_run("connect_four", 2))
    assert np.unique(first.row, return_counts=True)[1].tolist() == [10] * 8


def test_what_was_collected_beyond_the_target_waits() -> None:
    with make() as manager:
        manager.collect_experiences(target_steps=30)
        status = manager.get_status()
        assert (status["decisions_collected"], status["decisions_waiting"]) == (30, 50)
        manager.collect_experiences(target_steps=50)
        status = manager.get_status()
        assert (status["decisions_collected"], status["decisions_waiting"]) == (80, 0)
        assert status["workers"][0]["rollouts"] == 2, "played more than was needed"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_time_that_is_up_hands_over_what_there_is_and_loses_nothing(backend: str) -> None:
    with make(backend=backend) as manager:
        batches = [manager.collect_experiences(timeout=0.002) for _ in range(20)]
        batches.append(manager.collect_experiences(timeout=1.0))
        assert len(batches[-1]) > TURN, "a timeout alone collects for that long"
        batches.append(manager.collect_experiences(timeout=0.5, target_steps=10))
        batches.append(manager.collect_experiences())
        total = sum(map(len, batches))
    expected, played = serial_run("connect_four", -(-total // TURN)), Experiences.merge(batches)
    for row in range(8):  # the workers' batches come as they are finished, each worker's in order
        ours = played.select(played.row == row)
        theirs = expected.select(expected.row == row)
        assert contents(ours) == contents(theirs.select(slice(len(ours))))


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_nothing_in_time_is_an_empty_batch_of_the_right_shapes(backend: str) -> None:
    with make(backend=backend) as manager:
        manager.pause_workers()
        for empty in (
            manager.collect_experiences(timeout=0.02),
            manager.collect_experiences(timeout=0.02, target_steps=5),
            manager.collect_experiences(timeout=0),
        ):
            assert len(empty) == 0
            assert empty.observation.shape == (0, 2, 6, 7)
        manager.resume_workers()
        assert joined([empty, manager.collect_experiences()]) == contents(serial_run("connect_four", 1))


def test_timeout_of_the_settings_holds_where_the_call_names_none() -> None:
    with make(timeout=0.02) as manager:
        manager.pause_workers()
        assert len(manager.collect_experiences()) == 0
        assert len(manager.collect_experiences(target_steps=100)) == 0
    with make(timeout=0) as manager:
        one_rollout = len(manager.collect_experiences())
        assert one_rollout > 0, "serial plays only while it is asked: one rollout, however short the time"
        assert len(manager.collect_experiences(timeout=60, target_steps=10)) == 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_experiences_handed_over_stay_as_they_are(backend: str) -> None:
    with make(backend=backend) as manager:
        first = manager.collect_experiences()
        before = contents(first)
        part = manager.collect_experiences(target_steps=20)
        before_part = contents(part)
        manager.collect_experiences(target_steps=500)
    assert contents(first) == before
    assert contents(part) == before_part


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_that_are_sent_act_and_are_named_in_each_experience(backend: str) -> None:
    with make(backend=backend) as manager:
        model = manager.new_model()
        first = manager.collect_experiences()
        assert set(first.version.tolist()) == {0}
        np.testing.assert_allclose(value_of(model, first), first.values, rtol=1e-5, atol=1e-6)
        assert manager.sync_model_to_workers(changed(model)) is True
        second = manager.collect_experiences()
        assert set(second.version.tolist()) == {1}
        np.testing.assert_allclose(value_of(model, second), second.values, rtol=1e-5, atol=1e-6)
        assert not np.allclose(value_of(model, first), first.values, atol=1e-3)
        assert manager.get_status()["version"] == 1


def train_a_little(backend: str) -> dict[str, bytes]:
    """What a loop that learns from each batch collects."""
    batches = []
    with make(backend=backend, model_sync_interval=2) as manager:
        model = manager.new_model()
        for size in (50, 100, 30, 80, 120):
            batch = manager.collect_experiences(target_steps=size)
            batches.append(batch)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(float(batch.returns.mean()), alpha=0.1)
            manager.sync_model_to_workers(model)
    assert Experiences.merge(batches).version.max() == 2
    return joined(batches)


@pytest.mark.parametrize("backend", PARALLEL)
def test_loop_that_learns_collects_the_same_bytes_on_every_backend(backend: str) -> None:
    assert train_a_little(backend) == train_a_little("serial")


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_what_waits_while_weights_are_sent_keeps_its_version(backend: str) -> None:
    with make(backend=backend) as manager:
        manager.collect_experiences(target_steps=30)
        manager.sync_model_to_workers(manager.new_model())
        batch = manager.collect_experiences(target_steps=60)
    assert batch.version.tolist() == [0] * 50 + [1] * 10


def test_policy_that_prefers_an_action_takes_it() -> None:
    with make(model=PREFERENCE) as manager:
        model = manager.new_model()
        model.preference.data[3] = 60.0
        assert set(manager.collect_experiences().actions.tolist()) > {3}
        manager.sync_model_to_workers(model)
        batch = manager.collect_experiences()
        allowed = batch.legal_mask(manager.game.num_actions)[:, 3]
        assert set(batch.actions[allowed].tolist()) == {3}


def test_every_nth_sync_is_sent_and_force_sends_at_once() -> None:
    with make(model_sync_interval=3) as manager:
        model = manager.new_model()
        assert [manager.sync_model_to_workers(model) for _ in range(6)] == [False, False, True] * 2
        assert set(manager.collect_experiences().version.tolist()) == {2}
        assert manager.sync_model_to_workers(model, force=True) is True
        assert [manager.sync_model_to_workers(model) for _ in range(3)] == [False, False, True]
        status = manager.get_status()
        assert (status["version"], status["sync_calls"]) == (4, 10)


@pytest.mark.parametrize("form", ["network", "state_dict", "arrays", "block", "bfloat16"])
def test_weights_may_come_in_any_form(form: str) -> None:
    with make() as manager, make() as other:
        model = changed(manager.new_model())
        model = model.bfloat16().float()  # numbers that both precisions hold
        forms: dict[str, Any] = {
            "network": model,
            "state_dict": model.state_dict(),
            "arrays": {name: tensor.numpy() for name, tensor in model.state_dict().items()},
            "block": WeightBlock(model).read(),
            "bfloat16": copy.deepcopy(model).bfloat16(),
        }
        manager.sync_model_to_workers(model)
        other.sync_model_to_workers(forms[form])
        assert contents(manager.collect_experiences()) == contents(other.collect_experiences())


def test_network_of_another_shape_is_refused_at_once() -> None:
    with make(model_sync_interval=9) as manager:
        for network, expected in [
            (
                ParallelManager("connect_four", {"name": "mlp", "hidden": [17]}, SMALL).new_model(),
                r"layers\.0\.weight .*\(17, 84\), expected .*\(16, 84\) \(3 differ\)",
            ),
            (torch.nn.Linear(3, 2), r"layers\.0\.weight .*missing, expected .*\(16, 84\)"),
            ({**manager.new_model().state_dict(), "more": torch.zeros(1)}, r"more is .*, expected missing"),
            (lambda observation: observation, "function"),
            (np.zeros(7, np.uint8), "7 bytes"),
        ]:
            with pytest.raises(ModelError, match=expected):
                manager.sync_model_to_workers(network)  # type: ignore[arg-type]
        assert contents(manager.collect_experiences()) == contents(serial_run("connect_four", 1))


@pytest.mark.parametrize("rubbish", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_sent(rubbish: float) -> None:
    with make() as manager:
        model = manager.new_model()
        next(model.parameters()).data[0, 0] = rubbish
        for form in (model, WeightBlock(model).read()):
            with pytest.raises(ModelError, match=r"layers.0.weight .*finite.*version 0"):
                manager.sync_model_to_workers(form)
        assert contents(manager.collect_experiences()) == contents(serial_run("connect_four", 1))
        assert manager.sync_model_to_workers(manager.new_model())
        assert set(manager.collect_experiences().version.tolist()) == {1}


def test_new_model_is_a_fresh_copy_that_can_be_trained() -> None:
    manager = make()
    one, other = manager.new_model(), manager.new_model()
    assert one is not other
    assert WeightBlock(one).read().tobytes() == WeightBlock(other).read().tobytes()
    assert all(parameter.requires_grad for parameter in one.parameters())
    assert one.training


@pytest.mark.parametrize("backend", PARALLEL)
def test_paused_worker_leaves_its_games_to_the_others(backend: str) -> None:
    with make(backend=backend) as manager:
        first = manager.collect_experiences()
        manager.pause_workers([1])
        assert manager.get_status()["workers"][1]["state"] == "paused"
        before = manager.get_status()["workers"][1]["rollouts"]
        second = manager.collect_experiences()
        assert manager.get_status()["workers"][1]["rollouts"] == before
        manager.resume_workers([1])
        third = manager.collect_experiences()
        assert manager.get_status()["workers"][1]["state"] == "waiting"
    assert joined([first, second, third]) == contents(serial_run("connect_four", 3))


def test_collecting_from_paused_workers_waits_says_so_and_goes_on_when_they_are_resumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    with make() as manager:
        manager.pause_workers([0])
        assert manager.get_status()["workers"][0]["state"] == "paused"
        batches: list[Experiences] = []
        collector = threading.Thread(target=lambda: batches.append(manager.collect_experiences()))
        collector.start()
        wait_until(lambda: "paused" in caplog.text)
        assert batches == []
        manager.resume_workers()
        collector.join(30)
    assert joined(batches) == contents(serial_run("connect_four", 1))


@pytest.mark.slow
def test_reset_workers_are_other_processes_and_play_the_same_games() -> None:
    with make(backend="processes") as manager:
        first = manager.collect_experiences()
        before = [worker["pid"] for worker in manager.get_status()["workers"]]
        manager.reset_workers([0])
        second = manager.collect_experiences()

        def now() -> list[int | None]:
            return [worker["pid"] for worker in manager.get_status()["workers"]]

        wait_until(lambda: now()[0] not in (None, before[0]))
        assert now()[1] == before[1]
        third = manager.collect_experiences()
        pids = now()
    assert joined([first, second, third]) == contents(serial_run("connect_four", 3))
    assert not any(pid and psutil.pid_exists(pid) for pid in {*before, *pids})


@pytest.mark.slow
def test_workers_are_replaced_after_their_interval() -> None:
    with make(backend="processes", worker_reset_interval=2) as manager:
        pids = set()
        batches = []
        for _ in range(5):
            batches.append(manager.collect_experiences())
            pids |= {worker["pid"] for worker in manager.get_status()["workers"]} - {None}
        assert len(pids) > 2
    assert joined(batches) == contents(serial_run("connect_four", 5))


def test_threads_are_replaced_without_a_trace_in_the_result() -> None:
    with make(backend="threads", worker_reset_interval=1) as manager:
        batches = [manager.collect_experiences() for _ in range(3)]
        manager.reset_workers()
        batches.append(manager.collect_experiences())
    assert joined(batches) == contents(serial_run("connect_four", 4))


@pytest.mark.parametrize("backend", PARALLEL)
@pytest.mark.parametrize("queue_maxsize", [1, 3])
def test_workers_wait_for_the_next_collect_and_drop_nothing(backend: str, queue_maxsize: int) -> None:
    with make(backend=backend, queue_maxsize=queue_maxsize) as manager:
        first = manager.collect_experiences()

        def slots() -> list[int]:
            status = manager.get_status()
            return [status[f"slots_{state}"] for state in ("held", "ready", "playing", "free")]

        # of each worker the batch just taken, and as many finished ones as there is size for
        wait_until(lambda: slots() == [2, 2 * (queue_maxsize - 1), 0, 0])
        assert {worker["state"] for worker in manager.get_status()["workers"]} == {"waiting"}
        manager.sync_model_to_workers(manager.new_model())
        rest = [manager.collect_experiences() for _ in range(4)]
    versions = [sorted(set(batch.version.tolist())) for batch in rest]
    assert versions == [[0]] * (queue_maxsize - 1) + [[1]] * (5 - queue_maxsize)
    played = Experiences.merge([first, *rest])
    expected = serial_run("connect_four", 5)
    assert played.observation.tobytes() == expected.observation.tobytes()  # the same weights were sent


@pytest.mark.parametrize("length", [3, 5])
def test_games_are_cut_at_their_greatest_length(length: int) -> None:
    with make(max_game_length=length) as manager:
        batch = manager.collect_experiences(target_steps=400)
    assert batch.step.max() == length - 1
    assert (batch.truncated == (batch.step == length - 1)).all()
    assert not batch.terminated.any()


def test_games_are_resigned_where_the_value_is_below_the_limit() -> None:
    with make(resign_below=0.05, resign_exempt=0.0) as manager:
        batch = manager.collect_experiences(target_steps=400)
    low = batch.values < -0.05
    assert low.any()
    assert batch.terminated[low].all()


def test_resignation_in_a_game_without_a_winner_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=mentions("resign_below=0.5", "zero-sum", "meeting")):
        make(MEETING, resign_below=0.5)


def test_worker_hands_over_batches_of_the_size_that_was_set() -> None:
    with make(games_per_worker=3, experience_batch_size=60, num_workers=4) as manager:
        batch, status = manager.collect_experiences(), manager.get_status()
    assert len(batch) == 4 * 60
    assert sorted(set(batch.row.tolist())) == list(range(12))
    assert (status["num_games"], status["rollout_steps"]) == (12, 20)


def test_seats_that_sit_out_make_a_batch_smaller() -> None:
    with make(MEETING, experience_batch_size=80) as manager:
        batch = manager.collect_experiences()
    assert 80 < len(batch) < 160


def test_advantages_use_the_gamma_and_the_gae_lambda_that_were_set() -> None:
    with make(gamma=0.5, gae_lambda=0.25) as manager, make() as plain:
        batch, other = manager.collect_experiences(), plain.collect_experiences()
    backend = Serial()
    backend.start(manager._plan)
    expected = [generalised_advantages(r.data, 0.5, 0.25).advantages for r in backend.collect()]
    assert batch.advantages.tobytes() == b"".join(array.tobytes() for array in expected)
    assert batch.advantages.tobytes() != other.advantages.tobytes()
    assert batch.actions.tobytes() == other.actions.tobytes()


def test_workers_are_one_per_core_where_none_are_named() -> None:
    assert make(num_workers=0).config.num_workers == available_cores()
    assert ParallelManager("tic_tac_toe").config.backend == {"name": "processes"}


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"compression_enabled": True}, "compression_enabled=True.*serial"),
        ({"compression_enabled": True, "backend": "processes"}, "compression_enabled=True.*processes"),
        ({"use_shared_memory": False, "backend": "processes"}, "use_shared_memory=False"),
        ({"worker_reset_interval": 5}, "worker_reset_interval=5.*serial"),
        ({"queue_maxsize": 2}, "queue_maxsize=2.*serial"),
    ],
)
def test_setting_without_meaning_on_the_backend_says_so(changes: Settings, note: str) -> None:
    with pytest.warns(SettingWarning, match=note) as caught:
        manager = make(**changes)
    assert caught[0].filename == __file__
    if manager.config.backend["name"] == "serial":
        with manager:
            assert re.search(note, " ".join(manager.get_status()["notes"]))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_shared_memory": False},
        {"use_shared_memory": False, "backend": "threads"},
        {"backend": "processes", "worker_reset_interval": 5, "queue_maxsize": 4},
        {"backend": {"name": "threads", "worker_timeout": 5.0}, "queue_maxsize": 4},
    ],
)
def test_setting_with_a_meaning_is_no_matter_for_a_warning(changes: Settings) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(**changes)


def test_serial_backend_says_which_process_plays_the_workers_games() -> None:
    with make() as manager:
        status = manager.get_status()
        (note,) = status["notes"]
        assert re.search("num_workers=2.*serial", note)
        assert len(status["workers"]) == 1
    with make(num_workers=1) as manager:
        assert manager.get_status()["notes"] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_status_is_plain_and_complete(backend: str) -> None:
    with make(backend=backend) as manager:
        manager.collect_experiences()
        status = manager.get_status()
    assert json.loads(json.dumps(status)) == status
    assert (status["backend"], status["version"], status["num_games"]) == (backend, 0, 8)
    assert {"events", "notes", "restarts", "slots_ready", "set_aside", "memory_bytes"} <= set(status)
    assert {"index", "state", "pid", "busy_share", "rollouts"} <= set(status["workers"][0])
    assert {"evaluate", "step", "copy"} <= set(status["stages"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_worker_is_refused(backend: str) -> None:
    with make(backend=backend) as manager:
        for act in (manager.pause_workers, manager.resume_workers, manager.reset_workers):
            with pytest.raises(ConfigError, match=r"no worker 7.*0"):
                act([0, 7])
        assert "paused" not in {worker["state"] for worker in manager.get_status()["workers"]}


def uses(manager: ParallelManager) -> list[Callable[[], object]]:
    return [
        manager.collect_experiences,
        lambda: manager.collect_experiences(timeout=1),
        lambda: manager.sync_model_to_workers(manager.new_model()),
        manager.pause_workers,
        manager.resume_workers,
        manager.reset_workers,
        manager.get_status,
    ]


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_use_before_the_start_or_after_the_end_is_explained(backend: str) -> None:
    manager = make(backend=backend)
    for use in uses(manager):
        with pytest.raises(ControlError, match=r"start_workers\(\)"):
            use()
    manager.start_workers()
    with pytest.raises(ControlError, match="running"):
        manager.start_workers()
    with manager:  # started already: only the end is new
        manager.collect_experiences()
    for use in uses(manager):
        with pytest.raises(ControlError, match="stopped"):
            use()
    with pytest.raises(ControlError, match="stopped"):
        manager.start_workers()
    manager.stop_workers()


@pytest.mark.parametrize("backend", BACKENDS)
def test_workers_can_be_stopped_twice_and_before_the_start(backend: str) -> None:
    manager = make(backend=backend)
    manager.start_workers()
    pids = [worker["pid"] for worker in manager.get_status()["workers"]]
    manager.stop_workers()
    manager.stop_workers()
    assert not any(pid and psutil.pid_exists(pid) for pid in pids)
    make(backend=backend).stop_workers()


def test_error_in_the_loop_stops_the_workers() -> None:
    manager = make(backend="threads")
    with pytest.raises(ZeroDivisionError), manager:
        _ = 1 / 0
    with pytest.raises(ControlError, match="stopped"):
        manager.get_status()


def test_start_that_fails_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable(TicTacToe):
        """A game that no other process can import."""

    monkeypatch.setitem(senju.GAMES._classes, "unreachable", Unreachable)  # registered, for this test only
    manager = ParallelManager("unreachable", MODEL, {**SMALL, "backend": "processes"})
    with pytest.raises(ConfigError, match="Unreachable"):
        manager.start_workers()
    with pytest.raises(ControlError, match="stopped"):
        manager.collect_experiences()
    manager.stop_workers()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            lambda observation: observation,
            "model=<function .*mlp, plane_net",
        ),
        (torch.nn.Linear(4, 2), r"model=Linear.*sync_model_to_workers\(model\)"),
        (torch.nn.Linear, "torch.nn.modules.linear:Linear"),
        ({"hidden": [4]}, "hidden"),
        (7, "model=7"),
        ("mpl", "mpl.*mlp"),
        ({"name": "mlp", "hiden": [4]}, "model.hiden"),
        ("torch.nn:Linear", "torch.nn:Linear.*senju.models.model.Model"),
    ],
)
def test_model_that_workers_cannot_make_is_refused_at_once(model: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        ParallelManager("connect_four", model)


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        ("conect_four", "conect_four.*connect_four"),
        (TicTacToe(), "game=<.*TicTacToe object"),
        (TicTacToe, "senju.games.tic_tac_toe:TicTacToe"),
    ],
)
def test_game_that_workers_cannot_make_is_refused_at_once(game: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        ParallelManager(game)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"experience_batch_size": 42}, r"experience_batch_size=42\b.*\b4\b.*40.*44"),
        ({"experience_batch_size": 3}, "try 4$"),
        ({"num_workers": -1}, "num_workers=-1"),
        ({"games_per_worker": 0}, "games_per_worker=0"),
        ({"queue_maxsize": 0}, "queue_maxsize=0"),
        ({"model_sync_interval": 0}, "model_sync_interval=0"),
        ({"worker_reset_interval": -1}, "worker_reset_interval=-1"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"gamma": 0}, "gamma=0"),
        ({"gae_lambda": 1.5}, "gae_lambda=1.5"),
        ({"use_shared_memory": "perhaps"}, "use_shared_memory='perhaps'"),
        ({"num_worker": 3}, "num_worker\\b.*num_workers"),
        ({"backend": "proceses"}, "proceses.*processes"),
        ({"backend": {"worker_timeout": 3}}, "backend: .*processes"),
        ({"backend": {"name": "threads", "num_workers": 3}}, "backend.num_workers"),
        ({"backend": {"name": "threads", "timeout": 3}}, "backend.timeout"),
        ({"backend": 3}, "backend=3"),
    ],
)
def test_refused_settings_are_explained(changes: Settings, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        make(**changes)


def test_batch_size_counts_the_seats_that_act_at_once() -> None:
    with pytest.raises(ConfigError, match=r"experience_batch_size=12\b.*\b8\b.*\b2 acting"):
        make(MEETING, experience_batch_size=12)


@pytest.mark.parametrize("config", [3, ["num_workers"], object()])
def test_a_value_that_is_no_config_is_refused(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"config=.*ParallelConfig"):
        ParallelManager("tic_tac_toe", config=config)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match=f"seed={seed}"):
        ParallelManager("tic_tac_toe", seed=seed)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"timeout": -0.1}, "timeout=-0.1"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"target_steps": 0}, "target_steps=0"),
    ],
)
def test_limits_out_of_range_are_refused(call: dict[str, Any], expected: str) -> None:
    with make() as manager, pytest.raises(ConfigError, match=expected):
        manager.collect_experiences(**call)


def test_settings_may_come_from_a_file_a_dictionary_or_a_config(tmp_path: Path) -> None:
    file = tmp_path / "parallel.yaml"
    file.write_text("num_workers: 2\ngames_per_worker: 4\nexperience_batch_size: 40\nbackend: serial\n")
    configs = [file, str(file), SMALL, ParallelConfig(**SMALL)]
    managers = [ParallelManager("tic_tac_toe", config=config) for config in configs]
    assert len({manager.config.model_dump_json() for manager in managers}) == 1
    with pytest.raises(ConfigError, match=r"nothing.yaml"):
        ParallelManager("tic_tac_toe", config=tmp_path / "nothing.yaml")


def test_seed_decides_the_games() -> None:
    with make() as one, ParallelManager("connect_four", MODEL, SMALL, seed=SEED + 1) as other:
        assert contents(one.collect_experiences()) != contents(other.collect_experiences())


@pytest.mark.slow
def test_example_of_an_own_loop_learns_to_beat_random() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, root / "examples" / "own_loop.py"],
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    scores = re.search(r"score against random: (\S+) before, (\S+) after", done.stdout)
    assert scores, done.stdout
    before, after = map(float, scores.groups())
    assert before < 0.6
    assert after > 0.9


def test_parallel_manager_is_part_of_the_package() -> None:
    assert senju.ParallelManager is ParallelManager
    assert senju.ParallelConfig is ParallelConfig
    assert senju.Experiences is Experiences
    assert senju.ExperienceBuffer(3).capacity == 3


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_experiences_whose_copying_was_interrupted_come_with_the_next_call(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(backend=backend) as manager:
        expected = joined(manager.collect_experiences() for _ in range(3))
    with make(backend=backend) as manager:
        batches = [manager.collect_experiences()]
        with monkeypatch.context() as patch:
            patch.setattr(parallel_manager, "decisions_of", interrupt)
            with pytest.raises(KeyboardInterrupt):
                manager.collect_experiences()
        batches += [manager.collect_experiences() for _ in range(2)]
        assert joined(batches) == expected


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
