"""Connect Four in plain NumPy as a vectorised environment of Stable-Baselines3.

All games live in arrays of one process; no line of it loops over games. Bitboards as in senju's own
rules: bit `7 * column + height`, the seventh bit of each column stays empty. Self-play: every
observation is the mover's view and every reward is the mover's own, 1 for a win.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

COLUMNS, HEIGHT = 7, 6
CELLS = COLUMNS * HEIGHT

_ONE = np.uint64(1)
_BOTTOM = np.array([1 << (7 * column) for column in range(COLUMNS)], np.uint64)
_TOP = np.array([1 << (7 * column + HEIGHT - 1) for column in range(COLUMNS)], np.uint64)
_COLUMN = np.array([0b111111 << (7 * column) for column in range(COLUMNS)], np.uint64)
# the bit of each cell in the order of the observation: row by row from the top
_CELL_BIT = np.array([7 * c + HEIGHT - 1 - r for r in range(HEIGHT) for c in range(COLUMNS)], np.uint64)
# up, right, both diagonals: shifts by one cell and by two
_ONE_STEP = np.array([[1], [7], [6], [8]], np.uint64)  # [direction, 1]
_TWO_STEPS = 2 * _ONE_STEP


class ConnectFourVecEnv(VecEnv):
    """`num_envs` games side by side; a game that ends starts anew at once."""

    render_mode = None

    def __init__(self, num_envs: int) -> None:
        self._stones = np.zeros((2, num_envs), np.uint64)  # [mover or other, game]
        self._num_moves = np.zeros(num_envs, np.int64)
        self._actions = np.zeros(num_envs, np.int64)
        # shared and empty: nothing is ever truncated, so no last observation is needed
        self._infos: list[dict[str, Any]] = [{}] * num_envs
        super().__init__(num_envs, spaces.Box(0, 1, (2 * CELLS,), np.float32), spaces.Discrete(COLUMNS))

    def reset(self) -> NDArray[np.float32]:
        """Start every game anew."""
        self._stones[:] = 0
        self._num_moves[:] = 0
        return self._observe()

    def action_masks(self) -> NDArray[np.bool_]:
        """The open columns, [game, column]."""
        taken = self._stones[0] | self._stones[1]
        is_open: NDArray[np.bool_] = (taken[:, None] & _TOP) == 0
        return is_open

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keep the columns for `step_wait`."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Drop the movers' stones and turn the boards round."""
        mover, other = self._stones
        # adding the bottom bit carries up to the lowest empty cell of the column
        mover = mover | (((mover | other) + _BOTTOM[self._actions]) & _COLUMN[self._actions])
        self._num_moves += 1
        has_won = _has_four(mover)
        is_over = has_won | (self._num_moves == CELLS)
        is_on = ~is_over
        self._stones = np.stack([other * is_on, mover * is_on])
        self._num_moves *= is_on
        return self._observe(), has_won.astype(np.float32), is_over, self._infos

    def _observe(self) -> NDArray[np.float32]:
        # a fresh array each time: the rollout buffer reads it after the next step
        bits = (self._stones.T[:, :, None] >> _CELL_BIT) & _ONE  # [game, mover or other, cell]
        return bits.reshape(self.num_envs, 2 * CELLS).astype(np.float32)

    # the base class fixes these signatures; no game can be picked out of the arrays

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
        """What a method returns for each game; sb3-contrib asks for `action_masks`."""
        return list(getattr(self, method_name)(*arguments, **options))

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute, once for each game."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: one game cannot differ from the others."""
        raise NotImplementedError("the games share one environment")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Nothing is wrapped."""
        return [False] * self.num_envs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """There is no chance in this game."""
        return [seed] * self.num_envs

    def close(self) -> None:
        """Nothing to close."""


def _has_four(stones: NDArray[np.uint64]) -> NDArray[np.bool_]:
    pairs = stones & (stones >> _ONE_STEP)  # [direction, game]
    fours = pairs & (pairs >> _TWO_STEPS)
    has_four: NDArray[np.bool_] = np.bitwise_or.reduce(fours, axis=0) != 0
    return has_four
