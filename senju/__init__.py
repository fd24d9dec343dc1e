"""senju trains game-playing agents with many hands at once."""

import importlib

from senju.version import __version__

TYPE_CHECKING = False  # as in `typing`, whose import would be most of the time that this module takes
if TYPE_CHECKING:
    from senju.errors import SenjuError
    from senju.games import GAMES, make_game
    from senju.games.check import GameReport, check_game
    from senju.games.game import Game, Observations, Outcomes
    from senju.models import MODELS, Model
    from senju.training.agent import Agent
    from senju.training.api import train
    from senju.training.dqn_training import train_dqn
    from senju.training.environments.environment import ParallelEnvironment
    from senju.training.parallel_manager import (
        ExperienceBuffer,
        Experiences,
        ParallelConfig,
        ParallelManager,
    )
    from senju.training.run import Run
    from senju.training.several.api import train_several

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

# loaded when first asked for: games need no torch, which takes seconds to load
_HOMES = {
    "senju.errors": ("SenjuError",),
    "senju.games": ("GAMES", "make_game"),
    "senju.games.check": ("GameReport", "check_game"),
    "senju.games.game": ("Game", "Observations", "Outcomes"),
    "senju.models": ("MODELS", "Model"),
    "senju.training.agent": ("Agent",),
    "senju.training.api": ("train",),
    "senju.training.dqn_training": ("train_dqn",),
    "senju.training.environments.environment": ("ParallelEnvironment",),
    "senju.training.parallel_manager": (
        "ExperienceBuffer",
        "Experiences",
        "ParallelConfig",
        "ParallelManager",
    ),
    "senju.training.run": ("Run",),
    "senju.training.several.api": ("train_several",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'senju' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
