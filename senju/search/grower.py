"""Grows the tree by one batch of positions at a time."""

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from senju.collect.actor import Actor
from senju.errors import GameContractError, ModelError, NoLegalActionError
from senju.games.game import Game, Outcomes, States, first_rows, state_bytes
from senju.models.model import Model
from senju.search import grower_kernels as kernels
from senju.search.settings import SearchConfig
from senju.search.tree import INNER, Nodes, Tree, start_tree
from senju.timing import StageClock


class MoveReplay:
    """Replays the moves from the root to a batch of leaves, level by level, in fixed rows.

    The tree keeps no states: a Shogi state takes kilobytes, with the hashes of all earlier positions, and
    copying one costs about as much as several compiled steps.
    """

    def __init__(self, game: Game, num_rows: int) -> None:
        self.game = game
        self.states, self.outcomes = game.new_states(num_rows), game.new_outcomes(num_rows)
        self._bytes, self._root = state_bytes(self.states), np.zeros(game.state_dtype.itemsize, np.uint8)
        # made once: a slice costs as much as a step of a small game
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
        num_levels = kernels.write_paths(nodes, leaves, self._actions, self._rows_at)
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


class Grower:
    """Selects leaves, evaluates them as one batch, and backs up their values.

    The batch has a fixed shape, since another shape may round differently; unused rows are zero.
    """

    def __init__(self, game: Game, model: Model, config: SearchConfig, tree: Tree, clock: StageClock) -> None:
        size = config.batch_size
        self.game, self.config, self.tree, self.clock = game, config, tree, clock
        self._actor, self.replay = Actor(game, model, size), MoveReplay(game, size)
        self._observations = game.new_observations(size)
        self._seen = [first_rows(self._observations, count) for count in range(size + 1)]
        self._selection = kernels.SelectionSettings(
            config.exploration, config.exploration_base, config.first_play, config.virtual_loss
        )
        self._leaves, self._collisions = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self._results = np.zeros(size)

    def evaluate_root(self) -> None:
        """Evaluate the root of an empty tree."""
        start_tree(self.tree.nodes, self.tree.sizes)
        self._leaves[0] = 0
        self._evaluate(1, 0)

    def grow(self, most: int) -> int:
        """Add one batch of at most `most` positions to the tree; return their number."""
        tree, wanted = self.tree, min(self.config.batch_size, most)
        num_leaves, num_collisions = kernels.select(
            tree.nodes, tree.edges, tree.sizes, wanted, self._selection, self._leaves, self._collisions
        )
        self.clock.lap("select")
        self._evaluate(num_leaves, num_collisions)
        return num_leaves

    def look_ahead(self, is_stopped: Callable[[], bool] | None = None) -> None:
        """Check the moves of positions near the root for ending the game, the nearest positions first.

        These positions were too deep before the root moved. A stopped search leaves the rest untried.
        """
        nodes, size = self.tree.nodes[: self.tree.num_nodes], self.config.batch_size
        near = (nodes["kind"] == INNER) & ~nodes["is_tried"] & (nodes["depth"] < self.config.look_ahead)
        untried = np.flatnonzero(near).astype(np.int32)
        untried = untried[np.argsort(nodes["depth"][untried], kind="stable")]
        for start in range(0, len(untried), size):
            if is_stopped is not None and is_stopped():
                break
            some = untried[start : start + size]
            self.replay.reach(self.tree.nodes, some, self.tree.depth)
            self._try_moves(some)
        self.clock.lap("try")

    def _evaluate(self, num_leaves: int, num_collisions: int) -> None:
        """Expand the selected leaves and back up their values."""
        tree, leaves, seen = self.tree, self._leaves[:num_leaves], self._seen[num_leaves]
        outcomes = self.replay.reach(tree.nodes, leaves, tree.depth)
        self.clock.lap("replay")
        self.game.observe(self.replay.rows[num_leaves], seen)
        self._observations.observation[num_leaves:] = 0  # unused rows must be equal in each batch
        self.clock.lap("observe")
        logits, values = self._actor.evaluate(self._observations.observation)
        self.clock.lap("evaluate")
        if logits.shape[1] != self.game.num_actions:
            raise ModelError(
                f"the model gives {logits.shape[1]} logits for the {self.game.num_actions} actions of "
                f"{self.game.name}; use a model of this game"
            )
        # the tree has room for a batch of positions with every move legal; the kernel does not check
        assert tree.num_edges + num_leaves * self.game.num_actions <= len(tree.edges)
        verdict, where = kernels.expand(
            tree.nodes, tree.edges, tree.sizes, leaves, *outcomes, logits, values,
            seen.legal, seen.seats, self._results,
        )  # fmt: skip
        if verdict:
            self._refuse(verdict, int(leaves[where]))
        self.clock.lap("expand")
        if tree.nodes[leaves[-1]]["depth"] < self.config.look_ahead:  # the last is the shallowest
            self._try_moves(leaves)
            self.clock.lap("try")
        kernels.back_up(tree.nodes, tree.edges, leaves, self._results, self._collisions[:num_collisions])
        self.clock.lap("backup")

    def _try_moves(self, leaves: NDArray[np.int32]) -> None:
        """Add the moves that end the game to the leaves that are near the root."""
        tree = self.tree
        for row, index in enumerate(leaves.tolist()):
            node = tree.nodes[index]
            if node["kind"] != INNER or node["depth"] >= self.config.look_ahead:
                continue
            first, last = node["first_edge"] + node["num_opened"], node["first_edge"] + node["num_edges"]
            if first == last:  # after `advance`: all moves have children already
                node["is_tried"] = True
                continue
            actions = np.ascontiguousarray(tree.edges["action"][first:last])
            outcomes = self.replay.try_moves(row, actions)
            if tree.num_nodes + np.count_nonzero(outcomes.terminated) > len(tree.nodes):
                continue  # the tree is full: these moves are not tried
            ends = outcomes.rewards, outcomes.terminated
            if not kernels.add_ends(tree.nodes, tree.edges, tree.sizes, index, *ends):
                self._refuse(kernels.BAD_REWARD, index)

    def _refuse(self, verdict: int, index: int) -> NoReturn:
        name, line = self.game.name, []
        while index > 0:
            node = self.tree.nodes[index]
            line.append(self.game.action_name(int(node["action"])))
            index = int(node["parent"])
        where = f"{name}, after {' '.join(reversed(line))}" if line else f"{name}, at the root"
        if verdict == kernels.NO_MOVES and not line:
            raise NoLegalActionError(f"{where}: the game is over; no move can be searched")
        if verdict in (kernels.BAD_VALUE, kernels.BAD_PRIORS):
            what = "value" if verdict == kernels.BAD_VALUE else "policy"
            raise ModelError(f"{where}: the network's {what} is not finite; the weights are damaged")
        if verdict == kernels.BAD_REWARD:
            raise GameContractError(
                f"{where}: the game gives a reward before its end, or one above 1; search needs one from "
                "-1 to 1 at the end"
            )
        raise GameContractError(f"{where}: no action is legal, but the game has not ended")
