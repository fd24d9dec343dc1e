"""Cleanup: apples grow only while agents keep the river clean, for which they get no reward."""

from pydantic import Field

from senju.config import Part
from senju.errors import ConfigError
from senju.games.gridworld.names import LARGEST_SIDE, MOST_AGENTS, VIEW_RADIUS
from senju.games.gridworld.rules import MOVES, Action, Beam, CellKind, Scatter, Share, Spawn, View, WorldRules
from senju.games.gridworld.world import Gridworld


class CleanupConfig(Part):
    """Settings of the world `cleanup`."""

    num_agents: int = Field(10, ge=1, le=MOST_AGENTS, description="Number of agents.")
    height: int = Field(21, ge=3, le=LARGEST_SIDE, description="Rows of cells, walls included.")
    width: int = Field(31, ge=5, le=LARGEST_SIDE, description="Columns of cells, walls included.")
    river_width: int = Field(9, ge=1, le=LARGEST_SIDE, description="Columns of river, at the left.")
    orchard_width: int = Field(9, ge=1, le=LARGEST_SIDE, description="Columns of orchard, at the right.")
    max_turns: int = Field(100, ge=1, le=1_000_000, description="Turns after which an episode is truncated.")
    pollution_probability: float = Field(0.009, ge=0.0, le=1.0, description="Per clean river cell and turn.")
    apple_probability: float = Field(0.002, ge=0.0, le=1.0, description="Per free orchard cell and turn.")
    most_pollution: float = Field(0.5, ge=0.0, le=1.0, description="Polluted share that stops apples.")
    num_apples: int = Field(20, ge=0, description="Apples at the start.")
    apple_value: float = Field(1.0, allow_inf_nan=False, description="Reward for eating an apple.")
    wall_value: float = Field(0.0, allow_inf_nan=False, description="Reward for walking into a wall.")
    zap_value: float = Field(-1.0, allow_inf_nan=False, description="Reward of an agent that is zapped.")
    beam_length: int = Field(3, ge=1, le=LARGEST_SIDE, description="Cells ahead that a beam reaches.")
    beam_sideways: int = Field(1, ge=0, le=LARGEST_SIDE, description="Lanes of a beam on each side.")
    view_radius: int | None = Field(5, ge=0, le=LARGEST_SIDE, description=VIEW_RADIUS)


class Cleanup(Gridworld):
    """Apples grow only while the river is clean; agents eat, clean, and zap each other."""

    Config = CleanupConfig
    name = "cleanup"

    def rules(self, config: CleanupConfig) -> WorldRules:
        length, sideways = config.beam_length, config.beam_sideways
        clean_enough = Share("pollution", "river", config.most_pollution)
        return WorldRules(
            num_agents=config.num_agents,
            max_turns=config.max_turns,
            map=river_and_orchard(config),
            kinds=(
                CellKind("wall", "#", "#6f675c", config.wall_value, is_passable=False, stops_beams=True),
                CellKind("river", "~", "#62a0ea"),
                CellKind("pollution", "p", "#7a5c2e"),
                CellKind("orchard", ",", "#b7d99a"),
                CellKind("apple", "a", "#d12f2f", config.apple_value, leaves="orchard"),
            ),
            actions=(*MOVES, Action("clean", beam="cleaning"), Action("zap", beam="zapping")),
            spawns=(
                Spawn("river", ("pollution",), config.pollution_probability, under_agents=True),
                Spawn("orchard", ("apple",), config.apple_probability, True, clean_enough),
            ),
            scatters=(Scatter("apple", config.num_apples, onto="orchard"),),
            beams=(
                Beam("cleaning", "c", "#99e6ff", length, sideways, {"pollution": "river"}),
                Beam("zapping", "z", "#ffe14d", length, sideways, hit_value=config.zap_value),
            ),
            view=View(config.view_radius, shows_position=True),
        )


def river_and_orchard(config: CleanupConfig) -> str:
    """The map: from the left, river, sand, orchard, with walls around them."""
    inside = config.width - 2
    sand = inside - config.river_width - config.orchard_width
    if sand < 1:
        raise ConfigError(
            f"cleanup: river_width={config.river_width} and orchard_width={config.orchard_width} leave "
            f"no sand for agents to start on; together at most {inside - 1} fit into width={config.width}"
        )
    line = f"#{'~' * config.river_width}{'.' * sand}{',' * config.orchard_width}#"
    return "\n".join(["#" * config.width, *[line] * (config.height - 2), "#" * config.width])
