"""Whether drawn counts fit expected shares."""

import math

import numpy as np
from numpy.typing import NDArray

_THOUSANDTH = 3.0902  # the standard normal exceeds it once in a thousand


def chi_squared(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    """Pearson's statistic; the shares add up to 1."""
    expected = counts.sum() * shares
    return float(((counts - expected) ** 2 / expected).sum())


def limit(num_classes: int) -> float:
    """What the statistic exceeds once in a thousand times (Wilson and Hilferty 1931)."""
    freedom = num_classes - 1
    return float(freedom * (1 - 2 / (9 * freedom) + _THOUSANDTH * math.sqrt(2 / (9 * freedom))) ** 3)


def fits(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> bool:
    """Whether p > 0.001."""
    return chi_squared(counts, shares) < limit(len(shares))
