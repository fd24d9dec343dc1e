"""Worlds of cells in which several agents act at once: declared in a few lines, played by compiled code.

from senju.games.gridworld import Gridworld, Kind, MOVES, NOTHING, Rules, Spawn, View, walled
"""

from senju.games.gridworld.maps import walled
from senju.games.gridworld.rules import (
    MOVES,
    NOTHING,
    Action,
    Beam,
    Direction,
    Kind,
    Rules,
    Scatter,
    Share,
    Spawn,
    Tag,
    View,
)
from senju.games.gridworld.world import Gridworld

__all__ = [
    "MOVES",
    "NOTHING",
    "Action",
    "Beam",
    "Direction",
    "Gridworld",
    "Kind",
    "Rules",
    "Scatter",
    "Share",
    "Spawn",
    "Tag",
    "View",
    "walled",
]
