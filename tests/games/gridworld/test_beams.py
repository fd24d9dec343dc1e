"""Beams of cleanup, by hand-made positions."""

import pytest

from senju.games.gridworld import Action, Beam, CellKind, Gridworld, View, WorldRules
from tests.games.gridworld.playing import Played, planes, play, step, world


class Range(Gridworld):
    """Dirt, walls, and beams of three shapes; nothing appears by itself."""

    name = "range"
    num_agents = 1

    def rules(self, config: object) -> WorldRules:
        wash = {"dirt": "floor"}
        return WorldRules(
            num_agents=self.num_agents,
            max_turns=10,
            map="d" * 7 + "\n" + "\n".join(["_" * 7] * 6),
            kinds=(
                CellKind("wall", "#", "#000000", is_passable=False, stops_beams=True),
                CellKind("dirt", "d", "#553300"),
                CellKind("floor", "_", "#cccccc"),
                CellKind("glass", "g", "#aaffff", is_passable=False),
            ),
            actions=(
                Action("wash", beam="water"),
                Action("zap", beam="spark"),
                Action("needle", beam="thin"),
                Action("flood", beam="wide"),
            ),
            beams=(
                Beam("water", "w", "#0000ff", changes=wash),
                Beam("spark", "s", "#ffff00", hit_value=-1.0),
                Beam("thin", "t", "#ff00ff", length=5, sideways=0, changes=wash),
                Beam("wide", "x", "#00ffff", length=1, sideways=2, changes=wash),
            ),
            start_on=("floor",),
            view=View(3),
        )


class Duel(Range):
    num_agents = 3


DIRTY = "\n".join(["d" * 7] * 3 + ["ddd0ddd"] + ["d" * 7] * 3)


def washed(played: Played) -> str:
    return played.board.replace("d", ".")


@pytest.mark.parametrize(
    ("facing", "after"),
    [
        ("up", "..___..\n..___..\n..___..\n...0...\n.......\n.......\n......."),
        ("right", ".......\n.......\n....___\n...0___\n....___\n.......\n......."),
        ("down", ".......\n.......\n.......\n...0...\n..___..\n..___..\n..___.."),
        ("left", ".......\n.......\n___....\n___0...\n___....\n.......\n......."),
    ],
)
def test_beam_hits_three_cells_ahead_and_the_three_beside_on_each_side(facing: str, after: str) -> None:
    played = play(Range(), f"{DIRTY}\n0 faces {facing}", "wash")
    assert washed(played) == after
    assert played.rewards == [0.0]


def test_length_and_width_of_a_beam_are_as_declared() -> None:
    assert washed(play(Range(), DIRTY, "needle")).split("\n")[:4] == ["..._..."] * 3 + ["...0..."]
    assert washed(play(Range(), DIRTY, "flood")).split("\n")[:4] == [
        ".......",
        ".......",
        "._____.",
        "...0...",
    ]


def test_beam_goes_no_further_than_a_wall_and_only_in_that_lane() -> None:
    """The wall two cells ahead shields what is behind it; the lanes beside go on."""
    board = "ddddddd\nddd#ddd\nddddddd\nddd0ddd" + "\nddddddd" * 3
    played = play(Range(), board, "wash")
    assert washed(played).split("\n")[:4] == [".._._..", ".._#_..", "..___..", "...0..."]
    assert played.state["grid"][1, 0].tolist() == [0, 0, 5, 0, 5, 0, 0], "nor is it seen behind the wall"
    assert played.state["grid"][1, 1].tolist() == [0, 0, 5, 0, 5, 0, 0], "nor on the wall"


def test_wall_beside_the_agent_does_not_stop_the_lane_that_passes_ahead_of_it() -> None:
    board = "ddddddd\nddddddd\nddddddd\ndd#0ddd" + "\nddddddd" * 3
    assert washed(play(Range(), board, "wash")).split("\n")[:3] == ["..___.."] * 3


def test_what_blocks_agents_need_not_stop_beams() -> None:
    board = "ddddddd\nddddddd\ndddgddd\nddd0ddd" + "\nddddddd" * 3
    assert washed(play(Range(), board, "wash")).split("\n")[:3] == ["..___..", "..___..", ".._g_.."]


def test_beam_ends_at_the_edge_of_the_map() -> None:
    board = "0dddddd" + "\nddddddd" * 6
    assert play(Range(), board, "wash").board == board
    played = play(Range(), f"{board}\n0 faces right", "wash")
    assert washed(played).split("\n")[:3] == ["0___...", ".___...", "......."]


def test_zapped_agents_pay_one_each_and_stop_no_beam() -> None:
    """Two behind each other are both hit; the one who fires is not."""
    board = "\n".join(["_" * 7, "___2___", "___1___", "___0___"] + ["_" * 7] * 3)
    assert play(Duel(), board, "zap", "wash", "wash").rewards == [0.0, -1.0, -1.0]
    facing_down = f"{board}\n2 faces down\n1 faces down"
    assert play(Duel(), facing_down, "wash", "zap", "zap").rewards == [-2.0, -1.0, 0.0]


def test_beam_hits_where_agents_stand_when_it_is_fired() -> None:
    """Seat 0 acts first: it leaves or enters the beam of seat 1, but seat 1 moves too late."""
    game = world("cleanup", num_agents=2, height=5, width=7, river_width=1, orchard_width=1, num_apples=0)
    board = "#######\n#~...,#\n#~0..1#\n#~...,#\n#######\n0 faces right\n1 faces left"
    assert play(game, board, "left", "zap").rewards == [0.0, 0.0]
    assert play(game, board.replace("~0.", "0.."), "right", "zap").rewards == [-1.0, 0.0]
    assert play(game, board, "zap", "up").rewards == [0.0, -1.0]


def test_firing_does_not_turn_or_move() -> None:
    played = play(Range(), f"{DIRTY}\n0 faces left", "wash")
    assert (played.state["y"][0], played.state["x"][0], played.state["facing"][0]) == (3, 3, 3)


def test_beams_are_seen_by_the_next_look_and_vanish_with_the_next_turn() -> None:
    game = Range()
    states = play(game, DIRTY, "wash").states
    assert planes(game, states)["water"] == ["0011100"] * 3 + ["0000000"] * 4
    step(game, states, "zap")
    seen = planes(game, states)
    assert seen["spark"] == ["0011100"] * 3 + ["0000000"] * 4
    assert not any("1" in line for line in seen["water"])


def test_later_beam_covers_an_earlier_one() -> None:
    board = "\n".join(["_" * 7] * 3 + ["___012_"] + ["_" * 7] * 3)
    game = Duel()
    states = play(game, board, "wash", "zap", "needle").states
    assert states["grid"][0, 1, 2].tolist() == [0, 0, 5, 6, 6, 7, 0]


def test_cleaning_makes_river_of_pollution_and_leaves_apples_alone() -> None:
    game = world(
        "cleanup",
        num_agents=1,
        height=5,
        width=7,
        river_width=2,
        orchard_width=1,
        num_apples=0,
        pollution_probability=0.0,
        apple_probability=0.0,
    )
    played = play(game, "#######\n#ppp.,#\n#pp.0a#\n#p~..,#\n#######\n0 faces left", "clean")
    assert played.board == "#######\n#~~~.,#\n#~~c0a#\n#~~c.,#\n#######"
