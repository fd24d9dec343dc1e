"""The game so far, as the last `position` command gave it: start, moves, and the position they lead to."""

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from senju.errors import IllegalActionError
from senju.usi.protocol import ProtocolError, SetPosition, quoted

if TYPE_CHECKING:  # compiled code: loaded when it is first needed
    from senju.games.shogi.game import Shogi
    from senju.games.shogi.position import Position

DeclarationRule = Literal["27", "24", "none"]
MAX_PLIES: Final = 4096  # that a state can hold
ROOM: Final = 256  # plies to look ahead where a game continues past the limit of plies


class ShogiRules(NamedTuple):
    """The settings of the game `shogi`, and their defaults, known before the game is loaded."""

    max_plies: int = 512
    declaration: DeclarationRule = "27"
    history: int = 0

    def game(self) -> "Shogi":
        """Make the game."""
        from senju.games import make_game
        from senju.games.shogi.game import Shogi

        game = make_game("shogi", **self._asdict())
        assert isinstance(game, Shogi)
        return game


class Situation(NamedTuple):
    """A position and the moves that led to it; immutable, so that threads can share it."""

    rules: ShogiRules
    command: SetPosition
    actions: tuple[int, ...]  # the moves, as the rules number them
    position: "Position"

    @property
    def ply(self) -> int:
        """Plies since the first move of the game, counting those before the SFEN."""
        return self.position.first_number - 1 + self.position.ply

    def continues(self, before: "Situation") -> bool:
        """Whether this game is the game `before` with more moves, or the same."""
        return before.leads_to(self.command, self.rules)

    def leads_to(self, command: SetPosition, rules: ShogiRules) -> bool:
        """Whether a command describes this game with more moves, or the same."""
        known = self.command
        is_longer = command.sfen == known.sfen and command.moves[: len(known.moves)] == known.moves
        return rules == self.rules and is_longer


def situation_after(command: SetPosition, rules: ShogiRules, before: Situation | None = None) -> Situation:
    """The situation that a `position` command describes; moves that `before` has already are not replayed."""
    if len(command.moves) >= rules.max_plies:  # the game goes on past the limit
        room = ROOM * (len(command.moves) // ROOM + 2)
        rules = rules._replace(max_plies=min(room, MAX_PLIES))
    if before is not None and before.leads_to(command, rules):
        position, actions = before.position.copy(), list(before.actions)
    else:
        position, actions = new_position(command.sfen, rules.game()), []
    for number, move in enumerate(command.moves[len(actions) :], len(actions) + 1):
        if position.ply == rules.max_plies:  # longer than a state can hold
            position = new_position(position.sfen(), position.game)
        actions.append(_play(position, move, number))
    return Situation(rules, command, tuple(actions), position)


def _play(position: "Position", move: str, number: int) -> int:
    """Play a move given in USI; return its action."""
    from senju.games.shogi.explain import explain
    from senju.games.shogi.notation import NotationError, action_of_usi

    try:
        action = action_of_usi(position.state["board"], position.side, move)
        position.push(action)
    except NotationError as error:
        raise ProtocolError(f"position: move {number}: {error}") from None
    except IllegalActionError:
        reason = explain(position.state, action).reason
        raise ProtocolError(f"position: move {number}, {quoted(move)}, is not legal: {reason}") from None
    return action


def new_position(sfen: str | None, game: "Shogi") -> "Position":
    """A position without history; without an SFEN, the start position."""
    from senju.games.shogi.position import Position

    return Position(sfen, game=game)
