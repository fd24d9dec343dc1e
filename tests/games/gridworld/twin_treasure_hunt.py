"""Treasure hunt in plain Python: walk into gems, food and bones."""

from tests.games.gridworld.twin_world import NOTHING, SPAWN, STEPS, WALL, WHICH, Agent, TwinWorld, walled


class TwinTreasureHunt(TwinWorld):
    """Each empty cell may turn into a thing; an agent that walks onto it takes it and gets its value."""

    kinds = (NOTHING, WALL, "gem", "food", "bone")
    visible = (WALL, "gem", "food", "bone", "agent")
    treasures = ("gem", "food", "bone")

    def __init__(
        self,
        key: int,
        *,
        height: int = 21,
        width: int = 21,
        num_agents: int = 2,
        max_turns: int = 100,
        view_radius: int | None = 2,
        spawn_probability: float = 0.005,
        gem_value: float = 10.0,
        food_value: float = 5.0,
        bone_value: float = -10.0,
        wall_value: float = -1.0,
    ) -> None:
        super().__init__(key, walled(height, width, NOTHING), max_turns)
        self.radius, self.probability, self.wall_value = view_radius, spawn_probability, wall_value
        self.value = {"gem": gem_value, "food": food_value, "bone": bone_value, NOTHING: 0.0}
        self.place_agents(num_agents, [NOTHING])
        self.change()

    def act(self, agent: Agent, action: int) -> None:
        down, right = STEPS[action]
        y, x = agent.y + down, agent.x + right
        agent.facing = action
        if self.ground[y][x] == WALL:
            agent.reward += self.wall_value
        elif self.agent_at(y, x) is None:
            agent.reward += self.value[self.ground[y][x]]
            agent.y, agent.x = y, x
            self.ground[y][x] = NOTHING

    def change(self) -> None:
        for y, x in self.cells():
            if self.ground[y][x] == NOTHING and self.agent_at(y, x) is None:
                self.may_grow(y, x)

    def may_grow(self, y: int, x: int) -> None:
        cell = self.number(y, x)
        if self.dice.is_lucky(self.turn, cell, SPAWN, self.probability):
            self.ground[y][x] = self.treasures[self.dice.below(self.turn, cell, WHICH, 3)]
