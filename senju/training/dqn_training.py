"""`senju.train_dqn`: deep Q-learning by whole episodes, in one call."""

import os
from typing import Any

from senju.arguments import is_whole
from senju.config import Settings, merged, shown
from senju.errors import ConfigError
from senju.games import make_game
from senju.machine import available_cores
from senju.training.agent import Agent
from senju.training.api import train
from senju.training.opponent_options import with_opponents
from senju.training.run_config import resolve_config
from senju.training.trainer import Listener

_LONG = 256  # steps that there is room for, of a game whose rules set no bound


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
    listener: Listener | None = None,
    **settings: Any,
) -> Agent:
    """Train an agent by DQN for so many episodes against opponents, and return it.

    Each worker plays `episodes_per_batch` whole episodes, then the learner takes
    `learning_steps_per_batch` steps on `batch_size` decisions from the replay, on `device`. By default
    there are as many workers as cores, less two, at least one; and as many learning steps as episodes in
    a batch. Learning begins as soon as `batch_size` decisions have a known outcome. `opponents` are those
    of `senju.train`; None is plain self-play. Episodes longer than `max_episode_steps` (what the game's
    rules allow, if they say) are cut there. Further `settings` are those of a run, like
    `algorithm={"n_step": 3}` or `evaluation={"interval": 0}`.

    The batch, and with it the result, follows from `num_workers` times `episodes_per_batch`; the run lies
    in the folder `run` and can be resumed with any number of workers.
    """
    optional = {
        "num_workers": num_workers,
        "learning_steps_per_batch": learning_steps_per_batch,
        "max_episode_steps": max_episode_steps,
    }
    _require_positive(
        n_episodes=n_episodes,
        episodes_per_batch=episodes_per_batch,
        batch_size=batch_size,
        replay_size=replay_size,
        **{name: number for name, number in optional.items() if number is not None},
    )
    chosen = resolve_config(None, {"game": game}).game
    workers = num_workers or max(1, available_cores() - 2)
    episodes = workers * episodes_per_batch
    learning: Settings = {
        "name": "dqn",
        "batch_size": batch_size,
        "steps_per_batch": learning_steps_per_batch or episodes,
        "replay_size": replay_size,
        "learning_starts": min(batch_size, replay_size),
    }
    rules = make_game(**chosen)
    length = max_episode_steps or rules.longest_game or _LONG
    num_steps = -(-n_episodes // episodes) * episodes * length * rules.num_acting  # of whole batches
    wanted: Settings = {
        "algorithm": learning,
        "collect": _whole_episodes(episodes, episodes_per_batch, length),
        "total_steps": num_steps,
        "device": device,
        "seed": seed,
    }
    if opponents is not None:
        settings = {"opponents": opponents, **settings}
    whole = merged(wanted, with_opponents(settings))
    if not isinstance(whole["algorithm"], dict):
        raise ConfigError(f"algorithm={shown(whole['algorithm'])}: expected settings of dqn, or leave it out")
    if whole["algorithm"]["name"] != "dqn":
        raise ConfigError(
            f"algorithm={shown(whole['algorithm']['name'])}: train_dqn trains by dqn, senju.train by any"
        )
    trained = train(chosen, workers=workers, run=run, listener=listener, **whole)
    return trained.agent


def _whole_episodes(per_batch: int, per_shard: int, length: int) -> Settings:
    return {
        "num_games": per_batch,
        "games_per_shard": per_shard,
        "rollout_steps": length,
        "max_game_length": length,
        "whole_games": True,
    }


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if not is_whole(number, 1):
            raise ConfigError(f"{name}={shown(number)}: expected a whole number from 1")
