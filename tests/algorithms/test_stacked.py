"""Learners stacked into one computation: the same learning as one after another, and nothing shared."""

import logging
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch

from senju.algorithms.dqn import DQN
from senju.algorithms.learner_runner import LearnerRunner, SequentialLearners
from senju.algorithms.ppo import Selection
from senju.algorithms.ring_reader import Sample
from senju.algorithms.stacked_learners import LearnerStack, StackedLearners
from senju.errors import ModelError
from tests.algorithms.crowd import (
    MARK,
    MLP,
    NUM_SEATS,
    RESNET,
    SMALL_DQN,
    SMALL_PPO,
    Kind,
    World,
    bytes_of,
    largest_difference,
)
from tests.facts import assert_mentions

PRIORITISED = SMALL_DQN | {"prioritised": True, "n_step": 2, "target_averaging": 0.05}
SINGLE = SMALL_DQN | {"double": False, "dueling": False}
GROWING = SMALL_DQN | {"steps_per_batch": None, "replay_ratio": 0.5, "batch_size": 8, "largest_batch": 64}
STOPPING = SMALL_PPO | {"epochs": 4, "kl_stop": 0.002, "normalise_advantages": False}

# Sums are taken in another order, so that a step differs in the last bit of float32. Over 100 updates that
# grew to 3e-7 in most runs, and to 9e-6 where a ratio fell on the other side of PPO's clip.
TOLERANCE = 1e-4


def trained(world: World, num_updates: int) -> tuple[SequentialLearners, StackedLearners]:
    """One by one and stacked, from the same rollouts."""
    ways = world.one_by_one(), world.stacked()
    for _ in range(num_updates):
        world.update(*ways)
    return ways


def assert_alike(one: LearnerRunner, other: LearnerRunner, first: LearnerRunner) -> None:
    assert largest_difference(one, other) < TOLERANCE
    assert largest_difference(one, first) > 50 * TOLERANCE, "they have learned"


FEW_STEPS = SMALL_PPO | {"minibatch_size": 100}
MIXED: list[Kind] = [
    (MLP, PRIORITISED),
    (RESNET, FEW_STEPS),
    (MLP, PRIORITISED),
    (MLP, FEW_STEPS),
    (RESNET, FEW_STEPS),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "sizes"),
    [([(MLP, SMALL_DQN)] * 3 + [(MLP, FEW_STEPS)] * 2, [3, 2]), (MIXED, [2, 2])],
    ids=["mlp", "mixed"],
)
def test_hundred_stacked_updates_agree_with_those_taken_one_by_one(
    kinds: list[Kind], sizes: list[int]
) -> None:
    world = World(kinds)
    one_by_one, stacked = trained(world, 100)
    assert [len(stack.seats) for stack in stacked._stacks] == sizes
    assert_alike(one_by_one, stacked, world.one_by_one())


