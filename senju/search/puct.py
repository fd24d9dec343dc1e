"""PUCT search (Monte Carlo tree search with a policy and a value network).

    search = TreeSearch(game, model, SearchConfig(nodes=800))
    result = search.run(states)  # one row
    game.step(states, [[result.best]], outcomes)
    ...
    search.advance([result.best, reply])  # keeps the part of the tree after both moves
    result = search.run(states)

Works with the Game contract alone, for zero-sum games of two seats that take turns, with rewards at the
end only. Without `advance`, the result depends only on weights, state, settings and seed.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.games.game import Game, States
from senju.models.model import Model
from senju.search.grower import Grower
from senju.search.grower_kernels import mix_noise
from senju.search.report import best_line, describe_root
from senju.search.settings import SearchConfig
from senju.search.tree import INNER, Tree, find_edge
from senju.timing import StageClock

__all__ = ["RootMoves", "SearchConfig", "SearchResult", "StopReason", "TreeSearch"]

logger = logging.getLogger(__name__)

LONGEST_LINE = 256  # plies of a result's line


class StopReason(StrEnum):
    """Why a search ended."""

    NOT_YET = "not yet"
    NODES = "nodes"  # as many as asked for
    STOPPED = "stopped"  # by `is_stopped`
    PROVEN = "proven"  # the position is solved
    FULL = "full"  # the tree has max_tree_nodes, or takes max_tree_mib


class RootMoves(NamedTuple):
    """Statistics of the root's legal moves, best first."""

    actions: NDArray[np.int32]
    visits: NDArray[np.int64]
    values: NDArray[np.float64]  # the mover's, -1 to 1
    priors: NDArray[np.float32]


class SearchResult(NamedTuple):
    """The result of a search, or of its progress so far."""

    nodes: int  # new positions evaluated
    seconds: float
    depth: int  # plies of the longest line in the tree
    value: float  # the mover's, of the best move, -1 to 1
    best: int  # the action to play
    line: list[int]  # the principal variation, starting with `best`
    moves: RootMoves
    plies_to_end: int  # plies until the game ends, if the value is proven; else 0
    ended: StopReason

    @property
    def visits(self) -> dict[int, int]:
        """Visits of each visited move, best first."""
        pairs = zip(self.moves.actions.tolist(), self.moves.visits.tolist(), strict=True)
        return {action: visits for action, visits in pairs if visits}

    @property
    def is_proven(self) -> bool:
        """Whether `value` is exact: the result of perfect play (truncated games count their estimate)."""
        return self.plies_to_end > 0


