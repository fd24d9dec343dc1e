"""cshogi: rules and planes in C++, one game, driven from Python.

For each move: the list of legal moves, a mask of 2,187 bytes over dlshogi's labels (the actions of
senju), dlshogi's 119 planes in float32, a random choice, the move. A table turns all moves into
labels at once; that was faster than a call of `make_move_label` for each. A game ends by mate or
after 512 plies. Repetition and the entering king, which senju looks for at every ply, are not
asked for: that favours this side.

    echo '{"batch": 1, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/cshogi_shogi.py
"""

import itertools
import sys
from random import Random

import cshogi
import numpy as np
from cshogi import dlshogi
from meter import Loop, serve

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1
MAX_PLIES = 512
NUM_LABELS = 27 * 81
MOVE_BITS = 0xFFFF  # target, source, promotion; above them stand the pieces that move and are taken
PROMOTION = 1 << 14


def _is_a_move(source: int, target: int) -> bool:
    """Whether any piece goes from here to there: a drop, along a line, or as a knight."""
    files, ranks = abs(source // 9 - target // 9), abs(source % 9 - target % 9)
    is_line = source != target and (files == 0 or ranks == 0 or files == ranks)
    return source >= 81 or is_line or (files, ranks) == (1, 2)


def make_labels() -> np.ndarray:
    """[colour, lower bits of a move]: its label."""
    labels = np.zeros((2, MOVE_BITS + 1), np.int64)
    for colour, target, source in itertools.product(range(2), range(81), range(81 + 7)):
        if _is_a_move(source, target):
            for promotion in (0,) if source >= 81 else (0, PROMOTION):
                move = target | source << 7 | promotion
                labels[colour, move] = dlshogi.make_move_label(move, colour)
    return labels


def make_loop(batch: int) -> Loop:
    """A turn is one move; there is no batch but 1."""
    if batch != 1:
        raise ValueError(f"cshogi plays one game at a time; got batch={batch}")
    board, rng, labels = cshogi.Board(), Random(SEED), make_labels()
    features1 = np.zeros((dlshogi.FEATURES1_NUM, 9, 9), np.float32)
    features2 = np.zeros((dlshogi.FEATURES2_NUM, 9, 9), np.float32)
    mask = np.zeros(NUM_LABELS, np.uint8)

    moves = list(board.legal_moves)

    def play(num_turns: int) -> int:
        nonlocal moves
        games = 0
        for _ in range(num_turns):
            mask.fill(0)
            mask[labels[board.turn, np.array(moves, np.int64) & MOVE_BITS]] = 1
            dlshogi.make_input_features(board, features1, features2)
            board.push(moves[int(rng.random() * len(moves))])
            moves = list(board.legal_moves)
            if not moves or board.move_number > MAX_PLIES:
                games += 1
                board.reset()
                moves = list(board.legal_moves)
        return games

    return Loop(play, 1)


if __name__ == "__main__":
    serve(make_loop, ["cshogi", "numpy"])
