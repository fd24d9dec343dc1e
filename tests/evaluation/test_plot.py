"""The pictures of a run: its strength, and the rewards of its agents."""

from typing import Any
from xml.etree import ElementTree

from senju.evaluation.plot import rewards_svg, strength_svg
from senju.runs.run import Run

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
    picture = ElementTree.fromstring(strength_svg([evaluation(10, 'two/<a & "b\x1b">@3', 0.5)]))
    assert 'two/<a & "b ">@3 50 %' in [label.text for label in picture.findall(f"{SVG}text")]


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


def measuring(steps: int, *rewards: float) -> dict[str, Any]:
    intervals = [[reward - 1.0, reward + 1.0] for reward in rewards]
    random = [0.5] * len(rewards)
    return {"steps": steps, "rewards": list(rewards), "intervals": intervals, "random": random}


def update(steps: int, *rewards: float) -> dict[str, Any]:
    return {"steps": steps} | {f"agent_{seat}/reward": reward for seat, reward in enumerate(rewards)}


def curves_of(picture: ElementTree.Element, *, dashed: bool) -> list[ElementTree.Element]:
    curves = picture.findall(f"{SVG}polyline")
    return [curve for curve in curves if (curve.get("stroke-dasharray") is not None) == dashed]


def test_rewards_are_drawn_for_each_agent_measured_and_in_training() -> None:
    records = [measuring(100, 1.0, -3.0), measuring(200, 5.0, 2.0)]
    updates = [update(steps, steps / 100, 0.0) for steps in (50, 100, 150, 200)]
    picture = ElementTree.fromstring(rewards_svg(records, updates))
    first, second, *training = curves_of(picture, dashed=False)
    for curve in (first, second):
        (x1, y1), (x2, y2) = points(curve)
        assert x1 < x2
        assert y1 > y2  # y grows downwards
    assert points(second)[0][1] > points(first)[0][1]
    assert [len(points(curve)) for curve in training] == [4, 4]
    assert first.get("stroke") == training[0].get("stroke") != second.get("stroke")
    for line in curves_of(picture, dashed=True):
        (_, y1), (_, y2) = points(line)
        assert points(second)[0][1] > y1 == y2 > points(first)[1][1]  # random play is between
    labels = [label.text for label in picture.findall(f"{SVG}text")]
    assert "agent 0: 5 (random 0.5)" in labels
    assert "agent 1: 2 (random 0.5)" in labels


def test_rewards_lie_within_their_part_of_the_picture() -> None:
    records = [measuring(100, -1e6, 1e-3), measuring(200, 1e6, 0.0)]
    picture = ElementTree.fromstring(rewards_svg(records, [update(200, 1e9, -1e9)]))
    height = float(picture.attrib["height"])
    for curve in picture.findall(f"{SVG}polyline"):
        assert all(0 < y < height for _, y in points(curve))
    measured = [y for curve in curves_of(picture, dashed=False)[:2] for _, y in points(curve)]
    assert max(measured) < height / 2


def test_rewards_of_many_agents_and_many_updates_stay_readable() -> None:
    many = [float(agent) for agent in range(32)]
    updates = [update(steps, *many) for steps in range(1, 2001)]
    picture = ElementTree.fromstring(rewards_svg([measuring(2000, *many)], updates))
    colours = [curve.get("stroke") for curve in curves_of(picture, dashed=True)]
    assert len(set(colours)) == 32
    assert "and 18 more" in [label.text for label in picture.findall(f"{SVG}text")]
    longest = max(len(points(curve)) for curve in curves_of(picture, dashed=False))
    assert 100 <= longest <= 150


def test_rewards_without_any_evaluation_are_an_empty_picture() -> None:
    picture = ElementTree.fromstring(rewards_svg([], []))
    assert picture.findall(f"{SVG}line")
    assert not picture.findall(f"{SVG}polyline")
