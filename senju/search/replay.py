"""Replays the moves from the root to the leaves.

The tree keeps no states: a Shogi state takes kilobytes, with the hashes of all earlier positions, and
copying one costs about as much as several compiled steps.
"""

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Outcomes, States, first_rows, state_bytes
from senju.search.descent import trace
from senju.search.tree import Nodes


class MoveReplay:
    """Replays the lines of a batch of leaves, all at once and level by level, in fixed rows."""

    def __init__(self, game: Game, num_rows: int) -> None:
        self.game = game
        self.states, self.outcomes = game.new_states(num_rows), game.new_outcomes(num_rows)
        self._bytes, self._root = state_bytes(self.states), np.zeros(game.state_dtype.itemsize, np.uint8)
        # slices are made once: making one costs as much as a step of a small game
        self.rows = [self.states[:count] for count in range(num_rows + 1)]
        self.outcomes_of = [first_rows(self.outcomes, count) for count in range(num_rows + 1)]
        self._actions = np.zeros((32, num_rows, 1), np.int32)  # [level, row, 1]
        self._rows_at = np.zeros(32, np.int64)
        self._tried, self._tried_outcomes = game.new_states(0), game.new_outcomes(0)

    def begin(self, root: States) -> None:
        """Set the root's state, one row."""
        self._root = state_bytes(root.copy())[0]

    def reach(self, nodes: Nodes, leaves: NDArray[np.int32], deepest: int) -> Outcomes:
        """Play to each leaf, and return the outcomes of the last moves.

        Sorts the leaves, in place, into the order of the rows; no leaf is deeper than `deepest`.
        """
        num_leaves = len(leaves)
        if deepest > len(self._actions):
            self._actions = np.zeros((2 * deepest, *self._actions.shape[1:]), np.int32)
            self._rows_at = np.zeros(2 * deepest, np.int64)
        num_levels = trace(nodes, leaves, self._actions, self._rows_at)
        self._bytes[:num_leaves] = self._root
        outcomes = self.outcomes_of[num_leaves]
        if num_levels == 0:  # the root has no last move
            for array in outcomes:
                array.fill(0)
        for level, count in enumerate(self._rows_at[:num_levels].tolist()):
            self.game.step(self.rows[count], self._actions[level, :count], self.outcomes_of[count])
        return outcomes

    def try_moves(self, row: int, actions: NDArray[np.int32]) -> Outcomes:
        """The outcome of each of these moves in the position in `row`, which is not changed."""
        count = len(actions)
        if count > len(self._tried):
            self._tried, self._tried_outcomes = self.game.new_states(count), self.game.new_outcomes(count)
        outcomes = first_rows(self._tried_outcomes, count)
        state_bytes(self._tried)[:count] = self._bytes[row]
        self.game.step(self._tried[:count], actions[:, None], outcomes)
        return outcomes