class TreeSearch:
    """Searches one position after another; `advance` keeps the tree between them."""

    def __init__(self, game: Game, model: Model, config: SearchConfig | None = None, seed: int = 0) -> None:
        if game.num_seats != 2 or game.num_acting != 1 or not game.is_zero_sum:
            raise ConfigError(
                f"search needs a zero-sum game of two seats that take turns; {game.name} is not one"
            )
        self.game, self.config, self.seed = game, config or SearchConfig(), seed
        self.clock = StageClock()  # where the time goes
        max_nodes, max_bytes = self.config.max_tree_nodes, self.config.max_tree_mib << 20
        self._tree = Tree(max_nodes, max_bytes, game.num_actions, self.config.batch_size)
        self._grower = Grower(game, model, self.config, self._tree, self.clock)
        self._root = game.new_states(0)  # the tree's root; no row if there is no tree
        self._is_kept = False  # `advance` was called: the next run may continue with the tree
        self._is_mixed = False  # the root's priors have their noise
        self._chance = np.random.Generator(np.random.Philox(0))

    @torch.inference_mode()  # once per search: entering it costs microseconds
    def run(
        self,
        states: States,
        *,
        nodes: int | None = None,
        is_stopped: Callable[[], bool] | None = None,
        on_progress: Callable[[SearchResult], None] | None = None,
        seed: int | None = None,
    ) -> SearchResult:
        """Search the position in `states`, one row.

        `nodes` and `seed` override the settings; `nodes=0` searches until something else ends it. The
        root is always evaluated. `is_stopped` is called before each batch, and during the look-ahead;
        `on_progress` after each batch. Raises NoLegalActionError if the game is over.
        """
        started = perf_counter()
        self.clock.start()
        self._begin(states, self.seed if seed is None else seed)
        limit, count = self.config.nodes if nodes is None else nodes, 0
        if self._tree.num_nodes == 0:
            self._grower.evaluate_root()
            count += 1
        self._grower.look_ahead(is_stopped)
        self._mix_noise()
        while (ended := self._reason_to_stop(count, limit, is_stopped)) is StopReason.NOT_YET:
            room = self._tree.room
            count += self._grower.grow(min(limit - count, room) if limit else room)
            if on_progress is not None:
                on_progress(self._result(count, started, StopReason.NOT_YET))
        if ended is StopReason.FULL:
            logger.info(
                "the search tree is full: %d nodes in %.1f MiB; max_tree_nodes=%d, max_tree_mib=%d",
                self._tree.num_nodes,
                self._tree.num_bytes / 2**20,
                self.config.max_tree_nodes,
                self.config.max_tree_mib,
            )
        self._root = states.copy()
        return self._result(count, started, ended)

    def advance(self, actions: Sequence[int], most_bytes: float = math.inf) -> int:
        """Make the position after these moves the root, and keep its part of the tree for the next `run`.

        Returns the visits that this position has already; 0 if the tree does not reach it. With no moves,
        the next `run` continues where the last one stopped. A `run` of any other position starts over.
        Drops the tree if more than about `most_bytes` would have to be moved, which takes time.
        """
        if not len(self._root):
            return 0
        states, outcomes, index = self._root.copy(), self.game.new_outcomes(1), 0
        for action in actions:
            self.game.step(states, np.array([[action]], np.int32), outcomes)
            index = self._child(index, action) if index >= 0 else -1
        is_reached = index >= 0 and self._tree.nodes[index]["kind"] == INNER
        if not is_reached or (index > 0 and self._bytes_below(index) > most_bytes):
            self._forget()
            return 0
        if index > 0:
            self._tree.prune_to(index)
            self._is_mixed = False
        self._root, self._is_kept = states, True
        return int(self._tree.nodes[0]["visits"])

    def _child(self, index: int, action: int) -> int:
        tree = self._tree
        offset = find_edge(tree.nodes, tree.edges, index, action)
        node = tree.nodes[index]
        if not 0 <= offset < node["num_opened"]:
            return -1
        return int(tree.edges[node["first_edge"] + offset]["child"])

    def _bytes_below(self, index: int) -> float:
        """The approximate memory of a node and its descendants: nearly every visit added a node."""
        tree = self._tree
        return tree.used_bytes * float(tree.nodes[index]["visits"] / tree.nodes[0]["visits"])

    def _forget(self) -> None:
        self._tree.clear()
        self._root, self._is_kept, self._is_mixed = self.game.new_states(0), False, False

    def _begin(self, states: States, seed: int) -> None:
        if states.shape != (1,) or states.dtype != self.game.state_dtype:
            raise ConfigError(
                f"expected one row of {self.game.name}'s states, got shape {states.shape} with "
                f"{states.dtype.itemsize} bytes per row"
            )
        position = states.tobytes()
        if not self._is_kept or self._root.tobytes() != position:
            if self._is_kept:
                logger.info(
                    "the position is not the one that the tree was advanced to; the search starts over"
                )
            self._forget()
        # no tree to continue with until the search has ended: an error may leave it inconsistent
        self._root, self._is_kept = self.game.new_states(0), False
        self._grower.replay.begin(states)
        digest = int.from_bytes(hashlib.blake2b(position, digest_size=8).digest(), "little")
        self._chance = np.random.Generator(np.random.Philox(key=np.array([seed, digest], np.uint64)))

    def _mix_noise(self) -> None:
        tree, config = self._tree, self.config
        if config.noise > 0.0 and not self._is_mixed:
            num_edges = int(tree.nodes[0]["num_edges"])
            noise = self._chance.dirichlet(np.full(num_edges, config.noise_concentration / num_edges))
            mix_noise(tree.nodes, tree.edges, config.noise, noise)
            self._is_mixed = True

    def _reason_to_stop(self, count: int, limit: int, is_stopped: Callable[[], bool] | None) -> StopReason:
        root = self._tree.nodes[0]
        if root["lower"] == root["upper"]:
            return StopReason.PROVEN
        if limit and count >= limit:
            return StopReason.NODES
        if self._tree.room <= 0:
            return StopReason.FULL
        return StopReason.STOPPED if is_stopped is not None and is_stopped() else StopReason.NOT_YET

    def _result(self, count: int, started: float, ended: StopReason) -> SearchResult:
        tree = self._tree
        root = tree.nodes[0]
        first, num_edges = int(root["first_edge"]), int(root["num_edges"])
        visits, values = np.zeros(num_edges, np.int64), np.zeros(num_edges)
        is_worse = np.zeros(num_edges, np.bool_)
        best = describe_root(tree.nodes, tree.edges, self.config.first_play, visits, values, is_worse)
        actions, priors = (tree.edges[name][first : first + num_edges] for name in ("action", "prior"))
        is_best = np.arange(num_edges) == best
        order = np.lexsort((actions, -priors, -values, -visits, is_worse, ~is_best))
        moves = RootMoves(actions[order], visits[order], values[order], priors[order])
        chosen = int(moves.actions[0])
        is_proven = bool(root["lower"] == root["upper"])
        if self.config.temperature > 0.0 and ended is not StopReason.NOT_YET and not is_proven:
            chosen = self._draw(moves, is_worse[order])
        line = np.zeros(LONGEST_LINE, np.int32)
        length = best_line(tree.nodes, tree.edges, chosen, line)
        value = float(moves.values[moves.actions == chosen][0]) + 0.0  # a draw is 0, never -0
        result = SearchResult(
            nodes=count,
            seconds=perf_counter() - started,
            depth=tree.depth,
            value=value,
            best=chosen,
            line=line[:length].tolist(),
            moves=moves,
            plies_to_end=int(root["distance"]) if is_proven else 0,
            ended=ended,
        )
        self.clock.lap("report")
        return result

    def _draw(self, moves: RootMoves, is_worse: NDArray[np.bool_]) -> int:
        """A random move with probability ∝ visits ** (1 / temperature); none that is proven to be worse."""
        weights = np.where(is_worse, 0, moves.visits if moves.visits.any() else moves.priors)
        if not weights.any():
            return int(moves.actions[0])
        with np.errstate(divide="ignore"):
            logs = np.log(weights) / self.config.temperature
        shares = np.exp(logs - logs.max())
        return int(self._chance.choice(moves.actions, p=shares / shares.sum()))
