"""Records of a run, one JSON object a line, readable after any crash; metrics also go to TensorBoard."""

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from senju.errors import RunFolderError
from senju.files import (
    DESCRIPTORS,
    describe_os_error,
    encoded,
    open_file,
    opened_folder,
    read_file,
    replace_durably,
)

logger = logging.getLogger(__name__)

Record = dict[str, Any]
Needed = Mapping[str, type | tuple[type, ...]]  # the types of values that a record must have

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
_NUMBER = (int, float)
_EVERY: Needed = {"kind": str, "update": int}
_KINDS: dict[str, Needed] = {
    "update": {"steps": _NUMBER, "seconds": _NUMBER, "stages": dict},
    "evaluation": {"steps": _NUMBER, "opponent": str, "score": _NUMBER, "interval": list},
    "episodes": {"steps": _NUMBER, "rewards": list, "random": list, "intervals": list},
}


def read_records(path: Path, needed: Needed) -> list[Record]:
    """The records of a file, without a last line that a crash has cut off; none where there is no file."""
    try:
        lines = read_file(path).removesuffix(b"\n").split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {describe_os_error(error)}") from None
    lines, records = lines if lines != [b""] else [], []
    for number, line in enumerate(lines, 1):
        record = _parse(line)
        if record is not None and has(record, needed):
            records.append(record)
        elif number < len(lines):
            shown = line[:80].decode(errors="backslashreplace")
            expected = " and ".join(needed) or "anything"
            what = "is not JSON" if record is None else f"is no record with {expected}"
            raise RunFolderError(f"{path}, line {number} {what}: {shown!r}; remove the line, or repair it")
        else:
            logger.warning("%s: the last line is cut off and left out", path)
    return records


def has(record: Record, needed: Needed) -> bool:
    """Whether a record has the needed values, each of its type."""
    return all(isinstance(record.get(name), kind) for name, kind in needed.items())


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested without end
        return None
    return record if isinstance(record, dict) else None


def append_record(path: Path, record: Record) -> None:
    """Append a record as a line of its own, even after a last line that a crash has cut off."""
    with open(open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                _finish_last_line(file)
        file.write(json.dumps(record).encode() + b"\n")


def _finish_last_line(file: BinaryIO) -> None:
    """End a last line that lacks only its end, and remove one that is cut off."""
    file.seek(0)
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if _parse(content[whole:]) is None:
        file.truncate(whole)
    else:
        file.write(b"\n")


def read_metrics(path: Path) -> list[Record]:
    """The records of a metrics file; a last line cut off by a crash is left out."""
    return read_records(path, _EVERY)


def records_of(kind: str, path: Path) -> list[Record]:
    """The records of one kind: `update`, `evaluation` or `episodes`."""
    records = [record for record in read_metrics(path) if record["kind"] == kind]
    for record in records:
        missing = [name for name, type_ in _KINDS[kind].items() if not has(record, {name: type_})]
        if missing:
            raise RunFolderError(
                f"{path}: the {kind} of update {record['update']} has no {', '.join(missing)}, or another "
                "type of it; remove the line, or repair it"
            )
    return records


class MetricsWriter:
    """Appends records to `metrics.jsonl`, and numbers to TensorBoard's event files."""

    def __init__(self, folder: Path, *, after_update: int = 0) -> None:
        """Records of updates after `after_update` are dropped: they will be computed again."""
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self.path = folder / METRICS
        kept = [record for record in read_metrics(self.path) if record["update"] <= after_update]
        self._end = contextlib.ExitStack()
        try:
            replace_durably(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
            board = folder / TENSORBOARD
            descriptor = self._end.enter_context(opened_folder(board, folder, make=True))
            # the descriptor's path follows no link, and is UTF-8, which TensorBoard needs
            through = DESCRIPTORS / str(descriptor)
            address = str(through if through.exists() else board)
            self._board: Any = SummaryWriter(address, purge_step=after_update + 1)
            self._file = os.fdopen(open_file(self.path, os.O_WRONLY | os.O_APPEND), "ab")
        except OSError as error:
            self._end.close()
            raise self._explained(error) from error

    def write(self, record: Record, scalars: dict[str, float]) -> None:
        """Append a record; `scalars` go to TensorBoard under their names."""
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
            for name, value in scalars.items():
                self._board.add_scalar(encoded(name).decode(), value, record["update"])
        except OSError as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError) -> RunFolderError:
        return RunFolderError(f"cannot write the metrics in {self.path.parent}: {describe_os_error(error)}")

    def close(self) -> None:
        """Flush and close; may be called twice."""
        for opened in (self._file, self._board):
            with contextlib.suppress(OSError):  # `write` has reported it
                opened.close()
        self._end.close()
