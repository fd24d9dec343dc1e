"""Worker processes whose policies the training process evaluates: they play what serial plays."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from senju.backends.backend import Backend
from senju.backends.building import new_models
from senju.backends.evaluation_service import Networks
from senju.backends.plan import Plan
from senju.backends.reproduction import Reproduction
from senju.collect.device_actor import DeviceEvaluation, DeviceProgram
from senju.collect.exploration import Acting
from senju.collect.orders import Orders
from senju.errors import ModelError, WorkerError
from senju.games import make_game
from senju.machine import math_threads
from senju.models.weights import Weights
from tests.backends.common import (
    PLAN,
    Content,
    Restartable,
    changed,
    contents,
    gather_events,
    oracle,
    pid_of,
    play,
    publish_turn,
    started,
    wait_for_workers,
    wait_until,
    workers_of,
)
from tests.backends.pooled import PooledPlay, kept, pooled, pooled_oracle
from tests.backends.trap_games import call_off, order, trap_plan, was_sprung
from tests.backends.trap_models import network_was_sprung, order_network, trapped_plan
from tests.facts import assert_mentions

pytestmark = pytest.mark.slow
TURNS = 4
HOST = DeviceEvaluation()
BY_VALUES = Acting("action_values", ladder=1.5)
ON_HOST = changed(PLAN, evaluation=HOST)


def independent(game: dict[str, object], num_agents: int, **changes: object) -> Plan:
    """A plan with an agent of its own for every seat."""
    plan = changed(ON_HOST, game=game, **changes)
    (policy,) = plan.policies
    agents = tuple(policy.model_copy(update={"seed": seed}) for seed in range(num_agents))
    return plan.model_copy(update={"policies": agents})


HUNT = {"name": "treasure_hunt", "num_agents": 3, "max_turns": 10, "height": 9, "width": 9}
PLANS = {
    "PPO": changed(ON_HOST, num_shards=5, max_game_length=9),
    "DQN": changed(
        ON_HOST, num_shards=4, acting=BY_VALUES, kept_turns=3, keeps_final=True, max_game_length=9
    ),
    "plain Python": changed(ON_HOST, game={"name": "examples.nim:Nim"}),
    "independent, PPO": independent(HUNT, 3),
    "independent, in turns, by values": independent({"name": "connect_four"}, 2, acting=BY_VALUES),
    "whole games": changed(ON_HOST, game={"name": "tic_tac_toe"}, whole_games=True),
}


def weights_at(plan: Plan, turn: int) -> Weights:
    """Other weights in each turn."""
    policies = [each.model_copy(update={"seed": each.seed + turn}) for each in plan.policies]
    return new_models(plan.model_copy(update={"policies": tuple(policies)})).read_weights()


def play_all(backend: Backend, plan: Plan, turns: int = TURNS) -> list[list[Content]]:
    """All bytes of some turns; what the device keeps is the same."""
    found = []
    for turn in range(turns):
        backend.publish(weights_at(plan, turn), turn, Orders(turn, (0.3,) * len(plan.policies)))
        rollouts = backend.collect()
        for rollout in rollouts:
            for ring, slot in zip(backend.rings, rollout.slots, strict=True):
                columns = ring.on_device
                assert columns is not None
                assert columns.has(rollout.shard, rollout.turn)
                observation, legal = columns.slot(rollout.shard, rollout.turn)
                assert observation.cpu().numpy().tobytes() == slot.observation.tobytes()
                assert legal.cpu().numpy().tobytes() == slot.legal.tobytes()
        found.append(contents(rollouts))
    return found


@pytest.mark.parametrize("name", PLANS)
def test_processes_play_what_serial_plays(name: str) -> None:
    """With three workers, then two, then one."""
    plan = PLANS[name]
    with started(plan) as serial:
        expected = play_all(serial, plan)
    with started(plan, "processes", num_workers=3) as backend:
        first = backend.snapshot()
        for num_workers in (3, 2, 1):
            backend.team.resize(num_workers)
            wait_for_workers(backend, num_workers)
            assert play_all(backend, plan) == expected, num_workers
            backend.restore(first, turn=0)
        assert backend.report().events == []


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_on_the_host_they_are_the_bytes_without_a_device(name: str) -> None:
    plan = PLANS[name]
    with started(plan, "processes", num_workers=2) as backend:
        assert play(backend, plan, TURNS) == oracle(changed(plan, evaluation=None), TURNS)


def test_opponents_play_as_they_do_in_serial() -> None:
    plan = pooled(changed(ON_HOST, acting=BY_VALUES, kept_turns=3, keeps_final=True, max_game_length=9))
    turns, ring, _ = pooled_oracle(plan, TURNS)
    with started(plan, "processes", num_workers=2) as backend:
        assert PooledPlay(backend, plan).play(TURNS) == turns
        assert kept(backend) == ring
        assert backend.report().events == []


@pytest.fixture(scope="module")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    plan = changed(trap_plan(tmp_path_factory.mktemp("traps")), evaluation=HOST)
    team = Restartable(plan, "processes", num_workers=3, worker_timeout=0.5)
    yield team
    team.backend.close()


@pytest.fixture
def plan(shared_team: Restartable) -> Iterator[Plan]:
    yield shared_team.plan
    call_off(shared_team.plan)


@pytest.fixture
def team(shared_team: Restartable, plan: Plan) -> Backend:
    """Three worker processes at the start of a plan, that count as hung after half a second."""
    wait_until(lambda: "starting" not in {worker.state for worker in workers_of(shared_team.backend)[:1]})
    return shared_team.from_the_start()


GOES_WRONG = [
    ("kill", "step", "lost"),
    ("kill", "observe", "lost"),
    ("kill", "sending", "lost"),
    ("raise", "step", "failed"),
    ("exit", "step", "lost"),
    ("stop", "step", "hung"),
    ("hang", "step", "hung"),
]


@pytest.mark.parametrize(("kind", "where", "event"), GOES_WRONG)
def test_rollout_of_a_worker_that_goes_wrong_is_played_again(
    team: Backend, plan: Plan, kind: str, where: str, event: str
) -> None:
    found = play(team, plan, 2)
    order(plan, kind, shard=1, at=12 if where == "observe" else 9, where=where)
    found += play(team, plan, TURNS, first=2)
    assert was_sprung(plan)
    assert found == oracle(plan, TURNS)
    assert len(gather_events(team, f"worker_{event}")) == 1


def test_pausing_resizing_and_resetting_change_no_byte(team: Backend, plan: Plan) -> None:
    wait_for_workers(team, 3)
    found = play(team, plan, 1)
    team.team.resize(1)
    team.team.pause()
    team.team.resume()
    found += play(team, plan, 2, first=1)
    team.team.resize(3)
    found += play(team, plan, 3, first=2)
    team.team.reset()
    found += play(team, plan, 4, first=3)
    wait_for_workers(team, 3)
    assert found == oracle(plan, 4)
    assert team.report().events == []


@pytest.mark.parametrize("goes_on_first", [False, True])
def test_worker_that_is_killed_while_it_waits_for_a_reply_changes_no_byte(
    tmp_path: Path, goes_on_first: bool
) -> None:
    """Its replacement, or another worker, starts while the request is still being served, or after it."""
    plan = trapped_plan(tmp_path)
    expected = oracle(plan, TURNS)
    with started(plan, "processes", num_workers=2) as backend:
        found = play(backend, plan, 2)
        order_network(plan, "wait")
        publish_turn(backend, plan, 2)
        rollouts = backend.collect(timeout=0.01)
        wait_until(lambda: network_was_sprung(plan))
        pids = [pid_of(backend, index) for index in range(2)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if goes_on_first:
            (tmp_path / "go").touch()
        wait_until(lambda: all(pid_of(backend, index) != pids[index] for index in range(2)))
        (tmp_path / "go").touch()
        while len(rollouts) < plan.num_shards:
            rollouts += backend.collect(timeout=1.0)
        found.append(contents(sorted(rollouts, key=lambda rollout: rollout.shard)))
        found += play(backend, plan, TURNS, first=3)
        assert len(gather_events(backend, "worker_lost")) == 2
    assert found == expected


def test_worker_that_waits_for_a_slow_device_does_not_count_as_hung(tmp_path: Path) -> None:
    plan = trapped_plan(tmp_path)
    expected = oracle(plan, 2)
    with started(plan, "processes", num_workers=2, worker_timeout=0.5) as backend:
        order_network(plan, "wait")
        threading.Timer(1.5, (tmp_path / "go").touch).start()  # three times what makes a worker count as hung
        assert play(backend, plan, 2) == expected
        assert (tmp_path / "go").exists()
        assert backend.report().events == []


def test_invalid_logits_are_the_error_that_serial_raises(tmp_path: Path) -> None:
    plan = trapped_plan(tmp_path)
    texts = []
    for name, settings in (("serial", {}), ("processes", {"num_workers": 1})):
        (tmp_path / "network-is-wrong").unlink(missing_ok=True)
        with started(plan, name, **settings) as backend:
            play(backend, plan, 1)
            order_network(plan, "nan")
            with pytest.raises(ModelError) as caught:
                backend.collect()
            texts.append(str(caught.value))
    serial, processes = texts
    assert processes.startswith(serial.rstrip("."))


def test_device_without_memory_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(networks: Networks, program: DeviceProgram) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Networks, "prepare", fail)
    with pytest.raises(WorkerError) as caught, started(ON_HOST, "processes", num_workers=1):
        pass
    assert_mentions(str(caught.value), "evaluating on cpu for worker 0", "games_per_shard", "out of memory")


def test_async_rollouts_are_played_with_the_version_that_they_name() -> None:
    plan = changed(ON_HOST, max_lag=2)
    game, (model,) = make_game(**plan.game), new_models(plan).policies
    lags = set()
    with started(plan, "processes", num_workers=2) as backend:
        for version in range(8):
            backend.publish(weights_at(plan, version), version, Orders(version))
            for rollout in backend.collect():
                lags.add(version - rollout.version)
                (own,) = new_models(changed(plan, seed=plan.seed + rollout.version), game).policies
                model.load_state_dict(own.state_dict())
                for seen, values in zip(rollout.data.observation, rollout.data.values, strict=True):
                    batch = torch.from_numpy(seen).view(-1, *game.observation_shape).float()
                    with math_threads(1), torch.no_grad():
                        expected = model(batch)[1].numpy()
                    np.testing.assert_array_equal(values.reshape(-1), expected)
    assert len(lags) > 1


def test_one_thread_goes_on_where_no_worker_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = changed(trap_plan(tmp_path), evaluation=HOST)
    with started(plan, "processes", num_workers=1) as backend:
        found = play(backend, plan, 1)
        monkeypatch.setattr("sys.executable", "/no/such/python")
        os.kill(pid_of(backend, 0), signal.SIGKILL)
        found += play(backend, plan, 3, first=1)
        assert [worker.pid for worker in workers_of(backend)] == [None]
    assert found == oracle(plan, 3)


def test_failing_shard_is_reproduced(tmp_path: Path) -> None:
    plan = changed(trap_plan(tmp_path), evaluation=HOST)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    with started(plan, "processes", num_workers=2, shard_attempts=1) as backend:
        play(backend, plan, 1)
        order(plan, "raise", shard=1, at=5, always=True)
        backend.collect()
        assert len(gather_events(backend, "set_aside")) == 1
    [path] = (tmp_path / "failed-shards").iterdir()
    reproduction = Reproduction.load(path)
    assert reproduction.plan.evaluation == HOST
    harmed = reproduction.plan.model_copy(update={"game": plan.game | {"spared": 0}})
    with pytest.raises(RuntimeError, match="the trap is sprung"):
        Reproduction(**{**vars(reproduction), "plan": harmed}).play()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_shard_of_another_device_is_played_on_a_core_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = changed(trap_plan(tmp_path), evaluation=DeviceEvaluation("cuda"))
    with started(changed(plan, evaluation=None)) as serial:
        state = serial.snapshot()[1]
    weights = weights_at(plan, 0)
    Reproduction(plan, 1, 0, Orders(), "it failed", state, weights).play()
    assert_mentions(caplog.text, "cuda", "not available here")


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
ON_GPU = {
    "eager": DeviceEvaluation("cuda", "float32", "eager"),
    "repeatable": DeviceEvaluation("cuda", "bfloat16", "repeatable"),
}


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("evaluation", ON_GPU.values(), ids=ON_GPU)
@pytest.mark.parametrize("name", PLANS)
def test_gpu_gives_processes_the_bytes_of_serial(name: str, evaluation: DeviceEvaluation) -> None:
    plan = changed(PLANS[name], evaluation=evaluation)
    with started(plan) as serial:
        expected = play_all(serial, plan)
    for num_workers in (2, 1):
        with started(plan, "processes", num_workers=num_workers) as backend:
            assert play_all(backend, plan) == expected, num_workers
            assert backend.report().events == []


@pytest.mark.cuda
@needs_cuda
def test_gpu_loses_nothing_when_workers_are_killed(tmp_path: Path) -> None:
    plan = changed(trap_plan(tmp_path), evaluation=ON_GPU["repeatable"])
    expected = oracle(plan, TURNS)
    with started(plan, "processes", num_workers=2) as backend:
        found = play(backend, plan, 2)
        order(plan, "kill", shard=1, at=9)
        os.kill(pid_of(backend, 0), signal.SIGKILL)
        found += play(backend, plan, TURNS, first=2)
        assert len(gather_events(backend, "worker_lost")) == 2
    assert found == expected
