"""What tests ask of a message: every fact, whatever the wording."""

import re

import pytest

from tests.facts import assert_mentions, mentions

MESSAGE = "num_games=10 does not divide into shards of 4;\ntry 8 or 12 (--set collect.num_games)"


def test_facts_are_found_in_any_order_and_across_lines() -> None:
    assert_mentions(MESSAGE, "try 8", ("shards of 4", "num_games=10"), "4; try", "--set collect.num_games")


@pytest.mark.parametrize("fact", ["num_games=1", "games=10", "shards of 5", "2", "--settings"])
def test_fact_that_is_missing_or_part_of_a_longer_word_is_not_found(fact: str) -> None:
    assert not re.search(mentions("num_games=10", fact), MESSAGE)
    with pytest.raises(AssertionError, match=re.escape(repr([fact]))):
        assert_mentions(MESSAGE, ("num_games=10", fact))
