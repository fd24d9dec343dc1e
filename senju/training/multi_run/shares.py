"""Cores and devices for each of several agents."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from senju.errors import ConfigError
from senju.machine import available_cores

Cores = tuple[int, ...]


def usable_cores() -> Cores:
    """The numbers of the cores that this process may use, no more than a container's quota allows."""
    if not hasattr(os, "sched_getaffinity"):
        return tuple(range(available_cores()))
    return tuple(sorted(os.sched_getaffinity(0))[: available_cores()])


def share_out(cores: Sequence[int], num_agents: int) -> list[Cores]:
    """Cores for each agent: separate and nearly equal shares, or one core each in turn if there are too few.

    >>> share_out([0, 1, 2, 3, 4], 2)
    [(0, 1), (2, 3, 4)]
    >>> share_out([0, 1], 3)
    [(0,), (1,), (0,)]
    """
    if len(cores) < num_agents:
        return [(cores[index % len(cores)],) for index in range(num_agents)]
    if not num_agents:
        return []
    edges = [index * len(cores) // num_agents for index in range(num_agents + 1)]
    return [tuple(cores[begin:end]) for begin, end in pairwise(edges)]


def deal_out(devices: Sequence[str], num_agents: int) -> list[str]:
    """A device for each agent, in turn.

    >>> deal_out(["cuda:0", "cuda:1"], 3)
    ['cuda:0', 'cuda:1', 'cuda:0']
    """
    if len(devices) > num_agents:
        raise ConfigError(
            f"{len(devices)} devices for {num_agents} agent{'s' * (num_agents > 1)}: some would have nothing "
            f"to do; name at most {num_agents}, or train more agents"
        )
    return [devices[index % len(devices)] for index in range(num_agents)]


def parse_devices(text: str) -> list[str]:
    """Devices separated by commas.

    >>> parse_devices("cuda:0, cuda:1")
    ['cuda:0', 'cuda:1']
    """
    devices = [device.strip() for device in text.split(",")]
    if not all(devices):
        raise ConfigError(f"devices={text!r}: expected names with commas between them, like cuda:0,cuda:1")
    return devices


@contextmanager
def on_cores(cores: Cores) -> Iterator[None]:
    """Restrict this thread, and the processes it starts meanwhile, to these cores, if the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
