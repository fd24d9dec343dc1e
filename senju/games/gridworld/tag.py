"""Tag: one agent is it and hands that on to a neighbour; all others are paid for every turn."""

from pydantic import Field

from senju.config import Part
from senju.games.gridworld import rules as declared
from senju.games.gridworld.maps import LARGEST_SIDE, walled
from senju.games.gridworld.names import MOST_AGENTS
from senju.games.gridworld.rules import Kind, Rules, View
from senju.games.gridworld.world import Gridworld


class TagConfig(Part):
    """Settings of the world `tag`."""

    num_agents: int = Field(5, ge=1, le=MOST_AGENTS, description="How many agents play.")
    num_it: int = Field(1, ge=0, le=MOST_AGENTS, description="How many of them are it.")
    height: int = Field(11, ge=3, le=LARGEST_SIDE, description="Rows of cells, walls included.")
    width: int = Field(11, ge=3, le=LARGEST_SIDE, description="Columns of cells, walls included.")
    max_turns: int = Field(20, ge=1, le=1_000_000, description="Turns after which an episode is cut off.")
    free_value: float = Field(
        10.0, allow_inf_nan=False, description="Reward of each agent that is not it, every turn."
    )
    wall_value: float = Field(0.0, allow_inf_nan=False, description="Reward for walking into a wall.")
    view_radius: int | None = Field(
        4, ge=0, le=LARGEST_SIDE, description="Cells seen to each side; null shows the whole map."
    )


class Tag(Gridworld):
    """One agent is it until it catches a neighbour; all others are paid for every turn."""

    Config = TagConfig
    name = "tag"

    def rules(self, config: TagConfig) -> Rules:
        """A walled room, and the rule of tag."""
        return Rules(
            num_agents=config.num_agents,
            max_turns=config.max_turns,
            map=walled(config.height, config.width),
            kinds=(Kind("wall", "#", "#6f675c", config.wall_value, is_passable=False, stops_beams=True),),
            view=View(config.view_radius, shows_mark=True),
            tag=declared.Tag(config.free_value, config.num_it),
        )
