"""Your own opponent, and deep Q-learning against it, on tic-tac-toe.

    python -m examples.own_opponent

The agent plays against itself, against snapshots of its past, and against `finisher`, a function of this
file. It wins in one move if it can, else blocks such a move of the other player, else moves at random.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import senju
from senju.evaluation.matches import play_match
from senju.games.tic_tac_toe import LINES
from senju.opponents.functions import FunctionPlayer

EPISODES = 6_000


def finisher(observation: NDArray[np.uint8], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """A square that completes its own line, else one that blocks the other's line, else any free square."""
    for marks in observation.reshape(2, 9):  # its own, then the other's
        for line in LINES:
            free = line[legal[line]]
            if len(free) == 1 and marks[line].sum() == 2:
                return int(free[0])
    return int(random.choice(np.flatnonzero(legal)))


def train(episodes: int = EPISODES, num_workers: int = 2, run: Path | None = None) -> senju.Agent:
    """Train an agent; the run folder has all other results."""
    return senju.train_dqn(
        episodes,
        num_workers=num_workers,
        episodes_per_batch=32,  # of each worker: games that are played, and evaluated, side by side
        learning_steps_per_batch=24,
        batch_size=256,
        game="tic_tac_toe",
        opponents=["pool", finisher],
        seed=1,
        run=run,
        evaluation={"opponents": [], "final_opponents": []},  # it is measured below
    )


def score_against_finisher(agent: senju.Agent) -> float:
    """The share of 400 games that the agent's best moves win, draws counting half."""
    opponent = FunctionPlayer(agent.game, finisher, "finisher")
    return play_match(agent.game, agent.player(), opponent, num_games=400).score.mean


if __name__ == "__main__":
    trained = train()
    opening = trained.action_values(trained.game.new_games(1))[0]
    print(f"score against the finisher: {score_against_finisher(trained):.3f}")
    print("values of the nine first moves:", opening.round(2).tolist())
