"""Learners on the path that a GPU takes: on a GPU, or on the CPU with graphs that are only imitated."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from senju.algorithms.captured_step import CapturedSteps, Objective, Recorded, StepResult, _unchanged
from senju.algorithms.dqn import DQN, DQNConfig
from senju.algorithms.gradient_learner import GradientLearner
from senju.algorithms.learner import Learner, LearnerSetup
from senju.algorithms.networks import _joined_rates
from senju.algorithms.ppo import PPO, PPOConfig
from senju.algorithms.stacked_learners import LearnerStack
from senju.backends.serial import Serial
from senju.collect.device_columns import DeviceColumns
from senju.collect.orders import Orders
from senju.collect.slots import Ring, Rollout, Slot
from senju.cuda import Kernels
from senju.games import make_game
from senju.models import make_model
from tests.backends.common import new_plan

MLP = {"name": "mlp", "hidden": [16]}
RESNET = {"name": "resnet", "channels": 8, "blocks": 1, "head_width": 16}
PLANE_NET = {"name": "plane_net", "channels": 8, "blocks": 1, "squeeze": 4, "value_width": 16}


class ImitatedSteps(CapturedSteps):
    """A graph on the CPU is the step itself, which reads and writes the same memory each time."""

    def _record(
        self, objective: Objective, inputs: Any, step: Any, changed: Callable[[], Sequence[Tensor]]
    ) -> Recorded:
        self._last_changed = changed
        return super()._record(objective, inputs, step, changed)

    def _graph(self, run: Callable[[], StepResult]) -> tuple[StepResult, Callable[[], None]]:
        with _unchanged(self._last_changed, self.device):
            result = run()

        def replay() -> None:
            for static, new in zip(result, run(), strict=True):
                if static is not None and new is not None:
                    static.copy_(new)

        return result, replay


def imitate(learner: GradientLearner[Any, Any], kernels: Kernels = "eager") -> None:
    """Let a learner on the CPU take the path of a GPU."""
    learner.steps = ImitatedSteps(learner.setup.device, kernels)
    for group in learner.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])


def imitate_stack(stack: LearnerStack) -> None:
    """The same for a stack of such learners."""
    first = stack._learners[0]
    assert first.steps is not None
    stack.steps = ImitatedSteps(first.setup.device, "eager")
    stack._adam._rates = _joined_rates([each.optimizer for each in stack._learners], first.setup.device)


def on_path(learner: Any, is_captured: bool, kernels: Kernels) -> Any:
    """Set a new learner to captured steps, or to plain ones."""
    if not is_captured:
        learner.steps = None
    elif learner.setup.device.type == "cpu":
        imitate(learner, kernels)
    return learner


class Training:
    """Games that one learner after another learns from."""

    def __init__(
        self,
        device: str,
        algorithm: type[PPO] | type[DQN] = PPO,
        game: str = "connect_four",
        model: dict[str, Any] = MLP,
        kernels: Kernels = "eager",
        **settings: Any,
    ) -> None:
        self.device, self.kernels, self.model = torch.device(device), kernels, model
        self.algorithm, self.game = algorithm, make_game(game)
        small: dict[str, Any] = {"minibatch_size": 64, "epochs": 2}
        if algorithm is DQN:
            small = {"batch_size": 32, "learning_starts": 60, "replay_size": 600, "steps_per_batch": 4}
        config: Any = PPOConfig if algorithm is PPO else DQNConfig
        self.config = config(**(small | {"learning_rate": 0.003} | settings))
        demands = algorithm.demands(self.config)
        self.backend = Serial()
        self.backend.start(
            new_plan(
                {"name": game},
                model,
                seed=3,
                num_shards=2,
                games_per_shard=16,
                rollout_steps=8,
                acting=demands.acting,
                kept_turns=4 if demands.is_replaying else 1,
                keeps_final=demands.is_replaying,
            )
        )
        self.weights = self.learner(is_captured=False).weights()

    @property
    def ring(self) -> Ring:
        return self.backend.rings[0]

    def learner(
        self, seed: int = 3, *, is_captured: bool = True, total_updates: int = 40, is_attached: bool = True
    ) -> Any:
        """A new learner."""
        shape, num_actions = self.game.observation_shape, self.game.num_actions
        setup = LearnerSetup(3, total_updates, self.device, self.kernels)
        learner: Learner = self.algorithm(
            make_model(self.model, shape, num_actions, seed), self.config, setup
        )
        if is_attached:
            learner.attach(self.ring, self.game)
        return on_path(learner, is_captured, self.kernels)

    def collect(self) -> list[Rollout]:
        """Play a turn by the first weights."""
        rollouts = self.backend.collect()
        self.backend.publish(self.weights, rollouts[0].turn + 1, Orders(rollouts[0].turn + 1, (0.5,)))
        return rollouts

    def update(self, *learners: Any) -> list[dict[str, float]]:
        """All learners learn from the next turn."""
        rollouts = self.collect()
        return [learner.update(rollouts) for learner in learners]

    def keep_on_device(self, turns: int | None = None) -> DeviceColumns:
        """Give the ring columns on the device, which `upload` fills."""
        turns = turns or self.ring.shape.depth
        columns = DeviceColumns(self.game, self.ring.shape, turns, self.device)
        self.ring.on_device = columns
        return columns

    def upload(self, rollouts: Sequence[Rollout]) -> None:
        """Copy rollouts to the device, as evaluating there does."""
        columns = self.ring.on_device
        assert columns is not None
        for rollout in rollouts:
            columns.open(rollout.shard, rollout.turn)
            columns.upload(rollout.shard, rollout.turn, rollout.data)


def difference(one: Any, other: Any) -> float:
    """The largest between two learners' networks and targets."""
    mine, yours = one.state().tensors, other.state().tensors
    names = [name for name in mine if name.startswith(("model.", "target."))]
    return max(float((mine[name] - yours[name]).abs().max()) for name in names)


def bytes_of(learner: Any) -> dict[str, bytes]:
    """All that a learner saves."""
    state = learner.state()
    tensors = {name: tensor.cpu().numpy().tobytes() for name, tensor in state.tensors.items()}
    return tensors | {name: repr(number).encode() for name, number in state.numbers.items()}


def partly_known(rollouts: Sequence[Rollout], num_unknown: int) -> list[Rollout]:
    """Copies of rollouts in which some decisions' outcomes are unknown."""
    copies = [rollout._replace(slots=(Slot(*map(np.copy, rollout.data)),)) for rollout in rollouts]
    for rollout in copies:
        rollout.data.seats[0, :num_unknown] = -1
    return copies


@contextmanager
def batches_seen(learner: Any) -> Iterator[list[list[Tensor]]]:
    """The columns of each batch that a learner collates."""
    seen: list[list[Tensor]] = []
    original = type(learner).collate

    def noting(self: Any, batches: Any) -> Any:
        found = original(self, batches)
        seen.append([column.clone() for column in found])
        return found

    learner.collate = partial(noting, learner)
    try:
        yield seen
    finally:
        del learner.collate
