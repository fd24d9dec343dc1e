"""Shards: fixed groups of rows, always stepped and evaluated together."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.games.game import Game
from senju.games.rows import Rows


class ShardState(NamedTuple):
    """All there is to know of a shard between two rollouts."""

    states: NDArray[np.void]
    clock: NDArray[np.void]


class Shard:
    """Rows `index * num_rows` and on. Being one batch, they are the unit of determinism."""

    def __init__(self, game: Game, index: int, num_rows: int, seed: int, max_game_length: int = 0) -> None:
        self.index = index
        first = index * num_rows
        row_ids = np.arange(first, first + num_rows, dtype=np.uint32)
        self.rows = Rows(game, row_ids, seed, max_game_length)

    def snapshot(self) -> ShardState:
        """A copy of the shard's state."""
        return ShardState(self.rows.states.copy(), self.rows.clock.copy())

    def restore(self, state: ShardState) -> None:
        """Go back to a snapshot."""
        self.rows.states[:] = state.states
        self.rows.clock[:] = state.clock


def count_shards(num_games: int, games_per_shard: int) -> int:
    """How many shards hold `num_games`.

    >>> count_shards(256, 64)
    4
    """
    if num_games % games_per_shard:
        lower = num_games // games_per_shard * games_per_shard
        fits = [str(n) for n in (lower, lower + games_per_shard) if n]
        raise ConfigError(
            f"num_games={num_games} does not divide into shards of {games_per_shard}; "
            f"try {' or '.join(fits)}, or games_per_shard={math.gcd(num_games, games_per_shard)}"
        )
    return num_games // games_per_shard
