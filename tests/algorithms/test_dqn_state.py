"""A DQN learner's state: after saving and loading, training continues to equal bytes."""

from typing import Any

import pytest
import torch

from senju.algorithms.dqn import DQN, DQNConfig
from senju.algorithms.learner import LearnerSetup
from senju.backends.serial import Serial
from senju.collect.orders import Orders
from senju.games import make_game
from senju.models import make_model
from tests.backends.common import model_of, new_plan

SETTINGS = {
    "plain": {},
    "prioritised": {"prioritised": True, "n_step": 3, "target_averaging": 0.05},
    "single": {"double": False, "dueling": False, "steps_per_batch": 3},
}


class Training:
    """Self-play of tic-tac-toe by one learner; others learn from the same rollouts."""

    def __init__(self, **settings: Any) -> None:
        chosen = {"batch_size": 32, "learning_starts": 100, "replay_size": 500, "target_interval": 7}
        self.config = DQNConfig(**(chosen | settings))
        self.game, model = make_game("tic_tac_toe"), {"name": "mlp", "hidden": [16]}
        self.plan = new_plan(
            {"name": "tic_tac_toe"},
            model,
            seed=3,
            num_shards=2,
            games_per_shard=8,
            rollout_steps=7,
            acting=DQN.demands(self.config).acting,
            kept_turns=5,
            keeps_final=True,
        )
        self.backend = Serial()
        self.backend.start(self.plan)
        self.learner = self.new_learner()

    def new_learner(self, seed: int = 3) -> DQN:
        shape, num_actions = self.game.observation_shape, self.game.num_actions
        learner = DQN(
            make_model(model_of(self.plan), shape, num_actions, seed), self.config, LearnerSetup(3, 20)
        )
        learner.attach(self.backend.rings[0], self.game)
        return learner

    def update(self, *others: DQN) -> list[dict[str, float]]:
        """Collect once; all learners learn from it, and the first one's weights are published."""
        rollouts = self.backend.collect()
        metrics = [learner.update(rollouts) for learner in (self.learner, *others)]
        orders = Orders(self.learner.version, (self.learner.epsilon,))
        self.backend.publish(self.learner.weights(), self.learner.version, orders)
        return metrics


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("num_before", [0, 1, 9])
def test_loaded_state_goes_on_to_equal_bytes(settings: dict[str, Any], num_before: int) -> None:
    """From before the first step, and after the ring has gone round."""
    training = Training(**settings)
    for _ in range(num_before):
        training.update()
    state = training.learner.state()
    resumed = training.new_learner(seed=77)
    resumed.load_state(state)
    assert resumed.version == num_before
    for _ in range(6):
        one, other = training.update(resumed)
        assert one == other
        assert resumed.weights().tobytes() == training.learner.weights().tobytes()
    mine, yours = training.learner.state(), resumed.state()
    assert mine.numbers == yours.numbers
    assert mine.numbers["gradient_steps"] > 0
    assert set(mine.tensors) == set(yours.tensors)
    assert all(torch.equal(mine.tensors[name], yours.tensors[name]) for name in mine.tensors)


def test_state_does_not_follow_the_learner() -> None:
    training = Training(prioritised=True)
    for _ in range(4):
        training.update()
    state = training.learner.state()
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    training.update()
    assert all(torch.equal(state.tensors[name], tensor) for name, tensor in before.items())


def test_learners_of_another_seed_draw_other_decisions() -> None:
    training = Training()
    other = training.new_learner()
    other.setup = LearnerSetup(4, 20)
    other.attach(training.backend.rings[0], training.game)
    for _ in range(4):
        training.update(other)
    assert training.learner.weights().tobytes() != other.weights().tobytes()
