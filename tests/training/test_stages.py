"""Where the time goes, in words."""

import pytest

from senju.training.run import Run
from senju.training.stages import GROUPS, explain, share_of_groups


def test_stages_are_gathered_and_the_largest_group_comes_first() -> None:
    stages = {"observe": 1.0, "evaluate": 2.0, "backward": 6.0, "match": 0.5, "checkpoint": 0.5}
    shares = share_of_groups(stages)
    assert list(shares)[:2] == ["learning", "collecting"]
    assert shares == {"learning": 0.6, "collecting": 0.3, "measuring strength": 0.05, "saving": 0.05}


def test_unknown_stage_is_counted_as_other() -> None:
    assert share_of_groups({"daydream": 3.0, "step": 1.0}) == {"other": 0.75, "collecting": 0.25}
    assert explain({"daydream": 3.0, "step": 1.0}) == "other-bound 75 % (daydream 75 %); collecting 25 %"


def test_explanation_names_the_bound_and_its_dearest_stage() -> None:
    stages = {"evaluate": 71.0, "step": 0.0, "forward": 14.0, "backward": 10.0, "match": 5.0}
    expected = "collecting-bound 71 % (evaluate 71 %); learning 24 %; measuring strength 5 %"
    assert explain(stages) == expected


def test_nothing_timed_is_said_to_be_nothing() -> None:
    assert explain({}) == "nothing timed yet"
    assert explain({"step": 0.0}) == "nothing timed yet"
    assert share_of_groups({}) == {}


def test_every_stage_of_a_real_run_belongs_to_a_group(tic_tac_toe_run: Run) -> None:
    known = {name for names in GROUPS.values() for name in names}
    timed = {name for record in tic_tac_toe_run.metrics for name in record["stages"]}
    assert timed <= known
    assert sum(share_of_groups(tic_tac_toe_run.metrics[-1]["stages"]).values()) == pytest.approx(1.0)
