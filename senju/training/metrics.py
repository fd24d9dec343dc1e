"""Metrics: JSON lines to keep and TensorBoard to look at."""

import contextlib
import json
import logging
from pathlib import Path
from typing import Any, TextIO

from senju.errors import RunFolderError
from senju.training.checkpoint import describe_os_error, replace_durably

logger = logging.getLogger(__name__)

Record = dict[str, Any]  # "kind" is "update", "evaluation" or "episodes", "update" its number


def read_metrics(path: Path) -> list[Record]:
    """The records of a metrics file; a last line cut off by a crash is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise RunFolderError(f"{path}, line {number} is not JSON: {line[:80]!r}") from None
            logger.warning("%s: the last line is cut off and left out", path)
    return records


class MetricsWriter:
    """Appends records to `metrics.jsonl` and, where wanted, to TensorBoard's event files."""

    def __init__(self, folder: Path, *, after_update: int = 0, tensorboard: bool = True) -> None:
        """Records of updates after `after_update` are dropped: they will be computed again."""
        self.path = folder / "metrics.jsonl"
        kept = [record for record in read_metrics(self.path) if record["update"] <= after_update]
        self._board: Any = None
        try:
            replace_durably(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
            if tensorboard:
                from torch.utils.tensorboard import SummaryWriter  # slow to import, not always wanted

                self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=after_update + 1)
            self._file: TextIO = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise self._explained(error) from error

    def write(self, record: Record, scalars: dict[str, float]) -> None:
        """Append a record; `scalars` go to TensorBoard under their names."""
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
            if self._board is not None:
                for name, value in scalars.items():
                    self._board.add_scalar(name, value, record["update"])
        except OSError as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError) -> RunFolderError:
        return RunFolderError(f"cannot write the metrics in {self.path.parent}: {describe_os_error(error)}")

    def close(self) -> None:
        """Flush and close; may be called twice."""
        with contextlib.suppress(OSError):  # what could not be written was reported by `write`
            self._file.close()
        if self._board is not None:
            with contextlib.suppress(OSError):
                self._board.close()
            self._board = None
