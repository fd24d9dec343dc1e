"""The role of workers that play tournament games: one task is a chunk of games of one pair."""

import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

from senju.errors import OpponentError, WorkerError
from senju.evaluation.matches import play_match
from senju.evaluation.opponents import make_player
from senju.evaluation.tournament.participants import Participant
from senju.evaluation.tournament.tasks import MatchTask, TournamentSchedule
from senju.games import make_game
from senju.games.game import Game
from senju.opponents.players import Player
from senju.opponents.score import Score
from senju.runs.interrupt import StopRequest
from senju.workers.conditions import WakingCondition
from senju.workers.process import ProcessExecutor
from senju.workers.role import Handler, Limits, Payload, Role, Start
from senju.workers.script import find_importable
from senju.workers.tasks import Assignment, Tasks
from senju.workers.team import Team

TASK_TIMEOUT = 3600.0  # seconds for one chunk of games: engines may think long
OnResult = Callable[[MatchTask, Score], None]


class GameHandler(Handler):
    """Plays chunks of games; makes each player when it first plays."""

    def __init__(self, game: Game, descriptions: Sequence[str], opening_plies: int | None) -> None:
        self._game, self._descriptions, self._opening_plies = game, descriptions, opening_plies
        self._players: dict[int, Player] = {}

    def execute(self, task: Payload) -> Payload:
        return Payload(self.play(MatchTask(*task.values)))

    def play(self, task: MatchTask, on_games_done: Callable[[int], None] | None = None) -> Score:
        """Play the games of a task."""
        players = self._player(task.first), self._player(task.second)
        opening, notify = self._opening_plies, on_games_done
        try:
            return play_match(self._game, *players, task.games, task.seed, opening, notify).score
        except OpponentError as error:
            first, second = (player.name for player in players)
            raise OpponentError(f"{first} against {second}, seed {task.seed}: {error}") from error

    def _player(self, index: int) -> Player:
        if index not in self._players:
            self._players[index] = make_player(self._game, self._descriptions[index])
        return self._players[index]


def new_game_handler(start: Start) -> GameHandler:
    """The handler in a worker process."""
    settings, descriptions, opening_plies = start.payload.values
    return GameHandler(make_game(**settings), descriptions, opening_plies)


class GameRole(Role):
    """Plays chunks of games."""

    activity = "playing"
    repeats = "The games are played again, with the same result."
    new_handler = "senju.evaluation.tournament.game_role:new_game_handler"

    def __init__(self, game: Game, participants: Sequence[Participant], opening_plies: int | None) -> None:
        self._game, self._participants, self._opening_plies = game, participants, opening_plies
        self._descriptions = [each.description for each in participants]

    @cached_property
    def _importable(self) -> list[tuple[str, str | None]]:
        """Names of the game and the players that a worker can import, each with the script it needs."""
        game = f"{type(self._game).__module__}:{type(self._game).__qualname__}"
        return [find_importable(game, "game"), *(find_importable(d, "player") for d in self._descriptions)]

    @property
    def script(self) -> str | None:
        """The script that workers must import first."""
        return next((script for _, script in self._importable if script), None)

    def start_payload(self, index: int) -> Payload:
        game, *players = (name for name, _ in self._importable)
        settings = {"name": game, **self._game.config.model_dump(mode="json")}
        return Payload([settings, players, self._opening_plies])

    def local_handler(self, start: Start) -> GameHandler:
        return GameHandler(self._game, self._descriptions, self._opening_plies)

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        return Payload(task.task)

    def result(self, task: Assignment, payload: Payload) -> Score:
        return Score(*payload.values)

    def describe(self, task: Assignment) -> str:
        first, second = (self._participants[index].name for index in task.task[:2])
        return f"{first} against {second}, games of seed {task.task.seed}"

    def on_exhausted(self, task: Assignment, cause: str, attempts: int) -> str:
        raise WorkerError(
            f"{attempts} workers died playing {self.describe(task)}; finished games are kept; "
            f"the last time: {cause.rstrip()}"
        )


def play_in_processes(
    role: GameRole, schedule: TournamentSchedule, num_workers: int, on_result: OnResult, stop: StopRequest
) -> None:
    """Play all open tasks, or until a stop is requested; `on_result` gets each result."""
    wake, waker = socket.socketpair()
    tasks = Tasks()
    executor = ProcessExecutor(TASK_TIMEOUT, role.script, ["the game", "a player"])
    team = Team(role, tasks, executor, Limits(TASK_TIMEOUT), changed=WakingCondition(waker))
    with wake, waker, closing(team):
        num_workers = team.affordable(num_workers)
        team.start(num_workers, is_waiting=False)
        while not schedule.is_over and not stop.is_set:
            with team.changed:
                # one more than there are workers: a worker goes on while its result is written
                while len(tasks.pending()) <= num_workers and (task := schedule.next_task()) is not None:
                    tasks.put(task)
                team.open()
            stop.wait(wake)
            with team.changed:
                team.wait_for(lambda: True)
                results = tasks.take()
            for finished, score in results:
                on_result(finished, score)
