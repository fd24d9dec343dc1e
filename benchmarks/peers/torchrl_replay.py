"""TorchRL's buffers, as `replay.py` measures them.

echo '{"batch": 256, "seconds": 1}' | python benchmarks/peers/torchrl_replay.py connect_four uniform
"""

import sys

import torch
from meter import Loop, serve
from replay_content import CAPACITY, CORRECTION, EXPONENT, SIZES, TURN, decisions, errors
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSampler, RandomSampler, TensorDictReplayBuffer

GAME, KIND = sys.argv[1:3]


def make_loop(batch: int) -> Loop:
    """A turn is one batch."""
    found = torch.from_numpy(errors(batch))

    def play(num_turns: int) -> int:
        for _ in range(num_turns):
            if KIND == "add":
                buffer.extend(added)
            else:
                sample = buffer.sample(batch)
                if KIND == "prioritised":
                    buffer.update_priority(sample["index"], found)
        return 0

    return Loop(play, batch)


if __name__ == "__main__":
    torch.set_num_threads(1)
    fields = decisions(SIZES[GAME], TURN, 0)
    added = TensorDict({name: torch.from_numpy(of) for name, of in fields.items()}, batch_size=[TURN])
    sampler = PrioritizedSampler(CAPACITY, EXPONENT, CORRECTION) if KIND == "prioritised" else RandomSampler()
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(CAPACITY), sampler=sampler)
    for _ in range(CAPACITY // TURN):
        buffer.extend(added)
    assert len(buffer) == CAPACITY
    serve(make_loop, ["torchrl", "tensordict", "torch"])
