"""A small world of several agents that act at once, and their learners, run in any runner."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner import Learner, LearnerSetup, LearnerState
from senju.algorithms.learner_runner import LearnerRunner, LearnerSettings, SequentialLearners, TrainingTask
from senju.algorithms.stacked_learners import StackedLearners
from senju.backends.plan import Plan, PolicyPlan
from senju.backends.serial import Serial
from senju.collect.orders import Orders
from senju.config import Part
from senju.games.game import Observations, Outcomes, States
from senju.models import Model, make_model
from tests.collect.toy_games import ToyGame, chance

SIDE, NUM_SEATS = 3, 5
MARK = 10  # a seat's observations have this plus its number in the first corner of the second plane
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1], [0, 0]], np.int8)


class Crowd(ToyGame):
    """Agents walk about 3×3 cells; a cell pays its number, shared by all who stand there.

    Walking off is illegal. The last seat acts at every other turn. A game ends when the first two meet,
    and is cut after LIMIT turns.
    """

    LIMIT = 6

    name = "crowd"
    num_seats = num_acting = NUM_SEATS
    num_actions = len(MOVES)
    observation_shape = (2, SIDE, SIDE)
    state_dtype = np.dtype(
        [("turn", np.uint8), ("at", np.int8, (NUM_SEATS, 2)), ("is_over", np.bool_)],
    )

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states["turn"][rows] = 0
        states["is_over"][rows] = False
        for seat in range(NUM_SEATS):
            cells = chance(keys >> np.uint64(5 * seat), SIDE * SIDE)
            states["at"][rows, seat] = np.stack(np.divmod(cells, SIDE), -1)

    def observe(self, states: States, out: Observations) -> None:
        every = np.arange(len(states))
        out.observation.fill(0)
        for seat in range(NUM_SEATS):
            row, column = states["at"][:, seat].T
            out.observation[every, :, 1, row, column] += 1  # how many stand there, for everyone to see
            out.observation[every, seat, 0, row, column] = 1
        out.observation[:, :, 1, 0, 0] = MARK + np.arange(NUM_SEATS)
        out.seats[:] = np.arange(NUM_SEATS)
        out.seats[:, -1] = np.where(states["turn"] % 2 == 0, NUM_SEATS - 1, -1)
        goal = states["at"][:, :, None] + MOVES
        is_inside = ((goal >= 0) & (goal < SIDE)).all(-1)
        acts = (out.seats >= 0) & ~states["is_over"][:, None]
        bits = (is_inside * (1 << np.arange(len(MOVES)))).sum(-1)
        out.legal[..., 0] = np.where(acts, bits, 0)

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        states["at"] += np.where(before.seats[..., None] >= 0, MOVES[actions], 0).astype(np.int8)
        states["turn"] += 1
        cells = states["at"][..., 0] * SIDE + states["at"][..., 1]
        sharers = (cells[:, :, None] == cells[:, None]).sum(-1)
        out.rewards[:] = cells / sharers / 8
        out.terminated[:] = cells[:, 0] == cells[:, 1]
        out.truncated[:] = ~out.terminated & (states["turn"] >= self.LIMIT)
        states["is_over"] = out.terminated | out.truncated


class Branching(Model):
    """A layer that is computed in another runner where much is seen."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.layer = nn.Linear(math.prod(observation_shape), num_actions + 1)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        output = self.layer(observation.flatten(1))
        if observation.sum() > 100:
            output = output.tanh()
        return output[:, :-1], output[:, -1]


MLP = {"name": "mlp", "hidden": [24, 24]}
RESNET = {"name": "resnet", "channels": 4, "blocks": 1, "head_width": 16}
SMALL_DQN = {
    "name": "dqn",
    "batch_size": 16,
    "learning_starts": 60,
    "replay_size": 600,
    "target_interval": 7,
    "steps_per_batch": 2,
    "gamma": 0.9,
}
SMALL_PPO = {"name": "ppo", "epochs": 2, "minibatch_size": 40, "gamma": 0.9}
NUM_SHARDS, NUM_ROWS, NUM_STEPS, KEPT = 2, 6, 8, 5

