"""Shogi in numbers: sides, pieces, hands, actions and endings."""

from enum import IntEnum
from typing import Final

BLACK, WHITE = 0, 1  # Black (sente) moves up the board, and first from the start position

# codes of pieces on the board; `| OF_WHITE` for White's
PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK, KING = range(1, 9)
PRO_PAWN, PRO_LANCE, PRO_KNIGHT, PRO_SILVER, HORSE, DRAGON = range(9, 15)
OF_WHITE = 16
KIND = 15  # bit mask: the code without its colour

PROMOTED: Final = dict(zip((PAWN, LANCE, KNIGHT, SILVER, BISHOP, ROOK), range(PRO_PAWN, 15), strict=True))
UNPROMOTED: Final = {promoted: kind for kind, promoted in PROMOTED.items()}
HAND_KINDS: Final = (PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK)  # in the order of hands and drops
NUM_OF_KIND: Final = {PAWN: 18, LANCE: 4, KNIGHT: 4, SILVER: 4, GOLD: 4, BISHOP: 2, ROOK: 2, KING: 2}

NUM_SQUARES = 81
NUM_KINDS_OF_ACTION = 27
NUM_ACTIONS = NUM_KINDS_OF_ACTION * NUM_SQUARES
MAX_PLIES = 4096  # of a game or record: a state holds no more
PROMOTING, DROPPING = 10, 20  # the first kinds of action that are promotions, and drops

START_SFEN = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"


class Ending(IntEnum):
    """Whether a game is over, and how, from the view of the side to move."""

    RUNNING = 0
    MATE = 1  # no legal move: the side to move loses
    REPETITION = 2  # fourfold repetition: a draw
    PERPETUAL_LOSS = 3  # fourfold repetition by perpetual check of the side to move, which loses
    PERPETUAL_WIN = 4  # fourfold repetition by perpetual check of the other side
    DECLARATION = 5  # the side to move wins by entering king
    PLY_LIMIT = 6  # truncated, without a winner
