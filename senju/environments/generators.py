"""The random generators of `random`, NumPy and torch, which a user's world and agents draw from.

They are global to the process. So only one episode or lesson at a time uses them, and seeds them from the
copy or agent and the epoch. The result then does not depend on the worker or the time.
"""

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import torch

_has_accelerator = cache(torch.accelerator.is_available)
generators_lock = threading.RLock()  # held by the thread that draws from them


class Purpose(IntEnum):
    """What random numbers are drawn for."""

    LEARNING_WORLD = 0  # making the world whose agents learn
    MAKING = 1  # making the world of an episode
    PLAYING = 2
    LEARNING = 3


def seed_of(seed: int, purpose: Purpose, *numbers: int) -> int:
    """A number of 32 bits for a factory that asks for a seed."""
    return int(np.random.SeedSequence([seed, purpose, *numbers]).generate_state(1)[0])


def set_generators(seed: int, purpose: Purpose, *numbers: int) -> None:
    """Seed the three generators from a seed, a purpose and numbers, such as copy and epoch."""
    words = np.random.SeedSequence([seed, purpose, *numbers]).generate_state(8)
    random.seed(int(words[0]) << 32 | int(words[1]))
    np.random.seed(words[2:6])
    seed_of_torch = int(words[6]) << 31 | int(words[7]) >> 1
    if _has_accelerator():
        torch.manual_seed(seed_of_torch)
    else:  # torch.manual_seed takes a millisecond, to record where it was called
        torch.default_generator.manual_seed(seed_of_torch)


def set_own_generators(generators: Sequence[Any], seed: int, purpose: Purpose, *numbers: int) -> None:
    """Seed each of a world's own generators differently."""
    for index, generator in enumerate(generators, 1):
        sequence = np.random.SeedSequence([seed, purpose, *numbers, index])
        number = int(sequence.generate_state(1, np.uint64)[0]) >> 1
        if isinstance(generator, np.random.Generator):
            bits: Any = generator.bit_generator
            bits.state = type(bits)(sequence).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(sequence.generate_state(4))
        elif isinstance(generator, torch.Generator):
            generator.manual_seed(number)
        else:
            generator.seed(number)


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore the generators of this process at the end."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
