"""PPO with more or less attention, and from rollouts whose writers do not wait."""

import numpy as np
import pytest

from senju.algorithms.learner import LearnerSetup
from senju.algorithms.ppo import PPO, PPOConfig
from senju.algorithms.ring_reader import RingReader
from senju.backends.serial import Serial
from senju.collect.slots import Ring, RingShape, Rollout, Slot
from senju.games import make_game
from senju.models import make_model
from tests.backends.common import new_plan
from tests.collect.toy_games import Race

MODEL = {"name": "mlp", "hidden": [8]}


def new_learner(ring: Ring, **settings: int) -> PPO:
    game = make_game("tic_tac_toe")
    model = make_model(MODEL, game.observation_shape, game.num_actions, 0)
    learner = PPO(model, PPOConfig(**({"epochs": 2, "minibatch_size": 1000} | settings)), LearnerSetup(1, 10))
    learner.attach(ring, game)
    return learner


@pytest.fixture
def backend() -> Serial:
    """It keeps one turn of two shards."""
    serial = Serial()
    serial.start(
        new_plan({"name": "tic_tac_toe"}, MODEL, 3, num_shards=2, games_per_shard=4, rollout_steps=6)
    )
    return serial


def kept(rollouts: list[Rollout]) -> list[Rollout]:
    return [rollout._replace(slots=(Slot(*map(np.copy, rollout.data)),)) for rollout in rollouts]


@pytest.mark.parametrize(("attention", "steps"), [(1.0, 2), (0.1, 1), (1.6, 3), (3.0, 6)])
def test_attention_scales_the_epochs(backend: Serial, attention: float, steps: int) -> None:
    learner = new_learner(backend.rings[0])
    learner.training_share = attention
    assert learner.update(backend.collect())["gradient_steps"] == steps


def test_follower_learns_the_same_where_nothing_was_written_over(backend: Serial) -> None:
    waiting, following = new_learner(backend.rings[0]), new_learner(backend.rings[0])
    following.is_free_running = True
    for _ in range(3):
        rollouts = backend.collect()
        one, other = waiting.update(rollouts), following.update(rollouts)
        assert other == one | {"rollouts_missed": 0.0}
    assert waiting.weights().tobytes() == following.weights().tobytes()


def test_follower_leaves_out_what_was_written_over(backend: Serial) -> None:
    follower, other = new_learner(backend.rings[0]), new_learner(backend.rings[0])
    follower.is_free_running = True
    rollouts = backend.collect()
    second = kept(rollouts)[1:]
    backend.rings[0].open(0, rollouts[0].turn + 1)  # shard 0 is being played on
    rollouts[0].data.rewards.fill(np.nan)
    assert follower.update(rollouts)["rollouts_missed"] == 1
    other.update(second)
    assert follower.weights().tobytes() == other.weights().tobytes()


def test_follower_that_comes_late_learns_once_from_what_came_after(backend: Serial) -> None:
    follower, other = new_learner(backend.rings[0]), new_learner(backend.rings[0])
    follower.is_free_running = True
    first, second = backend.collect(), kept(backend.collect())
    assert follower.update(first)["rollouts_missed"] == 0
    other.update(second)
    assert follower.weights().tobytes() == other.weights().tobytes()
    metrics = follower.update(second)  # is asked to learn from it now, and has
    assert (metrics["gradient_steps"], metrics["rollouts_missed"]) == (0, 2)


def test_nothing_is_learned_where_all_is_gone(backend: Serial) -> None:
    learner = new_learner(backend.rings[0])
    learner.is_free_running = True
    rollouts, before = backend.collect(), learner.weights()
    for rollout in rollouts:
        backend.rings[0].open(rollout.shard, rollout.turn + 1)
    metrics = learner.update(rollouts)
    assert (metrics["gradient_steps"], metrics["rollouts_missed"]) == (0, 2)
    assert learner.version == 0
    assert learner.weights().tobytes() == before.tobytes()


def test_transient_columns_are_missed_before_the_sequence_number_changes() -> None:
    """Three turns are kept, of which the newest alone has log-probabilities and values."""
    ring = Ring(Race(), RingShape(1, num_steps=2, num_rows=2, kept=3))
    reader = RingReader(ring)
    for turn in range(3):
        ring.open(0, turn)
        ring.slot(0, turn).log_probs.fill(turn)
        ring.complete(0, turn)
    assert reader.steps(0, 1) is not None
    assert reader.slot(0, 1) is None
    newest = reader.slot(0, 2)
    assert newest is not None
    assert (newest.log_probs == 2).all()
    ring.open(0, 3)
    assert reader.slot(0, 2) is None
