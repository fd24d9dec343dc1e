"""Nothing may be shared: not between agents, nor between two worlds that a factory made."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from senju.errors import ConfigError
from senju.training.environments.contract import Agents, agent_name
from senju.training.environments.writing_down import attributes

Key = tuple[str, int]  # a kind of thing, and where it lies in memory
_MOST_ITEMS = 64  # of a list or dictionary that are looked at


def refuse_sharing(env: Any, other: Any) -> None:
    """Refuse two worlds of one factory that are, or share, what belongs to one of them alone."""
    advice = "make everything anew in each call"
    if env is other:
        raise ConfigError(f"the factory returned the same world twice; {advice}")
    if getattr(env, "world", None) is not None and getattr(other, "world", None) is env.world:
        raise ConfigError(f"the factory put the same `world` into two of its worlds; {advice}")
    if len(env.agents) != len(other.agents):
        raise ConfigError(
            f"the factory made {len(env.agents)} agents and then {len(other.agents)}; every world must "
            "have the same agents"
        )
    owners: dict[Key, str] = {}
    for which, agents in (("one world", env.agents), ("another world", other.agents)):
        for number in range(len(agents)):
            _note(owners, agents, number, which)


def _note(owners: dict[Key, str], agents: Agents, number: int, which: str) -> None:
    name, mine = agent_name(agents, number), set()
    for key, what in _belongings(agents[number]):
        if key in owners and key not in mine:
            raise ConfigError(
                f"{name} of {which} and {owners[key]} share {what}; each agent needs its own, made anew in "
                "each call of the factory"
            )
        owners.setdefault(key, f"{name} of {which}")
        mine.add(key)


def _belongings(agent: Any) -> Iterator[tuple[Key, str]]:
    """What must be an agent's own: itself, its model, memory and optimizers, and the numbers in them."""
    yield ("object", id(agent)), "the agent itself"
    model = agent.model
    yield ("object", id(model)), "the model"
    yield from _contents(model, "the model", depth=2)
    if model.memory is not None:
        yield ("object", id(model.memory)), "the memory"
        yield from _contents(model.memory, "the memory", depth=2)


def _contents(value: Any, what: str, depth: int) -> Iterator[tuple[Key, str]]:
    if isinstance(value, nn.Module):
        for name, tensor in value.state_dict(keep_vars=True).items():
            yield from _tensor(tensor, f"the network's weights ({name})")
    if isinstance(value, torch.optim.Optimizer):
        yield ("object", id(value)), "the optimizer"
    elif isinstance(value, np.ndarray):
        if value.size and value.flags.writeable:
            yield ("memory", value.__array_interface__["data"][0]), f"an array of {what}"
    elif isinstance(value, (list, tuple, dict)):
        for item in list(value.values() if isinstance(value, dict) else value)[:_MOST_ITEMS]:
            yield from _contents(item, what, 0)
    elif depth:
        for _, item in attributes(value):
            if isinstance(item, (nn.Module, torch.optim.Optimizer, np.ndarray, list, tuple, dict)):
                yield from _contents(item, what, depth - 1)


def _tensor(tensor: Tensor, what: str) -> Iterator[tuple[Key, str]]:
    if tensor.numel():
        yield ("memory", tensor.untyped_storage().data_ptr()), what
