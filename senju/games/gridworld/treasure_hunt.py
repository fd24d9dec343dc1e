"""Treasure hunt: gems, food and bones appear in a walled room, and agents take them by walking onto them."""

from pydantic import Field

from senju.config import Part
from senju.games.gridworld.names import LARGEST_SIDE, MOST_AGENTS, VIEW_RADIUS
from senju.games.gridworld.rules import NOTHING, CellKind, Spawn, View, WorldRules, walled
from senju.games.gridworld.world import Gridworld


class TreasureHuntConfig(Part):
    """Settings of the world `treasure_hunt`."""

    num_agents: int = Field(2, ge=1, le=MOST_AGENTS, description="Number of agents.")
    height: int = Field(21, ge=3, le=LARGEST_SIDE, description="Rows of cells, walls included.")
    width: int = Field(21, ge=3, le=LARGEST_SIDE, description="Columns of cells, walls included.")
    max_turns: int = Field(100, ge=1, le=1_000_000, description="Turns after which an episode is truncated.")
    spawn_probability: float = Field(0.005, ge=0.0, le=1.0, description="Per empty cell and turn.")
    gem_value: float = Field(10.0, allow_inf_nan=False, description="Reward for taking a gem.")
    food_value: float = Field(5.0, allow_inf_nan=False, description="Reward for taking food.")
    bone_value: float = Field(-10.0, allow_inf_nan=False, description="Reward for taking a bone.")
    wall_value: float = Field(-1.0, allow_inf_nan=False, description="Reward for walking into a wall.")
    view_radius: int | None = Field(2, ge=0, le=LARGEST_SIDE, description=VIEW_RADIUS)


class TreasureHunt(Gridworld):
    """Gems, food and bones appear in a walled room; agents take them by walking onto them."""

    Config = TreasureHuntConfig
    name = "treasure_hunt"

    def rules(self, config: TreasureHuntConfig) -> WorldRules:
        return WorldRules(
            num_agents=config.num_agents,
            max_turns=config.max_turns,
            map=walled(config.height, config.width),
            kinds=(
                CellKind("wall", "#", "#6f675c", config.wall_value, is_passable=False, stops_beams=True),
                CellKind("gem", "g", "#2ec27e", config.gem_value, leaves=NOTHING),
                CellKind("food", "f", "#e5a50a", config.food_value, leaves=NOTHING),
                CellKind("bone", "b", "#9a9996", config.bone_value, leaves=NOTHING),
            ),
            spawns=(Spawn(NOTHING, ("gem", "food", "bone"), config.spawn_probability),),
            view=View(config.view_radius),
        )
