"""Captured steps: the same learning as plain steps, equal bits, and no trace of warming up.

Each test runs on a GPU, and on the CPU with imitated graphs: there it checks all but the capture itself.
"""

import logging
from typing import Any

import numpy as np
import pytest
import torch

from senju.algorithms import captured_step
from senju.algorithms.captured_step import CapturedSteps
from senju.algorithms.dqn import DQN
from senju.algorithms.ppo import PPO
from senju.errors import ModelError, NoLegalActionError
from tests.algorithms.crowd import MLP as CROWD_MLP
from tests.algorithms.crowd import NUM_SEATS, SMALL_DQN, SMALL_PPO, World, largest_difference
from tests.algorithms.crowd import RESNET as CROWD_RESNET
from tests.algorithms.device_learners import (
    PLANE_NET,
    RESNET,
    Training,
    bytes_of,
    difference,
    imitate,
    imitate_stack,
    on_path,
    partly_known,
)
from tests.facts import mentions

CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
both = pytest.mark.parametrize("device", ["cpu", CUDA])
TOLERANCE = 2e-4  # of weights that moved by 1e-2: sums are taken in another order
PRIORITISED = {"prioritised": True, "n_step": 2, "target_averaging": 0.05}
KINDS = {
    "ppo": (PPO, {}),
    "ppo without normalising": (PPO, {"normalise_advantages": False, "max_gradient_norm": 0.01}),
    "dqn": (DQN, {"target_interval": 3}),
    "prioritised dqn": (DQN, PRIORITISED),
    "single dqn": (DQN, {"double": False, "dueling": False, "target_averaging": 0.1}),
}
kinds = pytest.mark.parametrize(("algorithm", "settings"), KINDS.values(), ids=KINDS)


@pytest.fixture(autouse=True)
def _exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else convolutions on a GPU round to ten bits."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@both
@kinds
def test_captured_updates_agree_with_plain_ones(device: str, algorithm: Any, settings: Any) -> None:
    training = Training(device, algorithm, **settings)
    captured, plain, first = training.learner(), training.learner(is_captured=False), training.learner()
    for _ in range(8):
        mine, yours = training.update(captured, plain)
        assert mine == pytest.approx(yours, rel=2e-3, abs=2e-4)
    assert difference(captured, plain) < TOLERANCE
    assert difference(captured, first) > 10 * TOLERANCE, "they have learned"


@both
@pytest.mark.parametrize("model", [RESNET, PLANE_NET], ids=["resnet", "plane_net"])
def test_captured_updates_of_convolutions_agree_with_plain_ones(device: str, model: Any) -> None:
    training = Training(device, game="tic_tac_toe", model=model, learning_rate=3e-4)
    captured, plain = training.learner(), training.learner(is_captured=False)
    for _ in range(4):
        training.update(captured, plain)
    assert difference(captured, plain) < TOLERANCE


@both
@kinds
def test_same_updates_give_equal_bits(device: str, algorithm: Any, settings: Any) -> None:
    training = Training(device, algorithm, **settings)
    one, other = training.learner(), training.learner()
    for _ in range(6):
        mine, yours = training.update(one, other)
        assert mine == yours
    assert bytes_of(one) == bytes_of(other)


@both
@kinds
@pytest.mark.parametrize("num_before", [0, 1, 4])
def test_loaded_state_goes_on_to_equal_bits(
    device: str, algorithm: Any, settings: Any, num_before: int
) -> None:
    """In a new learner, and in one that has captured steps and moments of its own."""
    training = Training(device, algorithm, **settings)
    first, used = training.learner(), training.learner(seed=5)
    for _ in range(num_before):
        training.update(first)
    state = first.state()
    training.update(used, first) if algorithm is PPO else None
    first.load_state(state)
    resumed = training.learner(seed=77)
    for learner in (used, resumed):
        learner.load_state(state)
    for _ in range(3):
        mine, *others = training.update(first, used, resumed)
        assert others == [mine, mine]
    assert bytes_of(first) == bytes_of(used) == bytes_of(resumed)


