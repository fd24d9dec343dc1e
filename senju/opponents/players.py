"""Players: random, minimax, greedy, perfect, and trained agents."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.actor import Actor
from senju.collect.device_actor import DeviceProgram
from senju.collect.device_network import DeviceNetwork
from senju.collect.exploration import BY_POLICY, Acting, best_actions, epsilon_greedy_actions, sample_actions
from senju.errors import ConfigError
from senju.games.game import Game, Observations, Oracle, SeatView, States
from senju.games.rows import choose_at_random
from senju.kernels import pack_legal, unpack_legal
from senju.models.model import Model


class PlayerBatch(NamedTuple):
    """The rows in which one player is to move. Copy what you keep: the arrays may be used again."""

    states: States  # empty for a player that does not look at them
    observations: Observations
    clock: NDArray[np.void]  # row id, game number and step, for random numbers
    seed: np.uint64
    stream: int


class Player(ABC):
    """Chooses actions for whole batches of rows of a game in which seats take turns."""

    name: str
    is_deterministic: bool
    looks_at_states: bool = True  # False: it uses observations only, which saves a copy
    oracle: Oracle | None = None  # the oracle it plays by, if any; matches check opponents' moves with it

    @abstractmethod
    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        """One legal action per row: [row, 1]."""


class RandomPlayer(Player):
    """Any legal action, equally likely."""

    name = "random"
    is_deterministic = False
    looks_at_states = False

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        return _any_of(batch.observations.legal, batch)


NewActor = Callable[[Game | SeatView, Model, int], Actor | DeviceNetwork]  # for so many rows


def on_device(program: DeviceProgram, num_rows: int = 0) -> NewActor:
    """Makes actors that evaluate on a device, for at least so many rows."""
    return lambda view, model, rows: DeviceNetwork(program, view, model, max(rows, num_rows))


class AgentPlayer(Player):
    """A trained network: its best move, a draw from its policy, or epsilon-greedy by its action values.

    A temperature is for policies, an epsilon for action values; 0 of both is the best move.
    """

    looks_at_states = False

    def __init__(
        self,
        game: Game | SeatView,
        model: Model,
        name: str,
        temperature: float = 0.0,
        acting: Acting = BY_POLICY,
        epsilon: float = 0.0,
        new_actor: NewActor = Actor,
    ) -> None:
        self.game, self.model, self.name = game, model, name
        self.temperature, self.acting, self.epsilon = temperature, acting, epsilon
        self.is_deterministic = epsilon == 0.0 if acting.by == "action_values" else temperature == 0.0
        self._new_actor, self._actor = new_actor, new_actor(game, model, 1)

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        observation, legal, seats = batch.observations
        num_rows = len(batch.clock)
        if num_rows > self._actor.num_rows:
            self._actor = self._new_actor(self.game, self.model, max(num_rows, 2 * self._actor.num_rows))
        logits, values = self._actor.evaluate(observation)
        actions = np.zeros((num_rows, 1), np.int32)
        drawing = (legal, seats, batch.clock, batch.seed, batch.stream)
        if self.is_deterministic:
            best_actions(logits, legal, seats, actions)
        elif self.acting.by == "action_values":
            epsilon, is_dueling = self.epsilon, self.acting.is_dueling
            ignored = np.zeros(actions.shape, np.bool_), np.zeros(actions.shape, np.float32)
            epsilon_greedy_actions(logits, values, *drawing, epsilon, is_dueling, actions, *ignored)
        else:
            log_probs = np.zeros(actions.shape, np.float32)
            if self.temperature != 1.0:
                logits = logits / np.float32(self.temperature)
            sample_actions(logits, *drawing, actions, log_probs)
        return actions


PLY_DISCOUNT = 0.99  # of results in `minimax`: it wins early and loses late
EXPANDED_AT_ONCE = 1 << 17  # positions, to bound memory


class MinimaxPlayer(Player):
    """Searches `depth` plies, values only finished games, and draws among equally good moves.

    It uses the Game contract alone, with all positions of a ply as one batch, so it can play every
    two-seat zero-sum game without chance.
    """

    is_deterministic = False

    def __init__(self, game: Game, depth: int) -> None:
        if not game.is_zero_sum or game.num_acting != 1:
            raise ConfigError(f"minimax needs a zero-sum game of two seats in turn; {game.name} is not one")
        self.game, self.depth, self.name = game, depth, f"minimax:{depth}"

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        return _any_of_the_best(self.action_values(batch.states), batch)

    def action_values(self, states: States) -> NDArray[np.float64]:
        """The mover's value of each action within the horizon, minus infinity where illegal."""
        records = np.ascontiguousarray(states).view(np.dtype((np.void, states.dtype.itemsize)))
        _, first, inverse = np.unique(records, return_index=True, return_inverse=True)
        return np.concatenate(list(self._chunks(states[first], self.depth)))[inverse]

    def _chunks(self, states: States, depth: int) -> Iterator[NDArray[np.float64]]:
        size = max(1, EXPANDED_AT_ONCE // self.game.num_actions)
        return (self._expand(states[i : i + size], depth) for i in range(0, len(states), size))

    def _expand(self, states: States, depth: int) -> NDArray[np.float64]:
        game, num_rows = self.game, len(states)
        observations = game.new_observations(num_rows)
        game.observe(states, observations)
        legal = unpack_legal(observations.legal[:, 0], game.num_actions)
        parents, actions = np.nonzero(legal)
        children = states[parents]
        outcomes = game.new_outcomes(len(children))
        game.step(children, actions.astype(np.int32)[:, None], outcomes)
        movers = observations.seats[parents, 0]
        values = outcomes.rewards[np.arange(len(children)), movers].astype(np.float64)
        running = np.flatnonzero(~(outcomes.terminated | outcomes.truncated))
        if depth > 1 and len(running):
            replies = self._best_replies(children[running], movers[running], depth - 1)
            values[running] += PLY_DISCOUNT * replies
        found = np.full((num_rows, game.num_actions), -np.inf)
        found[parents, actions] = values
        return found

    def _best_replies(self, states: States, movers: NDArray[np.int8], depth: int) -> NDArray[np.float64]:
        """The value of each position for the seat that has just moved."""
        best = np.concatenate([chunk.max(axis=1) for chunk in self._chunks(states, depth)])
        observations = self.game.new_observations(len(states))
        self.game.observe(states, observations)
        return np.where(observations.seats[:, 0] == movers, best, -best)


class GreedyPlayer(Player):
    """Plays the best move by the game's own heuristic, one or two plies ahead; draws among equals."""

    is_deterministic = False

    def __init__(self, game: Game, depth: int) -> None:
        heuristic = game.heuristic()
        if heuristic is None:
            raise ConfigError(f"{game.name} has no heuristic to be greedy by; try minimax:{depth}")
        self.depth, self.name, self._heuristic = depth, f"greedy:{depth}", heuristic

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        return _any_of_the_best(self._heuristic.action_values(batch.states, self.depth), batch)


class PerfectPlayer(Player):
    """Plays perfectly where the game's oracle can solve the position; elsewhere minimax, four plies deep.

    Among moves that keep the best reachable result it takes the quickest win or the longest
    defence that minimax sees, and draws among equals.
    """

    name = "perfect"
    is_deterministic = False

    def __init__(self, game: Game) -> None:
        self.oracle = game.oracle()
        if self.oracle is None:
            raise ConfigError(f"{game.name} has no exact solver for `perfect`; try minimax:DEPTH")
        self._minimax = MinimaxPlayer(game, 4)

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        values = self._minimax.action_values(batch.states)
        assert self.oracle is not None
        solvable = self.oracle.can_solve(batch.states)
        if solvable.any():
            # exact results outweigh the values of minimax, which stay within [-1, 1]
            values[solvable] += 4.0 * self.oracle.values(batch.states[solvable])
        return _any_of_the_best(values, batch)


def _any_of_the_best(values: NDArray[np.float64], batch: PlayerBatch) -> NDArray[np.int32]:
    best = values >= values.max(axis=1, keepdims=True) - 1e-9
    return _any_of(pack_legal(best[:, None, :]), batch)


def _any_of(allowed: NDArray[np.uint64], batch: PlayerBatch) -> NDArray[np.int32]:
    actions = np.zeros((len(batch.clock), 1), np.int32)
    choose_at_random(allowed, batch.clock, batch.seed, batch.stream, actions)
    return actions


KNOWN_OPPONENTS = (
    "random, minimax:DEPTH, greedy:DEPTH, perfect, a run's folder, RUN@UPDATE for its checkpoint or snapshot "
    "of that update, or package.module:function"
)
_SEARCHERS = {"minimax": (MinimaxPlayer, 9), "greedy": (GreedyPlayer, 2)}  # with the largest depth


def is_built_in(description: str) -> bool:
    """Whether this describes a built-in player, even if a folder has that name.

    >>> is_built_in("random"), is_built_in("minimax:2"), is_built_in("runs/random")
    (True, True, False)
    """
    return description in ("random", "perfect") or description.partition(":")[0] in _SEARCHERS


def built_in_player(game: Game, description: str) -> Player | None:
    """The built-in player of that description; None for any other description."""
    kind, _, depth = description.partition(":")
    if description == "random":
        return RandomPlayer()
    if description == "perfect":
        return PerfectPlayer(game)
    if kind not in _SEARCHERS:
        return None
    searcher, deepest = _SEARCHERS[kind]
    if depth not in map(str, range(1, deepest + 1)):
        raise ConfigError(f"{description!r}: expected {kind}:DEPTH with a depth from 1 to {deepest}")
    return searcher(game, int(depth))
