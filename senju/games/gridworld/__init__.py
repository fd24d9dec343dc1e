"""Gridworlds: worlds of cells with several agents, declared in a few lines and played by compiled code."""

from senju.games.gridworld.rules import (
    MOVES,
    NOTHING,
    Action,
    Beam,
    CellKind,
    Direction,
    Scatter,
    Share,
    Spawn,
    TagRule,
    View,
    WorldRules,
    walled,
)
from senju.games.gridworld.world import Gridworld

__all__ = [
    "MOVES",
    "NOTHING",
    "Action",
    "Beam",
    "CellKind",
    "Direction",
    "Gridworld",
    "Scatter",
    "Share",
    "Spawn",
    "TagRule",
    "View",
    "WorldRules",
    "walled",
]
