"""Everybody against everybody: from descriptions of players to a result, in a folder that can be resumed."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path

from senju.backends.processes import WORKER_BYTES
from senju.backends.script import refuse_unguarded
from senju.files import encoded, is_there, replace_durably
from senju.games.game import Game
from senju.machine import available_cores, math_threads, memory_available
from senju.training.arena.log import explained, make_header, opened_log, read_header
from senju.training.arena.participants import Participant, find_participants
from senju.training.arena.picture import arena_svg
from senju.training.arena.playing import PlayerTable, describe_start
from senju.training.arena.result import RESULTS, ArenaResult, result_of
from senju.training.arena.tasks import ArenaSettings, Counts, Progress, Schedule, Task
from senju.training.arena.workers import OnResult, play_in_processes
from senju.training.evaluation import require_turns_of_two
from senju.training.interrupt import StopRequest

PICTURE = "arena.svg"
USUAL = ArenaSettings()
OnProgress = Callable[[Progress], None]


def run_arena(
    game: Game,
    descriptions: Sequence[str],
    folder: Path | None = None,
    settings: ArenaSettings = USUAL,
    *,
    num_workers: int = 0,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
    stop: StopRequest | None = None,
) -> ArenaResult:
    """Let everybody play everybody; the result is the same for any number of workers.

    The folder takes the log, `results.json` and `arena.svg`. An arena in it that was not finished goes
    on, another one is refused unless `fresh`. Without a folder it is `arena-DATE`, or the one where the
    same arena was begun. No `num_workers` means all cores, one plays in this process. When `stop` is set
    the games under way are given up, and what was played so far is returned.
    """
    refuse_unguarded()
    require_turns_of_two(game)
    stop = stop or StopRequest()
    participants = find_participants(game, descriptions)
    schedule = Schedule([each.name for each in participants], settings)
    header = make_header(game, participants, settings)
    folder = folder or _usual_folder(header)
    with opened_log(folder, header, schedule, fresh) as log:
        with explained(folder):
            for name in (RESULTS, PICTURE):
                is_there(folder / name)  # which refuses a link before anything is played

        def take(task: Task, counts: Counts) -> None:
            log.write(task, counts)
            schedule.finish(task, counts)
            if on_progress is not None:
                on_progress(schedule.progress)

        if fresh:
            _forget(folder)
        if on_progress is not None:
            on_progress(schedule.progress)
        _play(game, participants, schedule, num_workers, take, stop)
        result = result_of(game.name, participants, schedule, folder)
        with explained(folder):
            replace_durably(folder / RESULTS, encoded(result.as_json()))
            replace_durably(folder / PICTURE, encoded(arena_svg(result)))
    return result


def _forget(folder: Path) -> None:
    """Remove what another arena left: should this one be cut off, it would be taken for its result."""
    with explained(folder):
        for name in (RESULTS, PICTURE):
            (folder / name).unlink(missing_ok=True)


def _play(
    game: Game,
    participants: Sequence[Participant],
    schedule: Schedule,
    num_workers: int,
    take: OnResult,
    stop: StopRequest,
) -> None:
    affordable = max(1, memory_available() // WORKER_BYTES)
    num_workers = min(num_workers or available_cores(), schedule.num_open, affordable)
    if num_workers > 1:
        start = describe_start(game, participants, schedule.settings)
        play_in_processes(schedule, start, num_workers, take, stop)
    elif num_workers == 1:
        descriptions = [each.description for each in participants]
        table = PlayerTable(game, descriptions, schedule.settings.opening_plies)
        with math_threads(1):  # as workers have: other numbers of threads may round differently
            _play_here(table, schedule, take, stop)


class _Stopped(Exception):  # noqa: N818  # no error
    """Leaves a match that nobody wants to see the end of."""


def _play_here(table: PlayerTable, schedule: Schedule, take: OnResult, stop: StopRequest) -> None:
    def check(games_done: int) -> None:
        if stop.is_set:
            raise _Stopped

    while not stop.is_set and (task := schedule.take()) is not None:
        try:
            take(task, table.play(task, check))
        except _Stopped:
            return


def _usual_folder(header: dict[str, object]) -> Path:
    """Where the same arena was begun, or a new `arena-DATE` here."""
    begun = [folder for folder in sorted(Path().glob("arena-*")) if read_header(folder) == header]
    if begun:
        return begun[-1]
    name = f"arena-{datetime.now():%Y%m%d}"
    names = (Path(name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in names if not path.exists())
