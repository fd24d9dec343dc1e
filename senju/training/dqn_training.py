"""`senju.train_dqn`: deep Q-learning by whole episodes, in one call."""

import os
from typing import Any

from senju.arguments import is_whole
from senju.config import Settings, merged, shown
from senju.errors import ConfigError
from senju.evaluation.opponents import with_opponents
from senju.games import make_game
from senju.machine import available_cores
from senju.runs.agent import Agent
from senju.runs.run_config import resolve_config
from senju.training.api import train
from senju.training.trainer import TrainingListener

_LONG = 256  # steps of an episode, if the rules set no limit
_OPTIONAL = ("num_workers", "learning_steps_per_batch", "max_episode_steps")


def train_dqn(
    n_episodes: int,
    num_workers: int | None = None,
    episodes_per_batch: int = 4,
    learning_steps_per_batch: int | None = None,
    batch_size: int = 256,
    device: str = "cpu",
    *,
    game: str | Settings,
    opponents: Any = "pool",
    replay_size: int = 100_000,
    max_episode_steps: int | None = None,
    seed: int = 0,
    run: str | os.PathLike[str] | None = None,
    listener: TrainingListener | None = None,
    **settings: Any,
) -> Agent:
    """Train an agent by DQN for so many episodes against opponents, and return it.

    Each worker plays `episodes_per_batch` whole episodes, then the learner takes
    `learning_steps_per_batch` steps on `batch_size` decisions from the replay, on `device`. The default is
    two workers fewer than cores, at least one, and as many learning steps as episodes in a batch. Learning
    begins as soon as `batch_size` decisions have a known outcome. `opponents` are those of `senju.train`;
    None is plain self-play. Episodes longer than `max_episode_steps` (default: the longest that the rules
    allow) are cut there. Further `settings` are those of a run, like `algorithm={"n_step": 3}` or
    `evaluation={"interval": 0}`.

    The batch, and so the result, depends on `num_workers` times `episodes_per_batch`; the run in the folder
    `run` can be resumed with any number of workers.
    """
    _require_positive(
        n_episodes=n_episodes,
        num_workers=num_workers,
        episodes_per_batch=episodes_per_batch,
        learning_steps_per_batch=learning_steps_per_batch,
        batch_size=batch_size,
        replay_size=replay_size,
        max_episode_steps=max_episode_steps,
    )
    chosen = resolve_config(None, {"game": game}).game
    rules = make_game(**chosen)
    workers = num_workers or max(1, available_cores() - 2)
    episodes = workers * episodes_per_batch
    length = max_episode_steps or rules.longest_game or _LONG
    wanted: Settings = {
        "algorithm": {
            "name": "dqn",
            "batch_size": batch_size,
            "steps_per_batch": learning_steps_per_batch or episodes,
            "replay_size": replay_size,
            "learning_starts": min(batch_size, replay_size),
        },
        "collect": {
            "num_games": episodes,
            "games_per_shard": episodes_per_batch,
            "rollout_steps": length,
            "max_game_length": length,
            "whole_games": True,
        },
        "total_steps": -(-n_episodes // episodes) * episodes * length * rules.num_acting,  # whole batches
        "device": device,
        "seed": seed,
    }
    if opponents is not None:
        settings = {"opponents": opponents, **settings}
    whole = merged(wanted, with_opponents(settings))
    algorithm = whole["algorithm"]
    if not isinstance(algorithm, dict) or algorithm["name"] != "dqn":
        raise ConfigError(
            f"algorithm={shown(algorithm)}: expected settings of dqn; senju.train takes any other"
        )
    return train(chosen, workers=workers, run=run, listener=listener, **whole).agent


def _require_positive(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if not is_whole(number, 1) and not (number is None and name in _OPTIONAL):
            raise ConfigError(f"{name}={shown(number)}: expected a whole number from 1")
