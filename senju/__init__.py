"""senju trains game-playing agents with many hands at once."""

from senju.errors import SenjuError
from senju.games import GAMES, make_game
from senju.games.check import GameReport, check_game
from senju.games.game import Game, Observations, Outcomes
from senju.models import MODELS, Model
from senju.training.api import train
from senju.training.parallel_manager import ExperienceBuffer, Experiences, ParallelConfig, ParallelManager
from senju.training.run import Agent, Run
from senju.version import __version__

__all__ = [
    "GAMES",
    "MODELS",
    "Agent",
    "ExperienceBuffer",
    "Experiences",
    "Game",
    "GameReport",
    "Model",
    "Observations",
    "Outcomes",
    "ParallelConfig",
    "ParallelManager",
    "Run",
    "SenjuError",
    "__version__",
    "check_game",
    "make_game",
    "train",
]
