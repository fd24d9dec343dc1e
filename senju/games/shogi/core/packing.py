"""27 sets of 81 squares as 35 words without gaps: the layout of the legal actions.

The position of each bit is known at compile time, so the loop is unrolled while compiling: this takes
half the time of a loop that shifts by variables.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from senju.games.shogi.core.layout import NUM_LEGAL_WORDS

_NUM_SETS, _LOW_BITS, _HIGH_BITS, _WORD_BITS = 27, 63, 18, 64


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def pack_sets(typing_context: Any, sets: Any, words: Any, start: Any) -> Any:
    """Write 27 sets (54 words) to 35 words from `start`; return the number of set bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)

        def place(array: int, index: Any) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            return builder.gep(data, [index])

        parts: list[list[Any]] = [[] for _ in range(NUM_LEGAL_WORDS)]  # the operands of each word's OR
        bit = 0
        for index in range(2 * _NUM_SETS):
            loaded = builder.load(place(0, ir.Constant(word, index)))
            at, shift = divmod(bit, _WORD_BITS)
            num_bits = _HIGH_BITS if index % 2 else _LOW_BITS
            parts[at].append(builder.shl(loaded, ir.Constant(word, shift)) if shift else loaded)
            if shift + num_bits > _WORD_BITS:
                parts[at + 1].append(builder.lshr(loaded, ir.Constant(word, _WORD_BITS - shift)))
            bit += num_bits
        total = ir.Constant(word, 0)
        for index, ored in enumerate(parts):
            packed = ored[0]
            for part in ored[1:]:
                packed = builder.or_(packed, part)
            builder.store(packed, place(1, builder.add(arguments[2], ir.Constant(word, index))))
            total = builder.add(total, builder.ctpop(packed))
        return total

    return types.uint64(sets, words, types.uint64), generate
