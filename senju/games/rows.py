"""Running games: a batch of rows that observe, step, and restart when they end."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game, Observations, Outcomes
from senju.kernels import ZERO, below, compiled, count_allowed, nth_allowed, random_word

CLOCK = np.dtype([("row", np.uint32), ("game", np.uint32), ("step", np.uint32)])


class Stream(IntEnum):
    """The purpose of a random number: the fourth number of the counter."""

    GAME_KEY = 0
    ACTION = 1
    RESIGNATION = 2
    OPPONENT = 3
    ACTIVE_OPPONENTS = 4
    OPPONENTS_ACTION = 5
    OPENING = 16
    FIRST_PLAYER = 17
    SECOND_PLAYER = 18
    HUMANS_OPPONENT = 32


GAME_KEY, ACTION = int(Stream.GAME_KEY), int(Stream.ACTION)


@compiled
def _write_keys(
    clock: NDArray[np.void], rows: NDArray[np.int64], seed: np.uint64, keys: NDArray[np.uint64]
) -> None:
    for index in range(rows.shape[0]):
        row = rows[index]
        keys[index] = random_word(seed, clock[row]["row"], clock[row]["game"], 0, GAME_KEY)


@compiled
def _advance(
    clock: NDArray[np.void],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    ended: NDArray[np.int64],
) -> int:
    """Count the step in every row; write the rows that ended and advance their game numbers."""
    num_ended = 0
    for row in range(clock.shape[0]):
        if terminated[row] or truncated[row]:
            ended[num_ended] = row
            num_ended += 1
            clock[row]["game"] += 1
            clock[row]["step"] = 0
        else:
            clock[row]["step"] += 1
    return num_ended


@compiled
def choose_at_random(
    legal: NDArray[np.uint64],
    clock: NDArray[np.void],
    seed: np.uint64,
    stream: int,
    actions: NDArray[np.int32],
) -> None:
    """Choose a uniformly random legal action; 0 where no seat acts."""
    for row in range(legal.shape[0]):
        for index in range(legal.shape[1]):
            word = random_word(
                seed, clock[row]["row"], clock[row]["game"], clock[row]["step"], stream + (index << 8)
            )
            count = count_allowed(legal[row, index])
            chosen = nth_allowed(legal[row, index], below(word, count))
            actions[row, index] = max(chosen, 0)


@compiled
def first_allowed(legal: NDArray[np.uint64], rows: NDArray[np.int64], actions: NDArray[np.int32]) -> None:
    """Choose the first legal action in some rows; 0 where no seat acts."""
    for row in rows:
        for index in range(legal.shape[1]):
            actions[row, index] = max(nth_allowed(legal[row, index], ZERO), 0)


class Rows:
    """A fixed group of rows of one game, with each row's id, game number and step.

    Random numbers depend on (seed, row id, game number, step) alone, not on the other rows. `states` and
    `clock` are the whole state. Games of `max_length` steps are truncated; 0 means no limit.
    """

    def __init__(self, game: Game, row_ids: NDArray[np.uint32], seed: int, max_length: int = 0) -> None:
        self.game = game
        self.max_length = max_length
        self.seed = np.uint64(seed)
        self.states = game.new_states(len(row_ids))
        self.clock = np.zeros(len(row_ids), CLOCK)
        self.clock["row"] = row_ids
        self._ended = np.zeros(len(row_ids), np.int64)
        self._keys = np.zeros(len(row_ids), np.uint64)
        self._reset(np.arange(len(row_ids)))

    def __len__(self) -> int:
        return len(self.states)

    def observe(self, out: Observations) -> None:
        """Write the observations of the acting seats of every row."""
        self.game.observe(self.states, out)

    def step(self, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Apply one action per acting seat; rows that end keep their last position until `advance`."""
        self.game.step(self.states, actions, out)
        if self.max_length:
            is_long = ~out.terminated & (self.clock["step"] + 1 >= self.max_length)
            np.logical_or(out.truncated, is_long, out=out.truncated)

    def advance(self, outcomes: Outcomes) -> NDArray[np.int64]:
        """Count the step, start a new game in each row that ended, and return those rows."""
        num_ended = _advance(self.clock, outcomes.terminated, outcomes.truncated, self._ended)
        ended = self._ended[:num_ended]
        if num_ended:
            self._reset(ended)
        return ended

    def _reset(self, rows: NDArray[np.int64]) -> None:
        keys = self._keys[: len(rows)]
        _write_keys(self.clock, rows, self.seed, keys)
        self.game.reset(self.states, rows, keys)
