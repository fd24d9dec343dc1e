"""The dtype of one row's state, and the offsets in it, in 64-bit words and in bytes.

Kernels see all rows as one flat array of words and one of bytes over the same memory, so that one
compiled kernel serves every setting: the fixed part comes first, then a history of any length.
"""

import numpy as np

NUM_LEGAL_WORDS = 35
NUM_RULE_WORDS = 180  # enough to generate and to play moves
PAST_WORDS = np.uint64(13)  # an earlier position: its board, hands and all between them


def state_dtype(max_plies: int, history: int) -> np.dtype[np.void]:
    """The dtype of one row's state."""
    fields: list[tuple[str, type[np.generic], tuple[int, ...]]] = [
        ("sets", np.uint64, (2, 2, 16, 2)),  # [view][own, other][set][two words]
        ("legal", np.uint64, (NUM_LEGAL_WORDS,)),  # the legal actions of the side to move
        ("hash", np.uint64, ()),
        ("board", np.uint8, (81,)),  # in Black's view
        ("side", np.uint8, ()),
        ("is_check", np.uint8, ()),
        ("ending", np.uint8, ()),
        ("repetitions", np.uint8, ()),
        ("spare", np.uint8, (3,)),
        ("hands", np.uint8, (2, 7)),  # [colour][kind]
        ("spare_too", np.uint8, (2,)),
        ("ply", np.uint64, ()),
        ("check_runs", np.uint64, (2,)),  # for each side: its consecutive turns that started in check
        ("seen", np.uint64, (64,)),  # a Bloom filter of the hashes' lowest twelve bits, to skip most look-ups
        ("hashes", np.uint64, (max_plies + 1,)),  # one for each ply from the state's start
    ]
    if history:
        fields.append(("past", np.uint8, (history, 8 * int(PAST_WORDS))))
    return np.dtype(fields)


def _byte(field: str) -> np.uint64:
    fields = state_dtype(0, 0).fields
    assert fields is not None
    return np.uint64(fields[field][1])


BOARD_BYTE, SIDE_BYTE, IS_CHECK_BYTE, ENDING_BYTE, REPETITIONS_BYTE, HANDS_BYTE = map(
    _byte, ("board", "side", "is_check", "ending", "repetitions", "hands")
)
LEGAL, HASH, BOARD, HANDS, PLY, CHECK_RUNS, SEEN, HASHES = (
    _byte(field) // np.uint64(8)
    for field in ("legal", "hash", "board", "hands", "ply", "check_runs", "seen", "hashes")
)

# offsets of one side's sets: each piece type in the order of the codes, pieces that move like gold, and all
PAWN, LANCE, KNIGHT, SILVER = (np.uint64(2 * kind) for kind in range(4))
BISHOP, ROOK, KING = (np.uint64(2 * kind) for kind in range(5, 8))
HORSE, DRAGON, GOLD, ALL = (np.uint64(2 * kind) for kind in range(12, 16))
OTHER = np.uint64(32)  # from a side's own sets to the other's, in the same view
VIEW = np.uint64(64)  # from Black's view to White's
