"""The arena's log: what it is of, then one line for each task that was finished."""

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
from senju.files import describe_os_error, open_file
from senju.games.game import Game
from senju.training.arena.participants import Participant
from senju.training.arena.tasks import ArenaSettings, Counts, Schedule, Task

logger = logging.getLogger(__name__)

FORMAT = 1
LOG, LOCK = "games.jsonl", ".lock"
Header = dict[str, Any]


def make_header(game: Game, participants: list[Participant], settings: ArenaSettings) -> Header:
    """What an arena's log is of; two arenas with equal ones play the same games."""
    return {
        "format": FORMAT,
        "game": {"name": game.name, **game.config.model_dump(mode="json")},
        "settings": asdict(settings),
        "participants": [{"name": each.name, "fingerprint": each.fingerprint} for each in participants],
    }


def read_header(folder: Path) -> Header | None:
    """What the arena in a folder is of; None where there is none that can be read."""
    try:
        with open(open_file(folder / LOG, os.O_RDONLY), "rb") as file:
            header = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


@contextmanager
def opened_log(folder: Path, header: Header, schedule: Schedule, fresh: bool) -> Iterator["ArenaLog"]:
    """The log of an arena, begun or gone on with; `schedule` is told what was played already."""
    with ExitStack() as files:
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _lock(files.enter_context(_appending(folder / LOCK)), folder)
            log = ArenaLog(folder / LOG, files.enter_context(_appending(folder / LOG)))
            log.begin(header, schedule, fresh)
        yield log


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Say of an error with files what could not be done."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"cannot write the arena to {folder}: {describe_os_error(error)}") from error


def _appending(path: Path) -> BinaryIO:
    return open(open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b")


def _lock(lock: BinaryIO, folder: Path) -> None:
    """Keep other arenas out of the folder; the lock dies with the process."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFolderError(
            f"another arena is being played in {folder}; wait for it, or choose --out"
        ) from None


@dataclass
class ArenaLog:
    """Appends finished tasks; each is on the disk before the next is given out."""

    path: Path
    _file: BinaryIO

    def begin(self, header: Header, schedule: Schedule, fresh: bool) -> None:
        """Write the header, or check the one that is there and read what follows it."""
        lines = [] if fresh else self._whole_lines()
        if not lines:
            self._file.truncate(0)
            self._append(header)
            return
        _require_equal(self.path.parent, lines[0], header)
        for number, record in enumerate(lines[1:], 2):
            try:
                task = schedule.task(record["first"], record["second"], record["chunk"])
                counts = Counts(*record["counts"])
                schedule.finish(task, counts)
            except (LookupError, TypeError, ValueError):
                raise self._damaged(number) from None

    def write(self, task: Task, counts: Counts) -> None:
        """Append what came of a task."""
        self._append({"first": task.first, "second": task.second, "chunk": task.chunk, "counts": counts})

    def _append(self, record: dict[str, Any]) -> None:
        with explained(self.path.parent):
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _whole_lines(self) -> list[Any]:
        """All lines as JSON; a last one that was cut off is taken away."""
        self._file.seek(0)
        *lines, cut = self._file.read().split(b"\n")
        if cut:
            logger.warning("%s: the last line is cut off and left out", self.path)
            self._file.truncate(sum(len(line) + 1 for line in lines))
        records = []
        for number, line in enumerate(lines, 1):
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError):
                raise self._damaged(number) from None
        return records

    def _damaged(self, number: int) -> RunFolderError:
        return RunFolderError(
            f"{self.path}, line {number} is not what an arena writes; --fresh starts anew, or choose --out"
        )


def _require_equal(folder: Path, found: Any, wanted: Header) -> None:
    if found == wanted:
        return
    raise RunFolderError(
        f"{folder} holds another arena ({_difference(found, wanted)}); --fresh starts anew and forgets it, "
        "--out takes another folder"
    )


def _difference(found: Any, wanted: Header) -> str:
    """In what the arena in a folder differs, in words."""
    if not isinstance(found, dict) or found.keys() != wanted.keys() or found["format"] != wanted["format"]:
        return "of another version of senju"
    if found["game"] != wanted["game"]:
        return f"its game is {found['game']}, not {wanted['game']}"
    before, now = ([each["name"] for each in header["participants"]] for header in (found, wanted))
    if before != now:
        return f"its participants are {', '.join(before)}, not {', '.join(now)}"
    for old, new in zip(found["participants"], wanted["participants"], strict=True):
        if old != new:
            return f"{new['name']} is not what it was when it was played"
    settings = wanted["settings"]
    changed = [name for name in settings if found["settings"].get(name) != settings[name]]
    return ", ".join(f"its {name} is {found['settings'].get(name)}, not {settings[name]}" for name in changed)
