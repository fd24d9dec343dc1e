"""Repeated measurements: median and range, and ratios taken repeat by repeat."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    """Median and range of repeated measurements."""

    median: float
    min: float
    max: float

    def as_text(self) -> str:
        """`median (min..max)`, in three digits or in whole numbers.

        >>> Spread(1.5, 1.25, 2000.0).as_text()
        '1.50 (1.25..2,000)'
        """
        return f"{_short(self.median)} ({_short(self.min)}..{_short(self.max)})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


def spread(figures: Sequence[float]) -> Spread:
    """Median, smallest and largest."""
    return Spread(median(figures), min(figures), max(figures))


def ratio_spread(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The spread of the ratios repeat by repeat, whose figures were measured close in time."""
    return spread([over / under for over, under in zip(numerators, denominators, strict=True)])
