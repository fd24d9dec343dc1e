"""Positions drawn as text, and the rows around them that a player is shown."""

import numpy as np
from numpy.typing import NDArray

from senju.games import connect_four, tic_tac_toe
from senju.games.game import Game, States
from senju.games.rows import CLOCK
from senju.opponents.players import Player, PlayerBatch


def noughts(*boards: str) -> States:
    """Tic-tac-toe positions, each nine of `X`, `O` and `.` row by row; blanks are left out."""
    states = np.zeros(len(boards), tic_tac_toe.STATE)
    for state, board in zip(states, boards, strict=True):
        marks = board.replace(" ", "")
        state["board"] = [{"X": 0, "O": 1, ".": -1}[mark] for mark in marks]
        state["num_moves"] = 9 - marks.count(".")
    return states


def stones(*lines: str) -> States:
    """One Connect Four position from its rows, the top one first; rows left out are empty."""
    states = np.zeros(1, connect_four.STATE)
    for height, line in enumerate(reversed(lines)):
        for column, stone in enumerate(line.split()):
            if stone != ".":
                states[0]["stones"]["XO".index(stone)] |= np.uint64(1 << (7 * column + height))
    states["num_moves"] = np.bitwise_count(states["stones"]).sum()
    return states


def choose(game: Game, player: Player, states: States, seed: int = 0, step: int = 0) -> NDArray[np.int32]:
    """What a player does in each position."""
    observations = game.new_observations(len(states))
    game.observe(states, observations)
    clock = np.zeros(len(states), CLOCK)
    clock["row"], clock["step"] = np.arange(len(states)), step
    return player.choose(PlayerBatch(states, observations, clock, np.uint64(seed), stream=17))[:, 0]
