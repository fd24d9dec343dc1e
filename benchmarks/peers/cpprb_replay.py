"""cpprb's buffers, as `replay.py` measures them.

echo '{"batch": 256, "seconds": 1}' | python benchmarks/peers/cpprb_replay.py connect_four uniform
"""

import sys

from cpprb import PrioritizedReplayBuffer, ReplayBuffer
from meter import Loop, serve
from replay_content import CAPACITY, CORRECTION, EXPONENT, SIZES, TURN, decisions, errors

GAME, KIND = sys.argv[1:3]


def make_loop(batch: int) -> Loop:
    """A turn is one batch."""
    found = errors(batch)

    def play(num_turns: int) -> int:
        for _ in range(num_turns):
            if KIND == "add":
                buffer.add(**added)
            elif KIND == "prioritised":
                sample = buffer.sample(batch, beta=CORRECTION)
                buffer.update_priorities(sample["indexes"], found)
            else:
                buffer.sample(batch)
        return 0

    return Loop(play, batch)


if __name__ == "__main__":
    added = decisions(SIZES[GAME], TURN, 0)
    fields = {name: {"shape": of.shape[1:] or (1,), "dtype": of.dtype} for name, of in added.items()}
    if KIND == "prioritised":
        buffer = PrioritizedReplayBuffer(CAPACITY, fields, alpha=EXPONENT)
    else:
        buffer = ReplayBuffer(CAPACITY, fields)
    for _ in range(CAPACITY // TURN):
        buffer.add(**added)
    assert buffer.get_stored_size() == CAPACITY
    serve(make_loop, ["cpprb", "numpy"])
