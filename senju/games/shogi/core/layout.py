"""Offsets in one row's state, in 64-bit words and in bytes.

Kernels see all rows as one flat array of words and one of bytes over the same memory, so that one
compiled kernel serves every setting: the fixed part comes first, then a history of any length.
"""

import numpy as np

# words
# 0 to 127: the sets [view][own, other][set][two words]
LEGAL = np.uint64(128)  # 35 words: the legal actions of the side to move
HASH = np.uint64(163)
BOARD = np.uint64(164)  # 11 words, see the bytes below
HANDS = np.uint64(175)  # 2 words
PLY = np.uint64(177)
CHECK_RUNS = np.uint64(178)  # for each side: its number of consecutive turns that started in check
SEEN = np.uint64(180)  # 64 words: a Bloom filter of the hashes' lowest twelve bits, to skip most look-ups
HASHES = np.uint64(244)  # one for each ply from the state's start; the earlier boards follow

# bytes
BOARD_BYTE = np.uint64(8 * 164)  # 81 pieces, in Black's view
SIDE_BYTE = np.uint64(8 * 164 + 81)
IS_CHECK_BYTE = np.uint64(8 * 164 + 82)
ENDING_BYTE = np.uint64(8 * 164 + 83)
REPETITIONS_BYTE = np.uint64(8 * 164 + 84)
HANDS_BYTE = np.uint64(8 * 175)  # [colour][kind]

NUM_LEGAL_WORDS = 35
NUM_RULE_WORDS = 180  # enough to generate and to play moves
PAST_WORDS = np.uint64(13)  # an earlier position: its BOARD and HANDS

# offsets of one side's sets: each piece type in the order of the codes, pieces that move like gold, and all
PAWN, LANCE, KNIGHT, SILVER = (np.uint64(2 * kind) for kind in range(4))
BISHOP, ROOK, KING = (np.uint64(2 * kind) for kind in range(5, 8))
HORSE, DRAGON, GOLD, ALL = (np.uint64(2 * kind) for kind in range(12, 16))
OTHER = np.uint64(32)  # from a side's own sets to the other's, in the same view
VIEW = np.uint64(64)  # from Black's view to White's
