"""When a search is to end, and when its answer may be given."""

import math
from typing import Any

from senju.usi.options import EngineConfig
from senju.usi.protocol import GoLimits, SetPosition
from senju.usi.request import SearchRequest
from senju.usi.situation import ShogiRules, situation_after

START = situation_after(SetPosition(None, ()), ShogiRules())
BYOYOMI = GoLimits(byoyomi=1100)  # a second to think: the margin is 100 ms


def request(limits: GoLimits, now: float = 0.0, **settings: Any) -> SearchRequest:
    return SearchRequest(START, limits, EngineConfig(**settings), 0, now)


def test_clock_ends_a_search() -> None:
    asked = request(BYOYOMI, now=10.0)
    assert not asked.is_over(10.1)
    assert asked.is_over(11.0)
    assert asked.due.is_set()


def test_search_ends_where_the_next_batch_would_end_too_late() -> None:
    asked = request(BYOYOMI)
    assert not asked.is_over(0.5, expected=0.4)
    assert asked.is_over(0.5, expected=0.6)


def test_search_knows_its_time_while_a_clock_runs() -> None:
    assert request(BYOYOMI).seconds == 1.0
    asked = request(BYOYOMI._replace(is_ponder=True))
    assert asked.seconds == math.inf
    asked.start_clock(5.0)
    assert asked.seconds == 1.0
    assert request(GoLimits()).seconds == request(GoLimits(is_infinite=True)).seconds == math.inf


def test_stop_ends_any_search() -> None:
    for limits in (GoLimits(), BYOYOMI, GoLimits(is_infinite=True), GoLimits(is_ponder=True)):
        asked = request(limits)
        assert not asked.is_over(0.1)
        asked.stop()
        assert asked.is_stopping
        assert asked.is_over(0.1)
        assert asked.due.is_set()


def test_infinite_search_is_ended_by_nothing_but_stop() -> None:
    asked = request(GoLimits(is_infinite=True, byoyomi=1000, depth=1))
    asked.note(best=5, depth=9, now=1.0)
    asked.start_clock(2.0)
    assert not asked.is_over(1e9)
    assert not asked.is_for_play
    assert not asked.due.is_set()


def test_pondering_goes_on_until_it_hits_and_the_clock_starts_then() -> None:
    asked = request(BYOYOMI._replace(is_ponder=True), now=0.0)
    assert asked.is_pondering
    assert not asked.is_over(500.0)
    asked.start_clock(1000.0)
    assert not asked.is_pondering
    assert asked.is_for_play
    assert not asked.is_over(1000.1)
    assert asked.is_over(1001.0)
    assert asked.due.is_set()


def test_answer_to_a_ponder_waits_for_its_hit() -> None:
    assert not request(BYOYOMI._replace(is_ponder=True)).due.is_set()


def test_ponder_that_missed_is_no_move_of_the_game() -> None:
    asked = request(BYOYOMI._replace(is_ponder=True))
    asked.stop()
    assert not asked.is_pondering
    assert not asked.is_for_play


def test_depth_ends_a_search() -> None:
    asked = request(GoLimits(depth=3))
    asked.note(best=5, depth=2, now=0.1)
    assert not asked.is_over(0.1)
    asked.note(best=5, depth=3, now=0.2)
    assert asked.is_over(0.2)


def test_search_whose_best_move_just_changed_takes_longer() -> None:
    def is_over(changed: float) -> bool:
        asked = request(GoLimits(times=(400_000, 400_000)), move_overhead=0, byoyomi_margin=0)
        asked.note(best=5, depth=1, now=changed)
        return asked.is_over(12.0)

    assert is_over(changed=1.0)  # ten seconds are usual
    assert not is_over(changed=11.0)


def test_nodes_of_go_come_before_those_of_the_option() -> None:
    assert request(GoLimits(nodes=5), nodes=7).node_limit(800) == 5
    assert request(GoLimits(), nodes=7).node_limit(800) == 7
    assert request(BYOYOMI, nodes=7).node_limit(800) == 7


def test_nodes_are_unlimited_where_something_else_ends_the_search() -> None:
    for limits in (BYOYOMI, GoLimits(is_infinite=True), GoLimits(depth=4), BYOYOMI._replace(is_ponder=True)):
        assert request(limits).node_limit(800) == 0
    assert request(GoLimits()).node_limit(800) == 800
    assert request(GoLimits(is_ponder=True)).node_limit(800) == 800
