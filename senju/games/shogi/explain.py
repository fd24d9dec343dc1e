"""Explains what an action means in a position, and why it is not legal.

The compiled rules answer only yes or no. Plain Python finds the reasons on the board, on request; a test
compares the two.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from senju.games.shogi import layout, pieces
from senju.games.shogi.layout import Ending
from senju.games.shogi.notation import Move, NotationError, action_number, move_of_action, split_action
from senju.games.shogi.pieces import Board, Hands, Side, Square
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
        name = f"{self.move}, " if self.move else ""
        verdict = "It is legal." if self.is_legal else f"It is not legal: {self.reason}."
        is_action = 0 <= self.action < layout.NUM_ACTIONS
        view = " in White's view" if is_action and self.side == layout.WHITE else ""
        return f"{name}action {self.action}, {self.description}{view}: {self.sentence}. {verdict}"


def describe_action(action: int) -> str:
    """An action in the mover's view: up is forward, and squares are named as for Black.

    >>> describe_action(59), describe_action(11 * 81 + 20), describe_action(20 * 81 + 40)
    ('up to 7f', 'up-left to 3c, promoting', 'drop a pawn on 5e')
    """
    kind, seen = split_action(action)
    square = pieces.square_name(seen)
    if kind >= layout.DROPPING:
        return f"drop a {pieces.NAMES[layout.HAND_KINDS[kind - layout.DROPPING]]} on {square}"
    promoting = ", promoting" if kind >= layout.PROMOTING else ""
    return f"{_DIRECTION_NAMES[kind % layout.PROMOTING]} to {square}{promoting}"


def explain(state: np.void, action: int) -> Explanation:
    """What an action means in this position, whether it is legal, and if not, why."""
    action = action_number(action)
    board, side = state["board"], int(state["side"])
    if not 0 <= action < layout.NUM_ACTIONS:
        known = f"actions are 0 to {layout.NUM_ACTIONS - 1}"
        return Explanation(action, side, "not an action", None, "it has no meaning", False, known)
    is_allowed = bool(int(state["legal"][action // WORD_BITS]) >> (action % WORD_BITS) & 1)
    is_over = state["ending"] != Ending.RUNNING
    reasons = []
    if not is_allowed:
        fault = fault_of_action(board, state["hands"], side, action)
        reasons.append(fault or "it would be mate by a dropped pawn")  # the only reason left
    reasons += [f"the game is over: {ending_text(state)}"] if is_over else []
    move, sentence = None, f"{pieces.SIDE_NAMES[side]} has no piece to move"
    with suppress(NotationError):  # no piece of this side on the line
        move = move_of_action(board, side, action)
        sentence = _sentence(board, move)
    reason = "; besides, ".join(reasons) or None
    return Explanation(action, side, describe_action(action), move, sentence, not reasons, reason)


def ending_text(state: np.void) -> str:
    """How the game ended; empty while it runs."""
    mover, other = pieces.SIDE_NAMES[int(state["side"])], pieces.SIDE_NAMES[1 - int(state["side"])]
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
    who, what, where = pieces.SIDE_NAMES[move.side], pieces.NAMES[move.kind], pieces.square_name(move.target)
    if move.source is None:
        return f"{who} drops a {what} on {where}"
    taken = int(board[move.target])
    is_capture = taken and pieces.side_of(taken) != move.side
    takes = f", takes the {pieces.NAMES[pieces.piece_type(taken)]}" if is_capture else ""
    promotes = " and promotes" if move.promotes else ""
    return f"{who}'s {what} goes from {pieces.square_name(move.source)} to {where}{takes}{promotes}"


def fault_of_action(board: Board, hands: Hands, side: Side, action: int) -> str | None:
    """Why an action is not legal; None if it is, or if it would be mate by a dropped pawn."""
    kind, seen = split_action(action)
    square = pieces.in_view(seen, side)
    if kind >= layout.DROPPING:
        fault = _fault_of_drop(board, hands, side, kind - layout.DROPPING, square)
    else:
        fault = _fault_of_move(board, side, kind, square)
    return fault or _fault_of_check(board, move_of_action(board, side, action))


def _fault_of_drop(board: Board, hands: Hands, side: Side, index: int, square: Square) -> str | None:
    piece = layout.HAND_KINDS[index]
    if not hands[side, index]:
        return f"{pieces.SIDE_NAMES[side]} has no {pieces.NAMES[piece]} in hand"
    if board[square]:
        return f"{pieces.piece_on(board, square)} is in the way"
    if not pieces.could_move_on(piece, square, side):
        return f"a {pieces.NAMES[piece]} on {pieces.square_name(square)} could never move"
    if piece == layout.PAWN:
        first = 9 * (square // 9)
        for pawn in range(first, first + 9):
            if board[pawn] == layout.PAWN | layout.OF_WHITE * side:
                return f"two pawns on one file are not allowed; the file has {pieces.piece_on(board, pawn)}"
    return None


def _fault_of_move(board: Board, side: Side, kind: int, target: Square) -> str | None:
    direction = kind % layout.PROMOTING
    nearest, way = pieces.nearest_before(board, target, direction, side), _DIRECTION_NAMES[direction]
    if nearest is None:
        return f"there is no piece that could move {way} to {pieces.square_name(target)}"
    source, distance = nearest
    if pieces.side_of(board[source]) != side:
        return f"the nearest piece in that direction is {pieces.piece_on(board, source)}"
    if not pieces.reaches(pieces.piece_type(board[source]), direction, distance):
        if direction >= pieces.KNIGHT_LEFT:
            return f"{pieces.piece_on(board, source)} does not jump as a knight"
        far = f" {distance} squares" if pieces.reaches(pieces.piece_type(board[source]), direction, 1) else ""
        return f"{pieces.piece_on(board, source)} does not move {way}{far}"
    if board[target] and pieces.side_of(board[target]) == side:
        return f"{pieces.piece_on(board, target)} is in the way"
    return _fault_of_promotion(board, source, target, promotes=kind >= layout.PROMOTING)


def _fault_of_promotion(board: Board, source: Square, target: Square, promotes: bool) -> str | None:
    kind, side = pieces.piece_type(board[source]), pieces.side_of(board[source])
    start, end = pieces.square_name(source), pieces.square_name(target)
    if not promotes:
        if not pieces.could_move_on(kind, target, side):
            return f"a {pieces.NAMES[kind]} must promote on {end}, where it could never move"
        return None
    if kind in layout.UNPROMOTED:
        return f"{pieces.piece_on(board, source)} is promoted already"
    if kind not in layout.PROMOTED:
        return f"a {pieces.NAMES[kind]} does not promote"
    if not pieces.is_promotion_zone(source, side) and not pieces.is_promotion_zone(target, side):
        return f"neither {start} nor {end} is on the last three ranks"
    return None


def _fault_of_check(board: Board, move: Move) -> str | None:
    """Why the mover's king would be in check after the move; None if it would not."""
    side, other = move.side, 1 - move.side
    after = board.copy()
    if move.source is not None:
        after[move.source] = 0
    after[move.target] = move.kind | layout.OF_WHITE * side  # promotion makes no difference here
    king = pieces.king_square(after, side)
    checkers = pieces.attackers(after, king, other)
    if not checkers:
        return None
    if move.kind == layout.KING:
        return f"the king would be in check from {_listed(after, checkers)}"
    answered_to = pieces.attackers(board, king, other)
    remaining = [square for square in checkers if square in answered_to]
    if remaining:
        return f"{pieces.SIDE_NAMES[side]} would still be in check from {_listed(after, remaining)}"
    assert move.source is not None, "a drop opens no line"
    return (
        f"{pieces.piece_on(board, move.source)} is pinned: "
        f"the king on {pieces.square_name(king)} would be in check from {_listed(after, checkers)}"
    )


def _listed(board: Board, squares: list[Square]) -> str:
    return " and ".join(pieces.piece_on(board, square) for square in squares)
