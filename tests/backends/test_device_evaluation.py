"""Networks evaluated on a device: the same bytes as workers that evaluate, and as the serial backend."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from senju.backends import BACKENDS
from senju.backends.backend import Backend
from senju.backends.building import new_models
from senju.backends.plan import Plan
from senju.collect.device_actor import DeviceEvaluation, DeviceProgram
from senju.collect.orders import Orders
from senju.collect.slots import Rollout
from senju.config import Settings, merged
from senju.errors import ModelError
from senju.games import make_game
from senju.models.model import Model
from senju.runs.run_config import resolve_config

ON_CPU = DeviceEvaluation("cpu")
SEATINGS: dict[str, tuple[str, Settings]] = {
    "self-play": ("connect_four", {}),
    "many actions": ("shogi", {"game": {"max_plies": 9}, "model": {"channels": 8}}),
    "truncated games": ("connect_four", {"collect": {"max_game_length": 5}}),
    "action values": ("connect_four", {"algorithm": {"name": "dqn"}}),
    "independent agents": ("treasure_hunt", {"collect": {"seating": "independent"}}),
    "opponents": (
        "connect_four",
        {"collect": {"seating": "opponents"}, "opponents": {"fixed": ["random"], "snapshot_interval": 1}},
    ),
    "whole games": ("connect_four", {"collect": {"whole_games": True, "rollout_steps": 45}}),
}
SAME_SHAPES = ("self-play", "many actions", "truncated games", "action values", "independent agents")


def plan_of(name: str, evaluation: DeviceEvaluation | None) -> Plan:
    game, changes = SEATINGS[name]
    settings: Settings = {
        "collect": {"num_games": 32, "games_per_shard": 16, "rollout_steps": 16},
        "total_steps": 1000,
        "device": "cpu",
    }
    if merged({"algorithm": {}}, changes)["algorithm"].get("name") != "dqn" and name != "independent agents":
        settings["algorithm"] = {"name": "ppo", "minibatch_size": 16}
    config = resolve_config(game, merged(settings, changes))
    return config.plan.model_copy(update={"evaluation": evaluation})


@contextlib.contextmanager
def started(plan: Plan, backend: str, num_workers: int = 2) -> Iterator[Backend]:
    settings: Settings = {"name": backend}
    if backend != "serial":
        settings["num_workers"] = num_workers
    found = BACKENDS.get(backend)(BACKENDS.configure(settings))
    try:
        found.start(plan)
        game = make_game(**plan.game)
        epsilons = (0.25,) * len(plan.policies)
        orders = Orders(1, epsilons)
        opponents = {}
        if plan.opponents is not None:
            weights = new_models(plan, game).read_weights()
            orders = Orders(1, epsilons, (1, 2), (-1, 0), (0.5, 0.5))
            opponents = {0: weights}
        found.publish(new_models(plan, game).read_weights(), 1, orders, opponents)
        yield found
    finally:
        found.close()


def content(rollouts: Sequence[Rollout]) -> list[dict[str, bytes]]:
    return [
        {name: np.array(column).tobytes() for name, column in slot._asdict().items()}
        for rollout in rollouts
        for slot in rollout.slots
    ]


def played(plan: Plan, backend: str, num_workers: int = 2, turns: int = 3) -> list[dict[str, bytes]]:
    with started(plan, backend, num_workers) as found:
        return [each for _ in range(turns) for each in content(found.collect())]


def differing(expected: list[dict[str, bytes]], found: list[dict[str, bytes]]) -> set[str]:
    assert len(expected) == len(found)
    return {
        name for one, other in zip(expected, found, strict=True) for name in one if one[name] != other[name]
    }


@pytest.mark.parametrize("name", SAME_SHAPES)
def test_the_device_plays_the_bytes_of_workers_that_evaluate(name: str) -> None:
    expected = played(plan_of(name, None), "serial")
    assert not differing(expected, played(plan_of(name, ON_CPU), "serial"))


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("name", SEATINGS)
def test_threads_play_the_bytes_of_the_serial_backend(name: str, num_workers: int) -> None:
    expected = played(plan_of(name, ON_CPU), "serial")
    assert not differing(expected, played(plan_of(name, ON_CPU), "threads", num_workers))


@pytest.mark.parametrize("backend", ["serial", "threads"])
@pytest.mark.parametrize("name", SEATINGS)
def test_what_was_uploaded_stays_on_the_device(name: str, backend: str) -> None:
    with started(plan_of(name, ON_CPU), backend) as found:
        for _ in range(3):
            for rollout in found.collect():
                for ring, slot in zip(found.rings, rollout.slots, strict=True):
                    kept = ring.on_device
                    assert kept is not None
                    assert kept.has(rollout.shard, rollout.turn)
                    on_device = kept.slot(rollout.shard, rollout.turn)
                    is_seen = slot.seats >= 0
                    assert (on_device.observation.numpy()[is_seen] == slot.observation[is_seen]).all()
                    assert (on_device.legal.numpy().view(np.uint64)[is_seen] == slot.legal[is_seen]).all()


def test_a_restored_turn_is_not_taken_for_the_one_on_the_device() -> None:
    with started(plan_of("self-play", ON_CPU), "threads") as found:
        before = found.snapshot()
        first = content(found.collect())
        found.restore(before, turn=0)
        kept = found.rings[0].on_device
        assert kept is not None
        assert not kept.has(0, 0)
        assert content(found.collect()) == first


class Diverged(Model):
    """A network whose logits are not numbers."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Any) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.weight = torch.nn.Parameter(torch.zeros(num_actions))

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = observation.flatten(1)
        logits = self.weight + flat[:, :1] * 0.0
        return torch.where(flat.sum(1, keepdim=True) > 2, torch.nan, logits), flat[:, 0] * 0.0


