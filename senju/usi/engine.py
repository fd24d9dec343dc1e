"""The engine: one thread reads and executes commands, the main thread thinks.

The main thread thinks, so that an agent that cannot be loaded ends the program with its traceback. A search
that fails is reported, and the engine plays a legal move. The reading thread never waits for a search, so
`stop` and `quit` take effect at once.
"""

import logging
import time
from contextlib import closing
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

from senju.errors import SenjuError
from senju.usi.lines import MAX_LINE, Input, LineWriter, read_lines, traffic
from senju.usi.options import EngineConfig, option_lines, with_option
from senju.usi.protocol import (
    BareCommand,
    Command,
    Go,
    GoLimits,
    ProtocolError,
    SetOption,
    SetPosition,
    parse_line,
)
from senju.usi.request import SearchRequest
from senju.usi.situation import ShogiRules, Situation, situation_after
from senju.usi.thinker import Thinker

log = logging.getLogger(__name__)


class Engine:
    """Talks USI with a Shogi program until it quits or closes the stream."""

    def __init__(
        self, name: str, thinker: Thinker, writer: LineWriter, config: EngineConfig, history: int = 0
    ) -> None:
        self.name, self.config = name, config
        self._thinker, self._writer, self._history = thinker, writer, history
        self._jobs: SimpleQueue[SearchRequest | BareCommand | None] = SimpleQueue()  # None: quit
        self._situation: Situation | None = None  # after the last valid `position`; None: the start
        self._request: SearchRequest | None = None  # the last search
        self._game_number = 0
        self._has_quit = False

    def run(self, stream: BinaryIO) -> None:
        """Serve until `quit` or the end of the input; afterwards, no thread reads from the stream."""
        with closing(Input(stream)) as source:
            # daemon: a second Ctrl-C ends the program even if the other side does not read its lines
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
                if isinstance(job, SearchRequest):
                    self._thinker.answer(job)
                else:
                    with self._writer.keep_alive():
                        self._thinker.prepare(self._rules, self.config)
                    self._writer.send("readyok")
            except SenjuError as error:  # the agent cannot be loaded: report it to the other side, and end
                self._writer.complain(error)
                raise
            if self._writer.is_lost:
                return
        if not self._has_quit:
            raise RuntimeError("the reading thread failed; see its traceback above")

    def _read(self, source: Input) -> None:
        try:
            for line in read_lines(source.read):
                if source.is_stopped or not self.execute_line(line) or self._writer.is_lost:
                    break
            self._has_quit = True
        except OSError as error:  # a terminal that was closed
            log.info("the input ended: %s", error)
            self._has_quit = True
        finally:
            self._stop_search()
            self._jobs.put(None)

    def execute_line(self, line: bytes | None) -> bool:
        """Execute a line (None for one that was too long); False if the engine is to quit."""
        if line is None:
            self._writer.complain(f"a line of more than {MAX_LINE} bytes was ignored")
            return True
        text = line.decode("utf-8", "replace")
        traffic.debug("< %s", text)
        try:
            command = parse_line(text)
            if command is BareCommand.QUIT:
                return False
            if command is not None:
                self._execute(command)
        except SenjuError as error:
            self._writer.complain(error)
        return True

    def _execute(self, command: Command) -> None:
        match command:
            case BareCommand.USI:
                for line in (f"id name {self.name}", "id author senju", *option_lines(self.config), "usiok"):
                    self._writer.send(line)
            case BareCommand.IS_READY if self._thinker.is_ready:
                self._writer.send("readyok")
            case BareCommand.IS_READY:
                self._jobs.put(command)
            case SetOption(name, value):
                self.config = with_option(self.config, name, value)
            case BareCommand.NEW_GAME:
                self._game_number += 1
            case SetPosition():
                self._situation = situation_after(command, self._rules, self._situation)
            case Go(limits, complaints):
                for complaint in complaints:
                    self._writer.complain(complaint)
                self._start_search(limits)
            case BareCommand.GO_MATE:
                self._writer.send("checkmate notimplemented")
            case BareCommand.STOP:
                if not self._stop_search():
                    raise ProtocolError("stop: no search is running")
            case BareCommand.PONDER_HIT:
                now = time.monotonic()
                if (running := self._running) is None or not running.is_pondering:
                    raise ProtocolError("ponderhit: no search is pondering")
                running.start_clock(now)
            case BareCommand.GAME_OVER:
                self._stop_search()

    @property
    def _rules(self) -> ShogiRules:
        return ShogiRules(self.config.max_ply, self.config.declaration_rule, self._history)

    def _start_search(self, limits: GoLimits) -> None:
        now = time.monotonic()
        if (running := self._running) is not None and not running.is_stopping:
            raise ProtocolError("go: a search is running; send stop first")
        command = self._situation.command if self._situation is not None else SetPosition(None, ())
        self._situation = situation_after(command, self._rules, self._situation)
        self._request = SearchRequest(self._situation, limits, self.config, self._game_number, now)
        self._jobs.put(self._request)

    @property
    def _running(self) -> SearchRequest | None:
        """The search that is not answered yet."""
        return None if self._request is None or self._request.is_answered else self._request

    def _stop_search(self) -> bool:
        """Ask the running search for its answer; False if there is none."""
        running = self._running
        if running is not None:
            running.stop()
        return running is not None
