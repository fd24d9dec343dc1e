"""Divisors of a product, found from its factors, so that large products are fast."""

import math
from collections.abc import Sequence


def divisors(factors: Sequence[int]) -> list[int]:
    """All divisors of the product of some positive numbers, in ascending order.

    Takes time proportional to the square roots of the factors, not of their product.

    >>> divisors([4, 6])
    [1, 2, 3, 4, 6, 8, 12, 24]
    """
    found = {1}
    for factor in factors:
        small = [n for n in range(1, math.isqrt(factor) + 1) if factor % n == 0]
        own = {*small, *(factor // n for n in small)}
        found = {before * divisor for before in found for divisor in own}
    return sorted(found)
