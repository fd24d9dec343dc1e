"""Metrics of a run, written as JSON lines and for TensorBoard."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from senju.errors import RunFolderError
from senju.files import DESCRIPTORS, describe_os_error, encoded, open_file, opened_folder, replace_durably
from senju.runs.records import Needed, Record, has, read_records

__all__ = ["MetricsWriter", "Record", "read_metrics", "records_of"]

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
_NUMBER = (int, float)
_EVERY: Needed = {"kind": str, "update": int}
_KINDS: dict[str, Needed] = {
    "update": {"steps": _NUMBER, "seconds": _NUMBER, "stages": dict},
    "evaluation": {"steps": _NUMBER, "opponent": str, "score": _NUMBER, "interval": list},
    "episodes": {"steps": _NUMBER, "rewards": list, "random": list, "intervals": list},
}


def read_metrics(path: Path) -> list[Record]:
    """The records of a metrics file; a last line cut off by a crash is left out."""
    return read_records(path, _EVERY)


def records_of(kind: str, path: Path) -> list[Record]:
    """Those of one kind: `update`, `evaluation` or `episodes`."""
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
    """Appends records to `metrics.jsonl` and, if wanted, to TensorBoard's event files."""

    def __init__(self, folder: Path, *, after_update: int = 0, tensorboard: bool = True) -> None:
        """Records of updates after `after_update` are dropped: they will be computed again."""
        self.path = folder / METRICS
        kept = [record for record in read_metrics(self.path) if record["update"] <= after_update]
        self._board: Any = None
        self._end = contextlib.ExitStack()
        try:
            replace_durably(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
            if tensorboard:
                from torch.utils.tensorboard import SummaryWriter  # slow to import, not always wanted

                address = self._end.enter_context(_reached(folder / TENSORBOARD, folder))
                self._board = SummaryWriter(address, purge_step=after_update + 1)
            self._file = os.fdopen(open_file(self.path, os.O_WRONLY | os.O_APPEND), "ab")
        except OSError as error:
            self._end.close()
            raise self._explained(error) from error

    def write(self, record: Record, scalars: dict[str, float]) -> None:
        """Append a record; `scalars` go to TensorBoard under their names."""
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
            if self._board is not None:
                for name, value in scalars.items():
                    self._board.add_scalar(encoded(name).decode(), value, record["update"])
        except OSError as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError) -> RunFolderError:
        return RunFolderError(f"cannot write the metrics in {self.path.parent}: {describe_os_error(error)}")

    def close(self) -> None:
        """Flush and close; may be called twice."""
        with contextlib.suppress(OSError):  # `write` has reported it
            self._file.close()
        if self._board is not None:
            with contextlib.suppress(OSError):
                self._board.close()
            self._board = None
        self._end.close()


@contextlib.contextmanager
def _reached(folder: Path, root: Path) -> Iterator[str]:
    """A path of a folder that follows no link, in UTF-8, as TensorBoard needs it."""
    with opened_folder(folder, root, make=True) as descriptor:
        through = DESCRIPTORS / str(descriptor)
        yield str(through if through.exists() else folder)
