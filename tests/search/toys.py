"""A game that is a table, and models that are tables: every number in a search is known."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.games.game import Observations, Outcomes, States
from senju.models.mlp import MlpConfig
from senju.models.model import Model
from tests.collect.toy_games import ToyGame

NUM_ACTIONS = 4


@dataclass(frozen=True)
class Place:
    """A position: who is to move and where each action leads; or how the game ends here."""

    seat: int = 0
    moves: dict[int, int] = field(default_factory=dict)  # action -> place
    reward: float | None = None  # seat 0's, where the game ends
    is_truncated: bool = False


class TableGame(ToyGame):
    """Begins at place 0; all that is seen is the number of the place."""

    name = "table"
    num_seats = 2
    num_actions = NUM_ACTIONS
    observation_shape = (1,)
    state_dtype = np.dtype([("place", np.uint8), ("is_over", np.bool_)])
    is_zero_sum = True

    def __init__(self, *places: Place) -> None:
        super().__init__()
        self.places = places
        self.pay_underway = 0.0  # what seat 0 gets for every move

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        states[rows] = np.zeros((), self.state_dtype)

    def observe(self, states: States, out: Observations) -> None:
        out.observation[:, 0, 0] = states["place"]
        for row, state in enumerate(states):
            place = self.places[state["place"]]
            out.legal[row, 0, 0] = 0 if state["is_over"] else sum(1 << action for action in place.moves)
            out.seats[row, 0] = place.seat

    def apply(self, states: States, actions: NDArray[np.int32], before: Observations, out: Outcomes) -> None:
        for row, state in enumerate(states):
            number = self.places[state["place"]].moves[int(actions[row, 0])]
            place = self.places[number]
            state["place"] = number
            out.terminated[row], out.truncated[row] = place.reward is not None, place.is_truncated
            state["is_over"] = out.terminated[row] or out.truncated[row]
            reward = self.pay_underway if place.reward is None else place.reward
            out.rewards[row] = reward, -reward


class TableModel(Model):
    """Policy and value of each place, as given; by default uniform and 0."""

    def __init__(
        self,
        values: dict[int, float] | None = None,
        policies: dict[int, list[float]] | None = None,
    ) -> None:
        super().__init__((1,), NUM_ACTIONS, MlpConfig())
        self.values, self.logits = torch.zeros(256), torch.zeros(256, NUM_ACTIONS)
        for place, value in (values or {}).items():
            self.values[place] = value
        for place, policy in (policies or {}).items():
            self.logits[place] = torch.log(torch.tensor(policy))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        place = observation[:, 0].long()
        return self.logits[place], self.values[place]


class EvenModel(Model):
    """Knows nothing: every move alike, every position 0."""

    def __init__(self, num_actions: int) -> None:
        super().__init__((1,), num_actions, MlpConfig())
        self.num_actions = num_actions

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(observation), self.num_actions), torch.zeros(len(observation))
