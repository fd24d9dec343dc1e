"""Tic-tac-toe, solved: every game that an agent can get into, and what its positions are worth."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, States
from senju.kernels import unpack_legal
from senju.opponents.players import MinimaxPlayer
from senju.runs.agent import Agent

WHOLE_GAME = 9  # moves


class Walk(NamedTuple):
    """All that can happen where an agent always makes its best move and the other makes any."""

    states: States  # every position that comes up, of both to move
    values: NDArray[np.float64]  # [position], the agent's value for the seat to move
    num_lost: int  # games, or rather last moves
    num_won: int


def walk(agent: Agent, seat: int) -> Walk:
    """Try all replies to the agent's moves in one seat."""
    game, states = agent.game, agent.game.new_games(1)
    seen, values = [states[:0]], [np.zeros(0)]
    rewards = np.zeros(0, np.float32)
    while len(states):
        observations = game.new_observations(len(states))
        game.observe(states, observations)
        tried = unpack_legal(observations.legal[:, 0], game.num_actions)
        scores = agent.action_values(states)
        is_own = observations.seats[:, 0] == seat
        tried[is_own] = np.arange(game.num_actions) == scores[is_own].argmax(axis=1)[:, None]
        seen.append(states)
        values.append(scores.max(axis=1))
        rows, actions = np.nonzero(tried)
        states, ended = _played(game, states[rows], actions.astype(np.int32), seat)
        rewards = np.append(rewards, ended)
    return Walk(
        np.concatenate(seen), np.concatenate(values), int((rewards < 0).sum()), int((rewards > 0).sum())
    )


def _played(
    game: Game, states: States, actions: NDArray[np.int32], seat: int
) -> tuple[States, NDArray[np.float32]]:
    """The different positions that some moves lead to, and a seat's rewards where they end the game."""
    outcomes = game.new_outcomes(len(states))
    game.step(states, actions[:, None], outcomes)
    is_over = outcomes.terminated | outcomes.truncated
    _, first = np.unique(states.view((np.void, states.itemsize)), return_index=True)
    kept = np.intersect1d(first, np.flatnonzero(~is_over))
    return states[kept], outcomes.rewards[is_over, seat]


def solved_values(game: Game, states: States) -> NDArray[np.float64]:
    """Values of positions for the seat to move, if both play perfectly: 1, 0 or -1."""
    return np.sign(MinimaxPlayer(game, WHOLE_GAME).action_values(states).max(axis=1))
