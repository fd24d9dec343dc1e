"""Processes that measure themselves: each takes a line with seconds and answers with a number."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from senju.workers.fork_server import ONE_MATH_THREAD


class Fleet:
    """Processes that are started once and wait for requests."""

    def __init__(
        self, commands: Sequence[Sequence[str]], environment: Mapping[str, str] | None = None
    ) -> None:
        """`commands` are scripts with their arguments; each prints a number when it is ready.

        They have one math thread, unless `environment` replaces that.
        """
        changes = ONE_MATH_THREAD if environment is None else environment
        self._processes = [
            subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **changes},
            )
            for command in commands
        ]
        for process in self._processes:
            self._answer(process)

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()  # this ends them
        for process in self._processes:
            process.wait()

    def ask(self, number: int, seconds: float) -> float:
        """Let the first `number` measure at the same time; returns the sum of their answers."""
        chosen = self._processes[:number]
        for process in chosen:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        return sum(self._answer(process) for process in chosen)

    @staticmethod
    def _answer(process: "subprocess.Popen[str]") -> float:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended with status {process.wait()}; its error is above")
        return float(line)
