"""OpenSpiel's Connect Four: rules in C++, one game, driven from Python.

The observer writes into one array, which is faster than `observation_tensor`; the list of legal
actions is used as the mask.

    echo '{"batch": 1, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/open_spiel_connect_four.py
"""

import sys
from random import Random

import pyspiel
from meter import Loop, serve
from open_spiel.python.observation import make_observation

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def make_loop(batch: int) -> Loop:
    """A turn is one move; there is no batch but 1."""
    if batch != 1:
        raise ValueError(f"OpenSpiel plays one game at a time; got batch={batch}")
    game = pyspiel.load_game("connect_four")
    observation = make_observation(game)
    state = game.new_initial_state()
    rng = Random(SEED)

    def play(num_turns: int) -> int:
        nonlocal state
        games = 0
        for _ in range(num_turns):
            observation.set_from(state, state.current_player())
            legal = state.legal_actions()
            state.apply_action(legal[int(rng.random() * len(legal))])
            state.rewards()
            if state.is_terminal():
                games += 1
                state = game.new_initial_state()
        return games

    return Loop(play, 1)


if __name__ == "__main__":
    serve(make_loop, ["open_spiel"])
