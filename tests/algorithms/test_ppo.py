"""PPO: exact ratios, equal bytes, what each setting does, and that it learns as either seat."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import register_optimizer_step_pre_hook

from senju.algorithms import device_batches
from senju.algorithms.learner import LearnerSetup
from senju.algorithms.ppo import PPO, PPOConfig
from senju.algorithms.returns import Advantages, generalised_advantages
from senju.backends.backend import Plan
from senju.backends.serial import Serial
from senju.collect.orders import Orders
from senju.collect.slots import Rollout, Slot
from senju.errors import ConfigError, ModelError
from senju.games import make_game
from senju.games.rows import CLOCK
from senju.models import MODELS, Model, build_model
from senju.models.mlp import Mlp, MlpConfig
from senju.models.weights import WeightBlock
from senju.opponents.opponent_players import OpponentSettings, OpponentSpec
from tests.backends.common import changed, new_plan
from tests.collect.made_slots import self_play_slot, some_rows
from tests.collect.toy_games import Bandit, GeneralSumRace, Nim
from tests.facts import mentions

SMALL_MLP = {"name": "mlp", "hidden": [16]}
SMALL_RESNET = {"name": "resnet", "channels": 8, "blocks": 1, "head_width": 16}


def plan_of(game: str, model: dict[str, Any] = SMALL_MLP, seed: int = 3, **numbers: int) -> Plan:
    sizes = {"num_shards": 2, "games_per_shard": 16, "rollout_steps": 8} | numbers
    return new_plan({"name": game}, model, seed, **sizes)


def model_of(plan: Plan) -> Model:
    game = make_game(**plan.game)
    model = plan.policies[0].model
    cls, config = MODELS.get(model["name"]), MODELS.configure(model)
    return build_model(cls, game.observation_shape, game.num_actions, config, plan.seed)


def train(plan: Plan, learner: PPO, num_updates: int) -> list[dict[str, float]]:
    """The trainer's loop without the trainer: collect, learn, publish."""
    backend = Serial()
    backend.start(plan)
    metrics = []
    for _ in range(num_updates):
        metrics.append(learner.update(backend.collect()))
        backend.publish(learner.weights(), learner.version)
    backend.close()
    return metrics


def collected(plan: Plan, num_rollouts: int) -> list[list[Rollout]]:
    """Consecutive batches of rollouts of the first weights, each copied to stay."""
    backend = Serial()
    backend.start(plan)
    batches = [
        [rollout._replace(slots=(Slot(*map(np.copy, rollout.data)),)) for rollout in backend.collect()]
        for _ in range(num_rollouts)
    ]
    backend.close()
    return batches


def new_learner(plan: Plan, seed: int = 3, total_updates: int = 10, **settings: Any) -> PPO:
    config = PPOConfig(**({"minibatch_size": 64, "epochs": 2} | settings))
    return PPO(model_of(plan), config, LearnerSetup(seed, total_updates))


NUM_CHOICES = 3  # in a game of one move, by hand: every decision ends its game with a reward


def choices(rewards: Sequence[float], actions: Sequence[int] | None = None) -> list[Rollout]:
    """One rollout of one step; decision i is seen as the two bytes of i, and was drawn evenly."""
    count = len(rewards)
    shape = (1, count, 1)
    taken = np.array(actions if actions is not None else np.arange(count) % NUM_CHOICES, np.int32)
    slot = self_play_slot(
        observation=np.array([divmod(i, 256) for i in range(count)], np.uint8).reshape(*shape, 2),
        legal=np.full((*shape, 1), (1 << NUM_CHOICES) - 1, np.uint64),
        seats=np.zeros(shape, np.int8),
        actions=taken.reshape(shape),
        log_probs=np.full(shape, -math.log(NUM_CHOICES), np.float32),
        values=np.zeros(shape, np.float32),
        rewards=np.array(rewards, np.float32).reshape(shape),
        terminated=np.ones((1, count), np.bool_),
        truncated=np.zeros((1, count), np.bool_),
        bootstrap=np.zeros(shape, np.float32),
    )
    return [Rollout(0, 0, (slot,), np.zeros(slot.seats.shape[1], CLOCK))]


