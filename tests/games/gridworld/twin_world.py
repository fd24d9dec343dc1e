"""What the slow, plain twins of the worlds share: agents, dice, walking, looking around.

A twin is one world in ordinary Python objects, lists and loops, written from the rules. It knows
nothing of tables or kernels: things are their names, and a cell without a thing holds NOTHING.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from senju.kernels import random_word

NOTHING, WALL = "", "wall"
UP, RIGHT, DOWN, LEFT = range(4)
STEPS = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}  # of row and column
IT, START, SCATTER, SPAWN, WHICH = 1, 2, 64, 256, 256 + 64  # purposes of random numbers

T = TypeVar("T")
Planes = list[list[list[int]]]  # [plane][row][column]


class Dice:
    """The chance of one game: a number for each turn, cell and purpose."""

    def __init__(self, key: int) -> None:
        self.key = key

    def word(self, turn: int, cell: int, purpose: int) -> int:
        return int(random_word(np.uint64(self.key), turn, cell, purpose, 0))

    def is_lucky(self, turn: int, cell: int, purpose: int, probability: float) -> bool:
        return (self.word(turn, cell, purpose) >> 11) / 2**53 < probability

    def below(self, turn: int, cell: int, purpose: int, bound: int) -> int:
        return ((self.word(turn, cell, purpose) >> 32) * bound) >> 32

    def some_of(self, items: Sequence[T], count: int, purpose: int) -> list[T]:
        """The first of a shuffle: the next item is swapped with itself or one behind it."""
        shuffled = list(items)
        for place in range(count):
            other = place + self.below(0, place, purpose, len(shuffled) - place)
            shuffled[place], shuffled[other] = shuffled[other], shuffled[place]
        return shuffled[:count]


class Agent:
    """One agent: where it is, where it looks, whether it is "it", and what it got this turn."""

    def __init__(self, y: int, x: int) -> None:
        self.y, self.x = y, x
        self.facing = UP
        self.is_it = False
        self.reward = 0.0


class TwinWorld:
    """One running world; its children say what stands where, what actions do and what changes."""

    kinds: tuple[str, ...]  # all there are; a thing's number is its place here
    visible: tuple[str, ...]  # the kinds that have a plane, in the order of the planes
    radius: int | None  # of the view; None: the whole map is seen

    def __init__(self, key: int, rows: Sequence[Sequence[str]], max_turns: int) -> None:
        self.dice = Dice(key)
        self.ground = [list(row) for row in rows]
        self.height, self.width = len(rows), len(rows[0])
        self.max_turns = max_turns
        self.turn = 0
        self.agents: list[Agent] = []

    def cells(self) -> Iterator[tuple[int, int]]:
        for y in range(self.height):
            for x in range(self.width):
                yield y, x

    def number(self, y: int, x: int) -> int:
        return y * self.width + x

    def is_inside(self, y: int, x: int) -> bool:
        return 0 <= y < self.height and 0 <= x < self.width

    def agent_at(self, y: int, x: int) -> Agent | None:
        for agent in self.agents:
            if (agent.y, agent.x) == (y, x):
                return agent
        return None

    def layers(self) -> list[list[list[str]]]:
        """What lies in the cells, one layer over another."""
        return [self.ground]

    def place_agents(self, num_agents: int, kinds: Sequence[str]) -> None:
        free = [(y, x) for y, x in self.cells() if self.ground[y][x] in kinds]
        for y, x in self.dice.some_of(free, num_agents, START):
            self.agents.append(Agent(y, x))

    def take_turn(self, actions: Sequence[int]) -> list[float]:
        """One turn: all act in order, what follows from it, then the things change."""
        for agent in self.agents:
            agent.reward = 0.0
        self.before_acting()
        for agent, action in zip(self.agents, actions, strict=True):
            self.act(agent, action)
        self.after_acting()
        self.turn += 1
        self.change()
        return [agent.reward for agent in self.agents]

    def is_over(self) -> bool:
        return self.turn >= self.max_turns

    def before_acting(self) -> None:
        pass

    def act(self, agent: Agent, action: int) -> None:
        raise NotImplementedError

    def after_acting(self) -> None:
        pass

    def change(self) -> None:
        pass

    def things_at(self, y: int, x: int) -> list[str]:
        """The names of all that is to be seen in a cell of the map."""
        agent = self.agent_at(y, x)
        things = [self.ground[y][x]]
        if agent is not None:
            things.append("it" if agent.is_it else "agent")
        return things

    def look(self, agent: Agent) -> Planes:
        """One plane for each visible kind; beyond the map all is wall."""
        top, left, height, width = self.window(agent)
        planes = {kind: blank(height, width) for kind in self.visible}
        for row in range(height):
            for column in range(width):
                y, x = top + row, left + column
                for thing in self.things_at(y, x) if self.is_inside(y, x) else [WALL]:
                    if thing != NOTHING:
                        planes[thing][row][column] = 1
        return [*planes.values(), *self.own_cell(agent), *self.knows(agent)]

    def window(self, agent: Agent) -> tuple[int, int, int, int]:
        """What is seen: top row, left column, height and width; the agent stands in the middle."""
        if self.radius is None:
            return 0, 0, self.height, self.width
        side = 2 * self.radius + 1
        return agent.y - self.radius, agent.x - self.radius, side, side

    def own_cell(self, agent: Agent) -> Planes:
        """If the view is the whole map, a plane shows the agent itself."""
        if self.radius is not None:
            return []
        plane = blank(self.height, self.width)
        plane[agent.y][agent.x] = 1
        return [plane]

    def knows(self, agent: Agent) -> Planes:
        """Planes of what an agent knows of itself."""
        return []


def walled(height: int, width: int, inside: str) -> list[list[str]]:
    """A map with walls all around."""
    return [
        [WALL if y in (0, height - 1) or x in (0, width - 1) else inside for x in range(width)]
        for y in range(height)
    ]


def blank(height: int, width: int) -> list[list[int]]:
    return [[0] * width for _ in range(height)]
