"""PettingZoo's connect_four_v3, as its users make it (with its wrappers): one game, in Python.

echo '{"batch": 1, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/pettingzoo_connect_four.py
"""

import sys
from random import Random

import numpy as np
from meter import Loop, serve
from pettingzoo.classic import connect_four_v3

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def make_loop(batch: int) -> Loop:
    """A turn is one move; there is no batch but 1."""
    if batch != 1:
        raise ValueError(f"PettingZoo plays one game at a time; got batch={batch}")
    env = connect_four_v3.env()
    env.reset(seed=SEED)
    rng = Random(SEED)

    def play(num_turns: int) -> int:
        games = 0
        for _ in range(num_turns):
            observation, _reward, _terminated, _truncated, _info = env.last()
            legal = np.flatnonzero(observation["action_mask"])
            env.step(int(legal[int(rng.random() * len(legal))]))
            # looked up here, so that no observation of a finished game is ever made
            if env.terminations[env.agent_selection]:
                games += 1
                env.reset()
        return games

    return Loop(play, 1)


if __name__ == "__main__":
    serve(make_loop, ["pettingzoo", "numpy"])
