"""A game of your own in one file: Nim. The player who takes the last stone wins.

    senju games examples.nim:Nim                        # test it against the Game contract
    senju train examples.nim:Nim --steps 200_000 --set game.stones=21
    senju play examples.nim:Nim --run runs/Nim-…

It is written in plain NumPy; senju/games/tic_tac_toe.py is a compiled game.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from senju import Game, Observations, Outcomes
from senju.config import Part
from senju.games.game import States
from senju.kernels import pack_legal

MOST_TAKEN = 3


class NimConfig(Part):
    """Settings of Nim."""

    stones: int = Field(21, ge=2, le=255, description="Stones at the start.")


class Nim(Game):
    """Take 1, 2 or 3 stones in turn; taking the last one wins."""

    Config = NimConfig
    name = "nim"
    num_seats = 2
    num_actions = MOST_TAKEN
    state_dtype = np.dtype([("stones", np.uint8), ("mover", np.int8)])
    is_zero_sum = True

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        assert isinstance(self.config, NimConfig)
        self.stones = self.config.stones
        self.observation_shape = (self.stones + 1,)  # one-hot: the number of stones left

    def reset(self, states: States, rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Put all stones back."""
        states["stones"][rows] = self.stones
        states["mover"][rows] = 0

    def observe(self, states: States, out: Observations) -> None:
        """Show how many stones are left; 1 to 3 may be taken, but not more than are left."""
        left = states["stones"].astype(np.int64)
        out.observation[...] = 0
        out.observation[np.arange(len(states)), 0, left] = 1
        out.legal[:, 0] = pack_legal(np.arange(1, MOST_TAKEN + 1) <= left[:, None])
        out.seats[:, 0] = states["mover"]

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Take stones; the other seat is next."""
        taken, rows = actions[:, 0] + 1, np.arange(len(states))
        is_wrong = (taken < 1) | (taken > MOST_TAKEN) | (taken > states["stones"])
        self.refuse(int(is_wrong.argmax()) if is_wrong.any() else -1, actions)
        states["stones"] -= taken.astype(np.uint8)
        mover, has_won = states["mover"], states["stones"] == 0
        out.rewards[rows, mover] = has_won
        out.rewards[rows, 1 - mover] = -has_won.astype(np.float32)
        out.terminated[:] = has_won
        out.truncated[:] = False
        states["mover"] = 1 - mover

    def action_name(self, action: int) -> str:
        """The number of stones that the action takes."""
        return str(action + 1)

    def board_text(self, state: np.void) -> str:
        """The stones in a row."""
        return "● " * int(state["stones"]) + f"({state['stones']} left)"

    def board_svg(self, state: np.void) -> str:
        """The stones in a row, as a picture."""
        left = int(state["stones"])
        stones = "".join(f'<circle cx="{20 * i + 12}" cy="12" r="8"/>' for i in range(left))
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{20 * left + 24}" height="24">{stones}</svg>'
