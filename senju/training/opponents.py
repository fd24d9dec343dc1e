"""Players by description: `random`, `minimax:DEPTH`, `perfect`, or the folder of another run."""

from pathlib import Path

from senju.errors import ConfigError, RunFolderError
from senju.games.game import Game
from senju.training.players import Player, fixed_player
from senju.training.run import Run


def make_player(game: Game, description: str, temperature: float = 0.0) -> Player:
    """The player that `description` means, or an error that says what may be asked for."""
    player = fixed_player(game, description)
    if player is not None:
        return player
    if not Path(description).exists():
        raise ConfigError(
            f"unknown opponent {description!r}; expected random, minimax:DEPTH, perfect, or a run's folder"
        )
    run = Run(description)
    if type(run.game) is not type(game) or run.game.config != game.config:
        raise RunFolderError(f"{run.path} is a run of {run.config.game}, not of {game.name} as set here")
    return run.agent.player(temperature)
