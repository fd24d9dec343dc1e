"""How every candidate of `game_kernels.py` is measured: the same clock and the same lines of JSON.

A candidate is a process of its own, so that the caller can ask all of them in turn:

    out  {"versions": {"pgx": "2.6.0"}}                          once, when it is ready
    in   {"batch": 64, "seconds": 1.0}                           then one line for each measure
    out  {"batch": 64, "steps": 9, "seconds": 1.1, "games": 2, "other_cores": 0.0}

`other_cores` is how many cores other processes kept busy meanwhile: see `other_load.py`.

The first measure of a batch compiles, warms up and finds how many turns fill the time; only
then does the clock run. It ends when standard input does. No package but the standard library.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import NamedTuple

from other_load import OtherLoad


class Loop(NamedTuple):
    """A game loop that continues where it stopped."""

    play: Callable[[int], int]  # play so many turns, return how many games ended
    steps_per_turn: int  # one step is one move in one game


class _Measured(NamedTuple):
    steps: int
    seconds: float
    games: int
    other_cores: float | None


def _measure(loop: Loop, num_turns: int) -> _Measured:
    others, start = OtherLoad(), time.perf_counter()
    games = loop.play(num_turns)
    seconds = time.perf_counter() - start
    return _Measured(num_turns * loop.steps_per_turn, seconds, games, others.cores())


def _turns_that_fill(loop: Loop, seconds: float) -> int:
    loop.play(2)  # compiles
    num_turns = 1
    # the speed of a quarter is a good enough estimate for the whole
    while (measured := _measure(loop, num_turns)).seconds < seconds / 4:
        num_turns *= 2
    return math.ceil(num_turns * seconds / measured.seconds)


def serve(make_loop: Callable[[int], Loop], packages: Iterable[str]) -> None:
    """Answer measures until standard input ends; `make_loop` gets the batch size."""
    print(json.dumps({"versions": {name: metadata.version(name) for name in packages}}), flush=True)
    loops: dict[int, Loop] = {}
    turns: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        batch, seconds = int(request["batch"]), float(request["seconds"])
        if batch not in loops:
            loops[batch] = make_loop(batch)
            turns[batch] = _turns_that_fill(loops[batch], seconds)
        measured = _measure(loops[batch], turns[batch])
        print(json.dumps({"batch": batch, **measured._asdict()}), flush=True)
