"""Random games, for tests that need positions as they arise."""

import random
from collections.abc import Iterator

from senju.games.shogi.game import Shogi, ShogiConfig
from senju.games.shogi.position import Position

GAME = Shogi(ShogiConfig(max_plies=600))


def random_game(seed: int, num_plies: int = 200, sfen: str | None = None) -> Position:
    """A position after so many random moves, or where they mate."""
    *_, last = random_positions(seed, num_plies, sfen)
    return last


def random_positions(seed: int, num_plies: int = 200, sfen: str | None = None) -> Iterator[Position]:
    """The position of a random game before each of its moves; the same object each time."""
    chance, position = random.Random(seed), Position(sfen, game=GAME)
    for _ in range(num_plies):
        yield position
        actions = position.legal_actions()
        if not actions:
            return
        position.push(chance.choice(actions))
    yield position


def random_moves(seed: int, num_plies: int = 200, sfen: str | None = None) -> list[str]:
    """The moves of such a game in USI."""
    chance, position, moves = random.Random(seed), Position(sfen, game=GAME), []
    while len(moves) < num_plies and (actions := position.legal_actions()):
        action = chance.choice(actions)
        moves.append(position.usi(action))
        position.push(action)
    return moves
