"""Shards: fixed groups of rows, always stepped and evaluated together."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.seating import CURRENT
from senju.collect.slots import Allocate
from senju.errors import ConfigError
from senju.games.game import Game
from senju.games.rows import CLOCK, Rows


class ShardState(NamedTuple):
    """The complete state of a shard between two rollouts."""

    states: NDArray[np.void]
    clock: NDArray[np.void]
    seated: NDArray[np.int32]  # [row, seat], policy or opponent of the running game

    def copy(self) -> "ShardState":
        """A copy in new arrays."""
        return ShardState(self.states.copy(), self.clock.copy(), self.seated.copy())

    def write(self, state: "ShardState") -> None:
        """Copy another state into these arrays."""
        for array, value in zip(self, state, strict=True):
            array[:] = value


def new_shard_state(game: Game, num_rows: int, allocate: Allocate = np.zeros) -> ShardState:
    """Zeroed arrays for a shard's state."""
    return ShardState(
        allocate(num_rows, game.state_dtype),
        allocate(num_rows, CLOCK),
        allocate((num_rows, game.num_seats), np.int32),
    )


class Shard:
    """`num_rows` rows from `index * num_rows`. They are one batch: the unit of determinism."""

    def __init__(self, game: Game, index: int, num_rows: int, seed: int, max_game_length: int = 0) -> None:
        self.index = index
        first = index * num_rows
        row_ids = np.arange(first, first + num_rows, dtype=np.uint32)
        self.rows = Rows(game, row_ids, seed, max_game_length)
        self.seated = np.full((num_rows, game.num_seats), CURRENT, np.int32)

    @property
    def state(self) -> ShardState:
        """The shard's state, not a copy of it."""
        return ShardState(self.rows.states, self.rows.clock, self.seated)

    def restore(self, state: ShardState) -> None:
        """Go back to a state."""
        self.state.write(state)


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
