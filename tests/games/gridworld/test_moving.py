"""Moving, taking, and who comes first, by hand-made positions of treasure_hunt."""

import numpy as np
import pytest

from senju.games.gridworld import MOVES, NOTHING, Action, CellKind, Gridworld, View, WorldRules
from tests.games.gridworld.playing import Played, drawn, play, step, world

QUIET = {"spawn_probability": 0.0}  # nothing appears: only the agents change the board


def hunt(text: str, *actions: str) -> Played:
    lines = drawn(text).split("\n")
    board = [line for line in lines if not line.startswith("turn") and " faces " not in line]
    num_agents = sum(letter.isdigit() for line in board for letter in line)
    size = {"height": len(board), "width": len(board[0])}
    return play(world("treasure_hunt", num_agents=num_agents, **size, **QUIET), text, *actions)


@pytest.mark.parametrize(
    ("action", "after"),
    [
        ("up", "#####\n#.0.#\n#...#\n#...#\n#####"),
        ("right", "#####\n#...#\n#..0#\n#...#\n#####"),
        ("down", "#####\n#...#\n#...#\n#.0.#\n#####"),
        ("left", "#####\n#...#\n#0..#\n#...#\n#####"),
    ],
)
def test_agent_moves_one_cell_and_faces_where_it_went(action: str, after: str) -> None:
    played = hunt("#####\n#...#\n#.0.#\n#...#\n#####", action)
    assert played.board == after
    assert played.rewards == [0.0]
    assert played.state["facing"][0] == ["up", "right", "down", "left"].index(action)


@pytest.mark.parametrize(("thing", "value"), [("g", 10.0), ("f", 5.0), ("b", -10.0)])
def test_agent_takes_the_value_and_the_place_of_what_it_moves_onto(thing: str, value: float) -> None:
    played = hunt(f"#####\n#0{thing}.#\n#####", "right")
    assert (played.board, played.rewards) == ("#####\n#.0.#\n#####", [value])
    assert play_on(played, "left").rewards == [0.0], "it was taken, and is not there twice"


def play_on(played: Played, *actions: str) -> Played:
    game = world("treasure_hunt", num_agents=len(actions), height=3, width=5, **QUIET)
    return Played("", step(game, played.states, *actions), played.states)


def test_walking_into_a_wall_costs_one_and_still_turns_the_agent() -> None:
    played = hunt("####\n#0.#\n####\n0 faces right", "left")
    assert (played.board, played.rewards) == ("####\n#0.#\n####", [-1.0])
    assert played.state["facing"][0] == 3


def test_walking_into_an_agent_costs_nothing_and_turns_the_agent() -> None:
    played = hunt("####\n#01#\n####", "right", "left")
    assert (played.board, played.rewards) == ("####\n#01#\n####", [0.0, 0.0])
    assert played.state["facing"].tolist() == [1, 3]


def test_of_two_agents_that_want_one_cell_the_lower_seat_gets_it() -> None:
    """Both orders: the agent with the lower seat comes from either side."""
    played = hunt("#####\n#0g1#\n#####", "right", "left")
    assert (played.board, played.rewards) == ("#####\n#.01#\n#####", [10.0, 0.0])
    played = hunt("#####\n#1g0#\n#####", "left", "right")
    assert (played.board, played.rewards) == ("#####\n#10.#\n#####", [10.0, 0.0])


def test_a_cell_is_free_for_those_who_act_after_its_agent_left() -> None:
    """Seat 1 follows seat 0 into its cell; the other way round the cell is still taken."""
    assert hunt("#####\n#10.#\n#####", "right", "right").board == "#####\n#.10#\n#####"
    assert hunt("#####\n#01.#\n#####", "right", "right").board == "#####\n#0.1#\n#####"


def test_two_agents_cannot_change_places() -> None:
    assert hunt("####\n#01#\n####", "right", "left").board == "####\n#01#\n####"


class Odd(Gridworld):
    """No walls, layers, a thing that blocks and pays, and an action that does nothing."""

    name = "odd"

    def rules(self, config: object) -> WorldRules:
        return WorldRules(
            num_agents=1,
            max_turns=10,
            map=("~0.t\n~...".replace("0", "."), "....\n.n.."),
            kinds=(
                CellKind("water", "~", "#0000ff", value=0.5),
                CellKind("tree", "t", "#00ff00", value=3.0, is_passable=False),
                CellKind("nut", "n", "#aa5500", value=2.0, leaves=NOTHING, layer=1),
            ),
            actions=(*MOVES, Action("wait")),
            start_on=(NOTHING, "water"),
            view=View(radius=1, outside="tree"),
        )


def test_edge_of_the_map_blocks_with_the_value_of_what_is_seen_there() -> None:
    played = play(Odd(), ".0.t\n~...", "up")
    assert (played.board, played.rewards) == (".0.t\n~...", [3.0])


def test_what_blocks_pays_too_and_stays() -> None:
    played = play(Odd(), "..0t\n~...", "right")
    assert (played.board, played.rewards) == ("..0t\n~...", [3.0])


def test_waiting_changes_nothing() -> None:
    played = play(Odd(), "..0t\n~...\n0 faces left", "wait")
    assert (played.board, played.rewards, played.state["facing"][0]) == ("..0t\n~...", [0.0], 3)


def test_things_of_all_layers_are_gained_and_what_stays_stays() -> None:
    states = Odd().parse(".0.t\n~...")
    states["grid"][0, 1, :, 0] = 3  # nuts in the water
    states["grid"][0, 0, :, 0] = 1
    assert step(Odd(), states, "left") == [2.5]
    assert states["grid"][0, :, 0, 0].tolist() == [1, 0]
    assert Odd().board_text(states[0]).endswith("0 faces left, on water")


def test_maps_laid_over_each_other_fill_their_layers() -> None:
    state = Odd().new_games(1)[0]
    assert state["grid"].tolist() == [[[1, 0, 0, 2], [1, 0, 0, 0]], [[0, 0, 0, 0], [0, 3, 0, 0]]]


def test_agents_start_on_distinct_cells_of_the_kinds_declared() -> None:
    game = world("treasure_hunt", num_agents=9, height=5, width=5, **QUIET)
    states = game.new_games(20, seed=1)
    for state in states:
        cells = sorted(zip(state["y"].tolist(), state["x"].tolist(), strict=True))
        assert cells == [(y, x) for y in (1, 2, 3) for x in (1, 2, 3)]
    assert len({state["y"].tobytes() + state["x"].tobytes() for state in states}) > 10, "the key draws them"
    starts = {(int(state["y"][0]), int(state["x"][0])) for state in Odd().new_games(200)}
    assert starts == {(0, 0), (1, 0), (0, 1), (0, 2), (1, 2), (1, 3)}


def test_episode_is_truncated_after_its_last_turn_and_not_before() -> None:
    game = world("treasure_hunt", max_turns=3)
    states, outcomes = game.new_games(2), game.new_outcomes(2)
    seen = []
    for _ in range(3):
        game.step(states, np.zeros((2, 2), np.int32), outcomes)
        seen.append((outcomes.truncated.tolist(), outcomes.terminated.tolist()))
    assert seen == [([False] * 2, [False] * 2)] * 2 + [([True] * 2, [False] * 2)]
    assert states["turn"].tolist() == [3, 3]
