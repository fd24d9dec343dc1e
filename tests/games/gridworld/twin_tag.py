"""Tag in plain Python: agents that are not "it" get a reward each turn."""

from tests.games.gridworld.twin_world import (
    DOWN,
    IT,
    LEFT,
    NOTHING,
    RIGHT,
    STEPS,
    UP,
    WALL,
    Agent,
    Planes,
    TwinWorld,
    walled,
)


class TwinTag(TwinWorld):
    """After all have moved, "it" tags the first neighbour it finds: down, right, up, left."""

    kinds = (NOTHING, WALL)
    visible = (WALL, "agent", "it")

    def __init__(
        self,
        key: int,
        *,
        height: int = 11,
        width: int = 11,
        num_agents: int = 5,
        num_it: int = 1,
        max_turns: int = 20,
        view_radius: int | None = 4,
        free_value: float = 10.0,
        wall_value: float = 0.0,
    ) -> None:
        super().__init__(key, walled(height, width, NOTHING), max_turns)
        self.radius, self.free_value, self.wall_value = view_radius, free_value, wall_value
        self.place_agents(num_agents, [NOTHING])
        for agent in self.dice.some_of(self.agents, num_it, IT):
            agent.is_it = True

    def act(self, agent: Agent, action: int) -> None:
        down, right = STEPS[action]
        y, x = agent.y + down, agent.x + right
        agent.facing = action
        if self.ground[y][x] == WALL:
            agent.reward += self.wall_value
        elif self.agent_at(y, x) is None:
            agent.y, agent.x = y, x

    def after_acting(self) -> None:
        for it in [agent for agent in self.agents if agent.is_it]:
            tagged = self.first_neighbour(it)
            if tagged is not None:
                it.is_it, tagged.is_it = False, True
        for agent in self.agents:
            if not agent.is_it:
                agent.reward += self.free_value

    def first_neighbour(self, it: Agent) -> Agent | None:
        for facing in (DOWN, RIGHT, UP, LEFT):
            down, right = STEPS[facing]
            neighbour = self.agent_at(it.y + down, it.x + right)
            if neighbour is not None and not neighbour.is_it:
                return neighbour
        return None

    def knows(self, agent: Agent) -> Planes:
        """Whether it is "it"."""
        _, _, height, width = self.window(agent)
        return [[[int(agent.is_it)] * width for _ in range(height)]]
