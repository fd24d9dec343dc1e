"""Playing a task, in a worker or in the process that runs the arena."""

from collections.abc import Callable, Sequence
from typing import Any

from senju.backends.script import find_importable, forbid_training, import_script
from senju.errors import OpponentError
from senju.games import make_game
from senju.games.game import Game
from senju.opponents.players import Player
from senju.training.arena.participants import Participant
from senju.training.arena.tasks import ArenaSettings, Counts, Task
from senju.training.evaluation import play_match
from senju.training.opponents import make_player
from senju.trust import accept, accepted

USUAL_OPENING = 4  # plies


class PlayerTable:
    """The participants as players, made when they first play."""

    def __init__(self, game: Game, descriptions: Sequence[str], opening_plies: int | None) -> None:
        self.game, self.descriptions, self.opening_plies = game, descriptions, opening_plies
        self._players: dict[int, Player] = {}

    def play(self, task: Task, on_ply: Callable[[int], None] | None = None) -> Counts:
        """Play a task's games."""
        first, second = self._player(task.first), self._player(task.second)
        opening = self._opening(first, second)
        try:
            result = play_match(self.game, first, second, task.games, task.seed, opening, on_ply)
        except OpponentError as error:
            raise OpponentError(f"{first.name} against {second.name}, seed {task.seed}: {error}") from error
        return Counts(
            result.wins, result.draws, result.losses, result.wins_moving_first, result.losses_moving_first
        )

    def _player(self, place: int) -> Player:
        if place not in self._players:
            self._players[place] = make_player(self.game, self.descriptions[place])
        return self._players[place]

    def _opening(self, *players: Player) -> int:
        """Two that always play alike would play one game again and again."""
        if self.opening_plies is not None:
            return self.opening_plies
        return USUAL_OPENING if all(player.is_deterministic for player in players) else 0


def describe_start(
    game: Game, participants: Sequence[Participant], settings: ArenaSettings
) -> dict[str, Any]:
    """All a worker is told before its first task."""
    home = f"{type(game).__module__}:{type(game).__qualname__}"
    names = [(home, "game"), *((each.description, "player") for each in participants)]
    found = [find_importable(name, kind) for name, kind in names]
    return {
        "game": {"name": found[0][0], **game.config.model_dump(mode="json")},
        "descriptions": [name for name, _ in found[1:]],
        "opening_plies": settings.opening_plies,
        "script": next((script for _, script in found if script), None),
        "accepted": accepted(),
    }


def prepare_player_table(start: dict[str, Any]) -> PlayerTable:
    """In a worker: what `describe_start` told of."""
    forbid_training(start["script"] or f"the module of {start['game']['name']} or of a player")
    accept(start["accepted"])  # the runs among the players are opened here too
    if start["script"]:
        import_script(start["script"])
    return PlayerTable(make_game(**start["game"]), start["descriptions"], start["opening_plies"])
