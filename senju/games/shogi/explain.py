"""Explains what an action means in a position, and why it is not legal.

The compiled rules answer only yes or no. Plain Python finds the reasons on the board, on request; a test
compares the two.
"""

from typing import NamedTuple

import numpy as np

from senju.games.shogi.layout import (
    DROPPING,
    HAND_KINDS,
    KING,
    NUM_ACTIONS,
    OF_WHITE,
    PAWN,
    PROMOTED,
    PROMOTING,
    UNPROMOTED,
    WHITE,
    Ending,
)
from senju.games.shogi.notation import (
    Move,
    NotationError,
    action_number,
    kif_of_move,
    move_of_action,
    split_action,
    usi_of_move,
)
from senju.games.shogi.pieces import (
    KNIGHT_LEFT,
    NAMES,
    SIDE_NAMES,
    Board,
    Hands,
    Side,
    Square,
    attackers,
    could_move_on,
    in_view,
    is_promotion_zone,
    king_square,
    nearest_before,
    piece_on,
    piece_type,
    reaches,
    side_of,
    square_name,
)
from senju.kernels import WORD_BITS

_DIRECTION_NAMES = (
    *("up", "up-left", "up-right", "left", "right", "down", "down-left", "down-right"),
    *("knight's jump left", "knight's jump right"),
)


class Explanation(NamedTuple):
    """The meaning of an action in a position."""

    action: int
    side: Side  # to move
    description: str  # in the mover's view, for any position
    move: Move | None  # None if the mover has no piece for it
    sentence: str  # its effect on the board
    is_legal: bool
    reason: str | None  # why it is not legal

    def __str__(self) -> str:
        name = f"{usi_of_move(self.move)} ({kif_of_move(self.move)}), " if self.move else ""
        verdict = "It is legal." if self.is_legal else f"It is not legal: {self.reason}."
        is_action = 0 <= self.action < NUM_ACTIONS
        view = " in White's view" if is_action and self.side == WHITE else ""
        return f"{name}action {self.action}, {self.description}{view}: {self.sentence}. {verdict}"


def describe_action(action: int) -> str:
    """An action in the mover's view: up is forward, and squares are named as for Black.

    >>> describe_action(59), describe_action(11 * 81 + 20), describe_action(20 * 81 + 40)
    ('up to 7f', 'up-left to 3c, promoting', 'drop a pawn on 5e')
    """
    kind, seen = split_action(action)
    if kind >= DROPPING:
        return f"drop a {NAMES[HAND_KINDS[kind - DROPPING]]} on {square_name(seen)}"
    promoting = ", promoting" if kind >= PROMOTING else ""
    return f"{_DIRECTION_NAMES[kind % PROMOTING]} to {square_name(seen)}{promoting}"


