"""The tournament's log: a header, then one line for each finished task."""

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from senju.errors import RunFolderError
from senju.evaluation.tournament.participants import Participant
from senju.evaluation.tournament.tasks import MatchTask, TournamentSchedule, TournamentSettings
from senju.files import describe_os_error, open_file
from senju.games.game import Game
from senju.opponents.score import Score

logger = logging.getLogger(__name__)

FORMAT = 1
LOG, LOCK = "games.jsonl", ".lock"
Header = dict[str, Any]


def make_header(game: Game, participants: list[Participant], settings: TournamentSettings) -> Header:
    """The identity of a tournament: those with equal headers play the same games."""
    return {
        "format": FORMAT,
        "game": {"name": game.name, **game.config.model_dump(mode="json")},
        "settings": asdict(settings),
        "participants": [{"name": each.name, "fingerprint": each.fingerprint} for each in participants],
    }


def read_header(folder: Path) -> Header | None:
    """The header of the tournament in a folder; None if there is none that can be read."""
    try:
        with open(open_file(folder / LOG, os.O_RDONLY), "rb") as file:
            header = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


@contextmanager
def opened_log(
    folder: Path, header: Header, schedule: TournamentSchedule, fresh: bool
) -> Iterator["TournamentLog"]:
    """The log of a tournament, new or continued; `schedule` gets the results in it."""
    with ExitStack() as files:
        with reporting_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _lock(files.enter_context(_appending(folder / LOCK)), folder)
            log = TournamentLog(folder / LOG, files.enter_context(_appending(folder / LOG)))
            log.begin(header, schedule, fresh)
        yield log


@contextmanager
def reporting_write_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a RunFolderError that names the folder."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"cannot write the tournament to {folder}: {describe_os_error(error)}"
        ) from error


def _appending(path: Path) -> BinaryIO:
    return open(open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b")


def _lock(lock: BinaryIO, folder: Path) -> None:
    """Keep other tournaments out of the folder; the lock ends with the process."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFolderError(
            f"another tournament is being played in {folder}; wait for it, or choose --out"
        ) from None


@dataclass
class TournamentLog:
    """Appends finished tasks; each is on the disk before `write` returns."""

    path: Path
    _file: BinaryIO

    def begin(self, header: Header, schedule: TournamentSchedule, fresh: bool) -> None:
        """Write the header; or check the existing one and read the results after it."""
        lines = [] if fresh else self._whole_lines()
        if not lines:
            self._file.truncate(0)
            self._append(header)
            return
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if number > 1:
                    task = schedule.task(record["first"], record["second"], record["chunk"])
                    schedule.finish(task, Score(*record["counts"]))
            except (LookupError, RecursionError, TypeError, ValueError):
                raise RunFolderError(
                    f"{self.path}, line {number} is no line of a tournament; --fresh starts anew, or "
                    "choose --out"
                ) from None
            if number == 1 and record != header:
                raise RunFolderError(
                    f"{self.path.parent} holds another tournament ({_difference(record, header)}); "
                    "--fresh forgets it and starts anew, --out takes another folder"
                )

    def write(self, task: MatchTask, score: Score) -> None:
        """Append the result of a task."""
        self._append({"first": task.first, "second": task.second, "chunk": task.chunk, "counts": score})

    def _append(self, record: dict[str, Any]) -> None:
        with reporting_write_errors(self.path.parent):
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _whole_lines(self) -> list[bytes]:
        """All lines; a last line that was cut off is removed."""
        self._file.seek(0)
        *lines, cut = self._file.read().split(b"\n")
        if cut:
            logger.warning("%s: the last line is cut off and removed", self.path)
            self._file.truncate(sum(len(line) + 1 for line in lines))
        return lines


def _difference(found: Any, wanted: Header) -> str:
    """How the tournament in a folder differs, as text."""
    if not isinstance(found, dict) or found.keys() != wanted.keys() or found["format"] != wanted["format"]:
        return "of another version of senju"
    if found["game"] != wanted["game"]:
        return f"its game is {found['game']}, not {wanted['game']}"
    before, now = ([each["name"] for each in header["participants"]] for header in (found, wanted))
    if before != now:
        return f"its participants are {', '.join(before)}, not {', '.join(now)}"
    for old, new in zip(found["participants"], wanted["participants"], strict=True):
        if old != new:
            return f"{new['name']} has changed since it was played"
    settings = wanted["settings"]
    changed = [name for name in settings if found["settings"].get(name) != settings[name]]
    return ", ".join(f"its {name} is {found['settings'].get(name)}, not {settings[name]}" for name in changed)
