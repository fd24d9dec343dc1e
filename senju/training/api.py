"""`senju.train` and `senju.train_dqn`: one call that trains a game."""

import logging
import os
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from senju.arguments import as_path, is_whole, require_listener
from senju.backends.building import PlanModels
from senju.backends.measuring import Announce
from senju.backends.shared_block import require_room
from senju.config import PartT, Settings, merged, shown, validated
from senju.errors import ConfigError
from senju.evaluation.matches import require_turns_of_two
from senju.evaluation.opponents import load_fixed, make_player, with_full_path, with_opponents
from senju.games import make_game
from senju.machine import available_cores
from senju.runs.agent import Agent
from senju.runs.automatic import AUTO
from senju.runs.interrupt import stop_on_signals
from senju.runs.run import Run, new_models
from senju.runs.run_config import RunConfig, require_device, resolve_config, resolve_parallel
from senju.training.device_memory import train_run
from senju.training.trainer import TrainingListener
from senju.trust import accept_named, trusting
from senju.workers.script import refuse_unguarded

logger = logging.getLogger(__name__)

_LONG = 256  # steps of an episode, if the rules set no limit
_OPTIONAL = ("num_workers", "learning_steps_per_batch", "max_episode_steps")
CHANGEABLE_ON_RESUME = (
    *("total_steps", "evaluation", "checkpoint", "backend", "learners"),
    *("parallel.num_learners", "parallel.learner_timeout"),
)


