"""A world and its twins, side by side."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from senju.games import make_game
from senju.games.game import Game, Observations, Outcomes
from senju.games.rows import GAME_KEY, Rows
from senju.kernels import random_word
from tests.games.gridworld.twin_world import TwinWorld


class Different(AssertionError):
    """The world and its twin do not agree."""


class Pair:
    """Rows of a world and a twin of each; both play the same random actions."""

    def __init__(
        self, name: str, settings: dict[str, Any], twin: type[TwinWorld], num_rows: int = 2, seed: int = 1
    ) -> None:
        self.game = make_game(name, **settings)
        self.seed, self.settings, self.new_twin = seed, settings, twin
        self.rows = Rows(self.game, np.arange(num_rows, dtype=np.uint32), seed)
        self.num_games = [0] * num_rows
        self.twins = [self.begin(row) for row in range(num_rows)]
        self.random = random.Random(seed)

    def begin(self, row: int) -> TwinWorld:
        key = random_word(np.uint64(self.seed), row, self.num_games[row], 0, GAME_KEY)
        return self.new_twin(int(key), **self.settings)

    def play(self, num_turns: int) -> None:
        """Compare everything, turn after turn, also the last positions and the new games after them."""
        observations = self.game.new_observations(len(self.rows))
        outcomes = self.game.new_outcomes(len(self.rows))
        self.compare_positions(observations)
        for _ in range(num_turns):
            actions = [[self.random.randrange(self.game.num_actions) for _ in t.agents] for t in self.twins]
            self.rows.step(np.array(actions, np.int32), outcomes)
            rewards = [twin.take_turn(chosen) for twin, chosen in zip(self.twins, actions, strict=True)]
            self.compare_outcomes(outcomes, rewards)
            self.compare_positions(observations)
            if len(ended := self.rows.advance(outcomes)):
                self.begin_anew(ended.tolist())
                self.compare_positions(observations)

    def begin_anew(self, rows: list[int]) -> None:
        for row in rows:
            self.num_games[row] += 1
            self.twins[row] = self.begin(row)

    def compare_outcomes(self, outcomes: Outcomes, rewards: list[list[float]]) -> None:
        for row, twin in enumerate(self.twins):
            came, wanted = outcomes.rewards[row], np.array(rewards[row], np.float32)
            expect_equal(came.tobytes(), wanted.tobytes(), f"{self.where(row)}: rewards {came}, not {wanted}")
            expect_equal(outcomes.truncated[row], twin.is_over(), f"{self.where(row)}: truncated")
            expect_equal(outcomes.terminated[row], False, f"{self.where(row)}: terminated")

    def compare_positions(self, observations: Observations) -> None:
        self.rows.observe(observations)
        for row, twin in enumerate(self.twins):
            came, wanted = self.rows.states[row], record(self.game, twin)
            if came.tobytes() != wanted.tobytes():  # drawing is slow
                drawn = "\nexpected\n".join(map(self.game.board_text, (came, wanted)))
                raise Different(f"{self.where(row)}:\n{drawn}")
            self.compare_views(row, observations)

    def compare_views(self, row: int, observations: Observations) -> None:
        for seat, agent in enumerate(self.twins[row].agents):
            came, wanted = (
                observations.observation[row, seat],
                np.array(self.twins[row].look(agent), np.uint8),
            )
            where = f"{self.where(row)}, agent {seat}"
            expect_equal(came.shape, wanted.shape, f"{where}: shape of the view")
            expect_equal(came.tobytes(), wanted.tobytes(), f"{where}: planes {list(differing(came, wanted))}")
            everything = [2**self.game.num_actions - 1]
            expect_equal(observations.legal[row, seat].tolist(), everything, f"{where}: legal actions")
            expect_equal(observations.seats[row, seat], seat, f"{where}: seat")

    def where(self, row: int) -> str:
        return f"row {row}, game {self.num_games[row]}, turn {self.twins[row].turn}"


def expect_equal(came: object, wanted: object, what: str) -> None:
    if came != wanted:
        raise Different(what)


def differing(came: Any, wanted: Any) -> Iterator[int]:
    for plane in range(len(wanted)):
        if not np.array_equal(came[plane], wanted[plane]):
            yield plane


def record(game: Game, twin: TwinWorld) -> np.void:
    """The state that a twin is in, as the game writes it."""
    state: np.void = game.new_states(1)[0]
    state["key"], state["turn"] = twin.dice.key, twin.turn
    for layer, things in enumerate(twin.layers()):
        state["grid"][layer] = [[twin.kinds.index(thing) for thing in line] for line in things]
    for field, values in (
        ("y", [agent.y for agent in twin.agents]),
        ("x", [agent.x for agent in twin.agents]),
        ("facing", [agent.facing for agent in twin.agents]),
        ("marked", [agent.is_it for agent in twin.agents]),
    ):
        state[field] = values
    return state
