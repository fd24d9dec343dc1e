"""Games: the contract (game.py), its check (check.py), and the built-in games."""

from senju.games.game import Game
from senju.registry import Registry

GAMES: Registry[Game] = Registry(
    "game",
    Game,  # type: ignore[type-abstract]  # the registry only asks whether classes derive from it
    {
        "tic_tac_toe": "senju.games.tic_tac_toe:TicTacToe",
        "connect_four": "senju.games.connect_four:ConnectFour",
        "shogi": "senju.games.shogi.game:Shogi",
        "treasure_hunt": "senju.games.gridworld.treasure_hunt:TreasureHunt",
        "cleanup": "senju.games.gridworld.cleanup:Cleanup",
        "tag": "senju.games.gridworld.tag:Tag",
    },
)


def make_game(name: str, **options: object) -> Game:
    """A game by name (or `package.module:Class`), with its own settings.

    >>> make_game("tic_tac_toe").num_actions
    9
    """
    config = GAMES.configure({"name": name, **options})
    return GAMES.get(name)(config)
