"""A process that plays chunks of games: told by lines of JSON on its input, answering on its output.

{"game": …, "participants": […], …}     once, the start
{"task": [first, second, chunk, games, seed]}   →   {"counts": […]} or {"error": class, "text": …}
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, TextIO

from senju.descendants import adopt_orphans, end_children

Line = dict[str, Any]


def main() -> None:
    """Serve until the input ends, be it because the parent did."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a player prints must not come between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the arena to handle
    adopt_orphans()
    lines: SimpleQueue[Line] = SimpleQueue()
    # before the slow imports, so that a parent's end is not missed meanwhile
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    for answer in _answers(lines, answers):
        _write(answers, answer)


def _write(answers: TextIO, answer: Line) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _read(lines: "SimpleQueue[Line]") -> None:
    for line in sys.stdin:
        lines.put(json.loads(line))
    end_children()  # of the players' code
    os._exit(0)  # in the middle of a game too: nobody waits for it


def _answers(lines: "SimpleQueue[Line]", answers: TextIO) -> Iterator[Line]:
    start = lines.get()
    import torch

    from senju.errors import SenjuError
    from senju.training.arena.playing import prepare_player_table
    from senju.training.arena.tasks import Task
    from senju.usercode import ending_forked_child

    def described(error: SenjuError) -> Line:
        return {"error": type(error).__name__, "text": str(error)}

    torch.set_num_threads(1)
    players = prepare_player_table(start)
    while True:
        task = Task(*lines.get()["task"])
        try:
            with ending_forked_child(lambda error: _write(answers, described(error))):
                counts = players.play(task)
            yield {"counts": counts}
        except SenjuError as error:
            yield described(error)


if __name__ == "__main__":
    main()
