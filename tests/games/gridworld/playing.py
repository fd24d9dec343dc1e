"""Hand-made positions: set up as text, played by the names of actions, compared as text."""

import textwrap
from typing import NamedTuple

import numpy as np

from senju.games import make_game
from senju.games.game import States
from senju.games.gridworld import Gridworld


class Played(NamedTuple):
    board: str  # the map after the turn, without the notes
    rewards: list[float]
    states: States

    @property
    def state(self) -> np.void:
        return self.states[0]


def world(name: str, **options: object) -> Gridworld:
    game = make_game(name, **options)
    assert isinstance(game, Gridworld)
    return game


def step(game: Gridworld, states: States, *actions: str) -> list[float]:
    """Play one turn of one row by the actions' names; the rewards."""
    outcomes = game.new_outcomes(len(states))
    numbers = [game.parse_action(action) for action in actions]
    game.step(states, np.array([numbers], np.int32), outcomes)
    rewards: list[float] = outcomes.rewards[0].tolist()
    return rewards


def play(game: Gridworld, text: str, *actions: str) -> Played:
    states = game.parse(text)
    rewards = step(game, states, *actions)
    return Played(board_of(game, states), rewards, states)


def board_of(game: Gridworld, states: States) -> str:
    height = states["grid"].shape[2]
    return "\n".join(game.board_text(states[0]).split("\n")[:height])


def drawn(text: str) -> str:
    return textwrap.dedent(text).strip()


def planes(game: Gridworld, states: States, seat: int = 0) -> dict[str, list[str]]:
    """What a seat sees: by the name of each plane, its lines of 0 and 1."""
    observations = game.new_observations(1)
    game.observe(states, observations)
    return {
        name: ["".join(map(str, line)) for line in plane.tolist()]
        for name, plane in zip(game.plane_names, observations.observation[0, seat], strict=True)
    }
