"""DQN by hand: a network that is a table, and rollouts of one game whose positions are numbers in it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from senju.algorithms.dqn import DQN, DQNConfig
from senju.algorithms.learner import LearnerSetup
from senju.collect.slots import Ring, RingShape, Rollout
from senju.config import Part
from senju.games.game import Game
from senju.models.model import Model, ModelConfig, build_model
from tests.collect.toy_games import Race

NUM_ACTIONS, NUM_POSITIONS = 3, 16
ALL = 0b111  # legal
NO_CLOCK = np.zeros(0, np.dtype([("row", np.uint32)]))


class Positions(Race):
    """Only its shape counts: two seats in turn, zero-sum, positions that are one number."""

    name = "positions"
    num_actions = NUM_ACTIONS
    observation_shape = (1,)


class GeneralPositions(Positions):
    """The same where one seat's gain is not the other's loss."""

    name = "general_positions"
    is_zero_sum = False


class Table(Model):
    """Looks logits and value up; nothing to begin with."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.rows = nn.Parameter(torch.zeros(NUM_POSITIONS, num_actions + 1))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and value of positions."""
        rows = self.rows[observation[:, 0].long()] * self.scale
        return rows[:, :-1], rows[:, -1]


class Cut(NamedTuple):
    """A truncated position: its number, who moves there, and what is legal."""

    position: int
    seat: int
    legal: int = ALL


class HandDQN:
    """A learner whose network is a table, with a ring to write games into."""

    def __init__(
        self,
        num_steps: int,
        game: Game | None = None,
        kept: int = 4,
        total_updates: int = 10,
        **settings: Any,
    ) -> None:
        self.game = game or Positions()
        self.ring = Ring(self.game, RingShape(1, num_steps, 1, kept, keeps_final=True))
        chosen = {"learning_starts": 1, "steps_per_batch": 1, "batch_size": 4, "gamma": 0.5} | settings
        model = build_model(Table, self.game.observation_shape, NUM_ACTIONS, ModelConfig(), seed=0)
        self.learner = DQN(model, DQNConfig(**chosen), LearnerSetup(1, total_updates))
        self.learner.attach(self.ring, self.game)
        self.num_turns = 0

    def know(self, position: int, network: Sequence[float], target: Sequence[float]) -> None:
        """Set what both networks say of a position: logits, then the value."""
        with torch.no_grad():
            for model, numbers in ((self.learner.model, network), (self.learner.target, target)):
                rows = model.get_parameter("rows")
                rows[position] = torch.tensor(numbers)

    def write(
        self,
        positions: Sequence[int],
        seats: Sequence[int],
        rewards: Mapping[int, tuple[float, float]] | None = None,
        *,
        actions: Sequence[int] | None = None,
        legal: Mapping[int, int] | None = None,  # by position; all where none is given
        explored: Sequence[int] = (),
        terminated: Sequence[int] = (),
        truncated: Mapping[int, Cut] | None = None,
    ) -> Rollout:
        """The next rollout of the one row; rewards, random moves and ends by the step's number."""
        turn, slot = self.num_turns, self.ring.slot(0, self.num_turns)
        for column in (slot.explored, slot.rewards, slot.terminated, slot.truncated, slot.actions):
            column.fill(0)
        slot.observation[:, 0, 0, 0], slot.seats[:, 0, 0] = positions, seats
        slot.actions[:, 0, 0] = actions or [0] * len(positions)
        slot.legal[:, 0, 0, 0] = [(legal or {}).get(position, ALL) for position in positions]
        for time, of_seats in (rewards or {}).items():
            slot.rewards[time, 0] = of_seats
        slot.explored[list(explored), 0] = True
        slot.terminated[list(terminated), 0] = True
        slot.final_at.fill(-1)
        for final, (time, cut) in enumerate((truncated or {}).items()):
            slot.truncated[time, 0], slot.final_at[time, 0] = True, final
            slot.final_observation[final, 0, 0], slot.final_seats[final, 0] = cut.position, cut.seat
            slot.final_legal[final, 0, 0] = cut.legal
        self.ring.open(0, turn)
        self.ring.complete(0, turn)
        self.num_turns += 1
        return Rollout(0, turn, (slot,), NO_CLOCK, turn)

    def learn(self, *arguments: Any, **options: Any) -> dict[str, float]:
        """Write a rollout and learn from it."""
        return self.learner.update([self.write(*arguments, **options)])


@contextmanager
def gradients_taken() -> Iterator[list[Tensor]]:
    """The gradient of the table at each step that Adam takes."""
    gradients: list[Tensor] = []

    def note(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        (parameter,) = optimizer.param_groups[0]["params"]
        gradients.append(parameter.grad.clone())

    handle = register_optimizer_step_pre_hook(note)
    try:
        yield gradients
    finally:
        handle.remove()
