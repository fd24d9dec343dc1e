"""The worlds against slow, plain twins of them: the same bytes over thousands of random turns."""

from typing import Any

import pytest

from tests.games.gridworld import changed_twins as changed
from tests.games.gridworld.twin_cleanup import TwinCleanup
from tests.games.gridworld.twin_pair import Different, Pair
from tests.games.gridworld.twin_tag import TwinTag
from tests.games.gridworld.twin_treasure_hunt import TwinTreasureHunt
from tests.games.gridworld.twin_world import TwinWorld

TWINS: dict[str, type[TwinWorld]] = {
    "treasure_hunt": TwinTreasureHunt,
    "cleanup": TwinCleanup,
    "tag": TwinTag,
}
# Small maps and large probabilities make everything happen often.
CASES: dict[str, tuple[str, dict[str, Any], int]] = {  # a world, its settings, turns of each row
    "treasure_hunt": ("treasure_hunt", {}, 210),
    "treasure_hunt, one agent in a corridor": (
        "treasure_hunt",
        {"num_agents": 1, "height": 3, "width": 6, "spawn_probability": 0.5, "max_turns": 7},
        100,
    ),
    "treasure_hunt, a crowd": (
        "treasure_hunt",
        {"num_agents": 9, "height": 6, "width": 5, "spawn_probability": 0.2, "max_turns": 25},
        200,
    ),
    "treasure_hunt, no room at all, all is seen": (
        "treasure_hunt",
        {"num_agents": 12, "height": 5, "width": 6, "spawn_probability": 1.0, "max_turns": 3}
        | {"view_radius": None},
        60,
    ),
    "treasure_hunt, odd values, nothing is seen": (
        "treasure_hunt",
        {"num_agents": 3, "height": 7, "width": 7, "spawn_probability": 0.1, "view_radius": 0}
        | {"gem_value": 0.1, "food_value": 1 / 3, "bone_value": -0.7, "wall_value": 0.25},
        150,
    ),
    "cleanup": ("cleanup", {}, 110),
    "cleanup, one agent in a corridor": (
        "cleanup",
        {"num_agents": 1, "height": 3, "width": 5, "river_width": 1, "orchard_width": 1, "num_apples": 1}
        | {"pollution_probability": 0.4, "apple_probability": 0.4, "view_radius": 2, "max_turns": 9},
        150,
    ),
    "cleanup, a crowd": (
        "cleanup",
        {"num_agents": 14, "height": 9, "width": 9, "river_width": 3, "orchard_width": 2, "num_apples": 5}
        | {"pollution_probability": 0.2, "apple_probability": 0.3, "view_radius": 3, "max_turns": 40},
        100,
    ),
    "cleanup, long beams, odd values, all is seen": (
        "cleanup",
        {"num_agents": 6, "height": 5, "width": 13, "river_width": 5, "orchard_width": 4, "num_apples": 0}
        | {"most_pollution": 0.4, "pollution_probability": 0.05, "apple_probability": 1.0}
        | {"beam_length": 6, "beam_sideways": 0, "zap_value": -0.3, "apple_value": 0.7, "wall_value": -0.1}
        | {"view_radius": None},
        110,
    ),
    "cleanup, wide beams, full of apples": (
        "cleanup",
        {"num_agents": 8, "height": 10, "width": 10, "river_width": 4, "orchard_width": 3, "num_apples": 24}
        | {"beam_length": 2, "beam_sideways": 3, "most_pollution": 1.0, "pollution_probability": 0.0},
        60,
    ),
    "tag": ("tag", {}, 210),
    "tag, one agent in a corridor": (
        "tag",
        {"num_agents": 1, "height": 3, "width": 4, "max_turns": 2, "view_radius": 1},
        40,
    ),
    "tag, a crowd": (
        "tag",
        {"num_agents": 12, "height": 6, "width": 6, "wall_value": -0.3, "free_value": 0.1},
        150,
    ),
    "tag, four are it, all is seen": (
        "tag",
        {"num_agents": 9, "num_it": 4, "height": 6, "width": 6, "view_radius": None, "max_turns": 50},
        150,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_world_plays_like_its_plain_twin(case: str) -> None:
    name, settings, num_turns = CASES[case]
    Pair(name, settings, TWINS[name]).play(num_turns)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_turns"), [("treasure_hunt", 1_000), ("cleanup", 350), ("tag", 1_000)])
def test_thousands_of_turns_are_those_of_the_twin(name: str, num_turns: int) -> None:
    Pair(name, {}, TWINS[name], seed=2).play(num_turns)


CHANGED: dict[type[TwinWorld], str] = {  # and a case in which it shows
    changed.HuntInReversedOrder: "treasure_hunt, a crowd",
    changed.HuntChangesFirst: "treasure_hunt, a crowd",
    changed.GrowsUnderAgents: "treasure_hunt, a crowd",
    changed.WallsAreFree: "treasure_hunt",
    changed.TagInReversedOrder: "tag, a crowd",
    changed.LooksUpFirst: "tag, a crowd",
    changed.ItIsPaidToo: "tag",
    changed.CleanupInReversedOrder: "cleanup, a crowd",
    changed.CleanupChangesFirst: "cleanup, a crowd",
    changed.BeamsPassWalls: "cleanup",
    changed.BeamsStay: "cleanup",
    changed.EatsWhatGrowsBeneath: "cleanup, a crowd",
    changed.HalfIsTooMuch: "cleanup, long beams, odd values, all is seen",
}


@pytest.mark.parametrize("twin", CHANGED)
def test_a_twin_with_one_rule_changed_is_detected(twin: type[TwinWorld]) -> None:
    name, settings, num_turns = CASES[CHANGED[twin]]
    pair = Pair(name, settings, twin)
    with pytest.raises(Different):
        pair.play(num_turns)
