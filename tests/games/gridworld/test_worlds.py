"""The three worlds keep the Game contract, are as the settings say, and refuse what does not fit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from senju.errors import ConfigError, GameContractError, IllegalActionError
from senju.games import make_game
from senju.games.check import check_game
from senju.games.gridworld import (
    MOVES,
    NOTHING,
    Action,
    Beam,
    CellKind,
    Gridworld,
    Scatter,
    Share,
    Spawn,
    TagRule,
    View,
    WorldRules,
)
from senju.games.gridworld.core.start import reset_rows
from senju.games.gridworld.core.turn import step_rows
from senju.games.gridworld.core.view import observe_rows
from tests.facts import mentions
from tests.games.gridworld.playing import world

ODD_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "treasure_hunt": ("treasure_hunt", {}),
    "cleanup": ("cleanup", {}),
    "tag": ("tag", {}),
    "one agent": ("treasure_hunt", {"num_agents": 1, "max_turns": 7}),
    "as many as fit": ("treasure_hunt", {"num_agents": 9, "height": 5, "width": 5, "max_turns": 5}),
    "certain spawning": ("treasure_hunt", {"spawn_probability": 1.0, "max_turns": 9}),
    "seeing only oneself": ("treasure_hunt", {"view_radius": 0, "max_turns": 9}),
    "whole map": ("cleanup", {"view_radius": None, "num_agents": 3, "max_turns": 9}),
    "one turn": ("tag", {"max_turns": 1}),
    "all are it": ("tag", {"num_it": 5}),
    "smallest room": ("tag", {"height": 3, "width": 3, "num_agents": 1}),
    "widest map": ("treasure_hunt", {"height": 3, "width": 255, "max_turns": 5}),
    "many agents": ("tag", {"num_agents": 81, "view_radius": 1}),
    "long beams": ("cleanup", {"beam_length": 30, "beam_sideways": 9, "max_turns": 9, "num_agents": 4}),
}


@pytest.mark.parametrize(("name", "options"), ODD_SETTINGS.values(), ids=ODD_SETTINGS)
def test_world_keeps_the_game_contract(name: str, options: dict[str, Any]) -> None:
    game = make_game(name, **options)
    num_steps = 2 * (game.longest_game or 0) + 3
    report = check_game(game, num_rows=3, num_steps=num_steps)
    assert report.longest_game == game.longest_game
    assert game.num_acting == game.num_seats
    assert not game.is_zero_sum


def test_worlds_are_as_their_rules_say_by_default() -> None:
    hunt, cleanup, tag = world("treasure_hunt"), world("cleanup"), world("tag")
    facts = [(game.num_seats, game.num_actions, game.longest_game) for game in (hunt, cleanup, tag)]
    assert facts == [(2, 4, 100), (10, 6, 100), (5, 4, 20)]
    assert [game.names.map.shape[1:] for game in (hunt, cleanup, tag)] == [(21, 21), (21, 31), (11, 11)]
    assert [game.observation_shape[1:] for game in (hunt, cleanup, tag)] == [(5, 5), (11, 11), (9, 9)]
    assert [spawn.probability for spawn in hunt.declared.spawns + cleanup.declared.spawns] == [
        0.005,
        0.009,
        0.002,
    ]
    values = {kind.name: kind.value for game in (hunt, cleanup) for kind in game.declared.kinds if kind.value}
    assert values == {"wall": -1.0, "gem": 10.0, "food": 5.0, "bone": -10.0, "apple": 1.0}
    assert cleanup.plane_names[-2:] == ("row", "column")
    assert [cleanup.action_name(action) for action in range(6)] == [
        "up",
        "right",
        "down",
        "left",
        "clean",
        "zap",
    ]


def test_all_worlds_share_one_machine_code() -> None:
    for name, options in ODD_SETTINGS.values():
        make_game(name, **options).warm_up()
    assert [len(kernel.signatures) for kernel in (reset_rows, step_rows, observe_rows)] == [1, 1, 1]  # type: ignore[attr-defined]  # a Numba dispatcher


def test_action_outside_the_range_names_agent_and_turn_and_changes_nothing() -> None:
    game = world("treasure_hunt", num_agents=3)
    states, outcomes = game.new_games(2), game.new_outcomes(2)
    game.step(states, np.zeros((2, 3), np.int32), outcomes)
    before = states.tobytes()
    with pytest.raises(
        IllegalActionError,
        match=r"treasure_hunt: row 1: agent 2.*action 4.*turn 1.*0 to 3",
    ):
        game.step(states, np.array([[0, 0, 0], [0, 0, 4]], np.int32), outcomes)
    assert states.tobytes() == before


def test_step_after_the_end_says_so() -> None:
    game = world("tag", max_turns=1)
    states, outcomes = game.new_games(1), game.new_outcomes(1)
    game.step(states, np.zeros((1, 5), np.int32), outcomes)
    with pytest.raises(IllegalActionError, match=r"tag: row 0: .*turn 1 of 1"):
        game.step(states, np.zeros((1, 5), np.int32), outcomes)


def test_arrays_of_another_shape_or_with_gaps_are_refused() -> None:
    game, larger = world("tag"), world("tag", height=12)
    states, outcomes = game.new_games(4), game.new_outcomes(4)
    with pytest.raises(GameContractError, match=r"tag: .*settings"):
        game.observe(larger.new_games(4), game.new_observations(4))
    with pytest.raises(GameContractError, match=mentions("actions", "[4, 4]", "expected [4, 5]")):
        game.step(states, np.zeros((4, 4), np.int32), outcomes)
    with pytest.raises(GameContractError, match=mentions("states", "[2]", "gaps")):
        game.observe(states[::2], game.new_observations(2))


BAD_SETTINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "too many agents": (
        "treasure_hunt",
        {"num_agents": 10, "height": 5, "width": 5},
        "treasure_hunt: .*5×5 has 9 free cells.*num_agents=10.*at most 9",
    ),
    "too many apples": (
        "cleanup",
        {"num_apples": 172},
        "cleanup: .*apple.*count=172.* 171 cells",
    ),
    "no sand": (
        "cleanup",
        {"river_width": 20},
        "river_width=20.*at most 28",
    ),
    "more it than agents": ("tag", {"num_it": 6}, "tag: num_marked=6.*num_agents=5"),
    "position does not fit": (
        "cleanup",
        {"view_radius": 2},
        "25 cells.*21×31",
    ),
    "probability": ("treasure_hunt", {"spawn_probability": 1.5}, "spawn_probability=1.5"),
    "no agents": ("tag", {"num_agents": 0}, "num_agents=0"),
    "huge map": ("tag", {"height": 256}, "height=256"),
    "unknown": ("tag", {"num_agent": 3}, "'num_agents'"),
}


@pytest.mark.parametrize(("name", "options", "expected"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_settings_that_do_not_fit_are_refused(name: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        make_game(name, **options)


WALL = CellKind("wall", "#", "#000000", is_passable=False)
GRASS = CellKind("grass", ",", "#00ff00")
BIRD = CellKind("bird", "b", "#0000ff", layer=1)
GOOD = WorldRules(1, 5, "#.#\n#,#", (WALL, GRASS, BIRD), start_on=(NOTHING, "grass"))

BAD_RULES: dict[str, tuple[Callable[[], WorldRules], str]] = {
    "unequal lines": (
        lambda: replace(GOOD, map="#.#\n#."),
        "w: line 2.*2 cells.*3",
    ),
    "unknown letter": (
        lambda: replace(GOOD, map="#.#\n#?#"),
        r"w: .*'\?' in line 2, column 2",
    ),
    "empty map": (lambda: replace(GOOD, map=""), "w: .*map.*empty"),
    "huge map": (lambda: replace(GOOD, map="." * 256), "w: .*1×256.*255"),
    "unequal maps": (
        lambda: replace(GOOD, map=("..", "...")),
        "w: .*1×2 and 1×3",
    ),
    "no free cell": (
        lambda: replace(GOOD, map="###"),
        "w: .*1×3 .*no free cell",
    ),
    "blocked starts": (lambda: replace(GOOD, start_on=("wall",)), "no free cell"),
    "too many agents": (lambda: replace(GOOD, num_agents=3), "w: .*2×3 .*2 free cells"),
    "no agents": (lambda: replace(GOOD, num_agents=0), "w: num_agents=0.*1 to 128"),
    "too many seats": (lambda: replace(GOOD, num_agents=129), "w: num_agents=129.*1 to 128"),
    "no turns": (lambda: replace(GOOD, max_turns=0), "w: max_turns=0"),
    "one action": (lambda: replace(GOOD, actions=MOVES[:1]), "w: 1 actions"),
    "action twice": (lambda: replace(GOOD, actions=MOVES[:1] * 2), "w: action 'up'"),
    "moves and fires": (lambda: replace(GOOD, actions=(Action("x", MOVES[0].direction, "y"),)), "not both"),
    "unknown beam": (
        lambda: replace(GOOD, actions=(*MOVES, Action("x", beam="ray"))),
        "unknown beam 'ray'",
    ),
    "kind twice": (lambda: replace(GOOD, kinds=(WALL, WALL)), "w: kind 'wall'"),
    "letter twice": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, letter="#"))),
        "w: letter '#'",
    ),
    "letter of nothing": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, letter="."))),
        "letter '\\.'.*'nothing'",
    ),
    "long letter": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, letter="ab"))),
        "letter 'ab'",
    ),
    "bad colour": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, colour="green"))),
        "colour 'green'",
    ),
    "name of a plane": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, name="it"))),
        "kind 'it'",
    ),
    "bad layer": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, layer=-1))),
        "kind grass: layer=-1.*0 to 15",
    ),
    "bad value": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, value=float("nan")))),
        "kind grass: value=nan",
    ),
    "too many kinds": (
        lambda: replace(GOOD, kinds=tuple(CellKind(f"k{i}", chr(0x1000 + i), "#000000") for i in range(201))),
        "w: 201 kinds and 0 beams.*200",
    ),
    "leaves an unknown kind": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, leaves="gras"))),
        "w: kind grass: leaves: .*'gras'.*'grass'",
    ),
    "leaves another layer": (
        lambda: replace(GOOD, kinds=(WALL, replace(GRASS, leaves="bird"), BIRD)),
        "grass.*layer 0, bird.*layer 1",
    ),
    "spawns another layer": (
        lambda: replace(GOOD, spawns=(Spawn("grass", ("bird",), 0.1),)),
        "layer 0.*layer 1",
    ),
    "spawns nothing": (lambda: replace(GOOD, spawns=(Spawn("grass", (), 0.1),)), "grass.*kinds"),
    "nothing from nothing": (
        lambda: replace(GOOD, spawns=(Spawn(NOTHING, (NOTHING,), 0.1),)),
        "nothing",
    ),
    "probability": (
        lambda: replace(GOOD, spawns=(Spawn("grass", ("wall",), -0.1),)),
        "probability=-0.1.*0 to 1",
    ),
    "unknown share": (
        lambda: replace(
            GOOD, spawns=(Spawn("grass", ("wall",), 0.1, only_while=Share("gras", "wall", 0.1)),)
        ),
        "w: .*grass.*only_while.*'gras'",
    ),
    "too many spawns": (lambda: replace(GOOD, spawns=(Spawn("grass", ("wall",), 0.1),) * 65), "w: 65 spawns"),
    "scatters too many": (
        lambda: replace(GOOD, scatters=(Scatter("bird", 7),)),
        "count=7.* 6 cells of nothing",
    ),
    "short beam": (
        lambda: replace(GOOD, beams=(Beam("ray", "r", "#ffffff", length=0),)),
        "beam ray: length=0",
    ),
    "beam changes nothing": (
        lambda: replace(GOOD, beams=(Beam("ray", "r", "#ffffff", changes={NOTHING: "grass"}),)),
        "beam ray: changes.*nothing",
    ),
    "beam changes the unknown": (
        lambda: replace(GOOD, beams=(Beam("ray", "r", "#ffffff", changes={"gras": "wall"}),)),
        "w: beam ray.*changes.*'gras'",
    ),
    "unknown outside": (
        lambda: replace(GOOD, view=View(outside="sea")),
        "w: view.outside: unknown kind 'sea'",
    ),
    "negative radius": (lambda: replace(GOOD, view=View(-1)), "view: radius=-1"),
    "mark without tag": (lambda: replace(GOOD, view=View(shows_mark=True)), "w: view.shows_mark.*tag"),
    "too many it": (
        lambda: replace(GOOD, tag=TagRule(num_marked=2)),
        "w: num_marked=2.*num_agents=1",
    ),
    "unknown start": (
        lambda: replace(GOOD, start_on=("gras",)),
        "w: start_on: .*'gras'.*'grass'",
    ),
}


class W(Gridworld):
    name = "w"
    make: Callable[[], WorldRules]

    def rules(self, config: object) -> WorldRules:
        return type(self).make()


@pytest.mark.parametrize(("make", "expected"), BAD_RULES.values(), ids=BAD_RULES)
def test_rules_that_do_not_fit_are_refused(make: Callable[[], WorldRules], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        type("Bad", (W,), {"make": staticmethod(make)})()


def test_forgotten_return_is_named() -> None:
    with pytest.raises(GameContractError, match=r"w: `rules` returned None.*WorldRules"):
        type("Bad", (W,), {"rules": lambda self, config: None})()


def test_rules_that_fit_are_taken() -> None:
    check_game(type("Good", (W,), {"make": staticmethod(lambda: GOOD)})(), num_rows=2, num_steps=12)
