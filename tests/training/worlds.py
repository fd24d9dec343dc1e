"""Runs of small worlds in which every seat has an agent of its own; they train in a second."""

from pathlib import Path
from typing import Any

import senju
from senju.config import Settings, merged
from senju.runs.run import Run

NUM_AGENTS, TURNS, NUM_GAMES = 3, 10, 16
STEPS_PER_UPDATE = NUM_AGENTS * TURNS * NUM_GAMES
SMALL_HUNT: Settings = {
    "game": {"name": "treasure_hunt", "num_agents": NUM_AGENTS, "max_turns": TURNS, "height": 9, "width": 9},
    "collect": {
        "seating": "independent",
        "num_games": NUM_GAMES,
        "games_per_shard": 8,
        "rollout_steps": TURNS,
    },
    "model": {"name": "mlp", "hidden": [16]},
    "algorithm": {"name": "dqn", "batch_size": 16, "replay_size": 1000, "learning_starts": 100},
    "seats": {"1": {"algorithm": {"name": "ppo", "minibatch_size": 80, "epochs": 1}, "train_every": 2}},
    "evaluation": {"interval": 2, "games": 6, "opponents": []},
    "checkpoint": {"interval": 100},
    "parallel": {"enabled": False},
}


def hunt_settings(updates: int = 4, **changes: Any) -> Settings:
    """Three hunters in a small size, two that learn by DQN and one by PPO."""
    return merged(SMALL_HUNT, {"total_steps": updates * STEPS_PER_UPDATE}, changes)


def train_hunt(path: Path, updates: int = 4, *, max_updates: int | None = None, **changes: Any) -> Run:
    """A run of theirs."""
    return senju.train(run=path, max_updates=max_updates, **hunt_settings(updates, **changes))