def chooser(total_updates: int = 10, **settings: Any) -> PPO:
    """A learner for `choices`, whose policy is even to begin with."""
    model = build_model(Mlp, (2,), NUM_CHOICES, MlpConfig(hidden=(8,)), seed=1)
    with torch.no_grad():
        model.head.weight[:-1] = 0.0
    return PPO(model, PPOConfig(**settings), LearnerSetup(1, total_updates))


@contextmanager
def decisions_seen(learner: PPO) -> Iterator[list[list[int]]]:
    """The numbers of the decisions in each batch that the network is given."""
    batches: list[list[int]] = []

    def note(_: Any, inputs: tuple[torch.Tensor]) -> None:
        batches.append((inputs[0][:, 0] * 256 + inputs[0][:, 1]).int().tolist())

    handle = learner.model.register_forward_pre_hook(note)
    try:
        yield batches
    finally:
        handle.remove()


@contextmanager
def gradients_taken() -> Iterator[list[NDArray[np.float32]]]:
    """The whole gradient, as one vector, of each step that Adam takes."""
    gradients: list[NDArray[np.float32]] = []

    def note(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = optimizer.param_groups[0]["params"]
        gradients.append(torch.cat([parameter.grad.reshape(-1) for parameter in parameters]).numpy())

    handle = register_optimizer_step_pre_hook(note)
    try:
        yield gradients
    finally:
        handle.remove()


@pytest.mark.parametrize("model", [SMALL_MLP, SMALL_RESNET], ids=["mlp", "resnet"])
@pytest.mark.parametrize("num_games", [16, 33])
def test_first_ratio_is_exactly_1_where_acting_and_learning_batches_are_alike(
    model: dict[str, Any], num_games: int
) -> None:
    plan = plan_of("connect_four", model, num_shards=1, games_per_shard=num_games, rollout_steps=1)
    learner = new_learner(plan, minibatch_size=num_games, learning_rate=0.01)
    for metrics in train(plan, learner, 6):
        assert metrics["largest_ratio_error"] == 0.0
        assert metrics["first_minibatch_kl"] == 0.0


@pytest.mark.parametrize(
    ("game", "model"),
    [
        ("connect_four", SMALL_MLP),
        ("connect_four", SMALL_RESNET),
        ("tests.collect.toy_games:Race", SMALL_MLP),
        ("tests.collect.toy_games:Meeting", SMALL_MLP),
    ],
)
def test_first_ratio_is_1_up_to_rounding_in_batches_of_any_shape(game: str, model: dict[str, Any]) -> None:
    plan = plan_of(game, model)
    learner = new_learner(plan, minibatch_size=48, learning_rate=0.01)
    for metrics in train(plan, learner, 6):
        assert metrics["largest_ratio_error"] < 1e-5


@pytest.mark.parametrize("model", [SMALL_MLP, SMALL_RESNET], ids=["mlp", "resnet"])
def test_first_ratio_stays_close_to_1_when_learning_in_bfloat16(model: dict[str, Any]) -> None:
    plan = plan_of("connect_four", model)
    learner = new_learner(plan, precision="bfloat16", learning_rate=0.01)
    errors = [metrics["largest_ratio_error"] for metrics in train(plan, learner, 6)]
    assert max(errors) < 0.05
    assert max(errors) > 1e-5, "this was not computed in bfloat16"


def test_learners_of_one_seed_fed_alike_have_equal_bytes() -> None:
    plan = plan_of("connect_four")
    batches = collected(plan, 4)
    one, other, of_another_seed = new_learner(plan), new_learner(plan), new_learner(plan, seed=4)
    assert one.weights().tobytes() == of_another_seed.weights().tobytes(), "all begin alike"
    for batch in batches:
        metrics = [learner.update(batch) for learner in (one, other, of_another_seed)]
        assert metrics[0] == metrics[1]
        assert one.weights().tobytes() == other.weights().tobytes()
    assert one.weights().tobytes() != of_another_seed.weights().tobytes(), "the seed orders the minibatches"


@pytest.mark.parametrize("model", [SMALL_MLP, SMALL_RESNET], ids=["mlp", "resnet"])
def test_training_again_from_one_seed_gives_equal_bytes(model: dict[str, Any]) -> None:
    plan = plan_of("tic_tac_toe", model)
    ends = []
    for _ in range(2):
        learner = new_learner(plan)
        train(plan, learner, 4)
        ends.append(learner.weights().tobytes())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("num_before", [0, 1, 3])
def test_loaded_state_goes_on_to_equal_bytes(num_before: int) -> None:
    """Also from before the first update, when Adam has no moments yet."""
    plan = plan_of("connect_four")
    batches = collected(plan, num_before + 3)
    first = new_learner(plan)
    for batch in batches[:num_before]:
        first.update(batch)
    state = first.state()

    used = new_learner(plan, total_updates=10)
    for batch in batches[-2:]:
        used.update(batch)  # has weights, moments and a version of its own to lose
    resumed = [new_learner(plan_of("connect_four", seed=77)), used]
    for learner in resumed:
        learner.load_state(state)
        assert learner.version == num_before
    for batch in batches[num_before:]:
        expected = first.update(batch)
        for learner in resumed:
            assert learner.update(batch) == expected
            assert learner.weights().tobytes() == first.weights().tobytes()


def test_state_does_not_follow_the_learner_nor_the_learner_the_state() -> None:
    plan = plan_of("tic_tac_toe")
    batches = collected(plan, 3)
    learner, resumed = new_learner(plan), new_learner(plan)
    learner.update(batches[0])
    state = learner.state()
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    resumed.load_state(state)
    for each in (learner, resumed):
        each.update(batches[1])
    assert all(torch.equal(state.tensors[name], tensor) for name, tensor in before.items())
    assert state.numbers == {"version": 1}


def test_version_counts_the_updates() -> None:
    learner = chooser()
    assert learner.version == 0
    for expected in (1, 2):
        learner.update(choices([1.0, 0.0, 0.5]))
        assert learner.version == expected


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.01, 0.01, 0.01, 0.01, 0.01]),
        # the share falls from 1 to 0.1 over four updates: 0.1 + 0.9 · (1, 3/4, 1/2, 1/4), then stays
        ("linear", [0.01, 0.00775, 0.0055, 0.00325, 0.001]),
        # 0.1 + 0.9 · (1 + cos(k π / 4)) / 2, with cos(π/4) = 0.70710678
        ("cosine", [0.01, 0.00868198, 0.0055, 0.00231802, 0.001]),
    ],
)
def test_learning_rate_falls_as_scheduled(schedule: str, expected: list[float]) -> None:
    learner = chooser(total_updates=4, schedule=schedule, learning_rate=0.01, final_learning_rate=0.1)
    rates = [learner.update(choices([1.0, 0.0, 0.5]))["learning_rate"] for _ in range(5)]
    assert rates == pytest.approx(expected, rel=1e-5)


