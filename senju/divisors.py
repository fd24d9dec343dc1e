"""Divisors of a product, found from its factors, so that large products are fast."""

from collections.abc import Sequence


def divisors(factors: Sequence[int]) -> list[int]:
    """All divisors of the product of some positive numbers, in ascending order.

    Takes time proportional to the square roots of the factors, not of their product.

    >>> divisors([4, 6])
    [1, 2, 3, 4, 6, 8, 12, 24]
    """
    exponents: dict[int, int] = {}
    for factor in factors:
        for prime in _primes(factor):
            exponents[prime] = exponents.get(prime, 0) + 1
    found = [1]
    for prime, exponent in exponents.items():
        found = [divisor * prime**power for divisor in found for power in range(exponent + 1)]
    return sorted(found)


def _primes(number: int) -> list[int]:
    """The prime factors of a number, with repetitions."""
    primes, candidate = [], 2
    while candidate * candidate <= number:
        while number % candidate == 0:
            primes.append(candidate)
            number //= candidate
        candidate += 1
    return [*primes, number] if number > 1 else primes
