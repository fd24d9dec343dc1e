"""DQN: targets and gradients worked out by hand, and what each setting does."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from senju.algorithms.dqn import DQN, DQNConfig, chosen_values
from senju.algorithms.masked_categorical import unpack_legal_bits
from senju.collect.exploration import Acting
from senju.errors import ConfigError, ModelError
from tests.algorithms.hand_dqn import Cut, GeneralPositions, HandDQN, gradients_taken
from tests.facts import mentions

NETWORK = [0.5, 0.1, 0.9, 7.0]  # three logits and a value; action 2 is the best
TARGET = [0.2, 0.8, 0.4, 0.3]  # action 1 is; the mean of the logits is 1.4 / 3
PLAIN = {"double": False, "dueling": False}
REWARDS = {0: (0.25, 0.0), 1: (-0.5, 0.0)}  # on its own move and on the other's: -0.25 in all


@pytest.mark.parametrize(
    ("settings", "legal", "value"),
    [
        (PLAIN, 0b111, 0.8),
        (PLAIN, 0b101, 0.4),  # the best is not legal
        ({"double": True, "dueling": False}, 0b111, 0.4),  # the network's choice by the target's value
        ({"double": True, "dueling": False}, 0b011, 0.2),
        ({"double": False, "dueling": True}, 0b111, 0.3 + 0.8 - 1.4 / 3),
        ({"double": True, "dueling": True}, 0b111, 0.3 + 0.4 - 1.4 / 3),
        ({"double": True, "dueling": True}, 0b011, 0.3 + 0.2 - 0.5),  # the mean is of legal ones, too
        ({"double": True, "dueling": True}, 0b010, 0.3),  # the only move is worth what the position is
    ],
)
def test_target_is_the_reward_and_the_best_legal_value_after_it(
    settings: dict[str, bool], legal: int, value: float
) -> None:
    hand = HandDQN(num_steps=3, **settings)
    hand.know(2, NETWORK, TARGET)
    metrics = hand.learn([0, 1, 2], [0, 1, 0], REWARDS, legal={2: legal})
    assert metrics["mean_target"] == pytest.approx(-0.25 + 0.5 * value, abs=1e-6)
    assert metrics["replay_decisions"] == 1


def test_value_learned_is_that_of_the_action_taken() -> None:
    for is_dueling, expected in ((False, 0.1), (True, 7.0 + 0.1 - 0.6 / 2)):
        hand = HandDQN(num_steps=3, dueling=is_dueling)
        hand.know(0, NETWORK, TARGET)
        metrics = hand.learn([0, 1, 2], [0, 1, 0], actions=[1, 0, 0], legal={0: 0b011})
        assert metrics["mean_value"] == pytest.approx(expected, abs=1e-6)


def test_target_of_several_steps_counts_own_decisions_only() -> None:
    hand = HandDQN(num_steps=5, n_step=2, **PLAIN)
    hand.know(4, NETWORK, TARGET)
    rewards = REWARDS | {2: (1.0, 0.0), 3: (0.125, 0.0)}
    metrics = hand.learn([0, 1, 2, 3, 4], [0, 1, 0, 1, 0], rewards)
    assert metrics["mean_target"] == pytest.approx(-0.25 + 0.5 * 1.125 + 0.25 * 0.8, abs=1e-6)


def test_end_of_the_game_has_no_value_after_it() -> None:
    hand = HandDQN(num_steps=1)
    hand.know(0, NETWORK, TARGET)
    assert hand.learn([0], [0], {0: (1.0, -1.0)}, terminated=[0])["mean_target"] == 1.0


def test_loss_on_an_opponents_last_move_is_credited_and_the_opponent_is_not_learned_from() -> None:
    hand = HandDQN(num_steps=2)
    metrics = hand.learn([0, 1], [1, -1], {1: (1.0, -1.0)}, terminated=[1])
    assert metrics["mean_target"] == -1.0
    assert metrics["replay_decisions"] == 1


@pytest.mark.parametrize(
    ("cut", "settings", "value"),
    [
        (Cut(5, seat=0), PLAIN, 0.8),
        (Cut(5, seat=1), PLAIN, -0.8),  # the other's best is its own worst
        (Cut(5, seat=1, legal=0b101), PLAIN, -0.4),
        (Cut(5, seat=1), {"double": True, "dueling": True}, -(0.3 + 0.4 - 1.4 / 3)),
        # nothing is legal where the game's own limit has ended it
        (Cut(5, seat=0, legal=0), {"double": True, "dueling": True}, 0.3),
        (Cut(5, seat=1, legal=0), PLAIN, -0.8),
        (Cut(5, seat=0, legal=0), {"double": True, "dueling": False}, 0.8),
    ],
)
def test_truncated_position_has_the_value_of_the_seat_to_move(
    cut: Cut, settings: dict[str, bool], value: float
) -> None:
    hand = HandDQN(num_steps=1, **settings)
    hand.know(5, NETWORK, TARGET)
    metrics = hand.learn([0], [0], {0: (0.25, -0.25)}, truncated={0: cut})
    assert metrics["mean_target"] == pytest.approx(0.25 + 0.5 * value, abs=1e-6)


def test_target_ends_before_a_random_move_of_the_other_seat() -> None:
    hand = HandDQN(num_steps=2, **PLAIN)
    hand.know(1, NETWORK, TARGET)
    metrics = hand.learn([0, 1], [0, 1], {0: (0.25, -0.25), 1: (9.0, -9.0)}, explored=[1])
    assert metrics["mean_target"] == pytest.approx(0.25 - 0.5 * 0.8, abs=1e-6)


def test_target_ends_before_a_random_move_of_its_own() -> None:
    steps: dict[str, Any] = {"positions": [0, 1, 2], "seats": [0, -1, 0], "explored": [2]}
    hand = HandDQN(num_steps=3, n_step=2, **PLAIN)
    hand.know(2, NETWORK, TARGET)
    assert hand.learn(**steps)["mean_target"] == pytest.approx(0.5 * 0.8, abs=1e-6)
    patient = HandDQN(num_steps=3, n_step=2, stop_at_exploration=False, **PLAIN)
    assert patient.learn(**steps)["replay_decisions"] == 0  # it waits for the second


def test_random_move_of_another_with_gains_of_its_own_says_nothing() -> None:
    hand = HandDQN(3, GeneralPositions(), **PLAIN)
    hand.know(1, [9.0] * 4, [9.0] * 4)
    hand.know(2, NETWORK, TARGET)
    metrics = hand.learn([0, 1, 2], [0, 1, 0], explored=[1])
    assert metrics["mean_target"] == pytest.approx(0.5 * 0.8, abs=1e-6)


def test_position_in_which_nothing_is_legal_spoils_no_target() -> None:
    """Its value counts nothing after the end of the game; as minus infinity it would make NaN of it."""
    for settings in (PLAIN, {"double": True, "dueling": True}):
        hand = HandDQN(num_steps=1, **settings)
        metrics = hand.learn([0], [0], {0: (1.0, -1.0)}, terminated=[0], legal={0: 0})
        assert metrics["mean_target"] == 1.0


@pytest.mark.parametrize(
    ("reward", "delta", "slope"),
    [(0.5, 1.0, -0.5), (-0.5, 1.0, 0.5), (3.0, 1.0, -1.0), (-3.0, 1.0, 1.0), (3.0, 2.0, -2.0)],
)
def test_gradient_is_the_error_up_to_delta(reward: float, delta: float, slope: float) -> None:
    hand = HandDQN(num_steps=1, dueling=False, huber_delta=delta)
    with gradients_taken() as gradients:
        metrics = hand.learn([0], [0], {0: (reward, -reward)}, actions=[1], terminated=[0])
    expected = torch.zeros_like(gradients[0])
    expected[0, 1] = slope
    assert torch.allclose(gradients[0], expected)
    assert metrics["mean_error"] == abs(reward)
    size = abs(reward)
    assert metrics["loss"] == pytest.approx(0.5 * size**2 if size < delta else delta * (size - delta / 2))


@pytest.mark.parametrize(
    ("legal", "expected"),
    [(0b111, [-0.25 / 3, -0.25 / 3, 0.5 / 3, 0.25]), (0b101, [-0.125, 0.0, 0.125, 0.25])],
)
def test_gradient_of_a_dueling_network_is_shared_by_value_and_advantages(
    legal: int, expected: list[float]
) -> None:
    hand = HandDQN(num_steps=1)
    with gradients_taken() as gradients:
        hand.learn([0], [0], {0: (-0.25, 0.25)}, actions=[2], terminated=[0], legal={0: legal})
    assert gradients[0][0].tolist() == pytest.approx(expected)
    assert (gradients[0][1:] == 0).all()


def test_long_gradients_are_shortened_and_reported_as_they_were() -> None:
    hand = HandDQN(num_steps=1, dueling=False, huber_delta=10.0, max_gradient_norm=0.5)
    with gradients_taken() as gradients:
        metrics = hand.learn([0], [0], {0: (3.0, -3.0)}, terminated=[0])
    assert gradients[0].norm().item() == pytest.approx(0.5, rel=1e-4)
    assert metrics["gradient_norm"] == pytest.approx(3.0, rel=1e-6)


def test_decisions_are_drawn_in_proportion_to_their_error() -> None:
    hand = HandDQN(num_steps=1, dueling=False, prioritised=True, priority_exponent=0.5)
    hand.learn([0], [0], {0: (0.75, -0.75)}, terminated=[0])
    state = hand.learner.replay.state()
    weights = state["weights"][state["weights"] > 0]
    assert weights.tolist() == pytest.approx([math.sqrt(0.751)])  # a thousandth is added to every error
    hand.learn([0], [0], {0: (4.0, -4.0)}, terminated=[0])
    assert hand.learner.replay.state()["largest"].tolist() == pytest.approx([math.sqrt(4.001)], rel=0.01)


def test_errors_count_by_their_importance_weights() -> None:
    twins = [
        HandDQN(num_steps=1, dueling=False, prioritised=True, correction=1.0, batch_size=16) for _ in range(2)
    ]
    for hand in twins:
        hand.learn([0], [0], {0: (0.01, -0.01)}, terminated=[0])
    hand, other = twins
    rollout = other.write([1], [0], {0: (2.0, -2.0)}, terminated=[0])
    other.learner.replay.add([rollout])
    sample = other.learner.replay.sample(16, step=1, correction=1.0)
    assert len(set(sample.weights.tolist())) == 2, "one is drawn more often than the other"
    values = other.learner.model.get_parameter("rows").detach().numpy()[sample.observation[:, 0], 0]
    sizes = np.abs(values - sample.returns)
    losses = np.where(sizes < 1.0, 0.5 * sizes**2, sizes - 0.5)
    metrics = hand.learn([1], [0], {0: (2.0, -2.0)}, terminated=[0])
    assert metrics["loss"] == pytest.approx(float((sample.weights * losses).mean()), rel=1e-5)
    assert metrics["loss"] != pytest.approx(float(losses.mean()), rel=0.01)


def rows_of(hand: HandDQN) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        hand.learner.model.get_parameter("rows").detach().clone(),
        hand.learner.target.get_parameter("rows").detach().clone(),
    )


def test_target_becomes_the_network_every_so_many_steps() -> None:
    hand = HandDQN(num_steps=1, target_interval=3, steps_per_batch=2)
    seen = []
    for _ in range(3):
        hand.learn([0], [0], {0: (1.0, -1.0)}, terminated=[0])
        seen.append(rows_of(hand))
    assert (seen[0][1] == 0).all()  # two steps
    assert (seen[1][1] != 0).any()  # four: it moved after the third
    assert not torch.equal(*seen[1])
    assert torch.equal(*seen[2])  # six


def test_target_follows_the_network_by_a_share_of_the_way() -> None:
    hand = HandDQN(num_steps=1, target_averaging=0.25)
    expected = torch.zeros(1)
    for _ in range(3):
        with torch.no_grad():
            hand.learner.model.get_buffer("scale").fill_(1.0 + hand.num_turns)
        hand.learn([0], [0], {0: (1.0, -1.0)}, terminated=[0])
        network, target = rows_of(hand)
        expected = 0.75 * expected + 0.25 * network
        assert torch.allclose(target, expected, atol=1e-7)
        assert hand.learner.target.get_buffer("scale").item() == hand.num_turns  # a copy, no average


GAME = ([0, 1, 2, 3], [0, 1, 0, 1], {3: (-1.0, 1.0)})  # four decisions of one game, won by the second


def test_nothing_is_learned_before_enough_was_collected() -> None:
    hand = HandDQN(num_steps=4, learning_starts=9, kept=8)
    before = hand.learner.weights()
    metrics = [hand.learn(*GAME, terminated=[3]) for _ in range(3)]
    assert [record["gradient_steps"] for record in metrics] == [0, 0, 1]
    assert [record["replay_decisions"] for record in metrics] == [4, 8, 12]
    assert ["loss" in record for record in metrics] == [False, False, True]
    assert (hand.learner.weights() != before).any()


def test_learning_starts_with_a_full_replay_though_some_of_it_is_others() -> None:
    hand = HandDQN(num_steps=4, learning_starts=8, kept=2, replay_size=8)
    against = ([0, 1, 2, 3], [0, -1, 0, -1], {3: (-1.0, 1.0)})
    metrics = [hand.learn(*against, terminated=[3]) for _ in range(3)]
    assert [record["replay_decisions"] for record in metrics] == [2, 4, 4]
    assert [record["gradient_steps"] for record in metrics] == [0, 1, 1]


def test_replay_that_forgets_before_an_outcome_is_known_is_refused() -> None:
    hand = HandDQN(num_steps=2, kept=1)
    with pytest.raises(ConfigError, match=mentions("none of the", "algorithm.replay_size")):
        hand.learn([0, 1], [0, 1])


def test_replay_ratio_holds_over_several_updates() -> None:
    # 4 decisions a batch, each learned from 3 times, 8 at once: a step and a half per update
    hand = HandDQN(num_steps=4, steps_per_batch=None, replay_ratio=3.0, batch_size=8)
    steps = [hand.learn(*GAME, terminated=[3])["gradient_steps"] for _ in range(4)]
    assert steps == [1, 2, 1, 2]
    assert hand.learner.gradient_steps == 6


def test_replay_ratio_counts_own_decisions_and_none_from_before_the_start() -> None:
    hand = HandDQN(4, steps_per_batch=None, replay_ratio=4.0, batch_size=8, learning_starts=5, kept=8)
    steps = [
        hand.learn([0, 1, 2, 3], [0, -1, 0, -1], {3: (-1.0, 1.0)}, terminated=[3])["gradient_steps"]
        for _ in range(5)
    ]
    assert steps == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epsilon_decay": 0.5}, [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
        ({"epsilon_decay": 1.0, "epsilon_end": 0.2}, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]),
        ({"epsilon_decay": 0.0, "epsilon_end": 0.1}, [0.1] * 6),
    ],
)
def test_epsilon_falls_update_by_update(settings: dict[str, float], expected: list[float]) -> None:
    hand = HandDQN(4, total_updates=8, **({"epsilon_end": 0.0} | settings))
    asked, recorded = [], []
    for _ in range(6):
        asked.append(hand.learner.epsilon)
        recorded.append(hand.learn(*GAME, terminated=[3])["epsilon"])
    assert asked == recorded == pytest.approx(expected)


def test_learner_asks_for_action_values_a_ladder_and_kept_rollouts() -> None:
    demands = DQN.demands(DQNConfig(dueling=False, epsilon_ladder=7.0, replay_size=5000))
    assert demands.acting == Acting("action_values", is_dueling=False, ladder=7.0)
    assert (demands.kept_positions, demands.is_replaying) == (5000, True)


def test_learning_rate_falls_as_scheduled() -> None:
    hand = HandDQN(4, total_updates=4, learning_rate=0.1, final_learning_rate=0.2)
    rates = [hand.learn(*GAME, terminated=[3])["learning_rate"] for _ in range(5)]
    assert rates == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02])


@pytest.mark.parametrize("is_prioritised", [False, True])
def test_divergence_is_refused(is_prioritised: bool) -> None:
    hand = HandDQN(4, prioritised=is_prioritised)
    hand.know(2, [math.inf] * 4, [math.inf] * 4)
    with pytest.raises(ModelError, match=mentions("diverged", "learning_rate")):
        hand.learn(*GAME, terminated=[3])


def test_stages_of_learning_are_timed() -> None:
    hand = HandDQN(4, prioritised=True)
    hand.learn(*GAME, terminated=[3])
    stages = {"store", "sample", "gather", "targets", "forward", "backward", "optimise", "priorities"}
    assert set(hand.learner.take_timings()) == stages
    assert hand.learner.take_timings() == {}


def test_legal_moves_beyond_the_first_word_count_too() -> None:
    is_legal = unpack_legal_bits(torch.tensor([[0b11, 1 << 2]]), 70)  # 0, 1 and 66
    logits = torch.zeros(1, 70)
    logits[0, 66], logits[0, 1] = 3.0, 6.0
    values = chosen_values(logits, torch.ones(1), is_legal, torch.tensor([66]), True)
    assert values.tolist() == pytest.approx([1.0 + 3.0 - 9.0 / 3])
