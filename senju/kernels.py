"""Shared by all kernels: compiler settings, random numbers, and sets of actions as bits.

Numba turns `uint64` mixed with a Python int into a float or an `int64`; constants used with 64-bit
words are therefore `np.uint64`.
"""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic
from numpy.typing import NDArray

from senju.kernel_cache import KernelCache, cache_root, usable_cache_folder

F = TypeVar("F", bound=Callable[..., Any])

WORD_BITS = 64

ZERO, ONE, ALL_BITS = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
_SIX, _LOW6 = np.uint64(6), np.uint64(63)


_CACHE_FOLDER = usable_cache_folder()
if _CACHE_FOLDER is not None:
    # torch creates this folder for the first optimizer, by default among temporary files, and leaves it there
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_root() / "torch"))


def compiled(function: F, is_inlined: bool = False) -> F:
    """Compile a kernel: it runs without the GIL, and is cached on disk (`senju.kernel_cache`).

    Code typed at a prompt is not in a file and is compiled each time.
    """
    dispatcher = numba.njit(nogil=True, error_model="numpy", forceinline=is_inlined)(function)
    is_compiled = isinstance(dispatcher, Dispatcher)  # not with NUMBA_DISABLE_JIT
    if is_compiled and _CACHE_FOLDER is not None and Path(function.__code__.co_filename).is_file():
        dispatcher._cache = KernelCache(dispatcher, _CACHE_FOLDER)
    return cast(F, dispatcher)


def inlined(function: F) -> F:
    """Compile a kernel that is inlined into each of its callers, for large stages of a hot kernel."""
    return compiled(function, is_inlined=True)


