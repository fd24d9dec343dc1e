"""The picture of a run's strength."""

from typing import Any
from xml.etree import ElementTree

from senju.training.plot import strength_svg
from senju.training.run import Run

SVG = "{http://www.w3.org/2000/svg}"


def evaluation(steps: int, opponent: str, score: float) -> dict[str, Any]:
    interval = [max(score - 0.1, 0.0), min(score + 0.1, 1.0)]
    return {"kind": "evaluation", "steps": steps, "opponent": opponent, "score": score, "interval": interval}


def points(element: ElementTree.Element) -> list[list[float]]:
    return [[float(number) for number in pair.split(",")] for pair in element.attrib["points"].split()]


def test_picture_of_a_run_is_well_formed_and_names_its_opponents(tic_tac_toe_run: Run) -> None:
    text = (tic_tac_toe_run.path / "strength.svg").read_text(encoding="utf-8")
    picture = ElementTree.fromstring(text)
    assert picture.tag == f"{SVG}svg"
    assert len(picture.findall(f"{SVG}circle")) == len(tic_tac_toe_run.evaluations)
    assert any((label.text or "").startswith("random ") for label in picture.findall(f"{SVG}text"))


def test_names_with_special_characters_keep_the_picture_well_formed() -> None:
    picture = ElementTree.fromstring(strength_svg([evaluation(10, 'runs/<a & "b">@3', 0.5)]))
    assert '<a & "b">@3 50 %' in [label.text for label in picture.findall(f"{SVG}text")]


def test_better_is_higher_and_later_is_further_right() -> None:
    records = [evaluation(100, "random", 0.25), evaluation(200, "random", 1.0), evaluation(100, "other", 0.5)]
    picture = ElementTree.fromstring(strength_svg(records))
    curves = picture.findall(f"{SVG}polyline")
    assert len(curves) == 2
    (x1, y1), (x2, y2) = points(curves[0])
    assert x1 < x2
    assert y1 > y2  # y grows downwards
    ((x3, y3),) = points(curves[1])
    assert x3 == x1
    assert y2 < y3 < y1


def test_picture_without_any_evaluation_has_axes_and_no_curve() -> None:
    picture = ElementTree.fromstring(strength_svg([]))
    assert picture.findall(f"{SVG}line")
    assert not picture.findall(f"{SVG}polyline")


def test_steps_are_written_short() -> None:
    labels = strength_svg([evaluation(8_000_000, "random", 0.5)])
    assert ">8M<" in labels
    assert ">2M<" in labels
    assert ">500<" in strength_svg([evaluation(1000, "random", 0.5)])
    assert ">1k<" in strength_svg([evaluation(1000, "random", 0.5)])
