"""Players by description: built-in ones, a user's own, or an agent of a run, its newest or an older one."""

from pathlib import Path

from senju.errors import RunFolderError
from senju.games.game import Game
from senju.opponents.functions import described_player
from senju.opponents.players import Player, is_built_in
from senju.runs.agent import Agent
from senju.runs.run import Run

PAST_SELVES = 6  # number of past versions of a run, by default


def make_player(game: Game, description: str, temperature: float = 0.0) -> Player:
    """The player that `description` means; ConfigError lists the descriptions that are known."""
    agent = find_agent(game, description)
    return described_player(game, description) if agent is None else agent.player(temperature)


def find_agent(game: Game, description: str) -> Agent | None:
    """The agent of `RUN` or `RUN@UPDATE`; None for any other description."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return None
    run = Run(folder)
    if type(run.game) is not type(game) or run.game.config != game.config:
        raise RunFolderError(f"{run.path} is a run of {run.config.game}, not of {game.name} as set here")
    return run.agent_at(checkpoint)


def with_full_path(description: str) -> str:
    """The same opponent; a run gets its full path, so that any folder may be the current one."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    return str(folder.resolve()) if checkpoint is None else f"{folder.resolve()}@{checkpoint}"


def with_update(description: str) -> str:
    """The same opponent; a run gets the update of its agent, so that a newer one does not replace it."""
    folder, checkpoint = _find_run(description)
    if folder is None:
        return description
    name = checkpoint if checkpoint is not None else Run(folder).checkpoints.latest().name
    number = name.removeprefix("update_")
    return f"{folder}@{int(number) if number.isdecimal() else name}"


def run_of(description: str) -> Run | None:
    """The run in `RUN` or `RUN@UPDATE`; None for any other description."""
    folder, _ = _find_run(description)
    return None if folder is None else Run(folder)


def past_selves(run: Run, at_most: int = PAST_SELVES) -> list[str]:
    """Older agents of a run as `RUN@UPDATE`, oldest first; if there are many, a few spread over time."""
    newest = _update(run.checkpoints.latest().name)
    updates = {_update(path.name) for path in run.checkpoints.all()[:-1]} | set(run.snapshots) - {newest}
    return [f"{run.path}@{update}" for update in spread(sorted(updates), newest, at_most)]


def spread(updates: list[int], newest: int, at_most: int) -> list[int]:
    """At most so many of these updates: the oldest, then about even steps towards the newest.

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
    """The folder and the update in `RUN` or `RUN@UPDATE`; None for what is missing."""
    if is_built_in(description):
        return None, None
    if Path(description).is_dir():  # first, since a folder's name may have an @ in it
        return Path(description), None
    folder, at, update = description.rpartition("@")
    return (Path(folder), update) if at and Path(folder).is_dir() else (None, None)
