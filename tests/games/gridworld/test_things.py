"""Things that change by themselves: spawning, shares, scattering."""

import numpy as np
import pytest

from senju.errors import ConfigError
from senju.games.gridworld import NOTHING, CellKind, Gridworld, Scatter, Share, Spawn, View, WorldRules
from senju.kernels import below, random_word, unit_interval
from tests.games.gridworld.playing import play, step, world


class Garden(Gridworld):
    """A world of given rules, without walls."""

    name = "garden"
    spawns: tuple[Spawn, ...] = ()
    scatters: tuple[Scatter, ...] = ()
    map = "....\n...."
    num_agents = 1

    def rules(self, config: object) -> WorldRules:
        return WorldRules(
            num_agents=self.num_agents,
            max_turns=1000,
            map=self.map,
            kinds=(
                CellKind("weed", "w", "#00aa00"),
                CellKind("rose", "r", "#aa0000", leaves=NOTHING),
                CellKind("rock", "o", "#777777", is_passable=False),
                CellKind("bee", "b", "#eeee00", layer=1),
            ),
            spawns=self.spawns,
            scatters=self.scatters,
            start_on=(NOTHING, "weed"),
            view=View(1, outside=None),
        )


def garden(*spawns: Spawn, layout: str = "....\n....", scatters: tuple[Scatter, ...] = ()) -> Garden:
    made = type("Plot", (Garden,), {"spawns": spawns, "scatters": scatters, "map": layout})
    game: Garden = made()
    return game


def test_every_empty_cell_without_an_agent_changes_when_it_is_certain() -> None:
    played = play(garden(Spawn(NOTHING, ("weed",), 1.0)), "0...\n.r..", "down")
    assert played.board == "wwww\n0rww"
    assert played.state["grid"][0, 1, 0] == 0, "nothing appears beneath an agent"


def test_things_appear_beneath_agents_where_the_rule_says_so() -> None:
    game = garden(Spawn(NOTHING, ("weed",), 1.0, under_agents=True))
    assert game.board_text(play(game, "0...\n....", "down").state).endswith("0 faces down, on weed")


def test_nothing_appears_with_probability_zero() -> None:
    assert play(garden(Spawn(NOTHING, ("weed",), 0.0)), "0...\n....", "down").board == "....\n0..."


def test_things_change_before_the_first_look_and_after_the_last_turn() -> None:
    states = garden(Spawn(NOTHING, ("weed",), 1.0)).new_games(1)
    assert (states["grid"][0, 0] == 1).sum() == 7
    hunt = world("treasure_hunt", max_turns=1, spawn_probability=1.0, height=3, width=4, num_agents=1)
    played = play(hunt, "####\n#0.#\n####", "right")
    assert played.state["grid"][0, 1, 1] > 1
    assert played.state["turn"] == 1


def test_word_of_key_turn_cell_and_rule_decides() -> None:
    """Against the words one by one: the kernel makes many of them at a time."""
    rules = (Spawn("weed", ("rose",), 0.3, True), Spawn(NOTHING, ("weed", "rose", "rock"), 0.4, True))
    game = garden(*rules, layout="...ww\nw....\n.w.w.")
    states = game.new_games(1, seed=5)
    key = states["key"][0]
    for turn in range(1, 30):
        before = states["grid"][0, 0].reshape(-1).tolist()
        step(game, states, "up")
        for cell, (old, new) in enumerate(
            zip(before, states["grid"][0, 0].reshape(-1).tolist(), strict=True)
        ):
            if old in (2, 3):
                continue  # roses and rocks stay, unless a rose is taken
            rule = 0 if old == 1 else 1
            word = np.uint64(random_word(key, turn, cell, 256 + rule, 0))
            is_hit = unit_interval(word) < rules[rule].probability
            which = int(below(np.uint64(random_word(key, turn, cell, 320 + rule, 0)), np.uint64(3)))
            expected = old if not is_hit else 2 if rule == 0 else (1, 2, 3)[which]
            assert new == expected, (turn, cell)
        states["grid"][0, 0] = np.where(states["grid"][0, 0] == 3, 0, states["grid"][0, 0])
        states["grid"][0, 0] = np.where(states["grid"][0, 0] == 2, 1, states["grid"][0, 0])


