"""`senju explain-action`: what an action means in a position, and why it is illegal."""

import re
from typing import Annotated, Any

import typer

from senju.cli.console import out, print_json
from senju.cli.options import JsonOption
from senju.errors import ConfigError, IllegalActionError
from senju.games import make_game
from senju.games.game import Game
from senju.games.shogi.explain import Explanation, explain
from senju.games.shogi.notation import action_of_usi, kif_of_move, usi_of_move
from senju.games.shogi.pieces import NAMES, SIDE_NAMES, square_name
from senju.games.shogi.position import Position
from senju.games.shogi.sfen import SfenError


def explain_action(
    game: Annotated[str, typer.Argument(help="A game's name.")],
    action: Annotated[str, typer.Argument(help="An action's number, or its name; in Shogi also 7g7f.")],
    sfen: Annotated[
        str | None, typer.Option(help="The position, in Shogi; by default the usual start.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what an action means and, in Shogi, whether a position allows it and why not."""
    try:
        if game == "shogi":
            _explain_shogi(action, sfen, as_json)
        elif sfen is not None:
            raise ConfigError(f"--sfen is for shogi; {game} has no positions in SFEN")
        else:
            _explain_any(make_game(game), action, as_json)
    except (IllegalActionError, SfenError) as error:
        raise ConfigError(str(error)) from None  # what was typed is wrong


def _explain_shogi(text: str, sfen: str | None, as_json: bool) -> None:
    position = Position(sfen)
    explanation = explain(position.state, _shogi_action(position, text))
    if as_json:
        print_json({"sfen": position.sfen(), **_facts(explanation)})
    else:
        out.print(str(explanation), markup=False, soft_wrap=True)


def _shogi_action(position: Position, text: str) -> int:
    """An index, a move in USI, or an action's own name."""
    number = _number(text)
    if number is not None:
        return number
    try:
        return action_of_usi(position.state["board"], position.side, text.strip())
    except IllegalActionError:
        for action in range(position.game.num_actions):
            if position.game.action_name(action) == text.strip():
                return action
        raise


def _facts(explanation: Explanation) -> dict[str, Any]:
    move = explanation.move
    return {
        "action": explanation.action,
        "name": explanation.description,
        "usi": usi_of_move(move) if move else None,
        "japanese": kif_of_move(move) if move else None,
        "side": SIDE_NAMES[move.side] if move else None,
        "piece": NAMES[move.kind] if move else None,
        "from": square_name(move.source) if move and move.source is not None else None,
        "to": square_name(move.target) if move else None,
        "promotes": move.promotes if move else None,
        "is_drop": move.source is None if move else None,
        "is_legal": explanation.is_legal,
        "reason": explanation.reason,
    }


def _explain_any(game: Game, text: str, as_json: bool) -> None:
    number = _number(text)
    action = game.parse_action(text) if number is None else number
    if not 0 <= action < game.num_actions:
        raise IllegalActionError(f"{action} is no action of {game.name}; its are 0 to {game.num_actions - 1}")
    if as_json:
        print_json({"action": action, "name": game.action_name(action)})
    else:
        out.print(f"action {action} of {game.name}: {game.action_name(action)}", markup=False)


def _number(text: str) -> int | None:
    """The whole number that a text of ASCII digits stands for."""
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text.strip()) else None
