"""The declaration of a world: kinds of things, spawning, beams, actions, the view.

A world's `rules` method returns them as one `WorldRules`; `Gridworld` turns it into tables of numbers
for the compiled kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from senju.errors import ConfigError

NOTHING: Final = "nothing"  # the kind of an empty cell, or of an empty layer of it
NOTHING_LETTER: Final = "."


def walled(height: int, width: int, wall: str = "#", floor: str = NOTHING_LETTER) -> str:
    """The map of a walled room; the size includes the walls.

    >>> print(walled(3, 5))
    #####
    #...#
    #####
    """
    if height < 3 or width < 3:
        raise ConfigError(f"a walled map of {height}×{width} has no free cell; expected at least 3×3")
    return "\n".join([wall * width, *[wall + floor * (width - 2) + wall] * (height - 2), wall * width])


class Direction(IntEnum):
    """The direction in which an agent moves and faces."""

    UP = 0
    RIGHT = 1
    DOWN = 2
    LEFT = 3


@dataclass(frozen=True)
class CellKind:
    """A kind of thing in cells, such as a wall or an apple."""

    name: str
    letter: str  # in maps and text boards
    colour: str  # #rrggbb, in pictures
    value: float = 0.0  # reward of an agent that moves onto it, or that walks into it if it blocks
    is_passable: bool = True
    leaves: str | None = None  # the kind that replaces it when an agent moves onto it; None: it stays
    stops_beams: bool = False
    is_visible: bool = True  # has a plane in the view
    layer: int = 0  # a cell holds one thing in each layer


@dataclass(frozen=True)
class Share:
    """A condition: `kind` has at most the share `at_most` of all cells of `kind` and `other`."""

    kind: str
    other: str
    at_most: float


@dataclass(frozen=True)
class Spawn:
    """Each turn, each cell of the kind `onto` may turn into one of `kinds`, each equally likely."""

    onto: str  # NOTHING: where the layer of `kinds` is empty
    kinds: tuple[str, ...]
    probability: float  # for each cell and turn
    under_agents: bool = False  # also in cells with an agent
    only_while: Share | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability <= 1.0:
            raise ConfigError(f"spawning on {self.onto}: probability={self.probability}: expected 0 to 1")
        if not self.kinds:
            raise ConfigError(f"spawning on {self.onto}: kinds is empty; expected at least one kind")


@dataclass(frozen=True)
class Scatter:
    """At the start, `count` random cells of the kind `onto` turn into `kind`."""

    kind: str
    count: int
    onto: str = NOTHING


@dataclass(frozen=True)
class Beam:
    """A beam that an agent fires ahead: lanes of cells, each up to the first thing that stops beams."""

    name: str
    letter: str
    colour: str
    length: int = 3  # cells ahead
    sideways: int = 1  # lanes on each side of the one straight ahead
    changes: Mapping[str, str] = field(default_factory=dict)  # kinds hit → kinds they turn into
    hit_value: float = 0.0  # reward of each other agent hit

    def __post_init__(self) -> None:
        if self.length < 1 or self.sideways < 0:
            raise ConfigError(
                f"beam {self.name}: length={self.length}, sideways={self.sideways}; "
                "expected length >= 1 and sideways >= 0"
            )


@dataclass(frozen=True)
class Action:
    """An agent's action: move in a direction, fire a beam, or neither (wait)."""

    name: str
    direction: Direction | None = None
    beam: str | None = None

    def __post_init__(self) -> None:
        if self.direction is not None and self.beam is not None:
            raise ConfigError(f"action {self.name}: expected a direction or a beam, not both")


MOVES: Final = tuple(Action(direction.name.lower(), direction) for direction in Direction)


@dataclass(frozen=True)
class TagRule:
    """Some agents are "it"; each turn they tag a neighbour, and agents that are not "it" get a reward."""

    value: float = 10.0  # reward per turn of each agent that is not "it"
    num_marked: int = 1  # agents that are "it"


@dataclass(frozen=True)
class View:
    """An agent's observation: for each kind, a plane with ones in the cells of that kind."""

    radius: int | None = 2  # cells to each side of the agent; None: the whole map
    outside: str | None = "wall"  # the kind that cells outside the map show
    shows_mark: bool = False  # a plane of ones while the agent itself is "it"
    shows_position: bool = False  # two planes, one-hot of the agent's row and of its column

    def __post_init__(self) -> None:
        if self.radius is not None and self.radius < 0:
            raise ConfigError(f"view: radius={self.radius}: expected 0 or more, or None for the whole map")


@dataclass(frozen=True)
class WorldRules:
    """The declaration of a world."""

    num_agents: int
    max_turns: int  # after which an episode is truncated
    map: str | tuple[str, ...]  # a line of letters for each row of cells; several are laid over each other
    kinds: tuple[CellKind, ...]
    actions: tuple[Action, ...] = MOVES
    spawns: tuple[Spawn, ...] = ()
    scatters: tuple[Scatter, ...] = ()
    beams: tuple[Beam, ...] = ()
    start_on: tuple[str, ...] = (NOTHING,)  # kinds of cells on which agents start
    view: View = View()
    tag: TagRule | None = None
