"""Senju's Shogi at random, stage by stage, as a rollout plays it: observe, choose, step, restart.

The rows and the kernels are those of training. Only the choice is made cheaper, as it is no part
of the rules: a xorshift generator for each row instead of counted random numbers.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from senju.games import make_game
from senju.games.rows import Rows
from senju.kernels import below, count_allowed, nth_allowed

_7, _13, _17 = (np.uint64(n) for n in (7, 13, 17))
_ODD = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(nogil=True)  # not kept on disk, where it would stand under one of this module's two names
def choose_cheaply(
    legal: NDArray[np.uint64],  # [row, acting, words]
    generators: NDArray[np.uint64],  # [row], none of them 0
    actions: NDArray[np.int32],
) -> None:
    """Choose legal actions, all equally likely; advance the generators. Marsaglia 2003, "Xorshift RNGs"."""
    for row in range(legal.shape[0]):
        word = generators[row]
        word ^= word << _13
        word ^= word >> _7
        word ^= word << _17
        generators[row] = word
        actions[row, 0] = nth_allowed(legal[row, 0], below(word, count_allowed(legal[row, 0])))


class RandomPlay:
    """A batch of games that goes on for ever.

    Without planes, nothing is observed: the legal actions are read where the state keeps them.
    """

    def __init__(self, batch: int, seed: int, has_planes: bool = True) -> None:
        game = make_game("shogi")
        self._rows = Rows(game, np.arange(batch, dtype=np.uint32), seed)
        self._has_planes = has_planes
        self._observations, self._outcomes = game.new_observations(batch), game.new_outcomes(batch)
        in_state = self._rows.states["legal"][:, np.newaxis]  # a view
        self._legal = self._observations.legal if has_planes else in_state
        self._generators = np.arange(1, batch + 1, dtype=np.uint64) * _ODD ^ np.uint64(seed)
        self._actions = np.zeros((batch, 1), np.int32)

    def observe(self) -> None:
        """Write planes, legal actions and the mover of every row."""
        if self._has_planes:
            self._rows.observe(self._observations)

    def choose(self) -> None:
        """Draw a legal action for every row."""
        choose_cheaply(self._legal, self._generators, self._actions)

    def step(self) -> None:
        """Play them."""
        self._rows.step(self._actions, self._outcomes)

    def restart(self) -> int:
        """Begin anew where a game ended, and return how many did."""
        return len(self._rows.advance(self._outcomes))

    def play(self, num_turns: int) -> int:
        """All stages so many times; returns how many games ended."""
        games = 0
        for _ in range(num_turns):
            self.observe()
            self.choose()
            self.step()
            games += self.restart()
        return games
