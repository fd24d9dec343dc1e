"""What an agent acts by: the networks and numbers of its model, without memory and optimizer.

The learner writes it down, and each acting copy of that agent gets it; nobody else does. Numbers that
acting itself changes, such as a count of steps or an epsilon that falls with each action, go the other way.
"""

from typing import Any

from torch import nn

from senju.training.environments.block import Block
from senju.training.environments.experience import Changes
from senju.training.environments.putting_back import put_into
from senju.training.environments.writing_down import HAVE_STATE, attributes, own_attributes, write_down


def write_acting(agent: Any) -> Block:
    """What a copy of the agent needs to act."""
    model = agent.model

    def is_of_learning(value: object) -> bool:
        is_owner = value is agent and value is not model  # an agent may be its own model
        return is_owner or value is model.memory or isinstance(value, HAVE_STATE)

    return write_down([model, _exploration(agent)], is_of_learning)


def put_acting(agent: Any, block: Block, filled: set[int]) -> None:
    """Let a copy of an agent act by what was published; `filled` gets the addresses of its weights."""
    _, exploration = put_into([agent.model, None], block, filled)
    for name, value in exploration.items():
        setattr(agent, name, value)


def _exploration(agent: Any) -> dict[str, float]:
    """Epsilon, where the agent and not its model has it."""
    return {name: value for name, value in attributes(agent) if "epsilon" in name and _is_number(value)}


def numbers_of(agent: Any) -> dict[str, float]:
    """The plain numbers of an agent's model, and its own epsilon."""
    model = agent.model
    items = own_attributes(model) if isinstance(model, nn.Module) else attributes(model)
    numbers = {f"model.{name}": value for name, value in items if _is_number(value)}
    return numbers | _exploration(agent)


def changes_between(before: dict[str, float], after: dict[str, float]) -> Changes:
    """What acting did to them: how much whole numbers grew, and what others are now."""
    changed = {name: value for name, value in after.items() if name in before and before[name] != value}
    return {
        name: value - before[name] if isinstance(value, int) else value for name, value in changed.items()
    }


def apply_changes(agent: Any, changes: Changes, before: dict[str, float]) -> None:
    """Do to the learner's numbers what acting did, but for those that remembering has changed already."""
    now = numbers_of(agent)
    for name, change in changes.items():
        if name in now and now[name] == before.get(name):
            owner, attribute = (agent.model, name[6:]) if name.startswith("model.") else (agent, name)
            setattr(owner, attribute, now[name] + change if isinstance(now[name], int) else change)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)
