"""Players by description: one of the fixed ones, or an agent of a run, its newest or an older one."""

from pathlib import Path

from senju.errors import ConfigError, RunFolderError
from senju.games.game import Game
from senju.training.players import FIXED_PLAYERS, Player, fixed_player
from senju.training.run import Run

KNOWN_OPPONENTS = f"{FIXED_PLAYERS}, a run's folder, or RUN@UPDATE for its checkpoint of that update"


def make_player(game: Game, description: str, temperature: float = 0.0) -> Player:
    """The player that `description` means, or an error that says what may be asked for."""
    player = fixed_player(game, description)
    if player is not None:
        return player
    folder, checkpoint = _find_run(description)
    if folder is None:
        raise ConfigError(f"unknown opponent {description!r}; expected {KNOWN_OPPONENTS}")
    run = Run(folder)
    if type(run.game) is not type(game) or run.game.config != game.config:
        raise RunFolderError(f"{run.path} is a run of {run.config.game}, not of {game.name} as set here")
    return run.agent_at(checkpoint).player(temperature)


def with_full_path(description: str) -> str:
    """The same opponent, a run being named so that it is found from any folder."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    return str(folder.resolve()) if checkpoint is None else f"{folder.resolve()}@{checkpoint}"


def _find_run(description: str) -> tuple[Path | None, str | None]:
    """The folder in `RUN` or `RUN@UPDATE`, if there is one, and the update."""
    if Path(description).is_dir():  # first, since a folder's name may have an @ in it
        return Path(description), None
    folder, at, update = description.rpartition("@")
    return (Path(folder), update) if at and Path(folder).is_dir() else (None, None)
