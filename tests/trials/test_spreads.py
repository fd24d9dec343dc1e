"""Spreads: the middle and the ends, and ratios repeat by repeat."""

from senju.trials.spreads import Spread, ratio_spread, spread


def test_spread_has_the_middle_and_the_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


def test_ratios_are_taken_repeat_by_repeat() -> None:
    assert ratio_spread([2.0, 9.0], [1.0, 3.0]) == Spread(2.5, 2.0, 3.0)


def test_text_has_three_digits_or_whole_numbers() -> None:
    assert Spread(0.5, 0.25, 1234.5).as_text() == "0.500 (0.250..1,234)"
