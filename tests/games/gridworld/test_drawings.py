"""Worlds as text, read back, as SVG and as films."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from senju.errors import ConfigError, IllegalPositionError
from senju.games.game import States
from senju.games.gridworld import Gridworld
from senju.games.gridworld.film import frame, palette, write_gif
from tests.games.gridworld.playing import world

TAGGED = "#####\n#0.1#\n#...#\n#####\nturn 7 of 20\n0 faces up\n1 faces left, is it"
SMALL_TAG = {"num_agents": 2, "height": 4, "width": 5}


def episode(game: Gridworld, seed: int = 0) -> States:
    """Every state of an episode of random actions."""
    states, outcomes, chance = game.new_games(1, seed), game.new_outcomes(1), np.random.default_rng(seed)
    seen = [states.copy()]
    while not outcomes.truncated[0]:
        actions = chance.integers(game.num_actions, size=(1, game.num_seats), dtype=np.int32)
        game.step(states, actions, outcomes)
        seen.append(states.copy())
    return np.concatenate(seen)


def test_text_shows_the_map_the_turn_and_every_agent() -> None:
    game = world("tag", **SMALL_TAG)
    states = game.parse(TAGGED)
    assert game.board_text(states[0]) == TAGGED
    assert (states["turn"][0], states["y"][0].tolist(), states["x"][0].tolist()) == (7, [1, 1], [1, 3])
    assert (states["facing"][0].tolist(), states["marked"][0].tolist()) == ([0, 3], [0, 1])


@pytest.mark.parametrize("name", ["treasure_hunt", "cleanup", "tag"])
def test_what_is_written_is_read_back(name: str) -> None:
    game = world(name, max_turns=20)
    for state in episode(game):
        text = game.board_text(state)
        again = game.parse(text, key=int(state["key"]))[0]
        assert game.board_text(again) == text
        state["grid"][1:] = again["grid"][1:]  # a beam over something is not drawn
        assert again.tobytes() == state.tobytes()


def test_many_agents_have_symbols_of_their_own() -> None:
    game = world("treasure_hunt", num_agents=128, spawn_probability=0.5)
    assert len(set(game.names.symbols)) == 128
    assert not set(game.names.symbols) & set(game.names.letters)
    state = game.new_games(1)[0]
    assert game.parse(game.board_text(state), key=int(state["key"]))[0].tobytes() == state.tobytes()


BAD_BOARDS = {
    "too few lines": ("#####\n#01.#", "4 lines of 5 letters.* 5, 5$"),
    "unequal lines": (TAGGED.replace("#...#", "#..#"), "5, 5, 4, 5"),
    "unknown letter": (TAGGED.replace("#...#", "#.?.#"), r"'\?' in line 3, column 3"),
    "no agent": (TAGGED.replace("#0.1#", "#..1#"), "agents 0 1 once.* 1$"),
    "agent twice": (TAGGED.replace("#...#", "#.1.#"), "0 1 1$"),
    "unknown note": (f"{TAGGED}\nhello", "'hello'"),
    "unknown agent": (f"{TAGGED}\n7 faces up", "'7 faces up'"),
    "unknown kind": (f"{TAGGED}\n0 faces up, on lava", "'lava'"),
    "late turn": (TAGGED.replace("turn 7", "turn 21"), "'turn 21 of 20'.*20 turns"),
}


@pytest.mark.parametrize(("text", "expected"), BAD_BOARDS.values(), ids=BAD_BOARDS)
def test_boards_that_cannot_be_read_are_refused(text: str, expected: str) -> None:
    with pytest.raises(IllegalPositionError, match=expected):
        world("tag", **SMALL_TAG).parse(text)


def test_marks_are_refused_in_worlds_without_tag() -> None:
    game = world("treasure_hunt", num_agents=1, height=3, width=3)
    with pytest.raises(IllegalPositionError, match="0 faces up, is it"):
        game.parse("###\n#0#\n###\n0 faces up, is it")


def test_svg_shows_things_and_agents_in_their_colours() -> None:
    game = world("treasure_hunt", height=4, width=5, num_agents=2)
    picture = ElementTree.fromstring(
        game.board_svg(game.parse("#####\n#0g1#\n#f.b#\n#####\n1 faces down")[0])
    )
    fills = [part.get("fill") for part in picture]
    colours = dict(zip(game.names.kinds, game.names.colours, strict=True))
    assert [fills.count(colours[kind]) for kind in ("gem", "food", "bone")] == [1, 1, 1]
    assert fills.count(colours["wall"]) == 6, "one run for each full line, two ends of the others"
    discs = [part for part in picture if part.tag.endswith("circle")]
    assert [(disc.get("cx"), disc.get("cy")) for disc in discs] == [("30.0", "30.0"), ("70.0", "30.0")]
    assert [part.text for part in picture if part.tag.endswith("text")] == ["0", "1"]
    turned = [part.get("transform") for part in picture if part.tag.endswith("polygon")]
    assert turned == ["rotate(0 30.0 30.0)", "rotate(180 70.0 30.0)"]


def test_svg_shows_who_is_it_and_what_beams_cover() -> None:
    tag = world("tag", **SMALL_TAG)
    assert tag.board_svg(tag.parse(TAGGED)[0]).count('stroke="#e01b24"') == 1
    cleanup = world("cleanup")
    state = cleanup.new_games(1)[0]
    before = cleanup.board_svg(state)
    state["grid"][1, 5, 5] = 6
    assert cleanup.board_svg(state).count("#99e6ff") == before.count("#99e6ff") + 1


@pytest.mark.parametrize("name", ["treasure_hunt", "cleanup", "tag"])
def test_film_shows_every_turn_and_is_small(name: str, tmp_path: Path) -> None:
    game = world(name)
    states = episode(game)
    write_gif(game, states, tmp_path / "episode.gif", milliseconds=100)
    assert (tmp_path / "episode.gif").stat().st_size < 300_000
    with Image.open(tmp_path / "episode.gif") as film:
        duration = 0
        for picture in range(film.n_frames):
            film.seek(picture)
            duration += film.info["duration"]
        last = np.asarray(film.convert("RGB"))
    assert duration == 100 * (len(states) - 1) + 1000, "equal pictures are one that stays longer"
    colours = [tuple(bytes.fromhex(colour[1:])) for colour in palette(game)]
    assert np.array_equal(last, np.array(colours, np.uint8)[frame(game, states[-1])])


@pytest.mark.parametrize(
    ("facing", "inked"), [("up", (2, 5)), ("right", (5, 9)), ("down", (9, 5)), ("left", (5, 2))]
)
def test_film_shows_where_agents_face(facing: str, inked: tuple[int, int]) -> None:
    game = world("tag", num_agents=1, height=3, width=3)
    cell = frame(game, game.parse(f"###\n#0#\n###\n0 faces {facing}, is it")[0])[12:24, 12:24]
    colours = palette(game)
    assert colours[cell[inked]] == "#222222"
    assert [colours[cell[at]] for at in ((2, 5), (5, 9), (9, 5), (5, 2))].count("#222222") == 1
    assert colours[cell[0, 0]] == "#e01b24"


def test_films_of_nothing_and_of_tiny_cells_are_refused(tmp_path: Path) -> None:
    game = world("tag")
    with pytest.raises(ConfigError, match="tag: states"):
        write_gif(game, [], tmp_path / "no.gif")
    with pytest.raises(ConfigError, match=r"cell=4.*5 pixels"):
        write_gif(game, game.new_games(1), tmp_path / "no.gif", cell=4)