def test_learning_rate_is_the_one_that_moves_the_weights() -> None:
    """Adam's first step moves each weight by the learning rate, whatever the gradient's size."""
    learner = chooser(learning_rate=0.01, epochs=1)
    before = learner.weights().view(np.float32)
    learner.update(choices([1.0, 0.0, 0.5]))
    moved = np.abs(learner.weights().view(np.float32) - before)
    assert moved.max() == pytest.approx(0.01, rel=0.01)


def test_each_decision_is_seen_once_per_epoch_in_a_new_order() -> None:
    learner = chooser(epochs=3, minibatch_size=100)
    with decisions_seen(learner) as batches:
        learner.update(choices(np.linspace(0.0, 1.0, 450).tolist()))
        learner.update(choices(np.linspace(0.0, 1.0, 450).tolist()))
    assert [len(batch) for batch in batches] == [90] * 30  # no small rest
    epochs = [list(chain(*batches[i : i + 5])) for i in range(0, 30, 5)]
    assert all(sorted(epoch) == list(range(450)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 6, "every epoch of every update has its own order"


def test_rollouts_of_all_shards_are_learned_from() -> None:
    learner = chooser(epochs=1, minibatch_size=4)
    whole = choices(np.linspace(0.0, 1.0, 12).tolist())[0].data
    clock = np.zeros(4, CLOCK)
    shards = [Rollout(i, 0, (some_rows(whole, range(4 * i, 4 * i + 4)),), clock) for i in range(3)]
    with decisions_seen(learner) as batches:
        learner.update(shards)
    assert sorted(chain(*batches)) == list(range(12))


def test_kl_stop_ends_the_update_early() -> None:
    rewards = [1.0, 0.0, 0.5] * 20
    patient = chooser(epochs=10, learning_rate=0.05, entropy_coefficient=0.0)
    assert patient.update(choices(rewards))["gradient_steps"] == 10
    # the first epoch's only minibatch sees an unmoved policy; the second sees the moved one and stops
    stopped = chooser(epochs=10, learning_rate=0.05, entropy_coefficient=0.0, kl_stop=1e-5)
    assert stopped.update(choices(rewards))["gradient_steps"] == 2
    tolerant = chooser(epochs=10, learning_rate=0.05, entropy_coefficient=0.0, kl_stop=100.0)
    tolerant.update(choices(rewards))
    assert tolerant.weights().tobytes() == patient.weights().tobytes() != stopped.weights().tobytes()


def test_long_gradients_are_shortened_and_short_ones_left() -> None:
    batch = choices([5.0, -5.0, 0.5] * 20)
    with gradients_taken() as free:
        metrics = chooser(epochs=1, max_gradient_norm=1e6).update(batch)
    norm = float(np.linalg.norm(free[0]))
    assert norm > 0.1
    assert metrics["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    with gradients_taken() as clipped:
        metrics = chooser(epochs=1, max_gradient_norm=0.1).update(batch)
    assert np.linalg.norm(clipped[0]) == pytest.approx(0.1, rel=1e-4)
    np.testing.assert_allclose(clipped[0], free[0] * (0.1 / norm), rtol=1e-3, atol=1e-8)
    assert metrics["gradient_norm"] == pytest.approx(norm, rel=1e-5), "the length before shortening"


def policy_gradient(rewards: Sequence[float], **settings: Any) -> NDArray[np.float32]:
    with gradients_taken() as gradients:
        learner = chooser(
            epochs=1, value_coefficient=0.0, entropy_coefficient=0.0, max_gradient_norm=1e6, **settings
        )
        learner.update(choices(rewards))
    return gradients[0]


def test_normalised_advantages_forget_scale_and_offset_of_the_rewards() -> None:
    rewards = np.array([1.0, 0.0, 0.5, 0.25, 2.0, -1.0])
    plain = policy_gradient(rewards.tolist())
    np.testing.assert_allclose(policy_gradient((10 * rewards + 3).tolist()), plain, rtol=1e-3, atol=1e-6)
    # mean 2.75 / 6 = 0.458333, deviation √(6.3125 / 6 − 0.458333²) = 0.917613
    by_hand = ((rewards - 0.458333) / 0.917613).tolist()
    np.testing.assert_allclose(
        policy_gradient(by_hand, normalise_advantages=False), plain, rtol=1e-3, atol=1e-6
    )


def test_advantages_left_as_they_are_keep_the_scale_of_the_rewards() -> None:
    rewards = np.array([1.0, 0.0, 0.5, 0.25, 2.0, -1.0])
    once = policy_gradient(rewards.tolist(), normalise_advantages=False)
    tenfold = policy_gradient((10 * rewards).tolist(), normalise_advantages=False)
    np.testing.assert_allclose(tenfold, 10 * once, rtol=1e-4, atol=1e-6)


def test_metrics_describe_the_batch() -> None:
    metrics = chooser(epochs=1, normalise_advantages=False).update(choices([1.0, 2.0, 6.0]))
    # values of 0, so advantages 1, 2 and 6, at ratios of 1
    assert metrics["policy_loss"] == pytest.approx(-3.0, rel=1e-6)
    assert metrics["mean_value"] == 0.0
    assert metrics["explained_variance"] == 0.0
    assert metrics["entropy"] == pytest.approx(math.log(3), rel=1e-6)


def test_metrics_say_how_much_of_the_returns_the_values_explain() -> None:
    (rollout,) = choices([1.0, 2.0, 6.0])
    rollout.data.values[0, :, 0] = [1.0, 2.0, 3.0]
    metrics = chooser().update([rollout])
    # returns 1, 2, 6 of variance 14/3; errors 0, 0, 3 of variance 2: 1 − 2 / (14/3) = 4/7
    assert metrics["explained_variance"] == pytest.approx(4 / 7, rel=1e-5)
    assert metrics["mean_value"] == pytest.approx(2.0, rel=1e-6)


def test_decisions_of_unknown_outcome_are_left_out() -> None:
    (rollout,) = choices([1.0, 0.0, 0.5, 7.0, 7.0, 0.25])
    unknown = [3, 4]
    rollout.data.terminated[0, unknown] = False
    rollout.data.bootstrap[0, unknown] = np.nan
    learner, without = chooser(minibatch_size=2), chooser(minibatch_size=2)
    with decisions_seen(learner) as batches:
        metrics = learner.update([rollout])
    assert set(chain(*batches)) == {0, 1, 2, 5}

    kept = [0, 1, 2, 5]
    rest = Rollout(0, 0, (some_rows(rollout.data, kept),), rollout.clock[kept])
    assert without.update([rest]) == metrics
    assert learner.weights().tobytes() == without.weights().tobytes()


def test_absent_seats_are_left_out() -> None:
    plan = plan_of("tests.collect.toy_games:Meeting")
    (batch,) = collected(plan, 1)
    learner = new_learner(plan, epochs=1)
    seen: list[torch.Tensor] = []
    learner.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    learner.update(batch)
    known = [generalised_advantages(rollout.data, 1.0, 0.95).is_known for rollout in batch]
    absent = sum(int((rollout.data.seats < 0).sum()) for rollout in batch)
    assert absent > 0
    assert sum(map(len, seen)) == sum(int(k.sum()) for k in known)


def test_opponents_moves_are_not_learned_from() -> None:
    """Whatever they saw, thought and did: nothing but what it led to for the learner matters."""
    plan = changed(plan_of("tic_tac_toe"), opponents=OpponentSettings((OpponentSpec("random"),)))
    backend = Serial()
    backend.start(plan)
    weights = WeightBlock(model_of(plan)).read()
    backend.publish(weights, 0, Orders(ids=(1,), weight_indices=(-1,), probabilities=(1.0,)))
    batch = backend.collect()
    learner, other = new_learner(plan, epochs=1), new_learner(plan, epochs=1)
    seen: list[torch.Tensor] = []
    learner.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    metrics = learner.update(batch)
    num_own = sum(int((rollout.data.seats >= 0).sum()) for rollout in batch)
    num_all = sum(rollout.data.seats.size for rollout in batch)
    assert sum(map(len, seen)) == num_own
    assert 0.3 < num_own / num_all < 0.7
    for rollout in batch:
        others = rollout.data.seats < 0
        for column in (rollout.data.observation, rollout.data.legal, rollout.data.actions):
            column[others] = 1
        rollout.data.log_probs[others], rollout.data.values[others] = np.nan, np.nan
    assert other.update(batch) == metrics
    assert other.weights().tobytes() == learner.weights().tobytes() != weights.tobytes()


def test_general_sum_game_is_learned_from_without_the_unknown() -> None:
    plan = plan_of(f"tests.collect.toy_games:{GeneralSumRace.__name__}")
    (metrics,) = train(plan, new_learner(plan), 1)
    assert all(map(math.isfinite, metrics.values()))


def test_rollouts_too_short_to_know_any_outcome_are_refused() -> None:
    """After one step of a general-sum game by turns, the value of the move is not known yet."""
    plan = plan_of(f"tests.collect.toy_games:{GeneralSumRace.__name__}", rollout_steps=1)
    (batch,) = collected(plan, 1)
    with pytest.raises(ConfigError, match=mentions("32 decisions", "outcome", "rollout_steps")):
        new_learner(plan).update(batch)


def test_nan_weights_are_refused() -> None:
    learner = chooser()
    with torch.no_grad():
        next(learner.model.parameters()).fill_(math.nan)
    with pytest.raises(ModelError, match=mentions("not finite", "diverged")):
        learner.update(choices([1.0, 0.0, 0.5]))


@pytest.mark.parametrize("normalise", [True, False])
def test_nan_advantage_is_refused(normalise: bool) -> None:
    learner = chooser(normalise_advantages=normalise)
    before = learner.weights().tobytes()
    with pytest.raises(ModelError, match=mentions("PPO's loss", "not finite")):
        learner.update(choices([1.0, math.nan, 0.5]))
    assert learner.weights().tobytes() == before, "what was learned before is not lost"


def test_equal_advantages_are_no_divergence() -> None:
    """All advantages alike have no deviation to divide by."""
    metrics = chooser().update(choices([1.0] * 9))
    assert all(map(math.isfinite, metrics.values()))


def test_stages_of_learning_are_timed() -> None:
    learner = chooser()
    learner.update(choices([1.0, 0.0, 0.5]))
    assert set(learner.take_timings()) == {"advantages", "gather", "forward", "backward", "optimise"}
    assert learner.take_timings() == {}


def greedy(model: Model, observations: NDArray[np.uint8], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    with torch.no_grad():
        logits, _ = model(torch.from_numpy(observations).float())
    return logits.masked_fill(~torch.from_numpy(allowed), -math.inf).argmax(-1).numpy()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_best_arm_of_a_bandit_is_found_in_a_few_updates(seed: int) -> None:
    plan = plan_of("tests.collect.toy_games:Bandit", seed=seed, num_shards=1, games_per_shard=64)
    learner = new_learner(plan, seed=seed, learning_rate=0.01, schedule="constant", minibatch_size=128)
    train(plan, learner, 12)
    with torch.no_grad():
        logits, value = learner.model(torch.ones(1, 1))
    probs = logits[0, :4].softmax(-1)
    assert int(probs.argmax()) == Bandit.BEST
    assert probs[Bandit.BEST] > 0.8
    assert value.item() == pytest.approx(float(probs @ torch.from_numpy(Bandit.PAY[:4])), abs=0.2)


def positions_to_win() -> tuple[NDArray[np.uint8], NDArray[np.bool_], list[int]]:
    """Every pile from which Nim is won, seen from either seat, and the one action that wins."""
    piles = [(seat, pile) for seat in (0, 1) for pile in range(1, Nim.LARGEST + 1) if pile % 4]
    reachable = [(seat, pile) for seat, pile in piles if not (seat == 1 and pile == Nim.LARGEST)]
    observations = np.zeros((len(reachable), 2, Nim.LARGEST + 1), np.uint8)
    for i, (seat, pile) in enumerate(reachable):
        observations[i, seat, pile] = 1
    allowed = np.array([[pile > action for action in range(3)] for _, pile in reachable])
    return observations, allowed, [pile % 4 - 1 for _, pile in reachable]


def nim_moves_found(seed: int) -> list[bool]:
    """For each won position: whether the greedy policy wins it, after a short training."""
    plan = plan_of("tests.collect.toy_games:Nim", {"name": "mlp", "hidden": [64]}, seed, games_per_shard=64)
    learner = new_learner(plan, seed, total_updates=40, learning_rate=0.005, minibatch_size=256, epochs=4)
    train(plan, learner, 40)
    observations, allowed, winning = positions_to_win()
    return (greedy(learner.model, observations, allowed) == winning).tolist()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_winning_moves_of_nim_are_learned_as_either_seat(seed: int) -> None:
    assert all(nim_moves_found(seed))


@pytest.mark.parametrize("seed", [0, 1])
def test_nim_is_not_learned_where_perspectives_are_mixed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy game can detect errors: returns that treat both seats as one lead to losing moves."""

    def mixed(slot: Slot, gamma: float, gae_lambda: float) -> Advantages:
        return generalised_advantages(slot._replace(seats=np.zeros_like(slot.seats)), gamma, gae_lambda)

    monkeypatch.setattr(device_batches, "generalised_advantages", mixed)
    found = nim_moves_found(seed)
    assert found.count(False) >= 4
