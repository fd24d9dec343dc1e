"""The engine: one thread reads and obeys, the main thread thinks.

The main thread thinks so that what cannot be loaded ends the program with its traceback, instead of
leaving it silent; a search that fails is told, and a legal move played. The reading thread never waits
for a search, so `stop` and `quit` count at once.
"""

import logging
import time
from queue import SimpleQueue
from threading import Thread

from senju.errors import SenjuError
from senju.usi.lines import MAX_LINE, Input, LineWriter, Stream, read_lines, traffic
from senju.usi.options import EngineConfig, option_lines, with_option
from senju.usi.protocol import (
    Command,
    GameOver,
    Go,
    GoMate,
    IsReady,
    Limits,
    NewGame,
    PonderHit,
    ProtocolError,
    Quit,
    SetOption,
    SetPosition,
    Stop,
    Usi,
    parse_line,
)
from senju.usi.situation import Rules, Situation, situation_after
from senju.usi.task import Task
from senju.usi.thinker import Thinker

log = logging.getLogger(__name__)


class Engine:
    """Speaks USI with a program on the other side, until that quits or hangs up."""

    def __init__(
        self, name: str, thinker: Thinker, writer: LineWriter, config: EngineConfig, history: int = 0
    ) -> None:
        self.name, self.config = name, config
        self._thinker, self._writer, self._history = thinker, writer, history
        self._jobs: SimpleQueue[IsReady | Task | None] = SimpleQueue()
        self._position = SetPosition(None, ())  # the last one that was right
        self._situation: Situation | None = None  # and what it led to
        self._task: Task | None = None
        self._game_number = 0
        self._has_quit = False

    def run(self, stream: Stream) -> None:
        """Serve until `quit` or the end of the input; after that, nothing reads from the stream any more."""
        with Input(stream) as source:
            # daemon: a second Ctrl-C ends the program even if the other side does not take the thread's lines
            reader = Thread(target=self._read, args=(source,), name="usi-reader", daemon=True)
            reader.start()
            try:
                self._serve()
            finally:
                source.stop()
                reader.join()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._work(job)
            except SenjuError as error:  # nothing can be loaded: say so where it is seen, and end
                self._writer.complain(error)
                raise
            if self._writer.is_lost:
                return
        if not self._has_quit:
            raise RuntimeError("the thread that reads has failed; its traceback stands above")

    def _work(self, job: IsReady | Task) -> None:
        if isinstance(job, Task):
            self._thinker.answer(job)
            return
        with self._writer.keep_alive():
            self._thinker.prepare(self._rules, self.config)
        self._writer.send("readyok")

    def _read(self, source: Input) -> None:
        try:
            for line in read_lines(source):
                if source.is_stopped or not self.obey_line(line) or self._writer.is_lost:
                    break
            self._has_quit = True
        except OSError as error:  # a terminal that was closed
            log.info("the input ended: %s", error)
            self._has_quit = True
        finally:
            self._stop_search()
            self._jobs.put(None)

    def obey_line(self, line: bytes | None) -> bool:
        """Act on a line, None for one that was too long; False where the engine is to end."""
        if line is None:
            self._writer.complain(f"a line of more than {MAX_LINE} bytes was ignored")
            return True
        text = line.decode("utf-8", "replace")
        traffic.debug("< %s", text)
        try:
            command = parse_line(text)
            if isinstance(command, Quit):
                return False
            if command is not None:
                self._obey(command)
        except SenjuError as error:
            self._writer.complain(error)
        return True

    def _obey(self, command: Command) -> None:
        match command:
            case Usi():
                self._introduce()
            case IsReady() if self._thinker.is_ready:
                self._writer.send("readyok")
            case IsReady():
                self._jobs.put(command)
            case SetOption(name, value):
                self.config = with_option(self.config, name, value)
            case NewGame():
                self._game_number += 1
            case SetPosition():
                self._situation = situation_after(command, self._rules, self._situation)
                self._position = command
            case Go(limits, complaints):
                for complaint in complaints:
                    self._writer.complain(complaint)
                self._start_search(limits)
            case GoMate():
                self._writer.send("checkmate notimplemented")
            case Stop():
                if not self._stop_search():
                    raise ProtocolError("stop: no search is under way")
            case PonderHit():
                self._hit()
            case GameOver():
                self._stop_search()

    @property
    def _rules(self) -> Rules:
        return Rules(self.config.max_ply, self.config.declaration_rule, self._history)

    def _introduce(self) -> None:
        self._writer.send(f"id name {self.name}")
        self._writer.send("id author senju")
        for line in option_lines(self.config):
            self._writer.send(line)
        self._writer.send("usiok")

    def _start_search(self, limits: Limits) -> None:
        now = time.monotonic()
        if self._task is not None and not (self._task.is_answered or self._task.is_stopping):
            raise ProtocolError("go: a search is under way; send stop first")
        self._situation = situation_after(self._position, self._rules, self._situation)
        self._task = Task(self._situation, limits, self.config, self._game_number, now)
        self._jobs.put(self._task)

    def _stop_search(self) -> bool:
        """Have the search under way answer; False where there is none."""
        if self._task is None or self._task.is_answered:
            return False
        self._task.stop()
        return True

    def _hit(self) -> None:
        now = time.monotonic()
        if self._task is None or self._task.is_answered or not self._task.is_pondering:
            raise ProtocolError("ponderhit: nothing is pondered on")
        self._task.hit(now)
