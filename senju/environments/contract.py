"""What a user's world must offer, what its agents must not share, and calling its methods."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import nn

from senju.environments.objects import attributes_of, path_text, walk
from senju.errors import ConfigError

Agents = Sequence[Any]
Key = tuple[str, int]  # "object" or "memory", and its address
_MOST_ITEMS = 64  # of a list or dictionary; the others are not checked


def check_world(env: Any) -> Agents:
    """Check that a world offers what senju needs, and return its agents."""
    agents = getattr(env, "agents", None)
    if not isinstance(agents, Sequence) or isinstance(agents, str) or not agents:
        raise ConfigError(
            f"the factory returned {_described(env)}, whose `agents` is {agents!r}; expected a world with a "
            "list of at least one agent in `agents`"
        )
    _require(env, "the world", "reset()")
    has_turn = callable(getattr(env, "take_turn", None))
    if not has_turn and not hasattr(env, "world"):
        raise ConfigError(
            f"{_described(env)} has neither take_turn() nor a `world`; add take_turn(), which lets the world "
            "change and every agent act once"
        )
    for number, agent in enumerate(agents):
        _check_agent(agent, f"agent {number}", has_turn)
    return agents


def _check_agent(agent: Any, who: str, has_turn: bool) -> None:
    for method in () if has_turn else ("pov()", "get_action()", "act()"):
        _require(agent, who, method)
    _require(agent, who, "add_memory(state, action, reward, done)")
    _require_attribute(agent, who, "model", "expected one with a memory and train_step()")
    _require(agent.model, f"{who}'s model", "train_step()")
    _require_attribute(agent.model, f"{who}'s model", "memory", "expected what add_memory fills")


def _require(owner: Any, who: str, method: str) -> None:
    name = method.partition("(")[0]
    if not callable(getattr(owner, name, None)):
        raise ConfigError(f"{who} ({_described(owner)}) has no method {name}; expected {method}")


def _require_attribute(owner: Any, who: str, name: str, expected: str) -> None:
    if not hasattr(owner, name):
        raise ConfigError(f"{who} ({_described(owner)}) has no `{name}`; {expected}")


def _described(value: object) -> str:
    return f"an object of class {type(value).__qualname__}"


def refuse_sharing(env: Any, other: Any) -> None:
    """Refuse two worlds of one factory whose agents are the same, or have something in common."""
    advice = "make everything new in each call"
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
            name, mine = f"{agent_name(agents, number)} of {which}", owned_objects(agent)
            if shared := next((key for key in mine if key in owners), None):
                raise ConfigError(
                    f"{name} and {owners[shared]} share {mine[shared]}; each agent needs its own, made "
                    "in each call of the factory"
                )
            owners |= dict.fromkeys(mine, name)


def owned_objects(agent: Any) -> dict[Key, str]:
    """The paths of what must be an agent's own: model, memory, optimizers, weights and arrays."""
    model, memory = agent.model, agent.model.memory
    found: dict[Key, str] = {}
    searched = {id(model), id(memory)}  # and the networks in their attributes
    for owner in (model, memory):
        searched |= {id(value) for value in attributes_of(owner).values() if isinstance(value, nn.Module)}

    for path, value, kind, children in walk(agent, "agent"):
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
            children.extend(enumerate(value[:_MOST_ITEMS]))
        elif kind.name == "dict":
            children.extend(islice(value.items(), _MOST_ITEMS))
        else:
            named = {"model": model} if value is agent else {}
            named |= {"memory": memory} if value is model else {}
            children.extend(((attributes_of(value) if id(value) in searched else {}) | named).items())
    return found


def agent_name(agents: Agents, number: int) -> str:
    """An agent's name in messages: its number, and its own name or its class."""
    agent = agents[number]
    name = getattr(agent, "name", None)
    return f"agent {number} ({name if isinstance(name, str) and name else type(agent).__qualname__})"


def with_epoch(method: Callable[..., Any], epoch: int) -> Callable[[], Any]:
    """The method with the epoch bound, if it takes one.

    >>> with_epoch(lambda: 1, 7)(), with_epoch(lambda number: number, 7)()
    (1, 7)
    """
    signature = signature_of(method)
    parameters = signature.parameters.values() if signature is not None else ()
    if any(parameter.kind is parameter.VAR_KEYWORD or parameter.name == "epoch" for parameter in parameters):
        return partial(method, epoch=epoch)
    return partial(method, epoch) if any(map(is_required, parameters)) else method


def signature_of(method: Callable[..., Any]) -> inspect.Signature | None:
    """A method's signature; None where it is written in C."""
    try:
        return inspect.signature(method)
    except (TypeError, ValueError):
        return None


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether a call must pass this parameter."""
    positional = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind in positional


def call_hook(model: Any, name: str, epoch: int) -> None:
    """Call a method of a model, if the model has it."""
    method = getattr(model, name, None)
    if callable(method):
        with_epoch(method, epoch)()


def is_over(env: Any) -> bool:
    """Whether the world has ended the episode before its last turn."""
    if hasattr(env, "is_done"):
        done = env.is_done
    else:
        done = getattr(env, "stop_if_done", False) and getattr(getattr(env, "world", None), "is_done", False)
    return bool(done() if callable(done) else done)


def memory_size(memory: Any) -> int:
    """The length of a memory, or 0 if it has none."""
    try:
        return len(memory)
    except TypeError:
        return 0


def num_actions(agent: Any) -> int | None:
    """How many actions an agent has, if one of the usual attributes says so."""
    spec, model, names = getattr(agent, "action_spec", None), agent.model, ("num_actions", "n_actions")
    values = [
        getattr(spec, "n_actions", None),
        *(getattr(agent, name, None) for name in (*names, "action_space")),
        *(getattr(model, name, None) for name in ("action_space", *names)),
    ]
    return next((count for count in map(_count, values) if count is not None), None)


def _count(value: Any) -> int | None:
    if isinstance(value, (list, tuple, range)):
        return len(value) if list(value) == list(range(len(value))) else None
    size = value if isinstance(value, int) else getattr(value, "n", None)  # `n` as in Gymnasium's Discrete
    return size if isinstance(size, int) and not isinstance(size, bool) else None
