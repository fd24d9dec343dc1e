"""Divisors of products."""

import math

import pytest

from senju.divisors import divisors


@pytest.mark.parametrize("factors", [[], [1], [1, 1], [7], [12], [4, 6], [30, 30, 2], [64, 27], [97, 89]])
def test_divisors_are_those_that_a_search_finds(factors: list[int]) -> None:
    product = math.prod(factors)
    assert divisors(factors) == [n for n in range(1, product + 1) if product % n == 0]


def test_divisors_of_a_large_product_are_found_by_its_factors() -> None:
    primes = [1048573, 65521, 9973]  # a search up to the product's root would take 26 million steps
    assert len(divisors(primes)) == 8
    assert divisors(primes)[-1] == math.prod(primes)
