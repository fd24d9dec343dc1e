"""Conversations with an engine over real pipes, here or in a process of its own."""

import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

import pytest

import senju
from senju.config import merged
from senju.games import make_game
from senju.models import Model, make_model
from senju.runs.run import Run
from senju.usi.engine import Engine
from senju.usi.lines import LineWriter
from senju.usi.options import EngineConfig
from senju.usi.thinker import Thinker
from tests.conftest import DECISIONS_PER_UPDATE, SMALL

PATIENCE = 60.0  # seconds until a test gives up on an answer; none is expected to take so long


class Talk:
    """A conversation with an engine: lines to it, and its answers."""

    def __init__(self, to_engine: IO[bytes], from_engine: IO[bytes]) -> None:
        self._to_engine = to_engine
        self._heard: SimpleQueue[str | None] = SimpleQueue()
        self._listener = threading.Thread(target=self._listen, args=(from_engine,), daemon=True)
        self._listener.start()

    def _listen(self, from_engine: IO[bytes]) -> None:
        for line in from_engine:
            self._heard.put(line.decode("ascii").removesuffix("\n"))
        self._heard.put(None)

    def say(self, *lines: str) -> None:
        """Send lines."""
        self.say_bytes("".join(f"{line}\n" for line in lines).encode())

    def say_bytes(self, content: bytes) -> None:
        """Send anything."""
        self._to_engine.write(content)
        self._to_engine.flush()

    def hang_up(self) -> None:
        """End the input."""
        self._to_engine.close()

    def hear(self, start: str) -> list[str]:
        """The lines up to the first that starts with this, and that one."""
        lines: list[str] = []
        while not lines or not lines[-1].startswith(start):
            try:
                line = self._heard.get(timeout=PATIENCE)
            except Empty:
                pytest.fail(f"no line with {start!r} within {PATIENCE} s; heard {lines}")
            if line is None:
                pytest.fail(f"the engine ended without a line with {start!r}; heard {lines}")
            lines.append(line)
        return lines

    def hear_all(self) -> list[str]:
        """The lines up to the engine's end."""
        lines: list[str] = []
        while (line := self._heard.get(timeout=PATIENCE)) is not None:
            lines.append(line)
        self._heard.put(None)  # the end can be heard again
        self._listener.join(PATIENCE)  # only then may the pipe be closed
        return lines

    def ask(self, *lines: str) -> str:
        """The best move that is answered."""
        self.say(*lines)
        return self.hear("bestmove")[-1].split()[1]


def small_model(history: int = 0) -> Model:
    """An untrained network for Shogi that takes no time."""
    shape = make_game("shogi", history=history).observation_shape
    return make_model({"name": "mlp", "hidden": [16]}, shape, 2187, 0)


@contextmanager
def engine_here(load: Callable[[], Model] = small_model, history: int = 0, **settings: Any) -> Iterator[Talk]:
    """An engine in this process, which has to end in the end; its own error is raised then."""
    (engine_reads, we_write), (we_read, engine_writes) = os.pipe(), os.pipe()
    failures: list[Exception] = []
    with (
        io.FileIO(engine_reads) as source,
        os.fdopen(we_write, "wb") as to_engine,
        os.fdopen(we_read, "rb") as from_engine,
    ):

        def serve() -> None:
            with io.FileIO(engine_writes, "w") as sink:
                writer = LineWriter(sink)
                config = EngineConfig(**{"nodes": 16, "batch": 8} | settings)
                engine = Engine("senju of the tests", Thinker(load, writer), writer, config, history)
                try:
                    engine.run(source)
                except senju.SenjuError as error:
                    failures.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        talk = Talk(to_engine, from_engine)
        try:
            yield talk
        finally:
            if not to_engine.closed:
                talk.hang_up()
            talk.hear_all()
            thread.join(PATIENCE)
        assert not thread.is_alive()
        if failures:
            raise failures[0]


def make_run(path: Path, **game: Any) -> Run:
    """A run of Shogi that has hardly been trained, in a game with these settings."""
    settings = merged(SMALL, {"total_steps": DECISIONS_PER_UPDATE, "device": "cpu"})
    return senju.train({"name": "shogi", **game}, run=path, **settings)
