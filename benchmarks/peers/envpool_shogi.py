"""EnvPool's Shogi: Pgx's rules in C++, a batch of games on one thread, driven from Python.

Each step returns the legal mask and 119 planes as booleans, those twice, for both seats; there is
no way to ask for less. The legal actions are drawn for all rows at once with NumPy.

    echo '{"batch": 64, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/envpool_shogi.py
"""

import sys

import envpool
import numpy as np
from meter import Loop, serve

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def make_loop(batch: int) -> Loop:
    """A turn is one step of every row; a row whose game ended begins anew in its next step."""
    games_pool = envpool.make_gymnasium("Shogi-v1", num_envs=batch, num_threads=1, seed=SEED)
    rng = np.random.default_rng(SEED)
    _, info = games_pool.reset()
    legal = info["legal_action_mask"]

    def play(num_turns: int) -> int:
        nonlocal legal
        games = 0
        for _ in range(num_turns):
            ranks = np.cumsum(legal, axis=1, dtype=np.int16)  # [row, action]
            wanted = (rng.random(batch) * ranks[:, -1]).astype(np.int16)
            actions = (ranks > wanted[:, np.newaxis]).argmax(axis=1).astype(np.int32)
            _, _, terminated, truncated, info = games_pool.step(actions)
            legal = info["legal_action_mask"]
            games += int((terminated | truncated).sum())
        return games

    return Loop(play, batch)


if __name__ == "__main__":
    serve(make_loop, ["envpool", "numpy"])
