"""The thinking: a task into `info` lines and a best move, with a tree kept from move to move."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from senju.errors import IllegalActionError
from senju.search.settings import MAX_TREE_NODES
from senju.usi.clock import Pace
from senju.usi.lines import LineWriter
from senju.usi.options import EngineConfig
from senju.usi.protocol import Report, SetPosition, best_move_line, info_line
from senju.usi.situation import Rules, new_position, situation_after
from senju.usi.task import Task

if TYPE_CHECKING:  # slow to import: loaded when needed, so that `usi` is answered at once
    from senju.games.shogi.position import Position
    from senju.models.model import Model
    from senju.search.puct import Snapshot, TreeSearch

INFO_SECONDS: Final = 0.25  # between two `info` lines
LONGEST_LINE: Final = 40  # moves shown of what the search expects
MOVED_PER_SECOND: Final = 10**9  # bytes of a tree that is cut down to what is kept
LEAST_CUTTING: Final = 0.005  # seconds that any move may take for it: a new root takes as long
CUTTING_SHARE: Final = 0.25  # of the time for a move; a tree that would take longer is given up
RESIGNING_MOVES: Final = 3  # in a row that must look lost
RESIGN, WIN = "resign", "win"

log = logging.getLogger(__name__)


class Thinker:
    """Answers tasks, one after another, in one thread."""

    def __init__(self, load: Callable[[], "Model"], writer: LineWriter) -> None:
        self._load, self._writer = load, writer
        self._model: Model | None = None
        self._search: TreeSearch | None = None
        self._searched: Task | None = None  # whose tree the search has
        self._pace = Pace()  # of the search
        self._lost: list[Task] = []  # own moves in a row that looked lost
        self.is_ready = False

    def prepare(self, rules: Rules, config: EngineConfig) -> None:
        """Load the network and all compiled code that a move needs, once."""
        if self.is_ready:
            return
        started = time.monotonic()
        self._model = self._load()
        with _threads(config):
            self._rehearse(rules, config)
        self.is_ready = True
        log.info("ready after %.1f s", time.monotonic() - started)

    def _rehearse(self, rules: Rules, config: EngineConfig) -> None:
        """Do once all that takes longer the first time."""
        position = situation_after(SetPosition(None, ()), rules).position
        search = self._new_search(position, config)
        for _ in range(2):
            snapshot = search.run(position.states, nodes=2 * config.batch)
            report_of(snapshot, position)
            search.advance([snapshot.best])
            position.push(snapshot.best)

    def answer(self, task: Task) -> None:
        """Think, and send the best move as soon as it may be given."""
        self.prepare(task.situation.rules, task.config)
        position, snapshot = task.situation.position, None
        moves: Sequence[str]
        if position.can_declare:
            moves = [WIN]
        elif not position.legal_actions():
            moves = [RESIGN]
        else:
            moves, snapshot = self._think(task)
        task.wait_until_due()
        if snapshot is not None and self._gives_up(task, snapshot.value):
            moves = [RESIGN]
        ponder = moves[1] if len(moves) > 1 and task.config.usi_ponder else None
        task.is_answered = True  # first: the other side may send its next `go` at once
        self._writer.send(best_move_line(moves[0], ponder))

    def _think(self, task: Task) -> tuple[Sequence[str], "Snapshot | None"]:
        """The line of best moves. Whatever happens there is one: an unanswered `go` would lose on time."""
        position = task.situation.position
        if position.ending:  # the game goes on where the rules ended it: without its past they do not
            position = new_position(position.sfen(), position.game)
        try:
            snapshot = self._run_search(task, position)
            return self._show(task, position, snapshot), snapshot
        # whatever it is: a `go` is always answered, and the log has the traceback
        except Exception as error:
            log.exception("the search failed")
            what = f"{type(error).__name__}: {error}"
            self._writer.complain(f"the search failed, so that any legal move is played: {what}")
            self._search = None
            return position.legal_moves()[:1], None

    def _show(self, task: Task, position: "Position", snapshot: "Snapshot") -> Sequence[str]:
        """Send how far the search has come; returns the line of best moves."""
        report = report_of(snapshot, position)
        self._writer.send(info_line(report))
        if self._writer.is_lost:  # nobody will ever ask for the answer
            task.stop()
        return report.line

    def _run_search(self, task: Task, position: "Position") -> "Snapshot":
        search, is_kept = self._search_for(task, position)
        self._pace.begin()
        shown = began = time.monotonic()
        is_first = not is_kept  # the root is evaluated first, in as much time as a batch takes

        def is_stopped() -> bool:
            nonlocal began, is_first
            now = time.monotonic()
            if is_first:
                self._pace.note(now - began)
            began, is_first = now, False
            return task.is_over(now, self._pace.expected)

        def take_notice(snapshot: "Snapshot") -> None:
            nonlocal shown
            now = time.monotonic()
            self._pace.note(now - began)
            task.note(snapshot.best, len(snapshot.line), now)
            if now - shown >= INFO_SECONDS:
                shown = now
                self._show(task, position, snapshot)

        has_choice = len(position.legal_actions()) > 1 or not task.is_for_play
        with _threads(task.config):
            return search.run(
                position.states,
                nodes=task.node_limit(search.config.nodes) if has_choice else 1,
                is_stopped=is_stopped,
                on_progress=take_notice,
            )

    def _search_for(self, task: Task, position: "Position") -> tuple["TreeSearch", bool]:
        """The search for a task, and whether it has the last one's tree: the game may go on from there."""
        last, self._searched = self._searched, task
        if self._search is None or last is None or not _is_alike(task, last):
            self._search = None  # first: its memory is free then
            self._search, self._pace = self._new_search(position, task.config), Pace()
            return self._search, False
        if not task.situation.continues(last.situation):
            return self._search, False
        played = task.situation.actions[len(last.situation.actions) :]
        seconds = max(CUTTING_SHARE * task.seconds, LEAST_CUTTING)
        try:
            kept = self._search.advance(played, MOVED_PER_SECOND * seconds)
        except IllegalActionError:
            log.info("the rules ended the game on the way; the search begins anew")
            return self._search, False
        return self._search, kept > 0

    def _new_search(self, position: "Position", config: EngineConfig) -> "TreeSearch":
        from senju.search.puct import SearchConfig, TreeSearch

        assert self._model is not None
        settings = SearchConfig(
            batch_size=config.batch,
            temperature=config.temperature / 100,
            max_tree_nodes=MAX_TREE_NODES,
            max_tree_mib=config.usi_hash,
        )
        return TreeSearch(position.game, self._model, settings, config.seed)

    def _gives_up(self, task: Task, value: float) -> bool:
        """Whether to resign: the winning chance has been too small for some own moves in a row."""
        if not task.is_for_play:
            return False
        if 500 * (1 + value) >= task.config.resign_value:  # both in thousandths
            self._lost.clear()
            return False
        if self._lost and not _is_later_move(task, self._lost[-1]):
            self._lost.clear()
        self._lost.append(task)
        return len(self._lost) >= RESIGNING_MOVES


