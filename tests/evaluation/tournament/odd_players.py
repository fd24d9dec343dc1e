"""Players of tic-tac-toe for tests of tournaments: a cycle, a noisy one, one that waits, and bad ones.

It imports nothing of senju or of the tests, so that a copy of this file works anywhere.
"""

import os
import time
from pathlib import Path
from typing import Any

ROCK = (4, 5, 2, 6, 3, 8, 7, 0, 1)  # beats scissors from both seats
SCISSORS = (8, 0, 5, 4, 2, 7, 6, 1, 3)  # beats paper
PAPER = (7, 5, 6, 8, 3, 2, 0, 4, 1)  # beats rock


def _first_free(order: tuple[int, ...], legal: Any) -> int:
    return next(cell for cell in order if legal[cell])


def rock(observation: Any, legal: Any, random: Any) -> int:
    return _first_free(ROCK, legal)


def scissors(observation: Any, legal: Any, random: Any) -> int:
    return _first_free(SCISSORS, legal)


def paper(observation: Any, legal: Any, random: Any) -> int:
    return _first_free(PAPER, legal)


def noisy(observation: Any, legal: Any, random: Any) -> int:
    print('{"counts": [1000, 0, 0, 0, 0]}', flush=True)  # noqa: T201  # as if it were a worker's answer
    return _first_free(PAPER, legal)


def patient(observation: Any, legal: Any, random: Any) -> int:
    """Waits in a process of its own until the file `go` is there, and says that it does."""
    while not Path("go").exists():
        Path(f"waiting-{os.getpid()}").touch()
        time.sleep(0.01)
    return int(random.choice(legal.nonzero()[0]))


def deadly(observation: Any, legal: Any, random: Any) -> int:
    print("goodbye, cruel world", flush=True)  # noqa: T201  # shown when it is gone
    os._exit(3)


def raising(observation: Any, legal: Any, random: Any) -> int:
    raise RuntimeError("no idea")


def cheating(observation: Any, legal: Any, random: Any) -> int:
    return int((~legal).nonzero()[0][0]) if not legal.all() else 99


def interrupting(observation: Any, legal: Any, random: Any) -> int:
    """Presses Ctrl-C once, for the process that the file `arena.pid` names."""
    try:
        Path("interrupted").touch(exist_ok=False)
    except FileExistsError:
        return _first_free(ROCK, legal)
    os.kill(int(Path("arena.pid").read_text()), 2)
    return _first_free(ROCK, legal)