def train(
    game: str | Settings | None = None,
    *,
    preset: str | None = None,
    workers: int | None = None,
    run: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    from_checkpoint: str | None = None,
    max_updates: int | None = None,
    listener: TrainingListener | None = None,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Train an agent and return its run, with `run.agent`, `run.metrics` and `run.path`.

    `preset` names other ready-made settings of the game than the default ones, like "gpu" for Shogi.
    `workers` is the number of processes that play; the result is the same for any number. `settings` are
    those of a run's config: `total_steps=100_000`, `model="resnet"`, `algorithm={"epochs": 2}`; a game's own
    settings are given as `game={"name": …, …}`. `opponents` is a list, or text with commas: "pool" (its own
    past), "minimax:2", a run's folder, or a function `f(observation, legal, random)`. `resume` continues the
    run in that folder from its newest checkpoint, or from the one that `from_checkpoint` names; `trust` lets
    it load code that is not installed (docs/trust.md). `max_updates` stops early; the run can be resumed.
    Ctrl-C finishes the step, saves, and raises KeyboardInterrupt.
    """
    game, settings = checked_arguments(game, settings, max_updates, listener, TrainingListener)
    with trusting(trust):
        prepared = prepare(game, run, resume, from_checkpoint, settings, workers, preset)
    with stop_on_signals() as stop:
        train_run(prepared, listener, from_checkpoint, stop, max_updates)
    if stop.is_set:
        raise KeyboardInterrupt(f"stopped; go on with resume={str(prepared.path)!r}")
    return prepared


def train_dqn(
    n_episodes: int,
    num_workers: int | None = None,
    episodes_per_batch: int = 4,
    learning_steps_per_batch: int | None = None,
    batch_size: int = 256,
    device: str = "auto",
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
    """Train an agent by DQN for `n_episodes` episodes against opponents, and return it.

    Each worker plays `episodes_per_batch` whole episodes, then the learner takes
    `learning_steps_per_batch` steps on `batch_size` decisions from the replay, on `device` (`auto`: a GPU if
    there is one). The default is two workers fewer than cores, at least one, and as many learning steps as
    episodes in a batch. Learning begins as soon as `batch_size` decisions have a known outcome. `opponents`
    are those of `senju.train`; None is plain self-play. Episodes longer than `max_episode_steps` (default:
    the longest that the rules allow) are cut there. Further `settings` are those of a run, like
    `algorithm={"n_step": 3}` or `evaluation={"interval": 0}`.

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
    chosen = resolve_config(None, {"game": game, "device": "cpu"}).game
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


def checked_arguments(
    game: str | Settings | None, settings: Settings, max_updates: int | None, listener: Any, kind: type
) -> tuple[str | None, Settings]:
    """Check the arguments; a game given with its settings moves into `settings`."""
    refuse_unguarded()
    require_listener(listener, kind)
    if max_updates is not None and not is_whole(max_updates, 1):
        raise ConfigError(f"max_updates={shown(max_updates)}: expected 1 or more, or None for all")
    return (None, {**settings, "game": game}) if isinstance(game, dict) else (game, settings)


def prepare(
    game: str | None,
    run: str | os.PathLike[str] | None,
    resume: str | os.PathLike[str] | None,
    checkpoint: str | None,
    settings: Settings,
    workers: int | None = None,
    preset: str | None = None,
    announce: Announce = logger.info,
) -> Run:
    """The run to train: a new one in the folder `run`, or the one to resume.

    `announce` gets the progress of the measurement that automatic settings need.
    """
    settings = with_opponents(settings)
    accept_named(game)
    folder = None if run is None else as_path("run", run)
    resumed = None if resume is None else as_path("resume", resume)
    if workers is not None:
        usual = _resumed_backend(resumed) if resumed else AUTO
        settings = _with_workers(settings, workers, usual)
    if resumed is None:
        if checkpoint is not None:
            raise ConfigError(f"{shown(checkpoint)} names a checkpoint; name the run as well, with resume")
        return _prepare_run(game, folder, settings, preset, announce)
    if preset is not None:
        raise ConfigError(f"preset={shown(preset)} is for new runs; {resume} has its settings already")
    if run is not None:
        raise ConfigError(f"resume={str(resume)!r} continues that run; run={str(run)!r} cannot be given too")
    return _prepare_resume(resumed, game, checkpoint, settings)


def _resumed_backend(run: Path) -> str:
    """The backend of a run that is resumed with a number of workers."""
    name = str(Run(run).config.backend["name"])
    return name if name != "serial" else "processes"


def _with_workers(settings: Settings, num_workers: int, usual: str) -> Settings:
    """Settings for this number of workers: of the named backend, or else of the usual one."""
    given = merged({"backend": {}}, settings)["backend"]
    if not isinstance(given, dict):
        return settings  # validation reports the error later
    named = given.get("name")
    if named == "serial":
        named = "processes"
    return merged(settings, {"backend": {"name": named or usual, "num_workers": num_workers}})


def _prepare_run(
    game: str | None, folder: Path | None, settings: Settings, preset: str | None, announce: Announce
) -> Run:
    """A new run; its folder is made after its settings are found valid."""
    config = _with_good_opponents(resolve_config(game, settings, variant=preset, announce=announce))
    if config.chosen:
        logger.info("%s", config.chosen)
    rules = make_game(**config.game)
    models = new_models(rules, config)  # refuses a network that does not fit the game
    load_fixed(rules, config.opponents.fixed if config.has_opponents else ())  # a resume has them saved
    require_room(config.plan, rules, PlanModels(models, []).sizes)
    return Run.create(free_folder(config) if folder is None else folder, config)


def free_folder(config: RunConfig) -> Path:
    """`runs/GAME-DATE-TIME`, with a number if that folder exists already."""
    game = config.game["name"].rpartition(":")[2]
    path = Path("runs") / f"{game}-{datetime.now():%Y%m%d-%H%M%S}"
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return path if not path.exists() else next(name for name in names if not name.exists())


def _prepare_resume(path: Path, game: str | None, checkpoint: str | None, changes: Settings) -> Run:
    """An existing run, with changes of those settings that may change."""
    run = Run(path)
    if game:
        run.require_game(game)
    if checkpoint:
        run.checkpoints.named(checkpoint)
    require_device(run.config.device)
    changeable = set(CHANGEABLE_ON_RESUME)
    fixed = [name for name in _names(changes) if changeable.isdisjoint((name, name.partition(".")[0]))]
    if fixed:
        raise ConfigError(
            f"{', '.join(sorted(fixed))} cannot change on resume: the run would compute another result. "
            f"Settings that can change: {', '.join(CHANGEABLE_ON_RESUME)}"
        )
    changed = merged(run.config.model_dump(mode="json"), changes)
    config = _with_good_opponents(validated(RunConfig, changed))
    if config.learners == "auto":  # resolved for this machine, as for a new run
        config = resolve_parallel(config, changed)
    if changes:
        run.save_config(config)
    return run


def _names(changes: Settings) -> list[str]:
    """The settings that change, each with its part: `seed`, `algorithm.epochs`."""
    inner = ((part, value if isinstance(value, dict) else [""]) for part, value in changes.items())
    return [f"{part}.{name}".rstrip(".") for part, names in inner for name in names]


def _with_good_opponents(config: RunConfig) -> RunConfig:
    """Refuse opponents that cannot be played; give runs full paths, which do not depend on the folder."""
    game, evaluation = make_game(**config.game), config.evaluation
    for description in (*evaluation.opponents, *evaluation.final_opponents):
        require_turns_of_two(game)
        make_player(game, description)
    return config.model_copy(
        update={
            "evaluation": _with_full_paths(evaluation, "opponents", "final_opponents"),
            "opponents": _with_full_paths(config.opponents, "fixed"),
        }
    )


def _with_full_paths(part: PartT, *fields: str) -> PartT:
    found = {field: tuple(map(with_full_path, getattr(part, field))) for field in fields}
    return part.model_copy(update=found)
