"""The same games in senju and in cshogi, move by move, many at once."""

import itertools
from collections.abc import Sequence

import cshogi
import numpy as np
from numpy.typing import NDArray

from senju.games.shogi.game import Shogi
from senju.games.shogi.layout import NUM_ACTIONS, Ending
from senju.games.shogi.notation import usi_of_action
from senju.games.shogi.sfen import format_sfen, parse_sfen
from senju.kernels import unpack_legal

# files and ranks of the eight directions of steps and slides, as the actions count them; knights follow
DIRECTIONS = [(0, -1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (1, 1), (-1, 1)]
HAND_ORDER = [
    *(cshogi.PAWN, cshogi.LANCE, cshogi.KNIGHT, cshogi.SILVER),
    *(cshogi.GOLD, cshogi.BISHOP, cshogi.ROOK),
]
REPEATED = [Ending.REPETITION, Ending.PERPETUAL_LOSS, Ending.PERPETUAL_WIN]
LAWS = {"27": cshogi.LAW_27, "24": cshogi.LAW_24}


def _directions() -> NDArray[np.int64]:
    """[source, target]: the direction of a move."""
    table = np.full((81, 81), -1)
    for source, target in itertools.product(range(81), repeat=2):
        files, ranks = target // 9 - source // 9, target % 9 - source % 9
        if ranks == -2 and abs(files) == 1:
            table[source, target] = 8 if files == 1 else 9
        elif (files or ranks) and (files == 0 or ranks == 0 or abs(files) == abs(ranks)):
            table[source, target] = DIRECTIONS.index((np.sign(files), np.sign(ranks)))
    return table


DIRECTION = _directions()
DROP_KIND = np.array([20 + HAND_ORDER.index(kind) if kind in HAND_ORDER else -1 for kind in range(8)])


def actions_of(moves: NDArray[np.int64], sides: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Cshogi's moves as actions, by the bits that `cshogi.Board.push` describes."""
    target, source = moves & 127, (moves >> 7) & 127
    is_drop, is_white = source >= 81, sides == 1
    dropped = DROP_KIND[np.where(is_drop, source - 80, 1)]
    target = np.where(is_white, 80 - target, target)
    source = np.where(is_drop, 0, np.where(is_white, 80 - source, source))
    kind = np.where(is_drop, dropped, DIRECTION[source, target] + 10 * ((moves >> 14) & 1))
    return kind * 81 + target


class Lockstep:
    """A batch of games, each played in both; games go on where only repetition or a declaration ends them."""

    def __init__(self, game: Shogi, sfens: Sequence[str]) -> None:
        self.game = game
        self.boards = [cshogi.Board(sfen) for sfen in sfens]
        self.states = game.new_states(len(sfens))
        for row, sfen in enumerate(sfens):
            game.place(self.states[row : row + 1], parse_sfen(sfen))
        self.games = np.arange(len(sfens))  # the number of the game in each row
        self.look()

    def __len__(self) -> int:
        return len(self.boards)

    def look(self) -> None:
        """Ask cshogi for its moves, as one flat array for all rows."""
        listed = [list(board.legal_moves) for board in self.boards]
        self.counts = np.array([len(moves) for moves in listed], np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.moves = np.fromiter(itertools.chain.from_iterable(listed), np.int64, int(self.counts.sum()))
        self.rows = np.repeat(np.arange(len(self)), self.counts)
        self.actions = actions_of(self.moves, self.states["side"][self.rows])

    def compare(self) -> None:
        """Compare the legal moves, check, mate and the right to declare.

        Cshogi counts repetitions otherwise: here only that none ends a game before its fourth time.
        """
        theirs = np.zeros((len(self), NUM_ACTIONS), np.bool_)
        theirs[self.rows, self.actions] = True
        assert np.count_nonzero(theirs) == len(self.moves), "two moves of cshogi are the same action"
        ours = unpack_legal(self.states["legal"], NUM_ACTIONS)
        for row in np.flatnonzero((theirs != ours).any(axis=1)).tolist():
            extra, missing = (
                [self.usi(row, action) for action in np.flatnonzero(which).tolist()[:20]]
                for which in (ours[row] & ~theirs[row], theirs[row] & ~ours[row])
            )
            raise AssertionError(f"{self.sfen(row)}: not legal for cshogi: {extra}; missing: {missing}")
        endings = self.states["ending"]
        is_check = np.array([board.is_check() for board in self.boards])
        self.expect_equal(self.states["is_check"] == 1, is_check, "check")
        law = LAWS[self.game.config.declaration]  # type: ignore[attr-defined]
        is_declared = np.array([board.is_nyugyoku(law) for board in self.boards])
        self.expect_equal(endings == Ending.DECLARATION, is_declared, "declaration")
        is_over = np.array([board.is_game_over() for board in self.boards])
        self.expect_equal(endings == Ending.MATE, is_over & ~is_declared, "mate")
        is_early = np.isin(endings, REPEATED) & (self.states["repetitions"] < 3)
        for row in np.flatnonzero(is_early).tolist():
            raise AssertionError(f"{self.sfen(row)}: ended by repetition before the fourth time")

    def compare_text(self, row: int) -> None:
        """Compare one row's SFEN and its moves as text."""
        assert self.sfen(row).rsplit(" ", 1)[0] == self.boards[row].sfen().rsplit(" ", 1)[0]
        actions = np.flatnonzero(unpack_legal(self.states["legal"][row], NUM_ACTIONS)).tolist()
        theirs = {cshogi.move_to_usi(move) for move in self.boards[row].legal_moves}
        assert {self.usi(row, action) for action in actions} == theirs

    def expect_equal(self, ours: NDArray[np.bool_], theirs: NDArray[np.bool_], what: str) -> None:
        for row in np.flatnonzero(ours != theirs).tolist():
            raise AssertionError(f"{self.sfen(row)}: {what} is {ours[row]} here, {theirs[row]} in cshogi")

    def play(self, chosen: NDArray[np.int64]) -> None:
        """Play one of the flat moves in each row, and keep the rows that can go on."""
        for board, move in zip(self.boards, self.moves[chosen].tolist(), strict=True):
            board.push(move)
        self.states["ending"] = Ending.RUNNING
        actions = self.actions[chosen].astype(np.int32)[:, None]
        self.game.step(self.states, actions, self.game.new_outcomes(len(self)))
        self.look()

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Forget the rows that are not wanted any more."""
        if not rows.all():
            self.states, self.games = self.states[rows], self.games[rows]
            self.boards = [self.boards[row] for row in np.flatnonzero(rows).tolist()]
            self.look()

    def can_go_on(self) -> NDArray[np.bool_]:
        """Which rows have a move, and room for it."""
        is_long = self.states["ply"] >= self.states["hashes"].shape[1] - 1
        return (self.counts > 0) & ~is_long

    def at_random(self, chance: np.random.Generator) -> NDArray[np.int64]:
        """Any move in each row, each as likely as the others."""
        return self.starts + (chance.random(len(self)) * self.counts).astype(np.int64)

    def sfen(self, row: int) -> str:
        state = self.states[row]
        return format_sfen(state["board"], state["hands"], int(state["side"]), int(state["ply"]) + 1)

    def usi(self, row: int, action: int) -> str:
        return usi_of_action(self.states["board"][row], int(self.states["side"][row]), action)
