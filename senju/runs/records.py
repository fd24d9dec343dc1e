"""Files of records: one JSON object a line, readable after any crash."""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from senju.errors import RunFolderError
from senju.files import describe_os_error, open_file, read_file

logger = logging.getLogger(__name__)

Record = dict[str, Any]
Needed = Mapping[str, type | tuple[type, ...]]  # the types of values that a record must have


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
                _finish_last_line(file.fileno())
        file.write(json.dumps(record).encode() + b"\n")


def _finish_last_line(descriptor: int) -> None:
    """End a last line that lacks only its end, and remove one that is cut off."""
    with open(descriptor, "r+b", closefd=False) as file:
        file.seek(0)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if _parse(content[whole:]) is None:
            file.truncate(whole)
        else:
            file.write(b"\n")