@both
def test_state_goes_from_plain_to_captured_steps_and_back(device: str) -> None:
    """As a checkpoint of the CPU that is resumed on a GPU."""
    training = Training(device)
    plain = Training("cpu").learner(is_captured=False)
    captured = training.learner()
    for _ in range(2):
        plain.update(training.collect())
    captured.load_state(plain.state())
    assert bytes_of(captured) == bytes_of(plain)
    training.update(captured)
    plain.load_state(captured.state())
    assert bytes_of(captured) == bytes_of(plain)


@both
def test_learning_rate_changes_without_a_new_capture(device: str) -> None:
    training = Training(device, schedule="linear", final_learning_rate=0.0)
    learner = training.learner(total_updates=2)
    before = learner.weights()
    for is_moving in (True, True, False, False):
        training.update(learner)
        assert (learner.weights().tobytes() != before.tobytes()) == is_moving
        before = learner.weights()
    assert len(learner.steps._recorded) == 1


@both
def test_first_step_moves_weights_by_the_learning_rate(device: str) -> None:
    """Whatever the warm-up did: Adam's first step has the length of the rate."""
    training = Training(device, epochs=1, minibatch_size=256, learning_rate=0.01)
    learner = training.learner()
    before = learner.weights().view(np.float32)
    metrics = training.update(learner)[0]
    moved = np.abs(learner.weights().view(np.float32) - before)
    assert moved.max() == pytest.approx(0.01, rel=0.01)
    assert metrics["largest_ratio_error"] < 1e-5, "the first ratio is 1"


@both
def test_parts_that_are_filled_up_count_as_the_plain_ones(device: str) -> None:
    training = Training(device, minibatch_size=100)
    captured, plain = training.learner(), training.learner(is_captured=False)
    for num_unknown in (0, 3, 5, 11):
        rollouts = partly_known(training.collect(), num_unknown)
        mine, yours = captured.update(rollouts), plain.update(rollouts)
        assert mine == pytest.approx(yours, rel=2e-3, abs=2e-4)
    assert difference(captured, plain) < TOLERANCE
    assert len(captured.steps._recorded) == 2, "one shape where all is known, one for all other numbers"


@both
@pytest.mark.parametrize(
    ("model", "algorithm"),
    [
        (CROWD_MLP, SMALL_DQN),
        (CROWD_MLP, SMALL_DQN | PRIORITISED),
        (CROWD_RESNET, SMALL_PPO | {"minibatch_size": 100}),
        (CROWD_MLP, SMALL_PPO),
    ],
    ids=["dqn", "prioritised", "resnet", "ppo"],
)
def test_captured_stacks_agree_with_plain_learners_one_by_one(
    device: str, model: Any, algorithm: Any
) -> None:
    world = World([(model, algorithm)] * NUM_SEATS, device=device)
    one_by_one, stacked, first = world.one_by_one(), world.stacked(), world.one_by_one()
    for learner in one_by_one.learners:
        on_path(learner, is_captured=False, kernels="eager")
    if device == "cpu":
        for learner in stacked.learners:
            imitate(learner)
        imitate_stack(stacked._stacks[0])
    for turn in range(8):
        world.update(one_by_one, stacked, seats=range(NUM_SEATS) if turn % 3 else [1, 2, 4])
    assert largest_difference(one_by_one, stacked) < TOLERANCE
    assert largest_difference(one_by_one, first) > 10 * TOLERANCE


@both
def test_agent_of_a_stack_learns_alone_and_together_in_turns(device: str) -> None:
    world = World([(CROWD_MLP, SMALL_PPO)] * NUM_SEATS, device=device)
    one_by_one, stacked = world.one_by_one(), world.stacked()
    for learner in one_by_one.learners:
        on_path(learner, is_captured=False, kernels="eager")
    if device == "cpu":
        for learner in stacked.learners:
            imitate(learner)
        imitate_stack(stacked._stacks[0])
    for seats in ([1], range(NUM_SEATS), [1], [0, 1, 3], [1]):
        world.update(one_by_one, stacked, seats=list(seats))
        stacked.load_state(3, stacked.state(3))
    assert largest_difference(one_by_one, stacked) < TOLERANCE


