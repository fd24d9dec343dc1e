"""What an agent acts by: the networks and numbers of its model, without memory and optimizer.

The learner publishes it to the agent's acting copies. Numbers that acting itself changes, such as a count of
steps or an epsilon that falls with each action, go the other way.
"""

from typing import Any

from senju.environments.experience import Changes
from senju.environments.objects import STATEFUL, attributes_of
from senju.environments.serialise import restore, serialise
from senju.workers.block import Block


def write_acting(agent: Any) -> Block:
    """What a copy of the agent needs to act."""
    model = agent.model

    def is_of_learning(value: object) -> bool:
        is_owner = value is agent and value is not model  # an agent may be its own model
        return is_owner or value is model.memory or isinstance(value, STATEFUL)

    return serialise([model, _exploration(agent)], is_of_learning)


def put_acting(agent: Any, block: Block, filled: set[int]) -> None:
    """Fill an acting copy of an agent; the addresses of its weights are added to `filled`."""
    _, exploration = restore([agent.model, None], block, filled)
    for name, value in exploration.items():
        setattr(agent, name, value)


def _exploration(agent: Any) -> dict[str, float]:
    """Epsilon, where the agent and not its model has it."""
    return {name: value for name, value in _numbers(agent).items() if "epsilon" in name}


def _numbers(owner: Any) -> dict[str, float]:
    return {name: value for name, value in attributes_of(owner).items() if type(value) in (int, float)}


def numbers_of(agent: Any) -> dict[str, float]:
    """The plain numbers of an agent's model, and its own epsilon."""
    return {f"model.{name}": value for name, value in _numbers(agent.model).items()} | _exploration(agent)


def changes_between(before: dict[str, float], after: dict[str, float]) -> Changes:
    """What acting changed: the growth of whole numbers, the new value of others."""
    return {
        name: value - before[name] if isinstance(value, int) else value
        for name, value in after.items()
        if name in before and before[name] != value
    }


def apply_changes(agent: Any, changes: Changes, before: dict[str, float]) -> None:
    """Apply them to the learner's numbers, except for those that add_memory has changed already."""
    now = numbers_of(agent)
    for name, change in changes.items():
        if name in now and now[name] == before.get(name):
            owner, attribute = (agent.model, name[6:]) if name.startswith("model.") else (agent, name)
            setattr(owner, attribute, now[name] + change if isinstance(now[name], int) else change)
