"""The words in which a world is declared: kinds of things, what appears, beams, actions, the view.

A world's `rules` method puts them together as one `Rules`; `Gridworld` turns that into tables of
numbers, from which the compiled kernels play.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from senju.errors import ConfigError

NOTHING: Final = "nothing"  # the kind of a cell, or of a layer of it, in which nothing lies
NOTHING_LETTER: Final = "."


class Direction(IntEnum):
    """Where an agent moves and faces."""

    UP = 0
    RIGHT = 1
    DOWN = 2
    LEFT = 3


@dataclass(frozen=True)
class Kind:
    """A kind of thing that lies in cells."""

    name: str
    letter: str  # in maps and boards of text
    colour: str  # #rrggbb, in pictures
    value: float = 0.0  # for an agent that moves onto it, or that walks into it where it blocks
    is_passable: bool = True
    leaves: str | None = None  # what an agent that moved onto it leaves behind; None: it stays
    stops_beams: bool = False
    is_visible: bool = True  # has a plane in the view
    layer: int = 0  # a cell holds one thing in each layer


@dataclass(frozen=True)
class Share:
    """Holds while `kind` makes up no more than `at_most` of all cells of `kind` and `other`."""

    kind: str
    other: str
    at_most: float


@dataclass(frozen=True)
class Spawn:
    """Each turn, each cell of the kind `onto` turns into one of `kinds`, each equally likely."""

    onto: str  # NOTHING: where the layer of `kinds` is empty
    kinds: tuple[str, ...]
    probability: float  # for each cell and turn
    under_agents: bool = False  # also where an agent stands
    only_while: Share | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability <= 1.0:
            raise ConfigError(f"spawning on {self.onto}: probability={self.probability}: expected 0 to 1")
        if not self.kinds:
            raise ConfigError(f"spawning on {self.onto}: name at least one kind that appears")


@dataclass(frozen=True)
class Scatter:
    """At the start, `count` random cells of the kind `onto` turn into `kind`."""

    kind: str
    count: int
    onto: str = NOTHING


@dataclass(frozen=True)
class Beam:
    """What an agent fires ahead: lanes of cells, each up to the first thing that stops beams."""

    name: str
    letter: str
    colour: str
    length: int = 3  # cells ahead
    sideways: int = 1  # lanes on each side of the one straight ahead
    changes: Mapping[str, str] = field(default_factory=dict)  # kinds hit, and what they turn into
    hit_value: float = 0.0  # for each other agent hit

    def __post_init__(self) -> None:
        if self.length < 1 or self.sideways < 0:
            raise ConfigError(
                f"beam {self.name}: length={self.length}, sideways={self.sideways}; "
                "expected at least 1 cell ahead and 0 lanes beside"
            )


@dataclass(frozen=True)
class Action:
    """What an agent can do in a turn: move in a direction, fire a beam, or neither (it waits)."""

    name: str
    direction: Direction | None = None
    beam: str | None = None

    def __post_init__(self) -> None:
        if self.direction is not None and self.beam is not None:
            raise ConfigError(f"action {self.name}: it moves or it fires a beam, not both")


MOVES: Final = tuple(Action(direction.name.lower(), direction) for direction in Direction)


@dataclass(frozen=True)
class Tag:
    """Some agents are "it"; each turn they hand that on to a neighbour, and who is not it is paid."""

    value: float = 10.0  # a turn, for each agent that is not it
    num_marked: int = 1  # how many are it


@dataclass(frozen=True)
class View:
    """What an agent sees: for each kind, a plane with ones in the cells where it lies."""

    radius: int | None = 2  # cells to each side of the agent; None: the whole map
    outside: str | None = "wall"  # the kind that fills what is seen beyond the map
    shows_mark: bool = False  # a plane of ones while the agent itself is it
    shows_position: bool = False  # two planes, one-hot of the agent's row and of its column

    def __post_init__(self) -> None:
        if self.radius is not None and self.radius < 0:
            raise ConfigError(f"view: radius={self.radius}: expected 0 or more, or None for the whole map")


@dataclass(frozen=True)
class Rules:
    """A whole world, declared."""

    num_agents: int
    max_turns: int  # after which an episode is cut off
    map: str | tuple[str, ...]  # a line of letters for each row of cells; several are laid over each other
    kinds: tuple[Kind, ...]
    actions: tuple[Action, ...] = MOVES
    spawns: tuple[Spawn, ...] = ()
    scatters: tuple[Scatter, ...] = ()
    beams: tuple[Beam, ...] = ()
    start_on: tuple[str, ...] = (NOTHING,)  # kinds of the map's cells on which agents start
    view: View = View()
    tag: Tag | None = None
