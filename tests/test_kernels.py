"""Random numbers and sets of actions as bits."""

import math

import numpy as np
import pytest

from senju.kernels import (
    allow,
    below,
    compiled,
    count_allowed,
    is_allowed,
    legal_words,
    log_normaliser,
    nth_allowed,
    pack_legal,
    philox,
    popcount,
    random_word,
    trailing_zeros,
    unit_interval,
    unpack_legal,
)

NUM_ACTIONS = [1, 63, 64, 65, 2187, 14000]

# kat_vectors of Random123: counter, key, and what Philox 4x32-10 makes of them
KNOWN_ANSWERS = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@compiled
def bit_tricks(word: np.uint64) -> tuple[int, int]:
    return popcount(word), trailing_zeros(word)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter: list[int], key: list[int], answer: list[int]) -> None:
    low, high = philox(np.uint64(key[0] | key[1] << 32), *(np.uint64(number) for number in counter))
    assert [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32] == answer


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_random_word_is_the_lower_half_of_philox(
    counter: list[int], key: list[int], answer: list[int]
) -> None:
    word = random_word(np.uint64(key[0] | key[1] << 32), *counter)
    assert word == answer[0] | answer[1] << 32


def test_counter_numbers_count_modulo_2_to_the_32() -> None:
    key = np.uint64(5)
    assert random_word(key, -1, 2**32, 3, 4) == random_word(key, 2**32 - 1, 0, 3, 4)


def test_every_part_of_the_counter_and_the_key_matters() -> None:
    words = {random_word(np.uint64(9), 0, 0, 0, 0), random_word(np.uint64(9 | 1 << 63), 0, 0, 0, 0)}
    for place in range(4):
        words.add(random_word(np.uint64(9), *(int(place == i) for i in range(4))))
    assert len(words) == 6


@pytest.mark.parametrize(
    ("word", "expected"),
    [(0, 0.0), (2**11 - 1, 0.0), (2**11, 2.0**-53), (2**63, 0.5), (2**64 - 1, 1.0 - 2.0**-53)],
)
def test_unit_interval_has_zero_and_not_one(word: int, expected: float) -> None:
    assert unit_interval(np.uint64(word)) == expected


def test_unit_interval_is_uniform() -> None:
    samples = [unit_interval(np.uint64(random_word(np.uint64(1), i, 0, 0, 0))) for i in range(20_000)]
    counts, _ = np.histogram(samples, bins=20, range=(0.0, 1.0))
    # 36.19 is the 99 % quantile of chi-squared with 19 degrees of freedom
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 36.19


@pytest.mark.parametrize("bound", [1, 2, 7, 2187, 2**32 - 1])
def test_below_stays_below_and_reaches_both_ends(bound: int) -> None:
    assert below(np.uint64(0), np.uint64(bound)) == 0
    assert below(np.uint64(2**64 - 1), np.uint64(bound)) == bound - 1
    word = np.uint64(0x123456789ABCDEF0)
    assert below(word, np.uint64(bound)) == (0x12345678 * bound) >> 32


@pytest.mark.parametrize("word", [1, 2, 0b1011000, 2**63, 2**64 - 1, 0x8000_0001_0000_0000])
def test_popcount_and_trailing_zeros_agree_with_python(word: int) -> None:
    assert bit_tricks(np.uint64(word)) == (word.bit_count(), (word & -word).bit_length() - 1)


def test_popcount_of_nothing_is_zero() -> None:
    assert bit_tricks(np.uint64(0))[0] == 0


def random_masks(num_actions: int, share: float) -> np.ndarray:
    return np.random.default_rng(num_actions).random((5, num_actions)) < share


@pytest.mark.parametrize(("num_actions", "words"), [*zip(NUM_ACTIONS, [1, 1, 1, 2, 35, 219], strict=True)])
def test_legal_words_hold_one_bit_for_each_action(num_actions: int, words: int) -> None:
    assert legal_words(num_actions) == words
    assert pack_legal(np.ones((3, num_actions), np.bool_)).shape == (3, words)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("num_actions", NUM_ACTIONS)
