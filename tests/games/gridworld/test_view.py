"""What agents see, plane by plane."""

import numpy as np

from senju.games.gridworld import CellKind, Gridworld, View, WorldRules
from senju.kernels import unpack_legal
from tests.games.gridworld.playing import planes, world

BOARD = "######\n#0.g.#\n#.1b.#\n#f...#\n######"
OPTIONS = {"height": 5, "width": 6, "spawn_probability": 0.0}


def test_each_kind_has_a_plane_and_what_is_beyond_the_map_looks_like_walls() -> None:
    game = world("treasure_hunt", **OPTIONS)
    seen = planes(game, game.parse(BOARD), 0)
    assert game.plane_names == ("wall", "gem", "food", "bone", "agent")
    assert seen["wall"] == ["11111", "11111", "11000", "11000", "11000"]
    assert seen["gem"] == ["00000", "00000", "00001", "00000", "00000"]
    assert seen["food"] == ["00000", "00000", "00000", "00000", "00100"]
    assert seen["bone"] == ["00000", "00000", "00000", "00001", "00000"]
    assert seen["agent"] == ["00000", "00000", "00100", "00010", "00000"], "oneself in the middle"


def test_each_agent_sees_from_where_it_stands() -> None:
    game = world("treasure_hunt", view_radius=1, **OPTIONS)
    seen = planes(game, game.parse(BOARD), 1)
    assert seen["gem"] == ["001", "000", "000"]
    assert seen["food"] == ["000", "000", "100"]
    assert seen["agent"] == ["100", "010", "000"]


def test_whole_map_is_seen_as_it_is_with_oneself_in_a_plane() -> None:
    game = world("treasure_hunt", view_radius=None, **OPTIONS)
    assert game.observation_shape == (6, 5, 6)
    seen = planes(game, game.parse(BOARD), 1)
    assert seen["wall"] == ["111111", "100001", "100001", "100001", "111111"]
    assert seen["agent"] == ["000000", "010000", "001000", "000000", "000000"]
    assert seen["self"] == ["000000", "000000", "001000", "000000", "000000"]


def test_own_position_is_one_hot_in_two_planes() -> None:
    game = world("cleanup", num_agents=1)
    states = game.new_games(1)
    states["y"], states["x"] = 13, 28
    seen = planes(game, states)
    assert "".join(seen["row"]).index("1") == 13
    assert "".join(seen["column"]).index("1") == 28
    assert "".join(seen["row"] + seen["column"]).count("1") == 2


def test_apple_under_an_agent_is_seen_and_is_eaten_by_moving_onto_it_only() -> None:
    game = world(
        "cleanup",
        num_agents=1,
        height=3,
        width=8,
        river_width=1,
        orchard_width=2,
        num_apples=0,
        apple_probability=1.0,
        pollution_probability=0.0,
        view_radius=2,
    )
    states, outcomes = (
        game.parse("########\n#~..,0.#\n########\n0 faces up, on orchard"),
        game.new_outcomes(1),
    )
    rewards = []
    for action in ("up", "up", "left", "right"):
        game.step(states, np.array([[game.parse_action(action)]], np.int32), outcomes)
        rewards.append(float(outcomes.rewards[0, 0]))
        assert planes(game, states)["apple"][2][2] == "1", "it has grown beneath the agent again"
        assert planes(game, states)["agent"][2][2] == "1"
    assert rewards == [0.0, 0.0, 1.0, 1.0]


class Fog(Gridworld):
    """A kind that is not seen, and nothing beyond the map."""

    name = "fog"
    outside: str | None = None

    def rules(self, config: object) -> WorldRules:
        kinds = (
            CellKind("mine", "m", "#000000", value=-1.0, is_visible=False),
            CellKind("flag", "f", "#ff0000", layer=1),
            CellKind("post", "p", "#ff0000", layer=1),
        )
        over = (".m.\n...", ".f.\n..p")
        return WorldRules(1, 5, over, kinds, view=View(1, outside=self.outside), start_on=("mine",))


def test_kinds_that_are_not_visible_have_no_plane() -> None:
    game = Fog()
    seen = planes(game, game.new_games(1))
    assert seen == {
        "flag": ["000", "010", "000"],
        "post": ["000", "000", "001"],
        "agent": ["000", "010", "000"],
    }


def test_outside_can_look_like_any_kind_or_like_nothing() -> None:
    game = type("FramedFog", (Fog,), {"outside": "post"})()
    assert planes(game, game.new_games(1))["post"] == ["111", "000", "001"]
    hidden = type("HiddenFog", (Fog,), {"outside": "mine"})()
    assert planes(hidden, hidden.new_games(1)) == planes(Fog(), Fog().new_games(1))


def test_all_agents_act_and_may_do_anything_also_where_the_episode_was_cut_off() -> None:
    game = world("cleanup", max_turns=1)
    states, observations, outcomes = game.new_games(3), game.new_observations(3), game.new_outcomes(3)
    for _ in range(2):
        game.observe(states, observations)
        assert observations.seats.tolist() == [list(range(10))] * 3
        assert unpack_legal(observations.legal, 6).all()
        if not outcomes.truncated.any():
            game.step(states, np.zeros((3, 10), np.int32), outcomes)
    assert outcomes.truncated.all()
