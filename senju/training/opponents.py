"""Players by description: fixed ones, a user's own, or an agent of a run, its newest or an older one."""

from pathlib import Path

from senju.errors import ConfigError, RunFolderError
from senju.games.game import Game
from senju.opponents.functions import load_player
from senju.opponents.players import FIXED_PLAYERS, Player, fixed_player, is_fixed
from senju.training.agent import Agent
from senju.training.run import Run

KNOWN_OPPONENTS = (
    f"{FIXED_PLAYERS}, a run's folder, RUN@UPDATE for its checkpoint or snapshot of that update, "
    "or package.module:function"
)
PAST_SELVES = 6  # of a run, where nobody says how many


def make_player(game: Game, description: str, temperature: float = 0.0) -> Player:
    """The player that `description` means, or an error that says what may be asked for."""
    player = fixed_player(game, description)
    if player is not None:
        return player
    agent = find_agent(game, description)
    if agent is not None:
        return agent.player(temperature)
    player = load_player(game, description)
    if player is None:
        raise ConfigError(f"unknown opponent {description!r}; expected {KNOWN_OPPONENTS}")
    return player


def find_agent(game: Game, description: str) -> Agent | None:
    """The agent of `RUN` or `RUN@UPDATE`; None where no run is meant."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return None
    run = Run(folder)
    if type(run.game) is not type(game) or run.game.config != game.config:
        raise RunFolderError(f"{run.path} is a run of {run.config.game}, not of {game.name} as set here")
    return run.agent_at(checkpoint)


def with_full_path(description: str) -> str:
    """The same opponent, a run being named so that it is found from any folder."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    return str(folder.resolve()) if checkpoint is None else f"{folder.resolve()}@{checkpoint}"


def with_update(description: str) -> str:
    """The same opponent, a run's agent being named by its update: a newer one does not take its place."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    name = Run(folder).checkpoints.latest().name if checkpoint is None else checkpoint
    number = name.removeprefix("update_")
    return f"{folder}@{int(number) if number.isdecimal() else name}"


def run_of(description: str) -> Run | None:
    """The run whose agent is meant, if it is a run's."""
    folder, _ = _find_run(description)
    return None if folder is None else Run(folder)


def past_selves(run: Run, at_most: int = PAST_SELVES) -> list[str]:
    """Older agents of a run as `RUN@UPDATE`, oldest first; a few spread over time where there are many."""
    newest = _update(run.checkpoints.latest().name)
    updates = {_update(path.name) for path in run.checkpoints.all()[:-1]} | set(run.snapshots) - {newest}
    return [f"{run.path}@{update}" for update in spread(sorted(updates), newest, at_most)]


def spread(updates: list[int], newest: int, at_most: int) -> list[int]:
    """At most so many of some updates, the oldest and others in about even steps towards the newest.

    >>> spread([10, 20, 30, 40, 50, 60, 70, 80], 90, 4)
    [10, 30, 50, 70]
    """
    left = sorted(updates)
    if len(left) <= at_most:
        return left
    chosen = []
    oldest = left[0]
    for step in range(at_most):
        wanted = oldest + step * (newest - oldest) / at_most
        nearest = min(left, key=lambda update: abs(update - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen)


def _update(checkpoint: str) -> int:
    return int(checkpoint.removeprefix("update_"))


def _find_run(description: str) -> tuple[Path | None, str | None]:
    """The folder in `RUN` or `RUN@UPDATE`, if there is one, and the update."""
    if is_fixed(description):
        return None, None
    if Path(description).is_dir():  # first, since a folder's name may have an @ in it
        return Path(description), None
    folder, at, update = description.rpartition("@")
    return (Path(folder), update) if at and Path(folder).is_dir() else (None, None)