def test_all_kinds_of_a_rule_are_equally_likely_and_as_frequent_as_it_says() -> None:
    game = world("treasure_hunt", height=52, width=52, spawn_probability=0.2, num_agents=1)
    grid = game.new_games(20)["grid"][:, 0, 1:-1, 1:-1]
    counts = [int((grid == kind).sum()) for kind in (2, 3, 4)]
    assert abs(sum(counts) - 0.2 * 50_000) < 400  # four standard deviations and more
    assert max(counts) - min(counts) < 350


def test_rules_read_the_grid_as_it_was_before_the_turn() -> None:
    game = garden(Spawn(NOTHING, ("weed",), 1.0), Spawn("weed", ("rose",), 1.0))
    assert play(game, "0...\nw.w.", "right").board == "w0ww\nrwrw"


def test_of_two_rules_for_one_cell_the_first_one_wins() -> None:
    both = (Spawn(NOTHING, ("weed",), 1.0), Spawn(NOTHING, ("rose",), 1.0))
    assert play(garden(*both), "0...\n....", "right").board == "w0ww\nwwww"
    assert play(garden(*both[::-1]), "0...\n....", "right").board == "r0rr\nrrrr"


def test_things_can_vanish_by_themselves() -> None:
    assert play(garden(Spawn("rose", (NOTHING,), 1.0)), "0.r.\n.rr.", "up").board == "0...\n...."


def test_a_layer_of_its_own_is_filled_except_where_another_one_blocks() -> None:
    played = play(garden(Spawn(NOTHING, ("bee",), 1.0)), "0wo.\n....", "down")
    assert played.state["grid"][0].tolist() == [[0, 1, 3, 0], [0, 0, 0, 0]]
    assert played.state["grid"][1].tolist() == [[4, 4, 0, 4], [0, 4, 4, 4]]


def test_spawning_stops_above_the_share_and_not_at_it() -> None:
    """Half of the river may be polluted; one cell more, and no apple grows."""
    options = {
        "num_agents": 1,
        "height": 4,
        "width": 6,
        "river_width": 2,
        "orchard_width": 1,
        "num_apples": 0,
        "pollution_probability": 0.0,
        "apple_probability": 1.0,
    }
    game = world("cleanup", **options)
    grows = play(game, "######\n#~~0,#\n#pp.,#\n######", "down")
    assert grows.board == "######\n#~~.a#\n#pp0a#\n######"
    stops = play(game, "######\n#p~0,#\n#pp.,#\n######", "down")
    assert stops.board == "######\n#p~.,#\n#pp0,#\n######"


def test_share_is_taken_before_this_turns_pollution() -> None:
    only = Share("weed", "rose", 0.0)
    game = garden(Spawn("rose", ("weed",), 1.0), Spawn(NOTHING, ("rose",), 1.0, only_while=only))
    assert play(game, "0r..\n....", "down").board == "rwrr\n0rrr"


def test_share_of_nothing_at_all_holds() -> None:
    game = garden(Spawn(NOTHING, ("rose",), 1.0, only_while=Share("weed", "rock", 0.0)))
    assert play(game, "0...\n....", "down").board == "rrrr\n0rrr"


def test_scattering_puts_as_many_as_asked_on_random_cells_of_the_kind() -> None:
    game = world("cleanup", apple_probability=0.0)
    states = game.new_games(30)
    apples = states["grid"][:, 0] == 5
    assert apples.sum(axis=(1, 2)).tolist() == [20] * 30
    assert not apples[:, :, :21].any(), "apples lie in the orchard"
    assert apples.any(axis=0).sum() > 150, "anywhere in it: 171 cells, 600 apples"


def test_later_scatters_see_the_earlier_ones() -> None:
    scatters = (Scatter("weed", 3), Scatter("rose", 3, onto="weed"), Scatter("rock", 4))
    grid = garden(scatters=scatters).new_games(5)["grid"][:, 0]
    assert [(grid == kind).sum(axis=(1, 2)).tolist() for kind in (1, 2, 3)] == [[0] * 5, [3] * 5, [4] * 5]
    with pytest.raises(ConfigError, match=r"rock: count=6.* 5 cells of nothing"):
        garden(scatters=(*scatters[:2], Scatter("rock", 6)))


def test_no_agent_starts_in_a_scattered_obstacle() -> None:
    for state in garden(scatters=(Scatter("rock", 7),)).new_games(50):
        assert state["grid"][0, state["y"][0], state["x"][0]] == 0
    with pytest.raises(ConfigError, match=r"0 free cells.*num_agents=1"):
        garden(scatters=(Scatter("rock", 8),))
