"""The positions of leaves, reached from the root's by playing their lines again.

A tree that kept a state per node would be mostly states (Shogi's has kilobytes, with all earlier
positions in it), and copying one costs about as much as several compiled steps.
"""

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Outcomes, States
from senju.search.descent import trace
from senju.search.tree import Nodes


class Replay:
    """Fixed rows in which a batch of lines is played, all of them at once and level by level."""

    def __init__(self, game: Game, num_rows: int) -> None:
        self.game = game
        self.states, self.outcomes = game.new_states(num_rows), game.new_outcomes(num_rows)
        self._bytes, self._root = _as_bytes(self.states), np.zeros(game.state_dtype.itemsize, np.uint8)
        # views are made once: a slice costs as much as a step of a small game
        self.rows = [self.states[:count] for count in range(num_rows + 1)]
        self.outcomes_of = [_first(self.outcomes, count) for count in range(num_rows + 1)]
        self._actions = np.zeros((32, num_rows, 1), np.int32)  # [level, row, 1]
        self._rows_at = np.zeros(32, np.int64)
        self._tried, self._tried_outcomes = game.new_states(0), game.new_outcomes(0)

    def begin(self, root: States) -> None:
        """Replay from this state, one row, from now on."""
        self._root = _as_bytes(root.copy())[0]

    def reach(self, nodes: Nodes, leaves: NDArray[np.int32], deepest: int) -> Outcomes:
        """Bring a row to each leaf, and say what the last move led to.

        The leaves are put into another order, that of the rows; no leaf lies deeper than `deepest`.
        """
        num_leaves = len(leaves)
        if deepest > len(self._actions):
            self._actions = np.zeros((2 * deepest, *self._actions.shape[1:]), np.int32)
            self._rows_at = np.zeros(2 * deepest, np.int64)
        num_levels = trace(nodes, leaves, self._actions, self._rows_at)
        self._bytes[:num_leaves] = self._root
        outcomes = self.outcomes_of[num_leaves]
        if num_levels == 0:  # the root: nothing led to it
            for array in outcomes:
                array.fill(0)
        for level, count in enumerate(self._rows_at[:num_levels].tolist()):
            self.game.step(self.rows[count], self._actions[level, :count], self.outcomes_of[count])
        return outcomes

    def try_moves(self, row: int, actions: NDArray[np.int32]) -> Outcomes:
        """What each of these moves leads to from the position in `row`, which stays as it is."""
        count = len(actions)
        if count > len(self._tried):
            self._tried, self._tried_outcomes = self.game.new_states(count), self.game.new_outcomes(count)
        outcomes = _first(self._tried_outcomes, count)
        _as_bytes(self._tried)[:count] = self._bytes[row]
        self.game.step(self._tried[:count], actions[:, None], outcomes)
        return outcomes


def _first(outcomes: Outcomes, count: int) -> Outcomes:
    return Outcomes(outcomes.rewards[:count], outcomes.terminated[:count], outcomes.truncated[:count])


def _as_bytes(states: States) -> NDArray[np.uint8]:
    return states.view(np.uint8).reshape(len(states), states.dtype.itemsize)
