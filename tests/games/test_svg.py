"""Pictures of boards are well-formed and show each piece on its square."""

from xml.etree import ElementTree

import numpy as np

from senju.games.svg import CELL, MARGIN, grid_svg

SVG = "{http://www.w3.org/2000/svg}"
CELLS = np.array([[0, -1, 1], [1, 0, -1]])


def drawn(marks: dict[int, str], row_names: tuple[str, ...] = ()) -> ElementTree.Element:
    return ElementTree.fromstring(grid_svg(CELLS, marks, ["a", "b", "c"], row_names))


def test_picture_is_as_large_as_its_grid_and_margins() -> None:
    root = drawn({})
    size = (3 * CELL + 2 * MARGIN, 2 * CELL + 2 * MARGIN)
    assert (root.get("width"), root.get("height")) == tuple(map(str, size))
    assert root.get("viewBox") == f"0 0 {size[0]} {size[1]}"


def test_every_cell_has_a_square() -> None:
    squares = drawn({}).findall(f"{SVG}rect[@fill='none']")
    corners = [(int(s.get("x", "")), int(s.get("y", ""))) for s in squares]
    assert corners == [(MARGIN + c * CELL, MARGIN + r * CELL) for r in range(2) for c in range(3)]


def test_colours_are_discs_in_the_middle_of_their_cells() -> None:
    discs = drawn({0: "#ff0000", 1: "#00ff00"}).findall(f"{SVG}circle")
    places = {(float(d.get("cx", "")), float(d.get("cy", "")), d.get("fill")) for d in discs}
    half = MARGIN + CELL / 2
    assert places == {
        (half, half, "#ff0000"),
        (half + 2 * CELL, half, "#00ff00"),
        (half, half + CELL, "#00ff00"),
        (half + CELL, half + CELL, "#ff0000"),
    }


def test_letters_and_names_are_written() -> None:
    texts = [text.text for text in drawn({0: "X", 1: "O"}, ("1", "2")).findall(f"{SVG}text")]
    assert texts == ["X", "O", "O", "X", "a", "b", "c", "1", "2"]


def test_values_without_a_mark_stay_empty() -> None:
    root = drawn({1: "O"})
    assert [text.text for text in root.findall(f"{SVG}text")] == ["O", "O", "a", "b", "c"]
