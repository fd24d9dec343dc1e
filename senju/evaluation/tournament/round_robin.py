"""A round robin: from descriptions of players to a result, in a folder that can be resumed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

from senju.evaluation.matches import require_turns_of_two
from senju.evaluation.tournament.game_role import GameRole, OnResult, play_in_processes
from senju.evaluation.tournament.log import make_header, opened_log, read_header, reporting_write_errors
from senju.evaluation.tournament.participants import find_participants
from senju.evaluation.tournament.picture import tournament_svg
from senju.evaluation.tournament.result import RESULTS, TournamentResult
from senju.evaluation.tournament.tasks import (
    MatchTask,
    TournamentProgress,
    TournamentSchedule,
    TournamentSettings,
)
from senju.files import encoded, is_there, replace_durably
from senju.games.game import Game
from senju.machine import available_cores, math_threads
from senju.opponents.score import Score
from senju.runs.interrupt import StopRequest
from senju.workers.role import Payload, Start
from senju.workers.script import refuse_unguarded

PICTURE = "arena.svg"
USUAL = TournamentSettings()
OnProgress = Callable[[TournamentProgress], None]


def run_tournament(
    game: Game,
    descriptions: Sequence[str],
    folder: Path | None = None,
    settings: TournamentSettings = USUAL,
    *,
    num_workers: int = 0,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
    stop: StopRequest | None = None,
) -> TournamentResult:
    """Play all pairs of players; the result is the same for any number of workers.

    The folder gets the log, `results.json` and `arena.svg`. An unfinished tournament in it is continued;
    another one is refused unless `fresh`. The default folder is the one where the same tournament was begun,
    or `arena-DATE`. `num_workers=0` uses all cores; one worker plays in this process. When `stop` is set, the
    running games are abandoned, and the result so far is returned.
    """
    refuse_unguarded()
    require_turns_of_two(game)
    stop = stop or StopRequest()
    participants = find_participants(game, descriptions)
    schedule = TournamentSchedule([each.name for each in participants], settings)
    header = make_header(game, participants, settings)
    folder = folder or _usual_folder(header)
    with opened_log(folder, header, schedule, fresh) as log:
        with reporting_write_errors(folder):
            for path in (folder / RESULTS, folder / PICTURE):
                is_there(path)  # refuses a link before any game is played
                if fresh:  # so that an interrupted tournament is not shown with the result of another
                    path.unlink(missing_ok=True)

        def record_result(task: MatchTask, score: Score) -> None:
            log.write(task, score)
            schedule.finish(task, score)
            if on_progress is not None:
                on_progress(schedule.progress)

        if on_progress is not None:
            on_progress(schedule.progress)
        role = GameRole(game, participants, settings.opening_plies)
        _play(role, schedule, min(num_workers or available_cores(), schedule.num_open), record_result, stop)
        result = TournamentResult(game.name, participants, schedule, folder)
        with reporting_write_errors(folder):
            replace_durably(folder / RESULTS, encoded(result.as_json()))
            replace_durably(folder / PICTURE, encoded(tournament_svg(result)))
    return result


def _play(
    role: GameRole, schedule: TournamentSchedule, num_workers: int, record_result: OnResult, stop: StopRequest
) -> None:
    if num_workers > 1:
        play_in_processes(role, schedule, num_workers, record_result, stop)
        return

    def leave_if_stopped(games_done: int) -> None:
        if stop.is_set:
            raise _Stopped

    handler = role.local_handler(Start(0, Payload()))
    with suppress(_Stopped), math_threads(1):  # as in workers: other numbers of threads may round differently
        while not stop.is_set and (task := schedule.next_task()) is not None:
            record_result(task, handler.play(task, leave_if_stopped))


class _Stopped(Exception):  # noqa: N818  # no error
    """Leaves a match before its end."""


def _usual_folder(header: dict[str, object]) -> Path:
    """The folder where the same tournament was begun, or a new `arena-DATE` in the current one."""
    begun = [folder for folder in sorted(Path().glob("arena-*")) if read_header(folder) == header]
    if begun:
        return begun[-1]
    name = f"arena-{datetime.now():%Y%m%d}"
    names = (Path(name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in names if not path.exists())
