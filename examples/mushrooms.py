"""A gridworld of your own in one file: mushrooms in a forest, and three independent agents.

    senju games examples.mushrooms:Mushrooms        # test it against the Game contract
    python -m examples.mushrooms                    # show some random turns, then train briefly

docs/gridworld.md explains this file step by step.
"""

from pathlib import Path

import numpy as np
from pydantic import Field

import senju
from senju.config import Part
from senju.games.gridworld import (
    MOVES,
    NOTHING,
    Action,
    Beam,
    CellKind,
    Gridworld,
    Scatter,
    Spawn,
    View,
    WorldRules,
)

FOREST = """
###############
#....,,,....T.#
#.T..,,,......#
#......T...,,.#
#.,,.......,,.#
#.,,..TT...,,.#
#.,,..TT......#
#.......T.,,,.#
#..T......,,,.#
###############
"""

STICK = Beam("stick", "/", "#fff59d", length=2, sideways=0, changes={"bramble": NOTHING}, hit_value=-1.0)


class MushroomsConfig(Part):
    """Settings of the forest."""

    num_agents: int = Field(3, ge=1, le=20, description="Agents that gather.")
    max_turns: int = Field(50, ge=1, description="Turns of an episode.")
    growth: float = Field(0.03, ge=0, le=1, description="Chance that moss grows something, a cell and turn.")


class Mushrooms(Gridworld):
    """Mushrooms grow on moss, nuts fall anywhere, brambles close the paths, a stick opens them."""

    name = "mushrooms"
    Config = MushroomsConfig

    def rules(self, config: MushroomsConfig) -> WorldRules:
        """The forest that these settings ask for."""
        return WorldRules(
            num_agents=config.num_agents,
            max_turns=config.max_turns,
            map=FOREST,
            kinds=(
                CellKind("wall", "#", "#4a4a4a", value=-0.1, is_passable=False, stops_beams=True),
                CellKind("tree", "T", "#1b5e20", is_passable=False, stops_beams=True),
                CellKind("moss", ",", "#a5d6a7"),
                CellKind("mushroom", "m", "#a1673b", value=1.0, leaves="moss"),
                CellKind("toadstool", "t", "#d32f2f", value=-1.0, leaves="moss"),
                CellKind("bramble", "b", "#6d4c7d", value=-0.5, is_passable=False),
                CellKind("nut", "n", "#ffb300", value=2.0, leaves=NOTHING, layer=1),
            ),
            actions=(*MOVES, Action("strike", beam="stick"), Action("wait")),
            beams=(STICK,),
            start_on=("moss",),
            scatters=(Scatter("bramble", 6), Scatter("mushroom", 4, onto="moss")),
            spawns=(
                Spawn("moss", ("mushroom", "mushroom", "toadstool"), config.growth),
                Spawn(NOTHING, ("nut",), 0.002),
                Spawn(NOTHING, ("bramble",), 0.001),
            ),
            view=View(radius=3),
        )


def random_episode(game: Gridworld, seed: int = 0) -> list[np.void]:
    """The positions of an episode in which all agents act at random."""
    chance = np.random.default_rng(seed)
    states, outcomes = game.new_games(1, seed), game.new_outcomes(1)
    positions = [states[0].copy()]
    while not outcomes.truncated[0]:
        actions = chance.integers(game.num_actions, size=(1, game.num_seats), dtype=np.int32)
        game.step(states, actions, outcomes)
        positions.append(states[0].copy())
    return positions


def train(run: Path | None = None) -> senju.Run:
    """Train three independent agents; the run folder has all results."""
    return senju.train(
        "examples.mushrooms:Mushrooms",
        run=run,
        total_steps=288_000,  # decisions of all agents together: 30 updates
        learners="stacked",  # networks of one shape are trained as one computation, each on its own data
        model={"hidden": [64]},
        collect={"seating": "independent", "num_games": 64, "games_per_shard": 64, "rollout_steps": 50},
        algorithm={
            "minibatch_size": 800,
            "learning_rate": 0.003,
            "entropy_coefficient": 0.02,
            "gamma": 0.95,
        },
        evaluation={"interval": 0, "opponents": []},  # once, at the end
        threads=1,
    )


if __name__ == "__main__":
    forest = Mushrooms()
    for position in random_episode(forest)[:3]:
        print(forest.board_text(position), end="\n\n")
    trained = train()
    measured = trained.episodes[-1]
    print("reward per episode, each agent:", [round(reward, 1) for reward in measured["rewards"]])
    print("by acting at random:           ", [round(reward, 1) for reward in measured["random"]])
    print("an episode as a GIF:           ", trained.path / measured["film"])
