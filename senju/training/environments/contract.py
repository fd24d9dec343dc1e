"""What a user's world must offer, and calling it whatever its methods accept."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from senju.errors import ConfigError

Agents = Sequence[Any]
_TURN_BY_AGENTS = ("pov", "get_action", "act")  # what a world without take_turn leaves to its agents


def check_world(env: Any) -> Agents:
    """The agents of a world that offers what is needed; otherwise an error that says what is missing."""
    agents = getattr(env, "agents", None)
    if not isinstance(agents, Sequence) or isinstance(agents, str) or not agents:
        raise ConfigError(
            f"the factory returned {_described(env)}, whose `agents` is {agents!r}; expected a world with a "
            "list of at least one agent in `agents`"
        )
    _require(env, "the world", "reset()")
    if not callable(getattr(env, "take_turn", None)):
        _check_turn_by_agents(env, agents)
    for number, agent in enumerate(agents):
        _check_agent(agent, number)
    return agents


def _check_turn_by_agents(env: Any, agents: Agents) -> None:
    """Without `take_turn`, all agents observe and then act in order."""
    if not hasattr(env, "world"):
        raise ConfigError(
            f"{_described(env)} has neither take_turn() nor a `world`; add take_turn(), which lets the world "
            "change and every agent act once"
        )
    for number, agent in enumerate(agents):
        for name in _TURN_BY_AGENTS:
            _require(agent, f"agent {number}", f"{name}()")


def _check_agent(agent: Any, number: int) -> None:
    who = f"agent {number}"
    _require(agent, who, "add_memory(state, action, reward, done)")
    model = getattr(agent, "model", None)
    if model is None:
        raise ConfigError(
            f"{who} ({_described(agent)}) has no `model`; expected one with a memory and train_step()"
        )
    _require(model, f"{who}'s model", "train_step()")
    if not hasattr(model, "memory"):
        raise ConfigError(
            f"{who}'s model ({_described(model)}) has no `memory`; expected what add_memory fills"
        )


def _require(owner: Any, who: str, method: str) -> None:
    name = method.partition("(")[0]
    if not callable(getattr(owner, name, None)):
        raise ConfigError(f"{who} ({_described(owner)}) has no method {name}; expected {method}")


def _described(value: object) -> str:
    return f"an object of class {type(value).__qualname__}"


def agent_name(agents: Agents, number: int) -> str:
    """An agent as messages name it: its number, and its class or the name it has."""
    agent = agents[number]
    name = getattr(agent, "name", None)
    return f"agent {number} ({name if isinstance(name, str) and name else type(agent).__qualname__})"


def call_offering(method: Callable[..., Any], **offered: Any) -> Any:
    """Call a method with those of the offered values that it takes.

    >>> call_offering(lambda: 1, epoch=7), call_offering(lambda number: number, epoch=7)
    (1, 7)
    """
    return offering(method, **offered)()


def offering(method: Callable[..., Any], **offered: Any) -> Callable[[], Any]:
    """The method with those of the offered values that it takes, to be called often."""
    signature = signature_of(method)
    if signature is None:
        return method
    parameters = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return partial(method, **offered)
    named = {parameter.name: offered[parameter.name] for parameter in parameters if parameter.name in offered}
    unnamed = [
        parameter for parameter in parameters if is_required(parameter) and parameter.name not in named
    ]
    left = [value for name, value in offered.items() if name not in named]
    return partial(method, *left[: len(unnamed)], **named)


_signatures: WeakKeyDictionary[Any, inspect.Signature] = WeakKeyDictionary()  # of methods, by function


def signature_of(method: Callable[..., Any]) -> inspect.Signature | None:
    """A method's signature; None where it is written in C."""
    function = getattr(method, "__func__", None)
    if isinstance(function, FunctionType) and function in _signatures:
        return _signatures[function]
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return None
    if isinstance(function, FunctionType):
        _signatures[function] = signature
    return signature


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether a call must give it."""
    positional = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind in positional


def call_hook(owner: Any, name: str, **offered: Any) -> None:
    """Call a method that may be there."""
    method = getattr(owner, name, None)
    if callable(method):
        call_offering(method, **offered)


def is_over(env: Any) -> bool:
    """Whether the world ended before its last turn: it says so, and an end is to be heeded."""
    if hasattr(env, "is_done"):
        return _truth(env.is_done)
    world = getattr(env, "world", None)
    return bool(getattr(env, "stop_if_done", False)) and _truth(getattr(world, "is_done", False))


def _truth(value: Any) -> bool:
    return bool(value() if callable(value) else value)


def memory_size(memory: Any) -> int:
    """How much is in a memory that has a length; otherwise 0."""
    try:
        return len(memory)
    except TypeError:
        return 0


def num_actions(agent: Any) -> int | None:
    """How many actions an agent has, where it says so in one of the usual places."""
    for owner, name in (
        (getattr(agent, "action_spec", None), "n_actions"),
        (agent, "num_actions"),
        (agent, "n_actions"),
        (agent, "action_space"),
        (agent.model, "action_space"),
        (agent.model, "num_actions"),
        (agent.model, "n_actions"),
    ):
        count = _count(getattr(owner, name, None))
        if count is not None:
            return count
    return None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, (list, tuple, range)):
        return len(value) if list(value) == list(range(len(value))) else None
    size = getattr(value, "n", None)  # as spaces of other libraries say it
    return int(size) if isinstance(size, int) else None
