"""The rule of tag, by hand-made positions."""

import pytest

from tests.games.gridworld.playing import planes, play, step, world

ROOM = {"height": 5, "width": 5}


def marked(game_options: dict[str, int], board: str, *actions: str) -> list[int]:
    states = play(world("tag", **ROOM, **game_options), board, *actions).states
    return [seat for seat, mark in enumerate(states["marked"][0]) if mark]


@pytest.mark.parametrize(
    ("board", "actions", "tagged"),
    [
        ("#####\n#.1.#\n#204#\n#.3.#\n#####", "up up left down right", 3),
        ("#####\n#31.#\n#204#\n#...#\n#####", "up up left up right", 4),
        ("#####\n#314#\n#20.#\n#...#\n#####", "up up left up up", 1),
        ("#####\n#3.4#\n#20.#\n#1..#\n#####", "left down left up up", 2),
    ],
)
def test_it_tags_the_first_neighbour_down_right_up_left(board: str, actions: str, tagged: int) -> None:
    """All agents walk into a wall or into another agent, and so stay."""
    assert marked({"num_agents": 5}, f"{board}\n0 faces up, is it", *actions.split()) == [tagged]


def test_everyone_who_is_not_it_after_the_tagging_gets_ten() -> None:
    game = world("tag", num_agents=3, **ROOM)
    states = game.parse("#####\n#01.#\n#...#\n#..2#\n#####\n0 faces up, is it")
    assert step(game, states, "up", "up", "down") == [10.0, 0.0, 10.0]
    assert states["marked"].tolist() == [[0, 1, 0]]


def test_newly_tagged_agent_does_not_tag_in_the_same_turn() -> None:
    """Seat 0 tags seat 1, which stands beside seat 2 and comes later in the order."""
    assert marked({"num_agents": 3}, "#####\n#012#\n#...#\n#...#\n#####\n0 faces up, is it", *["up"] * 3) == [
        1
    ]


def test_tagging_comes_after_all_have_moved() -> None:
    board = "#####\n#0..#\n#...#\n#..1#\n#####\n0 faces up, is it"
    game = world("tag", num_agents=2, **ROOM)
    states = game.parse(board)
    step(game, states, "right", "up")  # (1, 2) and (2, 3): diagonal is not beside
    assert states["marked"].tolist() == [[1, 0]]
    step(game, states, "up", "up")  # (1, 3): beside it, although seat 1 moved after seat 0
    assert states["marked"].tolist() == [[0, 1]]


def test_walls_and_edges_are_no_neighbours() -> None:
    assert marked({"num_agents": 1}, "#####\n#...#\n#...#\n#..0#\n#####\n0 faces up, is it", "up") == [0]


def test_two_marks_stay_two() -> None:
    """A mark is never given to who has one: 0 finds only 1, which is it; 1 hands on to 2."""
    board = "#####\n#012#\n#...#\n#...#\n#####\n0 faces up, is it\n1 faces up, is it"
    assert marked({"num_agents": 3, "num_it": 2}, board, "up", "up", "up") == [0, 2]


def test_who_is_it_first_is_drawn_by_the_key() -> None:
    game = world("tag")
    marks = game.new_games(300)["marked"]
    assert marks.sum(axis=1).tolist() == [1] * 300
    assert (marks.sum(axis=0) > 30).all(), "each of five is it about 60 times in 300"
    assert world("tag", num_it=3).new_games(20)["marked"].sum(axis=1).tolist() == [3] * 20


def test_it_is_seen_by_all_and_knows_it_itself() -> None:
    game = world("tag", num_agents=2, view_radius=1, **ROOM)
    states = game.parse("#####\n#0..#\n#.1.#\n#...#\n#####\n1 faces up, is it")
    first, second = planes(game, states, 0), planes(game, states, 1)
    assert game.plane_names == ("wall", "agent", "it", "is it")
    assert first["agent"] == ["000", "010", "000"]
    assert first["it"] == ["000", "000", "001"]
    assert first["is it"] == ["000"] * 3
    assert second["agent"] == ["100", "000", "000"]
    assert second["it"] == ["000", "010", "000"]
    assert second["is it"] == ["111"] * 3