def test_packing_and_unpacking_give_back_the_mask(num_actions: int, share: float) -> None:
    mask = random_masks(num_actions, share)
    assert np.array_equal(unpack_legal(pack_legal(mask), num_actions), mask)


@pytest.mark.parametrize("num_actions", NUM_ACTIONS)
def test_bits_beyond_the_last_action_stay_clear(num_actions: int) -> None:
    packed = pack_legal(np.ones(num_actions, np.bool_))
    assert sum(int(word).bit_count() for word in packed) == num_actions


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("num_actions", NUM_ACTIONS)
def test_kernels_and_numpy_agree_about_the_bits(num_actions: int, share: float) -> None:
    for mask in random_masks(num_actions, share):
        packed = pack_legal(mask)
        built = np.zeros_like(packed)
        for action in np.flatnonzero(mask).tolist():
            allow(built, action)
        assert np.array_equal(built, packed)
        ends = {0, num_actions - 1, min(63, num_actions - 1), min(64, num_actions - 1)}
        assert all(is_allowed(packed, action) == mask[action] for action in ends)
        assert count_allowed(packed) == mask.sum()


@pytest.mark.parametrize("num_actions", NUM_ACTIONS)
def test_nth_allowed_counts_through_the_allowed_actions(num_actions: int) -> None:
    mask = random_masks(num_actions, 0.3)[0]
    mask[-1] = True
    packed, allowed = pack_legal(mask), np.flatnonzero(mask)
    found = [nth_allowed(packed, np.uint64(n)) for n in range(len(allowed))]
    assert found == allowed.tolist()
    assert nth_allowed(packed, np.uint64(len(allowed))) == -1


def test_strided_masks_are_unpacked_by_value() -> None:
    mask = random_masks(130, 0.5)
    packed = np.repeat(pack_legal(mask), 2, axis=0)[::2]
    assert np.array_equal(unpack_legal(packed, 130), mask)


def plain_log_normaliser(logits: np.ndarray, mask: np.ndarray) -> float:
    allowed = [float(logit) for logit in logits[mask]]
    largest = max(allowed)
    return largest + math.log(math.fsum(math.exp(logit - largest) for logit in allowed))


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("num_actions", NUM_ACTIONS)
def test_log_normaliser_agrees_with_exact_sums(num_actions: int, scale: float) -> None:
    logits = np.random.default_rng(3).normal(0.0, scale, num_actions).astype(np.float32)
    for mask in random_masks(num_actions, 0.5):
        mask[num_actions // 2] = True
        expected = plain_log_normaliser(logits, mask)
        assert log_normaliser(logits, pack_legal(mask)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_log_normaliser_does_not_look_at_illegal_logits() -> None:
    logits = np.array([1.0, np.nan, np.inf, 3e38, 2.0], np.float32)
    mask = np.array([True, False, False, False, True])
    assert log_normaliser(logits, pack_legal(mask)) == pytest.approx(math.log(math.e + math.e**2))


@pytest.mark.parametrize(
    ("logits", "allowed", "expected"),
    [
        ([1.0, 2.0], [False, False], -math.inf),
        ([-math.inf, -math.inf], [True, True], -math.inf),
        ([-math.inf, 2.0], [True, True], 2.0),
        ([math.nan, 2.0], [True, True], math.nan),
        ([2.0, math.nan], [True, True], math.nan),
        ([math.inf, 2.0], [True, True], math.nan),
        ([3e38, 3e38], [True, True], 3e38),
    ],
)
def test_log_normaliser_at_the_limits(logits: list[float], allowed: list[bool], expected: float) -> None:
    normaliser = log_normaliser(np.array(logits, np.float32), pack_legal(np.array(allowed)))
    assert normaliser == pytest.approx(expected, rel=1e-6, nan_ok=True)
