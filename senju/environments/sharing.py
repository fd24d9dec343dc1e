"""Agents share nothing: neither within a world, nor between two worlds that a factory made."""

from itertools import islice
from typing import Any

import torch
from torch import nn

from senju.environments.contract import agent_name
from senju.environments.objects import ObjectKind, Path, References, attributes_of, path_text, walk
from senju.errors import ConfigError

Key = tuple[str, int]  # "object" or "memory", and its address
_MOST_ITEMS = 64  # that are checked of a list or dictionary


def refuse_sharing(env: Any, other: Any) -> None:
    """Refuse two worlds of one factory whose agents are the same, or have something in common."""
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
        for number, agent in enumerate(agents):
            name, mine = f"{agent_name(agents, number)} of {which}", belongings(agent)
            if shared := next((key for key in mine if key in owners), None):
                raise ConfigError(
                    f"{name} and {owners[shared]} share {mine[shared]}; each agent needs its own, made anew "
                    "in each call of the factory"
                )
            owners |= dict.fromkeys(mine, name)


def belongings(agent: Any) -> dict[Key, str]:
    """The paths of what must be an agent's own: model, memory, optimizers, weights and arrays."""
    model, memory = agent.model, agent.model.memory
    found: dict[Key, str] = {}
    searched = {id(model), id(memory)}  # and the networks in their attributes
    for owner in (model, memory):
        searched |= {id(value) for value in attributes_of(owner).values() if isinstance(value, nn.Module)}

    def visit(path: Path, value: Any, kind: ObjectKind) -> References:
        text = path_text(path)
        if value is agent or value is model or value is memory or isinstance(value, torch.optim.Optimizer):
            found.setdefault(("object", id(value)), text)
        if kind.name == "module":
            for name, tensor in value.state_dict(keep_vars=True).items():
                if tensor.numel():
                    found.setdefault(("memory", tensor.untyped_storage().data_ptr()), f"{text}.{name}")
        if kind.name == "array" and value.size and value.flags.writeable:
            found.setdefault(("memory", value.__array_interface__["data"][0]), text)
        if kind.name in ("list", "tuple"):
            return enumerate(value[:_MOST_ITEMS])
        if kind.name == "dict":
            return islice(value.items(), _MOST_ITEMS)
        named = {"model": model} if value is agent else {}
        named |= {"memory": memory} if value is model else {}
        return ((attributes_of(value) if id(value) in searched else {}) | named).items()

    walk(agent, "agent", visit)
    return found
