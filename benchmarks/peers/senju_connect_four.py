"""Senju's Connect Four, measured as the peers are: observe, choose, step, advance over all rows.

echo '{"batch": 64, "seconds": 1}' | PYTHONPATH=. python benchmarks/peers/senju_connect_four.py
"""

import sys

import numpy as np
from meter import Loop, serve

from senju.games import make_game
from senju.games.rows import ACTION, Rows, choose_at_random

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def make_loop(batch: int) -> Loop:
    """A turn is one step of every row."""
    game = make_game("connect_four")
    rows = Rows(game, np.arange(batch, dtype=np.uint32), SEED)
    observations, outcomes = game.new_observations(batch), game.new_outcomes(batch)
    actions = np.zeros((batch, 1), np.int32)

    def play(num_turns: int) -> int:
        games = 0
        for _ in range(num_turns):
            rows.observe(observations)
            choose_at_random(observations.legal, rows.clock, rows.seed, ACTION, actions)
            rows.step(actions, outcomes)
            games += len(rows.advance(outcomes))
        return games

    return Loop(play, batch)


if __name__ == "__main__":
    serve(make_loop, ["numba", "numpy"])
