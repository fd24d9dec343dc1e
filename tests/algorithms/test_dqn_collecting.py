"""DQN with collected turns: the number of gradient steps, and rings whose writers do not wait."""

from typing import Any

import pytest
import torch

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner import LearnerState
from senju.collect.slots import Rollout
from senju.errors import CheckpointError, ConfigError, WorkerError
from tests.algorithms.hand_dqn import HandDQN
from tests.facts import mentions

GAME = ([0, 1, 2, 3], [0, 1, 0, 1], {3: (-1.0, 1.0)})  # four decisions of one game, won by the second


def played(hand: HandDQN, count: int = 1) -> list[Rollout]:
    return [hand.write(*GAME, terminated=[3]) for _ in range(count)]


def learn(hand: HandDQN, rollouts: list[Rollout]) -> dict[str, float]:
    return hand.learner.update(rollouts)


def test_several_turns_are_learned_from_at_once() -> None:
    hand = HandDQN(num_steps=4, kept=3, steps_per_batch=None, replay_ratio=2.0, batch_size=8)
    assert learn(hand, played(hand, 2))["replay_decisions"] == 8
    metrics = learn(hand, played(hand, 2))
    assert metrics["replay_decisions"] == 12  # the ring keeps three turns
    assert metrics["gradient_steps"] == 2  # of eight decisions, twice each, eight at once


def test_replay_is_full_by_its_turns_and_not_by_the_number_of_updates() -> None:
    hand = HandDQN(num_steps=4, kept=4, learning_starts=16, replay_size=16)
    against = ([0, 1, 2, 3], [0, -1, 0, -1], {3: (-1.0, 1.0)})
    steps = []
    for _ in range(2):
        rollouts = [hand.write(*against, terminated=[3]) for _ in range(2)]
        steps.append(learn(hand, rollouts)["gradient_steps"])
    assert steps == [0, 1]
    idle = HandDQN(num_steps=4, kept=2, learning_starts=8, replay_size=8)
    for _ in range(3):
        assert learn(idle, [])["gradient_steps"] == 0  # updates with nothing new make no turns
    assert idle.learner.state().numbers["turns"] == 0


def test_loaded_state_knows_the_turns_it_had_taken_in() -> None:
    hand = HandDQN(num_steps=4, kept=6)
    for count in (2, 3):
        learn(hand, played(hand, count))
    state = hand.learner.state()
    assert (state.numbers["version"], state.numbers["turns"]) == (2, 5)
    before = len(hand.learner.replay)
    played(hand)  # it lies there, and has not been learned from
    hand.learner.load_state(state)
    assert len(hand.learner.replay) == before == 20


@pytest.mark.parametrize("missing", ["version", "turns", "gradient_steps", "owed"])
def test_state_without_one_of_its_numbers_is_refused_by_name(missing: str) -> None:
    hand = HandDQN(num_steps=4, kept=6)
    learn(hand, played(hand))
    state = hand.learner.state()
    numbers = {name: number for name, number in state.numbers.items() if name != missing}
    with pytest.raises(CheckpointError, match=missing):
        hand.learner.load_state(LearnerState(state.tensors, numbers))


@pytest.mark.parametrize(
    ("attention", "expected"),
    [(1.0, [2, 2, 2, 2]), (1.25, [2, 3, 2, 3]), (0.25, [0, 1, 0, 1]), (3.0, [6] * 4)],
)
def test_attention_scales_the_steps_that_are_taken(attention: float, expected: list[int]) -> None:
    for settings in ({"steps_per_batch": 2}, {"steps_per_batch": None, "replay_ratio": 4.0, "batch_size": 8}):
        hand = HandDQN(num_steps=4, **settings)
        hand.learner.training_share = attention
        assert [learn(hand, played(hand))["gradient_steps"] for _ in range(4)] == expected


@pytest.mark.parametrize(
    ("settings", "turns", "size", "steps"),
    [
        ({"largest_batch": None}, 2, 4, 4),  # 16 to be learned from, 4 at once
        ({"largest_batch": 64}, 2, 16, 1),
        ({"largest_batch": 64}, 4, 32, 1),
        ({"largest_batch": 8}, 4, 8, 4),  # they no longer fit into one
        ({"largest_batch": 64, "batch_size": 20}, 2, 20, 0),  # never fewer than batch_size: it waits
        ({"largest_batch": 64, "steps_per_batch": 2}, 4, 16, 2),
        ({"largest_batch": 64, "steps_per_batch": 16}, 4, 4, 16),
    ],
)
def test_batches_grow_with_what_was_collected(
    settings: dict[str, Any], turns: int, size: int, steps: int
) -> None:
    chosen = {"steps_per_batch": None, "replay_ratio": 2.0, "batch_size": 4, "kept": 8} | settings
    hand = HandDQN(num_steps=4, **chosen)
    drawn: list[int] = []
    hand.learner.model.register_forward_hook(lambda _, inputs, __: drawn.append(len(inputs[0])))
    metrics = learn(hand, played(hand, turns))
    assert metrics["gradient_steps"] == steps
    assert metrics.get("batch_size", 4) == size
    assert set(drawn) == ({size} if steps else set())


def test_largest_batch_below_the_smallest_is_refused() -> None:
    with pytest.raises(ConfigError, match="largest_batch=32 is below batch_size=64"):
        ALGORITHMS.configure({"name": "dqn", "batch_size": 64, "largest_batch": 32})


def test_rollouts_that_were_written_over_are_refused_unless_they_are_followed() -> None:
    hand = HandDQN(num_steps=4, kept=2)
    rollouts = played(hand, 4)
    with pytest.raises(WorkerError, match=mentions("shard 0", "turn 0", "overwritten")):
        learn(hand, rollouts[:1])
    hand.learner.is_free_running = True
    metrics = learn(hand, rollouts[:1])
    assert metrics["replay_decisions"] == 8  # what lies there now
    assert metrics["gradient_steps"] == 1
    assert hand.learner.state().numbers["turns"] == 4


def test_follower_learns_as_often_as_from_rollouts_that_wait() -> None:
    settings = {"steps_per_batch": None, "replay_ratio": 4.0, "batch_size": 8, "kept": 4}
    waiting, following = (HandDQN(num_steps=4, **settings) for _ in range(2))
    following.learner.is_free_running = True
    for _ in range(3):
        one, other = learn(waiting, played(waiting)), learn(following, played(following))
        assert one == other
    assert learn(following, [])["gradient_steps"] == 0  # nothing is new
    rows = [hand.learner.model.get_parameter("rows") for hand in (waiting, following)]
    assert torch.equal(*rows)