@pytest.mark.parametrize("evaluation", [None, ON_CPU])
def test_logits_that_are_no_numbers_are_refused_alike(evaluation: DeviceEvaluation | None) -> None:
    config = resolve_config(
        "connect_four",
        {
            "collect": {"num_games": 4, "games_per_shard": 4, "rollout_steps": 8},
            "algorithm": {"name": "ppo", "minibatch_size": 16},
            "model": {"name": f"{__name__}:Diverged"},
            "device": "cpu",
        },
    )
    plan = config.plan.model_copy(update={"evaluation": evaluation})
    with started(plan, "serial") as found, pytest.raises(ModelError, match=r"row 0, seat 1: .*not finite"):
        found.collect()


CUDA_CASES = [pytest.param(name, marks=pytest.mark.cuda) for name in SEATINGS]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CUDA_CASES)
def test_threads_with_a_gpu_play_the_bytes_of_the_serial_backend_with_it(name: str, precision: str) -> None:
    plan = plan_of(name, DeviceEvaluation("cuda", precision, "repeatable"))
    expected = played(plan, "serial")
    for num_workers in (1, 2):
        assert not differing(expected, played(plan, "threads", num_workers))


@pytest.mark.parametrize("kernels", ["eager", "repeatable"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.cuda) for name in SAME_SHAPES])
def test_a_gpu_in_float32_chooses_nearly_what_the_cpu_chooses(name: str, kernels: str) -> None:
    """One rounded logit may turn a choice that lies at a boundary, and its game then differs."""
    plan = plan_of(name, DeviceEvaluation("cuda", "float32", kernels))
    with started(plan, "serial") as found, started(plan_of(name, None), "serial") as reference:
        same, total = 0, 0
        for one, other in zip(found.collect(), reference.collect(), strict=True):
            for slot, expected in zip(one.slots, other.slots, strict=True):
                is_equal = (slot.actions == expected.actions).all(axis=(0, 2))  # [row]
                same, total = same + int(is_equal.sum()), total + len(is_equal)
                for column in ("log_probs", "values", "bootstrap"):
                    found_column, expected_column = getattr(slot, column), getattr(expected, column)
                    np.testing.assert_allclose(
                        found_column[:, is_equal], expected_column[:, is_equal], rtol=1e-3, atol=1e-4
                    )
        assert same >= 0.98 * total