def explain(state: np.void, action: int) -> Explanation:
    """What an action means in this position, whether it is legal, and if not, why."""
    action = action_number(action)
    board, side = state["board"], int(state["side"])
    if not 0 <= action < NUM_ACTIONS:
        known = f"actions are 0 to {NUM_ACTIONS - 1}"
        return Explanation(action, side, "not an action", None, "it has no meaning", False, known)
    is_allowed = bool(int(state["legal"][action // WORD_BITS]) >> (action % WORD_BITS) & 1)
    is_over = state["ending"] != Ending.RUNNING
    reasons = [] if is_allowed else [_why_not(board, state["hands"], side, action)]
    reasons += [f"the game is over: {ending_text(state)}"] if is_over else []
    move = _move_or_none(board, side, action)
    sentence = _sentence(board, move) if move else f"{SIDE_NAMES[side]} has no piece to move"
    reason = "; besides, ".join(reasons) or None
    return Explanation(action, side, describe_action(action), move, sentence, not reasons, reason)


def _move_or_none(board: Board, side: Side, action: int) -> Move | None:
    try:
        return move_of_action(board, side, action)
    except NotationError:  # no piece of this side on the line
        return None


def ending_text(state: np.void) -> str:
    """How the game ended; empty while it runs."""
    mover, other = SIDE_NAMES[int(state["side"])], SIDE_NAMES[1 - int(state["side"])]
    fourth = "fourfold repetition"
    mate = "is mated" if state["is_check"] else "has no legal move"
    return {
        Ending.RUNNING: "",
        Ending.MATE: f"{mover} {mate}, {other} wins",
        Ending.REPETITION: f"{fourth}, a draw",
        Ending.PERPETUAL_LOSS: f"{fourth} with perpetual check by {mover}, {other} wins",
        Ending.PERPETUAL_WIN: f"{fourth} with perpetual check by {other}, {mover} wins",
        Ending.DECLARATION: f"{mover} declares an entering king, {mover} wins",
        Ending.PLY_LIMIT: "the limit of plies is reached, without a winner",
    }[Ending(int(state["ending"]))]


def _sentence(board: Board, move: Move) -> str:
    who, what, where = SIDE_NAMES[move.side], NAMES[move.kind], square_name(move.target)
    if move.source is None:
        return f"{who} drops a {what} on {where}"
    taken = int(board[move.target])
    takes = f", takes the {NAMES[piece_type(taken)]}" if taken and side_of(taken) != move.side else ""
    promotes = " and promotes" if move.promotes else ""
    return f"{who}'s {what} goes from {square_name(move.source)} to {where}{takes}{promotes}"


def _why_not(board: Board, hands: Hands, side: Side, action: int) -> str:
    """Why the rules refuse an illegal action."""
    return (
        _fault_of_drop(board, hands, side, action)
        or _fault_of_move(board, side, action)
        or _fault_of_check(board, move_of_action(board, side, action))
        or "it would be mate by a dropped pawn"  # the only reason left
    )


def _fault_of_drop(board: Board, hands: Hands, side: Side, action: int) -> str | None:
    kind, seen = split_action(action)
    if kind < DROPPING:
        return None
    piece, square = HAND_KINDS[kind - DROPPING], in_view(seen, side)
    if not hands[side, kind - DROPPING]:
        return f"{SIDE_NAMES[side]} has no {NAMES[piece]} in hand"
    if board[square]:
        return f"{piece_on(board, square)} is in the way"
    if not could_move_on(piece, square, side):
        return f"a {NAMES[piece]} on {square_name(square)} could never move"
    if piece == PAWN:
        first = 9 * (square // 9)
        for pawn in range(first, first + 9):
            if board[pawn] == PAWN | OF_WHITE * side:
                return f"two pawns on one file are not allowed; the file has {piece_on(board, pawn)}"
    return None


def _fault_of_move(board: Board, side: Side, action: int) -> str | None:
    kind, seen = split_action(action)
    if kind >= DROPPING:
        return None
    target, direction = in_view(seen, side), kind % PROMOTING
    nearest = nearest_before(board, target, direction, side)
    if nearest is None:
        return f"there is no piece that could move {_DIRECTION_NAMES[direction]} to {square_name(target)}"
    source, distance = nearest
    if side_of(board[source]) != side:
        return f"the nearest piece in that direction is {piece_on(board, source)}"
    if not reaches(piece_type(board[source]), direction, distance):
        if direction >= KNIGHT_LEFT:
            return f"{piece_on(board, source)} does not jump as a knight"
        far = f" {distance} squares" if reaches(piece_type(board[source]), direction, 1) else ""
        return f"{piece_on(board, source)} does not move {_DIRECTION_NAMES[direction]}{far}"
    if board[target] and side_of(board[target]) == side:
        return f"{piece_on(board, target)} is in the way"
    return _fault_of_promotion(board, source, target, promotes=kind >= PROMOTING)


def _fault_of_promotion(board: Board, source: Square, target: Square, promotes: bool) -> str | None:
    kind, side = piece_type(board[source]), side_of(board[source])
    if not promotes:
        if not could_move_on(kind, target, side):
            return f"a {NAMES[kind]} must promote on {square_name(target)}, where it could never move"
        return None
    if kind in UNPROMOTED:
        return f"{piece_on(board, source)} is promoted already"
    if kind not in PROMOTED:
        return f"a {NAMES[kind]} does not promote"
    if not is_promotion_zone(source, side) and not is_promotion_zone(target, side):
        return f"neither {square_name(source)} nor {square_name(target)} is on the last three ranks"
    return None


def _fault_of_check(board: Board, move: Move) -> str | None:
    """Why the mover's king would be in check after the move; None if it would not."""
    side, other = move.side, 1 - move.side
    after = board.copy()
    if move.source is not None:
        after[move.source] = 0
    after[move.target] = move.kind | OF_WHITE * side  # promotion makes no difference here
    king = king_square(after, side)
    checkers = attackers(after, king, other)
    if not checkers:
        return None
    if move.kind == KING:
        return f"the king would be in check from {_listed(after, checkers)}"
    answered_to = attackers(board, king, other)
    remaining = [square for square in checkers if square in answered_to]
    if remaining:
        return f"{SIDE_NAMES[side]} would still be in check from {_listed(after, remaining)}"
    assert move.source is not None, "a drop opens no line"
    return (
        f"{piece_on(board, move.source)} is pinned: "
        f"the king on {square_name(king)} would be in check from {_listed(after, checkers)}"
    )


def _listed(board: Board, squares: list[Square]) -> str:
    return " and ".join(piece_on(board, square) for square in squares)