@both
def test_sample_without_a_legal_action_is_named_at_the_end_of_the_update(device: str) -> None:
    training = Training(device)
    learner = training.learner()
    training.update(learner)
    rollouts = partly_known(training.collect(), 0)
    rollouts[1].data.legal[3, 2] = 0
    with pytest.raises(NoLegalActionError, match=mentions("sample", "legal mask is empty")):
        learner.update(rollouts)


@both
def test_illegal_action_is_named_at_the_end_of_the_update(device: str) -> None:
    training = Training(device)
    learner = training.learner()
    rollouts = partly_known(training.collect(), 0)
    slot = rollouts[0].data
    slot.legal[2, 1, 0] = 1 << 6
    slot.actions[2, 1, 0] = 5
    with pytest.raises(ModelError, match=mentions("action 5", "not legal")):
        learner.update(rollouts)


@both
@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_divergence_is_refused(device: str, algorithm: Any) -> None:
    training = Training(device, algorithm)
    learner = training.learner()
    training.update(learner)
    with torch.no_grad():
        learner.model.head.bias.fill_(torch.nan)
    with pytest.raises(ModelError, match="diverged"):
        training.update(learner)


def test_step_that_cannot_be_captured_runs_plain_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training = Training("cpu", DQN)
    learner, plain = training.learner(), training.learner()

    def fail(*_: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(learner.steps, "_graph", fail)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            training.update(learner, plain)
    assert bytes_of(learner) == bytes_of(plain)
    assert [record.message for record in caplog.records] == [
        "a gradient step cannot be compiled and captured (operation not permitted when stream is capturing); "
        "it runs without a graph, which is slower"
    ]


def test_loss_that_cannot_be_compiled_is_captured_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(captured_step, "_compiled", lambda *_: fail)
    training = Training("cpu", kernels="repeatable")
    learner, plain = training.learner(), training.learner(is_captured=False)
    training.update(learner, plain)
    assert "with kernels that are not compiled" in caplog.text
    assert difference(learner, plain) < TOLERANCE


def test_number_of_graphs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_step, "MAX_GRAPHS", 2)
    growing = {"steps_per_batch": None, "replay_ratio": 0.3, "batch_size": 8, "largest_batch": 256}
    training = Training("cpu", DQN, **growing)
    learner, plain = training.learner(), training.learner(is_captured=False)
    for share in (0.1, 0.5, 1.0, 0.7):
        learner.config = plain.config = learner.config.model_copy(update={"replay_ratio": share})
        training.update(learner, plain)
        training.update(learner, plain)
    assert sum(recorded is not None for recorded in learner.steps._recorded.values()) == 2
    assert len(learner.steps._recorded) > 2
    assert difference(learner, plain) < TOLERANCE


def test_graphs_are_dropped_where_a_tensor_has_moved() -> None:
    training = Training("cpu")
    learner = training.learner()
    training.update(learner)
    recorded = dict(learner.steps._recorded)
    training.update(learner)
    assert learner.steps._recorded == recorded
    learner.model.head.bias.data = learner.model.head.bias.detach().clone()
    training.update(learner)
    assert not set(map(id, learner.steps._recorded.values())) & set(map(id, recorded.values()))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("settings", [{}, {"precision": "bfloat16"}], ids=["float32", "bfloat16"])
def test_compiled_steps_agree_with_plain_ones(device: str, settings: Any) -> None:
    training = Training(device, kernels="repeatable", **settings)
    captured, plain, again = training.learner(), training.learner(is_captured=False), training.learner()
    for _ in range(6):
        mine, yours, third = training.update(captured, plain, again)
        assert mine == third
        assert mine["entropy"] == pytest.approx(yours["entropy"], rel=0.02)
    assert bytes_of(captured) == bytes_of(again)
    assert difference(captured, plain) < (TOLERANCE if not settings else 0.05)
    assert not captured.steps._is_warned


@pytest.mark.cuda
def test_host_waits_for_nothing_within_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch refuses to wait while steps are taken, once they are captured."""
    training = Training("cuda", minibatch_size=64)
    learner = training.learner()
    training.update(learner)
    take = CapturedSteps.take

    def without_waiting(*arguments: Any) -> Any:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return take(*arguments)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(CapturedSteps, "take", without_waiting)
    assert training.update(learner)[0]["gradient_steps"] == 8