def _threads(config: EngineConfig) -> AbstractContextManager[None]:
    """So many math threads as are set, and no more than there are cores."""
    from senju.machine import available_cores, math_threads

    return math_threads(min(config.threads, available_cores()))


def _is_alike(task: Task, last: Task) -> bool:
    """Whether two tasks can have the same search; each game has its own, which gives back the memory."""
    is_same_game = task.game_number == last.game_number
    return is_same_game and task.situation.rules == last.situation.rules and task.config == last.config


def _is_later_move(task: Task, last: Task) -> bool:
    now, before = task.situation, last.situation
    is_same_game = task.game_number == last.game_number and now.continues(before)
    return is_same_game and len(now.actions) > len(before.actions)


def report_of(snapshot: "Snapshot", position: "Position") -> Report:
    """What a search says of a position, in USI's words."""
    board, line = position.copy(), []
    for action in snapshot.line[:LONGEST_LINE]:
        line.append(board.usi(action))
        board.push(action)
    mate = None
    if snapshot.is_proven and abs(snapshot.value) == 1.0:
        mate = snapshot.plies_to_end if snapshot.value > 0 else -snapshot.plies_to_end
    return Report(
        len(snapshot.line), snapshot.depth, snapshot.seconds, snapshot.nodes, snapshot.value, mate, line
    )
