"""Cleanup in plain Python: a river that gets dirty, apples that grow while it is clean enough."""

from collections.abc import Iterator

from tests.games.gridworld.twin_world import (
    NOTHING,
    SCATTER,
    SPAWN,
    STEPS,
    WALL,
    Agent,
    Planes,
    TwinWorld,
    blank,
    walled,
)

RIVER, POLLUTION, ORCHARD, APPLE = "river", "pollution", "orchard", "apple"
CLEANING, ZAPPING = "cleaning", "zapping"
CLEAN, ZAP = 4, 5  # actions; the moves are 0 to 3


class TwinCleanup(TwinWorld):
    """Eat apples by walking into them, clean the river by one beam, hurt others by the other."""

    kinds = (NOTHING, WALL, RIVER, POLLUTION, ORCHARD, APPLE, CLEANING, ZAPPING)
    visible = (WALL, RIVER, POLLUTION, ORCHARD, APPLE, CLEANING, ZAPPING, "agent")

    def __init__(
        self,
        key: int,
        *,
        height: int = 21,
        width: int = 31,
        river_width: int = 9,
        orchard_width: int = 9,
        num_agents: int = 10,
        max_turns: int = 100,
        view_radius: int | None = 5,
        num_apples: int = 20,
        pollution_probability: float = 0.009,
        apple_probability: float = 0.002,
        most_pollution: float = 0.5,
        beam_length: int = 3,
        beam_sideways: int = 1,
        apple_value: float = 1.0,
        zap_value: float = -1.0,
        wall_value: float = 0.0,
    ) -> None:
        super().__init__(key, landscape(height, width, river_width, orchard_width), max_turns)
        self.radius, self.beam_length, self.beam_sideways = view_radius, beam_length, beam_sideways
        self.pollution_probability, self.apple_probability = pollution_probability, apple_probability
        self.most_pollution = most_pollution
        self.apple_value, self.zap_value, self.wall_value = apple_value, zap_value, wall_value
        self.beams = [[NOTHING] * self.width for _ in range(self.height)]
        orchard = [(y, x) for y, x in self.cells() if self.ground[y][x] == ORCHARD]
        for y, x in self.dice.some_of(orchard, num_apples, SCATTER):
            self.ground[y][x] = APPLE
        self.place_agents(num_agents, [NOTHING])
        self.change()

    def layers(self) -> list[list[list[str]]]:
        return [self.ground, self.beams]

    def before_acting(self) -> None:
        self.beams = [[NOTHING] * self.width for _ in range(self.height)]

    def act(self, agent: Agent, action: int) -> None:
        if action == CLEAN:
            self.clean(agent)
        elif action == ZAP:
            self.zap(agent)
        else:
            self.walk(agent, action)

    def walk(self, agent: Agent, facing: int) -> None:
        agent.facing = facing
        y, x = agent.y + STEPS[facing][0], agent.x + STEPS[facing][1]
        if self.ground[y][x] == WALL:
            agent.reward += self.wall_value
        elif self.agent_at(y, x) is None:
            agent.y, agent.x = y, x
            if self.ground[y][x] == APPLE:
                agent.reward += self.apple_value
                self.ground[y][x] = ORCHARD

    def clean(self, agent: Agent) -> None:
        for y, x in self.beam_cells(agent):
            self.beams[y][x] = CLEANING
            if self.ground[y][x] == POLLUTION:
                self.ground[y][x] = RIVER

    def zap(self, agent: Agent) -> None:
        for y, x in self.beam_cells(agent):
            self.beams[y][x] = ZAPPING
            hit = self.agent_at(y, x)
            if hit is not None:
                hit.reward += self.zap_value

    def beam_cells(self, agent: Agent) -> Iterator[tuple[int, int]]:
        """Lanes ahead, each up to its first wall: the one straight on, and some on either side of it."""
        ahead = STEPS[agent.facing]
        right = STEPS[(agent.facing + 1) % 4]
        for side in range(-self.beam_sideways, self.beam_sideways + 1):
            for distance in range(1, self.beam_length + 1):
                y = agent.y + distance * ahead[0] + side * right[0]
                x = agent.x + distance * ahead[1] + side * right[1]
                if not self.is_inside(y, x) or self.ground[y][x] == WALL:
                    break
                yield y, x

    def change(self) -> None:
        is_clean_enough = self.is_clean_enough()
        for y, x in self.cells():
            cell, thing = self.number(y, x), self.ground[y][x]
            if thing == RIVER and self.dice.is_lucky(self.turn, cell, SPAWN, self.pollution_probability):
                self.ground[y][x] = POLLUTION
            if thing == ORCHARD and is_clean_enough and self.may_grow(cell):
                self.ground[y][x] = APPLE

    def is_clean_enough(self) -> bool:
        dirty, clean = self.count(POLLUTION), self.count(RIVER)
        return dirty <= self.most_pollution * (dirty + clean)

    def count(self, thing: str) -> int:
        return sum(row.count(thing) for row in self.ground)

    def may_grow(self, cell: int) -> bool:
        return self.dice.is_lucky(self.turn, cell, SPAWN + 1, self.apple_probability)

    def things_at(self, y: int, x: int) -> list[str]:
        return [*super().things_at(y, x), self.beams[y][x]]

    def knows(self, agent: Agent) -> Planes:
        """Its row and its column, each as one cell, counted through a plane of its own."""
        _, _, height, width = self.window(agent)
        row, column = blank(height, width), blank(height, width)
        row[agent.y // width][agent.y % width] = 1
        column[agent.x // width][agent.x % width] = 1
        return [row, column]


def landscape(height: int, width: int, river_width: int, orchard_width: int) -> list[list[str]]:
    """Walls around, the river at the left, the orchard at the right, sand between them."""
    rows = walled(height, width, NOTHING)
    for row in rows[1:-1]:
        for column in range(1, 1 + river_width):
            row[column] = RIVER
        for column in range(width - 1 - orchard_width, width - 1):
            row[column] = ORCHARD
    return rows