def _word_instruction(name: str, emit: Callable[[Any, Any], Any]) -> Any:
    """An intrinsic from a word to a word; `emit(builder, word)` writes its instruction."""

    def typed(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return numba.types.uint64(numba.types.uint64), generate

    typed.__name__ = name  # fingerprints tell the intrinsics apart by this name
    return intrinsic(typed)


_TRUE = ir.Constant(ir.IntType(1), 1)
# the index of the lowest set bit, and the number of zeros above the highest; undefined for zero
trailing_zeros = _word_instruction("trailing_zeros", lambda builder, word: builder.cttz(word, _TRUE))
leading_zeros = _word_instruction("leading_zeros", lambda builder, word: builder.ctlz(word, _TRUE))
popcount = _word_instruction("popcount", lambda builder, word: builder.ctpop(word))  # counts set bits


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def fill_81(typing_context: Any, octets: Any, start: Any, value: Any) -> Any:
    """Write one byte 81 times, by two wide stores that overlap, without bounds checks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        octet, index = ir.IntType(8), ir.IntType(32)
        first = builder.gep(array.data, [arguments[1]])
        for width, offset in ((64, 0), (32, 81 - 32)):
            wide = ir.VectorType(octet, width)
            undefined = ir.Constant(wide, ir.Undefined)
            one = builder.insert_element(undefined, arguments[2], ir.Constant(index, 0))
            spread = builder.shuffle_vector(
                one, undefined, ir.Constant(ir.VectorType(index, width), [0] * width)
            )
            place = builder.gep(first, [ir.Constant(ir.IntType(64), offset)])
            builder.store(spread, builder.bitcast(place, wide.as_pointer()), align=1)
        return context.get_dummy_value()

    return numba.types.void(octets, numba.types.uint64, numba.types.uint8), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def spread_bits(typing_context: Any, octets: Any, start: Any, low: Any, high: Any) -> Any:
    """Write 81 bits, 63 of one word and 18 of another, as 81 bytes of 0 or 1, without bounds checks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        word = ir.IntType(64)
        _, start, low, high = arguments
        # the last 32 of the 81 bits once more, so that two stores cover all and nothing beyond
        last = builder.or_(builder.lshr(low, ir.Constant(word, 49)), builder.shl(high, ir.Constant(word, 14)))
        for bits, width, offset in ((low, 64, 0), (last, 32, 49)):
            narrowed = bits if width == 64 else builder.trunc(bits, ir.IntType(32))
            flags = builder.bitcast(narrowed, ir.VectorType(ir.IntType(1), width))
            values = builder.zext(flags, ir.VectorType(ir.IntType(8), width))
            place = builder.gep(array.data, [builder.add(start, ir.Constant(word, offset))])
            builder.store(values, builder.bitcast(place, values.type.as_pointer()), align=1)
        return context.get_dummy_value()

    word = numba.types.uint64
    return numba.types.void(octets, word, word, word), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def memory_fence(typing_context: Any) -> Any:
    """Other processes see everything written before the fence before anything written after it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return numba.types.void(), generate


# Philox 4x32-10: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, section 3.3.
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW32, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


@inlined
def _philox_round(counter: Any, key_0: np.uint64, key_1: np.uint64, number: int) -> Any:
    a, b, c, d = counter
    product_0, product_1 = _MULTIPLIER_0 * a, _MULTIPLIER_1 * c
    round_0 = (key_0 + np.uint64(number) * _WEYL_0) & _LOW32
    round_1 = (key_1 + np.uint64(number) * _WEYL_1) & _LOW32
    return (
        (product_1 >> _32) ^ b ^ round_0,
        product_1 & _LOW32,
        (product_0 >> _32) ^ d ^ round_1,
        product_0 & _LOW32,
    )


@inlined
def philox(key: np.uint64, a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> Any:
    """128 random bits, as two words, for a 64-bit key and a counter of four 32-bit numbers.

    The rounds are unrolled: a loop would keep the compiler from vectorising callers that need many words
    (six times as fast with AVX-512).
    """
    key_0, key_1 = key & _LOW32, key >> _32
    counter = _philox_round((a, b, c, d), key_0, key_1, 0)
    counter = _philox_round(counter, key_0, key_1, 1)
    counter = _philox_round(counter, key_0, key_1, 2)
    counter = _philox_round(counter, key_0, key_1, 3)
    counter = _philox_round(counter, key_0, key_1, 4)
    counter = _philox_round(counter, key_0, key_1, 5)
    counter = _philox_round(counter, key_0, key_1, 6)
    counter = _philox_round(counter, key_0, key_1, 7)
    counter = _philox_round(counter, key_0, key_1, 8)
    a, b, c, d = _philox_round(counter, key_0, key_1, 9)
    return a | (b << _32), c | (d << _32)


@compiled
def random_word(key: np.uint64, a: int, b: int, c: int, d: int) -> Any:
    """64 random bits for a key and a counter of four numbers modulo 2**32.

    >>> hex(random_word(np.uint64(0), 0, 0, 0, 0))
    '0xe169c58d6627e8d5'
    """
    low, _ = philox(
        np.uint64(key),
        np.uint64(a) & _LOW32,
        np.uint64(b) & _LOW32,
        np.uint64(c) & _LOW32,
        np.uint64(d) & _LOW32,
    )
    return low


_11 = np.uint64(11)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2**-53


@compiled
def unit_interval(word: np.uint64) -> float:
    """A float64 in [0, 1) from the upper 53 bits of a random word."""
    return (word >> _11) * _TO_UNIT


@compiled
def below(word: np.uint64, bound: np.uint64) -> Any:
    """An integer in [0, bound) from a random word, for bounds below 2**32 (bias under 2**-32)."""
    return ((word >> _32) * np.uint64(bound)) >> _32


def legal_words(num_actions: int) -> int:
    """The number of 64-bit words with one bit for each action."""
    return -(-num_actions // WORD_BITS)


@compiled
def allow(legal: NDArray[np.uint64], action: int) -> None:
    """Set one action's bit in a row's legal words."""
    bit = np.uint64(action)
    legal[bit >> _SIX] |= ONE << (bit & _LOW6)


@compiled
def is_allowed(legal: NDArray[np.uint64], action: int) -> Any:
    """Whether an action's bit is set in a row's legal words."""
    bit = np.uint64(action)
    return ((legal[bit >> _SIX] >> (bit & _LOW6)) & ONE) != ZERO


@compiled
def count_allowed(legal: NDArray[np.uint64]) -> Any:
    """The number of actions that a row's legal words allow."""
    total = ZERO
    for word in legal:
        total += popcount(word)
    return total


@compiled
def nth_allowed(legal: NDArray[np.uint64], n: np.uint64) -> int:
    """The n-th allowed action, counted from 0; -1 if there are fewer."""
    for index in range(legal.shape[0]):
        word = legal[index]
        count = popcount(word)
        if n < count:
            for _ in range(n):
                word &= word - ONE
            return index * WORD_BITS + int(trailing_zeros(word))
        n -= count
    return -1


@compiled
def log_normaliser(logits: NDArray[np.float32], legal: NDArray[np.uint64]) -> float:
    """The logarithm of Σ exp(logit) over a row's legal actions, in float64.

    In a masked categorical distribution, log p(a) is `logits[a]` minus this. It is minus infinity if no
    action is legal, and NaN if a legal logit is NaN or plus infinity.
    """
    largest = -np.inf
    for index in range(legal.shape[0]):
        word = legal[index]
        while word != ZERO:
            logit = logits[index * WORD_BITS + int(trailing_zeros(word))]
            if not logit < np.inf:
                return np.nan
            largest = max(largest, logit)
            word &= word - ONE
    if largest == -np.inf:
        return -np.inf
    total = 0.0
    for index in range(legal.shape[0]):
        word = legal[index]
        while word != ZERO:
            total += math.exp(logits[index * WORD_BITS + int(trailing_zeros(word))] - largest)
            word &= word - ONE
    return largest + math.log(total)


def unpack_legal(legal: NDArray[np.uint64], num_actions: int) -> NDArray[np.bool_]:
    """Legal words [..., words] as booleans [..., num_actions].

    >>> unpack_legal(np.array([0b101], np.uint64), 4)
    array([ True, False,  True, False])
    """
    octets = np.ascontiguousarray(legal).view(np.uint8)
    bits = np.unpackbits(octets, axis=-1, count=num_actions, bitorder="little")
    return bits.astype(np.bool_)


def pack_legal(allowed: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Booleans [..., num_actions] as legal words [..., words].

    >>> pack_legal(np.array([True, False, True, False]))
    array([5], dtype=uint64)
    """
    num_actions = allowed.shape[-1]
    padded = np.zeros((*allowed.shape[:-1], legal_words(num_actions) * WORD_BITS), np.bool_)
    padded[..., :num_actions] = allowed
    return np.packbits(padded, axis=-1, bitorder="little").view(np.uint64)
