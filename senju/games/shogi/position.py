"""One position with its history, for interactive use and for engines."""

import copy
import reprlib

import numpy as np

from senju.config import validated
from senju.errors import ConfigError, IllegalActionError
from senju.games.game import States
from senju.games.shogi.game import Declaration, Shogi, ShogiConfig
from senju.games.shogi.layout import START_SFEN, Ending
from senju.games.shogi.notation import action_number, action_of_usi, usi_of_action
from senju.games.shogi.sfen import SfenError, format_sfen, parse_sfen
from senju.kernels import is_allowed, unpack_legal

MAX_DEPTH = 64  # of `perft`; ten plies would take years


class Position:
    """A board, both hands, the side to move, and all positions since the first one.

    >>> position = Position()
    >>> position.push_usi("7g7f")
    >>> position.sfen()
    'lnsgkgsnl/1r5b1/ppppppppp/9/9/2P6/PP1PPPPPP/1B5R1/LNSGKGSNL w - 2'
    >>> len(position.legal_moves())
    30
    """

    def __init__(
        self,
        sfen: str | None = None,
        *,
        max_plies: int | None = None,
        declaration: Declaration | None = None,
        game: Shogi | None = None,
    ) -> None:
        if game is not None and not isinstance(game, Shogi):
            raise ConfigError(f"game={reprlib.repr(game)}: expected a Shogi, got {type(game).__name__}")
        if game is not None and (max_plies is not None or declaration is not None):
            raise ConfigError("pass either a game, which has its own rules, or max_plies and declaration")
        rules = {"max_plies": max_plies, "declaration": declaration}
        given = {name: value for name, value in rules.items() if value is not None}
        self.game = game or Shogi(validated(ShogiConfig, given))
        placement = parse_sfen(START_SFEN if sfen is None else sfen)
        self.states: States = self.game.new_states(1)
        self.game.place(self.states, placement._replace(side=1 - placement.side))
        if self.is_check:
            who, other = ("Black", "White") if placement.side == 0 else ("White", "Black")
            raise SfenError(f"{sfen!r}: {who} is to move and could capture {other}'s king")
        self.game.place(self.states, placement)
        self.first_number = placement.number

    @property
    def state(self) -> np.void:
        """The state record of this position."""
        return self.states[0]  # type: ignore[no-any-return]  # numpy leaves the scalar's type open

    @property
    def side(self) -> int:
        """The side to move: 0 Black, 1 White."""
        return int(self.states["side"][0])

    @property
    def ply(self) -> int:
        """Moves played since this object was made."""
        return int(self.states["ply"][0])

    @property
    def is_check(self) -> bool:
        """Whether the side to move is in check."""
        return bool(self.states["is_check"][0])

    @property
    def ending(self) -> Ending:
        """Whether the game is over here, and how."""
        return Ending(int(self.states["ending"][0]))

    @property
    def can_declare(self) -> bool:
        """Whether the side to move may declare a win by entering king."""
        return self.ending is Ending.DECLARATION

    def legal_actions(self) -> list[int]:
        """The legal moves as actions, also after repetition, a declaration or the limit of plies."""
        return np.flatnonzero(unpack_legal(self.states["legal"][0], self.game.num_actions)).tolist()

    def legal_moves(self) -> list[str]:
        """The legal moves in USI."""
        return [self.usi(action) for action in self.legal_actions()]

    def usi(self, action: int) -> str:
        """An action of this position in USI."""
        return usi_of_action(self.states["board"][0], self.side, action)

    def action(self, usi: str) -> int:
        """The action of a legal move in USI."""
        action = action_of_usi(self.states["board"][0], self.side, usi)
        self._require_legal(action)
        return action

    def push_usi(self, usi: str) -> None:
        """Play a move in USI."""
        self.push(self.action(usi))

    def push(self, action: int) -> None:
        """Play a legal move, also after repetition or a declaration."""
        action = action_number(action)
        self._require_legal(action)
        if self.ply >= self.states["hashes"].shape[1] - 1:
            raise IllegalActionError(
                f"shogi: this position holds at most {self.ply} moves; create it with a larger max_plies"
            )
        self.states["ending"] = Ending.RUNNING
        self.game.step(self.states, np.array([[action]], np.int32), self.game.new_outcomes(1))

    def _require_legal(self, action: int) -> None:
        if not 0 <= action < self.game.num_actions or not is_allowed(self.states["legal"][0], action):
            raise IllegalActionError(f"shogi: {self.game.explain_action(self.state, action)}")

    def perft(self, depth: int) -> int:
        """The number of move sequences of length `depth`; only mate ends a sequence.

        >>> [Position().perft(depth) for depth in (1, 2, 3)]
        [30, 900, 25470]
        """
        if not isinstance(depth, int | np.integer) or not 1 <= depth <= MAX_DEPTH:
            raise ConfigError(f"depth={reprlib.repr(depth)}: expected a whole number from 1 to {MAX_DEPTH}")
        return self.game.count_lines(self.states, depth)

    def sfen(self) -> str:
        """The position as SFEN."""
        state = self.state
        return format_sfen(state["board"], state["hands"], self.side, self.first_number + self.ply)

    def copy(self) -> "Position":
        """An independent position with the same history."""
        twin = copy.copy(self)
        twin.states = self.states.copy()
        return twin