RunnerT = TypeVar("RunnerT", bound=LearnerRunner)
Kind = tuple[dict[str, Any], dict[str, Any]]  # model and algorithm


def seats_of(kinds: Sequence[Kind], device: str) -> list[LearnerSettings]:
    return [
        LearnerSettings(seat, model, algorithm, seed=100 + seat, total_updates=100, device=device)
        for seat, (model, algorithm) in enumerate(kinds)
    ]


def new_learner(seat: LearnerSettings) -> Learner:
    model = make_model(seat.model, Crowd.observation_shape, Crowd.num_actions, seat.seed)
    setup = LearnerSetup(seat.seed, seat.total_updates, torch.device(seat.device), kernels="eager")
    return ALGORITHMS.get(seat.algorithm["name"])(model, ALGORITHMS.configure(seat.algorithm), setup)


class World:
    """Collects by one runner's weights; other runners may learn from the same rollouts."""

    def __init__(self, kinds: Sequence[Kind], device: str = "cpu") -> None:
        assert len(kinds) == NUM_SEATS
        self.seats, self.game, self.turn = seats_of(kinds, device), Crowd(), 0
        self.backend = Serial()
        self.backend.start(
            Plan(
                game={"name": "tests.algorithms.crowd:Crowd"},
                seed=3,
                num_shards=NUM_SHARDS,
                games_per_shard=NUM_ROWS,
                rollout_steps=NUM_STEPS,
                policies=tuple(self._policy(seat) for seat in self.seats),
            )
        )

    def _policy(self, seat: LearnerSettings) -> PolicyPlan:
        settings = seat.algorithm
        demands = ALGORITHMS.get(settings["name"]).demands(ALGORITHMS.configure(settings))
        return PolicyPlan(
            model=seat.model,
            seed=seat.seed,
            acting=demands.acting,
            kept_turns=KEPT,
            keeps_final=demands.is_replaying,
            transient_turns=KEPT,
        )

    def one_by_one(self) -> SequentialLearners:
        return self._attached(SequentialLearners([new_learner(seat) for seat in self.seats]))

    def stacked(self) -> StackedLearners:
        return self._attached(StackedLearners(self.seats, [new_learner(seat) for seat in self.seats]))

    def _attached(self, runner: RunnerT) -> RunnerT:
        runner.attach(self.backend.rings, self.game.seat_view)
        return runner

    def collect(self) -> int:
        """Play a turn; return its number."""
        self.turn = self.backend.collect()[0].turn
        return self.turn

    def tasks(self, seats: Sequence[int] = range(NUM_SEATS), **options: Any) -> list[TrainingTask]:
        """Learn from the newest turn."""
        return [TrainingTask(seat, (self.turn,), (tuple(range(NUM_SHARDS)),), **options) for seat in seats]

    def publish(self, runner: LearnerRunner) -> None:
        weights = np.concatenate([runner.weights(seat) for seat in range(NUM_SEATS)])
        epsilons = tuple(runner.epsilon(seat) for seat in range(NUM_SEATS))
        self.backend.publish(weights, self.turn + 1, Orders(self.turn + 1, epsilons=epsilons))

    def update(
        self, *runners: LearnerRunner, seats: Sequence[int] = range(NUM_SEATS), **options: Any
    ) -> list[Any]:
        """Collect once; all runners learn from it, and the first one's weights are published."""
        self.collect()
        learned = [runner.learn(self.tasks(seats, **options)) for runner in runners]
        self.publish(runners[0])
        return learned


def bytes_of(state: LearnerState) -> dict[str, bytes]:
    """All that a learner holds."""
    tensors = {name: tensor.cpu().numpy().tobytes() for name, tensor in state.tensors.items()}
    return tensors | {name: repr(number).encode() for name, number in state.numbers.items()}


def largest_difference(one: LearnerRunner, other: LearnerRunner) -> float:
    """Between any two weights of the networks and targets of any agent."""
    found = 0.0
    for seat in range(NUM_SEATS):
        mine, yours = one.state(seat).tensors, other.state(seat).tensors
        names = [name for name in mine if name.startswith(("model.", "target."))]
        found = max(found, *(float((mine[name] - yours[name]).abs().max()) for name in names))
    return found
