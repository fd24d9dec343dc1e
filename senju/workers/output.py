"""What a worker prints: logged line by line, and the end of it kept for messages about the worker."""

import logging
import os

logger = logging.getLogger(__name__)

_TAIL = 4_000  # characters
_PIPE_BYTES = 65_536  # what a pipe holds, and so all that a dead worker may have left there


class WorkerOutput:
    """Reads the pipe that a worker process prints to."""

    def __init__(self, descriptor: int, worker_name: str) -> None:
        self.descriptor, self._worker_name = descriptor, worker_name
        self.is_open = True
        self._tail = ""

    def read(self) -> str:
        """Read and log what has been printed; once, because other workers must be heard too."""
        try:
            data = os.read(self.descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return ""
        self.is_open = bool(data)
        text = data.decode(errors="replace")
        self._tail = (self._tail + text)[-_TAIL:]
        for line in text.splitlines():
            logger.info("%s: %s", self._worker_name, line)
        return text

    def __str__(self) -> str:
        """The end of the output, to be appended to a message."""
        return f"; it printed:\n{self._tail.rstrip()}" if self._tail.strip() else ""
