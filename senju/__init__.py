"""senju trains game-playing agents in parallel."""

import importlib

from senju.version import __version__

TYPE_CHECKING = False  # as in `typing`, whose import would take most of this module's import time
if TYPE_CHECKING:
    from senju.environments.environment import ParallelEnvironment
    from senju.errors import SenjuError
    from senju.games import GAMES, make_game
    from senju.games.check import GameReport, check_game
    from senju.games.game import Game, Observations, Outcomes
    from senju.models import MODELS, Model
    from senju.runs.agent import Agent
    from senju.runs.run import Run
    from senju.training.api import train, train_dqn
    from senju.training.multi_run.api import train_several
    from senju.training.parallel_manager import ExperienceBuffer, Experiences, ParallelConfig, ParallelManager

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
    "ParallelEnvironment",
    "ParallelManager",
    "Run",
    "SenjuError",
    "__version__",
    "check_game",
    "make_game",
    "train",
    "train_dqn",
    "train_several",
]

# imported on first use: games need no torch, which takes seconds to import
_MODULES = {
    "errors": ("SenjuError",),
    "games": ("GAMES", "make_game"),
    "games.check": ("GameReport", "check_game"),
    "games.game": ("Game", "Observations", "Outcomes"),
    "models": ("MODELS", "Model"),
    "runs.agent": ("Agent",),
    "training.api": ("train", "train_dqn"),
    "environments.environment": ("ParallelEnvironment",),
    "training.parallel_manager": ("ExperienceBuffer", "Experiences", "ParallelConfig", "ParallelManager"),
    "runs.run": ("Run",),
    "training.multi_run.api": ("train_several",),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            value: object = getattr(importlib.import_module(f"senju.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'senju' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