@pytest.mark.cuda
@pytest.mark.parametrize("kinds", [MIXED, [(RESNET, SMALL_DQN)] * NUM_SEATS], ids=["mixed", "dqn"])
def test_stacks_on_a_gpu_agree_with_learners_one_by_one(
    kinds: list[Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # else convolutions round to ten bits
    world = World(kinds, device="cuda")
    one_by_one, stacked = trained(world, 20)
    assert largest_difference(one_by_one, stacked) < TOLERANCE
    assert largest_difference(one_by_one, world.one_by_one()) > 50 * TOLERANCE
    for seat in range(NUM_SEATS):
        assert stacked.weights(seat).tobytes() == stacked.learners[seat].weights().tobytes()


@pytest.mark.parametrize(
    ("model", "algorithm"),
    [(RESNET, SMALL_DQN), (MLP, PRIORITISED), (MLP, SINGLE), (MLP, GROWING), (MLP, STOPPING)],
    ids=["resnet", "prioritised", "single", "growing batches", "kl_stop"],
)
def test_metrics_agree_with_those_of_learners_one_by_one(model: Any, algorithm: Any) -> None:
    """The last agent acts half as often as the others: its batches, or the number of its steps, differ."""
    world = World([(model, algorithm)] * NUM_SEATS)
    ways = world.one_by_one(), world.stacked()
    for _ in range(6):
        one, other = world.update(*ways)
    for mine, yours in zip(one, other, strict=True):
        assert mine.seat == yours.seat
        assert mine.metrics == pytest.approx(yours.metrics, rel=1e-3, abs=1e-4)
    assert one[0].metrics["gradient_steps"] > 0
    assert largest_difference(*ways) < TOLERANCE
    if algorithm is GROWING:
        assert one[0].metrics["batch_size"] > one[-1].metrics["batch_size"]
    if algorithm is STOPPING:
        steps = [each.metrics["gradient_steps"] for each in one]
        assert len(set(steps)) > 1


@pytest.mark.parametrize("algorithm", [SMALL_DQN, SMALL_PPO], ids=["dqn", "ppo"])
def test_agents_that_are_to_learn_more_take_more_steps_than_the_others(algorithm: Any) -> None:
    world = World([(MLP, algorithm)] * NUM_SEATS)
    ways = world.one_by_one(), world.stacked()
    for _ in range(5):
        world.collect()
        tasks = [task._replace(training_share=0.5 + task.seat) for task in world.tasks()]
        learned = [way.learn(tasks) for way in ways]
        world.publish(ways[0])
    steps = [[each.metrics["gradient_steps"] for each in of] for of in learned]
    assert steps[0] == steps[1]
    assert steps[0][0] < steps[0][1] < steps[0][2]
    assert largest_difference(*ways) < TOLERANCE


@pytest.mark.parametrize("chosen", [[1], [1, 3], [1, 2, 3]])
@pytest.mark.parametrize("algorithm", [PRIORITISED, SMALL_PPO], ids=["dqn", "ppo"])
def test_training_some_moves_no_byte_of_the_others(algorithm: Any, chosen: list[int]) -> None:
    world = World([(MLP, algorithm)] * NUM_SEATS)
    stacked = world.stacked()
    for _ in range(3):
        world.update(stacked)
    before = [bytes_of(stacked.state(seat)) for seat in range(NUM_SEATS)]
    drawn = [_memory(stacked, seat) for seat in range(NUM_SEATS)]
    world.collect()
    stacked.learn(world.tasks(chosen))
    for seat in range(NUM_SEATS):
        after = bytes_of(stacked.state(seat))
        if seat in chosen:
            moved = {name for name in after if after[name] != before[seat][name]}
            assert {name for name in after if name.startswith(("model.", "optimizer."))} <= moved
        else:
            assert after == before[seat]
            assert _memory(stacked, seat) == drawn[seat]


def _memory(way: Any, seat: int) -> int:
    """How many decisions an agent may draw; a PPO agent has none."""
    learner = way.learners[seat]
    return len(learner.replay) if isinstance(learner, DQN) else 0


def test_subsets_that_change_from_turn_to_turn_agree_with_one_by_one() -> None:
    world = World([(MLP, SMALL_DQN)] * NUM_SEATS)
    ways = world.one_by_one(), world.stacked()
    for chosen in ([0, 1, 2, 3, 4], [2], [0, 4], [2], [1, 2, 3], [0, 1, 2, 3, 4], [4]) * 2:
        world.update(*ways, seats=chosen)
    assert largest_difference(*ways) < TOLERANCE
    for seat in range(NUM_SEATS):
        one, other = (way.state(seat) for way in ways)
        assert one.numbers == other.numbers
        for name in one.tensors:
            assert torch.allclose(one.tensors[name], other.tensors[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("num_before", [0, 1, 7])
def test_loaded_states_go_on_to_equal_bytes(num_before: int) -> None:
    world = World(MIXED)
    stacked, resumed = world.stacked(), world.stacked()
    for _ in range(num_before):
        world.update(stacked)
    for seat in range(NUM_SEATS):
        resumed.load_state(seat, stacked.state(seat))
    for _ in range(4):
        world.update(stacked, resumed)
        for seat in range(NUM_SEATS):
            assert stacked.weights(seat).tobytes() == resumed.weights(seat).tobytes()
            assert bytes_of(stacked.state(seat)) == bytes_of(resumed.state(seat))


def test_state_loaded_into_a_running_stack_replaces_weights_and_moments() -> None:
    world = World([(MLP, SMALL_DQN)] * NUM_SEATS)
    stacked, other = world.stacked(), world.stacked()
    for _ in range(4):
        world.update(stacked, other)
    early = stacked.state(2)
    world.update(stacked, other)
    others = [bytes_of(stacked.state(seat)) for seat in (0, 1, 3, 4)]
    stacked.load_state(2, early)
    assert bytes_of(stacked.state(2)) == bytes_of(early)
    assert [bytes_of(stacked.state(seat)) for seat in (0, 1, 3, 4)] == others
    other.load_state(2, early)
    world.update(stacked, other)
    assert bytes_of(stacked.state(2)) == bytes_of(other.state(2))


def test_state_before_the_first_step_holds_no_moments_as_one_by_one() -> None:
    world = World([(MLP, SMALL_DQN)] * NUM_SEATS)
    one_by_one, stacked = world.one_by_one(), world.stacked()
    world.update(one_by_one, stacked, seats=[])
    for seat in range(NUM_SEATS):
        assert bytes_of(one_by_one.state(seat)) == bytes_of(stacked.state(seat))


def test_weights_of_a_stack_are_those_its_learners_publish() -> None:
    world = World(MIXED)
    stacked = world.stacked()
    for _ in range(3):
        world.update(stacked)
        for seat in range(NUM_SEATS):
            assert stacked.weights(seat).tobytes() == stacked.learners[seat].weights().tobytes()
    mine = stacked.weights(0)
    mine.fill(0)
    assert stacked.weights(0).any(), "a copy was given"


def test_agent_alone_of_its_kind_learns_the_same_bytes_as_one_by_one() -> None:
    kinds: list[Kind] = [(MLP, SMALL_DQN), (MLP, SMALL_PPO), (RESNET, SMALL_PPO), (MLP, SINGLE)]
    world = World([*kinds, (RESNET, SMALL_DQN)])
    one_by_one, stacked = trained(world, 4)
    for seat in range(NUM_SEATS):
        assert bytes_of(one_by_one.state(seat)) == bytes_of(stacked.state(seat))


@pytest.mark.parametrize("algorithm", [PRIORITISED, SMALL_PPO], ids=["dqn", "ppo"])
def test_every_row_is_computed_from_its_own_agents_observations(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    original = LearnerStack._gradient_step

    def noting(self: Any, rows: Sequence[int], batches: Mapping[int, Any]) -> Any:
        for row in rows:
            seen.extend((row, mark) for mark in _marks(batches[row]))
        return original(self, rows, batches)

    monkeypatch.setattr(LearnerStack, "_gradient_step", noting)
    world = World([(MLP, algorithm)] * NUM_SEATS)
    stacked = world.stacked()
    for _ in range(5):
        world.update(stacked)
    assert len(seen) > 500
    assert {row for row, _ in seen} == set(range(NUM_SEATS))
    assert all(mark == MARK + row for row, mark in seen)


def _marks(batch: Sample | Selection) -> list[int]:
    if isinstance(batch, Selection):
        return batch.batch.columns.observation[batch.indices, 1, 0, 0].int().tolist()
    positions = np.concatenate([batch.observation, batch.next_observation])
    return [int(mark) for mark in positions[:, 1, 0, 0]]


def test_model_that_branches_on_what_it_sees_is_trained_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    branching = {"name": "tests.algorithms.crowd:Branching"}
    world = World([(branching, SMALL_DQN)] * 3 + [(MLP, SMALL_DQN)] * 2)
    with caplog.at_level(logging.INFO):
        one_by_one, stacked = trained(world, 4)
    assert [stack.seats for stack in stacked._stacks] == [[3, 4]]
    assert_mentions(caplog.text, "Branching", "cannot be stacked")
    for seat in range(3):
        assert bytes_of(one_by_one.state(seat)) == bytes_of(stacked.state(seat))


@pytest.mark.parametrize("algorithm", [SMALL_DQN, PRIORITISED, SMALL_PPO], ids=["dqn", "prioritised", "ppo"])
def test_agent_whose_training_diverges_is_named(algorithm: Any) -> None:
    world = World([(MLP, algorithm)] * NUM_SEATS)
    stacked = world.stacked()
    for _ in range(2):
        world.update(stacked)
    state = stacked.state(2)
    state.tensors["model.head.bias"].fill_(torch.nan)
    stacked.load_state(2, state)
    world.collect()
    with pytest.raises(ModelError, match=r"^agent 2: .*diverged"):
        stacked.learn(world.tasks())


def test_time_of_a_stack_is_counted_once() -> None:
    world = World([(MLP, SMALL_DQN)] * NUM_SEATS)
    stacked = world.stacked()
    world.update(stacked)
    stacked.take_timings()
    began = perf_counter()
    world.collect()
    stacked.learn(world.tasks())
    passed = perf_counter() - began
    stages = stacked.take_timings()
    assert {"store", "sample", "targets", "forward", "backward", "optimise"} <= set(stages)
    assert 0 < sum(stages.values()) <= passed
