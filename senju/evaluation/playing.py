"""Games played side by side to their ends: the loop of matches, tournaments and episodes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game
from senju.games.rows import Rows
from senju.opponents.players import Table

FIRST_ROW = np.uint32(2**31)  # beyond the rows of training, so that no evaluation repeats a training game

# all running games, and their indices -> an action for every acting seat
ChooseActions = Callable[[Table, NDArray[np.int64]], NDArray[np.int32]]


class Games:
    """Games of one batch; finished games stay as they are.

    `rows` seed the games: equal rows begin alike.
    """

    def __init__(self, game: Game, rows: NDArray[np.uint32], seed: int) -> None:
        self.game, self.rows = game, Rows(game, FIRST_ROW + rows, seed)
        self.is_running = np.ones(len(rows), np.bool_)
        self.totals = np.zeros((len(rows), game.num_seats))  # rewards of each seat
        self.lengths = np.zeros(len(rows), np.int64)  # steps
        self.num_steps = 0

    def step(self, choose: ChooseActions) -> None:
        """Play one step of every running game."""
        running, game = np.flatnonzero(self.is_running), self.game
        states, clock = self.rows.states[running], self.rows.clock[running]
        clock["step"] = self.num_steps
        observations, outcomes = game.new_observations(len(running)), game.new_outcomes(len(running))
        game.observe(states, observations)
        actions = choose(Table(states, observations, clock, self.rows.seed, 0), running)
        game.step(states, actions, outcomes)
        self.rows.states[running] = states
        self.totals[running] += outcomes.rewards
        self.lengths[running] += 1
        self.is_running[running] = ~(outcomes.terminated | outcomes.truncated)
        self.num_steps += 1
