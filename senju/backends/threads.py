"""The threads backend: workers are threads of this process."""

from senju.backends.parallel import ParallelBackend
from senju.workers.role import Executor
from senju.workers.thread import ThreadExecutor


class Threads(ParallelBackend):
    """Workers are threads."""

    name = "threads"

    def _new_executor(self) -> Executor:
        return ThreadExecutor()
