"""Tag: one agent is "it" and tags a neighbour; all others get a reward in every turn."""

from pydantic import Field

from senju.config import Part
from senju.games.gridworld.names import LARGEST_SIDE, MOST_AGENTS, VIEW_RADIUS
from senju.games.gridworld.rules import CellKind, TagRule, View, WorldRules, walled
from senju.games.gridworld.world import Gridworld


class TagConfig(Part):
    """Settings of the world `tag`."""

    num_agents: int = Field(5, ge=1, le=MOST_AGENTS, description="Number of agents.")
    num_it: int = Field(1, ge=0, le=MOST_AGENTS, description='Number of agents that are "it".')
    height: int = Field(11, ge=3, le=LARGEST_SIDE, description="Rows of cells, walls included.")
    width: int = Field(11, ge=3, le=LARGEST_SIDE, description="Columns of cells, walls included.")
    max_turns: int = Field(20, ge=1, le=1_000_000, description="Turns after which an episode is truncated.")
    free_value: float = Field(10.0, allow_inf_nan=False, description='Reward per turn of agents not "it".')
    wall_value: float = Field(0.0, allow_inf_nan=False, description="Reward for walking into a wall.")
    view_radius: int | None = Field(4, ge=0, le=LARGEST_SIDE, description=VIEW_RADIUS)


class Tag(Gridworld):
    """One agent is "it" until it tags a neighbour; all others get a reward in every turn."""

    Config = TagConfig
    name = "tag"

    def rules(self, config: TagConfig) -> WorldRules:
        return WorldRules(
            num_agents=config.num_agents,
            max_turns=config.max_turns,
            map=walled(config.height, config.width),
            kinds=(CellKind("wall", "#", "#6f675c", config.wall_value, is_passable=False, stops_beams=True),),
            view=View(config.view_radius, shows_mark=True),
            tag=TagRule(config.free_value, config.num_it),
        )
