"""Results of made-up counts: ratings, cycles, JSON and the picture."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from senju.evaluation.tournament.participants import Participant
from senju.evaluation.tournament.picture import tournament_svg
from senju.evaluation.tournament.result import TournamentResult
from senju.evaluation.tournament.tasks import TournamentSchedule, TournamentSettings
from senju.opponents.score import Score

SVG = "{http://www.w3.org/2000/svg}"


def made_up(scores: dict[tuple[int, int], int], names: list[str], games: int = 20) -> TournamentResult:
    """A tournament of one chunk a pair; `scores` are the first's wins, and pairs left out did not play."""
    schedule = TournamentSchedule(names, TournamentSettings(games=games))
    for (first, second), wins in scores.items():
        schedule.finish(schedule.task(first, second, 0), Score(wins, 0, games - wins))
    return TournamentResult(
        "tic_tac_toe", [Participant(name, name, "") for name in names], schedule, Path("here")
    )


def cycle_below_a_master() -> TournamentResult:
    wins = {(0, 1): 20, (0, 2): 20, (0, 3): 20, (1, 2): 19, (2, 3): 18, (1, 3): 1}
    return made_up(wins, ["master", "rock", "scissors", "paper & <glue>"])


def test_cycle_is_pointed_out_and_its_members_are_rated_alike() -> None:
    result = cycle_below_a_master()
    assert result.is_finished
    assert result.cycles == [["rock", "scissors", "paper & <glue>"]]
    assert result.ranking[0] == 0
    below = [result.ratings[place] for place in (1, 2, 3)]
    assert max(r.mean for r in below) - min(r.mean for r in below) < 2 * below[0].deviation


def test_circle_that_is_not_significant_is_no_cycle() -> None:
    result = made_up({(0, 1): 19, (1, 2): 19, (0, 2): 8}, ["a", "b", "c"])
    assert result.between(2, 0).score.mean == 0.6
    assert not result.between(2, 0).is_separated
    assert result.cycles == []


def test_pair_is_the_same_from_both_sides() -> None:
    result = made_up({(0, 1): 17}, ["a", "b"])
    mine, theirs = result.between(0, 1), result.between(1, 0)
    assert (mine.score.mean, theirs.score.mean) == (0.85, pytest.approx(0.15))
    assert (mine.is_won, theirs.is_won, theirs.is_separated) == (True, False, True)
    assert theirs.interval == pytest.approx([1 - mine.interval.high, 1 - mine.interval.low])


def test_json_says_all_and_adds_up() -> None:
    record = json.loads(cycle_below_a_master().as_json())
    assert [each["name"] for each in record["participants"]] == [
        "master",
        "rock",
        "scissors",
        "paper & <glue>",
    ]
    assert [each["games"] for each in record["participants"]] == [60] * 4
    assert len(record["pairs"]) == 6
    for pair in record["pairs"]:
        assert pair["wins"] + pair["draws"] + pair["losses"] == pair["games"] == 20
        assert pair["interval"][0] <= pair["score"] <= pair["interval"][1]
    assert record["cycles"] == [["rock", "scissors", "paper & <glue>"]]


def test_picture_is_well_formed_and_shows_every_pair_twice() -> None:
    tree = ElementTree.fromstring(tournament_svg(cycle_below_a_master()))
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    assert sum(text in ("100", "0", "95", "5", "90", "10") for text in texts) >= 12
    assert texts.count("paper & <glue>") == 2  # a row and a column
    assert any(text and "rock beats scissors" in text for text in texts)
    assert len(list(tree.iter(f"{SVG}circle"))) == 4  # a rating each


def test_picture_keeps_within_its_frame() -> None:
    names = ["random", "a-run-with-a-very-long-name-that-nobody-can-read@1234567", "c"]
    tree = ElementTree.fromstring(tournament_svg(made_up({(0, 1): 0, (0, 2): 3, (1, 2): 20}, names)))
    width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
    for element in tree.iter():
        for name, limit in (("x", width), ("cx", width), ("x2", width), ("y", height), ("y2", height)):
            assert 0 <= float(element.attrib.get(name, 0)) <= limit


def test_what_was_not_played_is_left_open() -> None:
    result = made_up({(0, 1): 20}, ["a", "b", "c"])
    assert not result.is_finished
    assert result.between(2, 1).interval == (0, 1)
    assert not result.between(2, 1).is_separated
    texts = [element.text for element in ElementTree.fromstring(tournament_svg(result)).iter(f"{SVG}text")]
    assert "Not finished." in texts
