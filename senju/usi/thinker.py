"""Answers search requests with `info` lines and a best move; the tree is kept from move to move."""

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
from senju.usi.protocol import SetPosition, info_line
from senju.usi.request import SearchRequest
from senju.usi.situation import ShogiRules, new_position, situation_after

if TYPE_CHECKING:  # slow to import: loaded when needed, so that `usi` is answered at once
    from senju.games.shogi.position import Position
    from senju.models.model import Model
    from senju.search.puct import SearchResult, TreeSearch

INFO_SECONDS: Final = 0.25  # between two `info` lines
LONGEST_LINE: Final = 40  # moves of the principal variation that are sent
MOVED_PER_SECOND: Final = 10**9  # bytes, when a tree is pruned to a new root
LEAST_PRUNING: Final = 0.005  # seconds always allowed for it: evaluating a new root takes as long
PRUNING_SHARE: Final = 0.25  # of the time for a move; a tree that takes longer to prune is dropped
RESIGNING_MOVES: Final = 3  # in a row that must be lost
RESIGN, WIN = "resign", "win"

log = logging.getLogger(__name__)


class Thinker:
    """Answers search requests, one after another, in one thread."""

    def __init__(self, load: Callable[[], "Model"], writer: LineWriter) -> None:
        self._load, self._writer = load, writer
        self._model: Model | None = None
        self._search: TreeSearch | None = None
        self._searched: SearchRequest | None = None  # the request that the tree belongs to
        self._pace = Pace()
        self._lost: list[SearchRequest] = []  # own moves in a row whose winning chance was too small
        self.is_ready = False

    def prepare(self, rules: ShogiRules, config: EngineConfig) -> None:
        """Load the network and all compiled code that a move needs, once."""
        if self.is_ready:
            return
        started = time.monotonic()
        self._model = self._load()
        with _threads(config):
            self._warm_up(rules, config)
        self.is_ready = True
        log.info("ready after %.1f s", time.monotonic() - started)

    def _warm_up(self, rules: ShogiRules, config: EngineConfig) -> None:
        """Run once everything that takes longer the first time."""
        position = situation_after(SetPosition(None, ()), rules).position
        search = self._new_search(position, config)
        for _ in range(2):
            result = search.run(position.states, nodes=2 * config.batch)
            best_moves(result, position)
            search.advance([result.best])
            position.push(result.best)

    def answer(self, request: SearchRequest) -> None:
        """Search, and send the best move as soon as it may be sent."""
        self.prepare(request.situation.rules, request.config)
        position, result = request.situation.position, None
        moves: Sequence[str]
        if position.can_declare:
            moves = [WIN]
        elif not position.legal_actions():
            moves = [RESIGN]
        else:
            moves, result = self._think(request)
        request.due.wait()
        if result is not None and self._resigns(request, result.value):
            moves = [RESIGN]
        ponder = f" ponder {moves[1]}" if len(moves) > 1 and request.config.usi_ponder else ""
        request.is_answered = True  # first: the other side may send its next `go` at once
        self._writer.send(f"bestmove {moves[0]}{ponder}")

    def _think(self, request: SearchRequest) -> tuple[Sequence[str], "SearchResult | None"]:
        """The best line of moves; a legal move if the search fails, since no answer would lose on time."""
        position = request.situation.position
        if position.ending:  # the program plays on: without history, the rules do not end the game here
            position = new_position(position.sfen(), position.game)
        try:
            result = self._run_search(request, position)
            return self._show(request, position, result), result
        # any exception: a `go` is always answered, and the log has the traceback
        except Exception as error:
            log.exception("the search failed")
            what = f"{type(error).__name__}: {error}"
            self._writer.complain(f"the search failed; the engine plays any legal move: {what}")
            self._search = None
            return position.legal_moves()[:1], None

    def _show(self, request: SearchRequest, position: "Position", result: "SearchResult") -> Sequence[str]:
        """Send an `info` line; return the best line of moves."""
        moves = best_moves(result, position)
        self._writer.send(info_line(result, moves))
        if self._writer.is_lost:  # the other side is gone, and sends no `stop`
            request.stop()
        return moves

    def _run_search(self, request: SearchRequest, position: "Position") -> "SearchResult":
        search, is_kept = self._search_for(request, position)
        self._pace.begin()
        shown = began = time.monotonic()
        is_first = not is_kept  # the root is evaluated first, which takes as long as a batch

        def is_stopped() -> bool:
            nonlocal began, is_first
            now = time.monotonic()
            if is_first:
                self._pace.note(now - began)
            began, is_first = now, False
            return request.is_over(now, self._pace.expected)

        def on_progress(result: "SearchResult") -> None:
            nonlocal shown
            now = time.monotonic()
            self._pace.note(now - began)
            request.note(result.best, len(result.line), now)
            if now - shown >= INFO_SECONDS:
                shown = now
                self._show(request, position, result)

        has_choice = len(position.legal_actions()) > 1 or not request.is_for_play
        with _threads(request.config):
            return search.run(
                position.states,
                nodes=request.node_limit(search.config.nodes) if has_choice else 1,
                is_stopped=is_stopped,
                on_progress=on_progress,
            )

    def _search_for(self, request: SearchRequest, position: "Position") -> tuple["TreeSearch", bool]:
        """The search for a request, and whether it kept the tree of the last one."""
        last, self._searched = self._searched, request
        if self._search is None or last is None or not _can_share_search(request, last):
            self._search = None  # first: this frees its memory
            self._search, self._pace = self._new_search(position, request.config), Pace()
            return self._search, False
        if not request.situation.continues(last.situation):
            return self._search, False
        played = request.situation.actions[len(last.situation.actions) :]
        seconds = max(PRUNING_SHARE * request.seconds, LEAST_PRUNING)
        try:
            kept = self._search.advance(played, MOVED_PER_SECOND * seconds)
        except IllegalActionError:
            log.info("the rules ended the game in between; the search starts over")
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

    def _resigns(self, request: SearchRequest, value: float) -> bool:
        """Whether the winning chance was too small for RESIGNING_MOVES own moves in a row."""
        if not request.is_for_play:
            return False
        if 500 * (1 + value) >= request.config.resign_value:  # both in thousandths
            self._lost.clear()
            return False
        if self._lost and not _is_later_move(request, self._lost[-1]):
            self._lost.clear()
        self._lost.append(request)
        return len(self._lost) >= RESIGNING_MOVES


def _threads(config: EngineConfig) -> AbstractContextManager[None]:
    """The math threads that are set, but no more than there are cores."""
    from senju.machine import available_cores, math_threads

    return math_threads(min(config.threads, available_cores()))


def _can_share_search(request: SearchRequest, last: SearchRequest) -> bool:
    """Whether two requests can use one search object; a new game gets a new one, which frees the memory."""
    is_same_game = request.game_number == last.game_number
    return is_same_game and request.situation.rules == last.situation.rules and request.config == last.config


def _is_later_move(request: SearchRequest, last: SearchRequest) -> bool:
    now, before = request.situation, last.situation
    is_same_game = request.game_number == last.game_number and now.continues(before)
    return is_same_game and len(now.actions) > len(before.actions)


def best_moves(result: "SearchResult", position: "Position") -> list[str]:
    """The first moves of a result's line, in USI."""
    board, moves = position.copy(), []
    for action in result.line[:LONGEST_LINE]:
        moves.append(board.usi(action))
        board.push(action)
    return moves