@pytest.mark.parametrize("backend", ["serial", "threads"])
@pytest.mark.parametrize("name", ["self-play", "truncated games", "opponents"])
def test_observations_that_only_the_device_keeps_change_nothing_else(name: str, backend: str) -> None:
    expected = played(plan_of(name, ON_CPU), backend)
    plan = plan_of(name, ON_CPU._replace(frees_host=True))
    assert differing(expected, played(plan, backend)) <= {"observation", "legal"}
    with started(plan, backend) as found, started(plan_of(name, ON_CPU), backend) as whole:
        assert not found.rings[0].shape.keeps_uploaded
        kept = [each.rings[0].columns.observation[0].base is not None for each in (found, whole)]
        assert all(kept)  # views of the block
        freed, full = (each._block.num_bytes for each in (found, whole))
        columns = whole.rings[0].columns
        uploaded = columns.observation.nbytes + columns.legal.nbytes
        assert full - freed > 0.9 * uploaded * 15 / 16  # of 16 steps


def test_a_replay_and_a_device_without_room_keep_observations_on_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freeing = ON_CPU._replace(frees_host=True)
    with started(plan_of("action values", freeing), "serial") as found:
        assert found.rings[0].shape.keeps_uploaded
    monkeypatch.setattr("senju.backends.building.free_memory", lambda device: 1000)
    with started(plan_of("self-play", freeing), "serial") as found:
        assert found.rings[0].shape.keeps_uploaded
        assert found.rings[0].on_device is None
        assert content(found.collect())


class Scaled(Model):
    """A network with a buffer, which is published like a weight."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Any) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.linear = torch.nn.Linear(math.prod(observation_shape), num_actions)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.linear(observation.flatten(1)) * self.scale
        return logits, logits.mean(1)


@pytest.mark.parametrize("game", ["connect_four", "treasure_hunt"])
def test_published_buffers_are_evaluated_with(game: str) -> None:
    settings: Settings = {
        "collect": {"num_games": 4, "games_per_shard": 4, "rollout_steps": 8},
        "algorithm": {"name": "ppo", "minibatch_size": 16},
        "model": {"name": f"{__name__}:Scaled"},
        "device": "cpu",
    }
    if game == "treasure_hunt":
        settings["collect"]["seating"] = "independent"
    config = resolve_config(game, settings)
    found = []
    for evaluation in (None, ON_CPU):
        plan = config.plan.model_copy(update={"evaluation": evaluation})
        with started(plan, "serial") as backend:
            models = new_models(plan)
            for model in models.policies:
                model.get_buffer("scale").fill_(3.0)
            backend.publish(models.read_weights(), 2, Orders(2, (0.0,) * len(plan.policies)))
            found.append([slot.values.copy() for rollout in backend.collect() for slot in rollout.slots])
    for expected, values in zip(*found, strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_learner_processes_find_the_observations_on_the_host() -> None:
    changes: Settings = {
        "collect": {"seating": "independent", "evaluate_on": "device"},
        "algorithm": {"name": "ppo", "minibatch_size": 16},
        "device": "cpu",
    }
    for learners, is_freed in (("processes", False), ("sequential", True)):
        evaluation = resolve_config("treasure_hunt", changes, {"learners": learners}).plan.evaluation
        assert evaluation is not None
        assert evaluation.frees_host is is_freed


def test_a_device_plays_rollouts_whole() -> None:
    """Truncated positions are valued together: how a rollout is divided would change their batches."""
    assert plan_of("self-play", None).num_parts > 1
    assert plan_of("self-play", ON_CPU).num_parts == 1


def test_only_all_threads_together_may_go_on_without_the_compiler() -> None:
    program, form = DeviceProgram(DeviceEvaluation("cpu", kernels="repeatable")), ("a model",)
    error = RuntimeError("no C compiler")
    program.require_alike(form, error)
    program.give_up_compiling(form, error)
    assert not program.may_compile(form)
    assert program.may_compile(("another model",))
    program.note_graph(form)
    with pytest.raises(RuntimeError, match="no C compiler"):
        program.require_alike(form, error)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        program.require_alike(("another model",), RuntimeError("CUDA out of memory"))
