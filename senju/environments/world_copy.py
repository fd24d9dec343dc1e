"""A copy of the world: its agents' calls of `add_memory` are recorded while an episode is played.

The result of an episode follows from (seed, copy, epoch) and from the state that the learners publish: the
networks and numbers of the agents' models, without memory and optimizer. Numbers that acting itself changes,
such as a count of steps or an epsilon that falls with each action, are sent back to the learners.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from senju.environments.config import RunSettings
from senju.environments.contract import (
    Agents,
    agent_name,
    call_hook,
    check_world,
    is_over,
    memory_size,
    num_actions,
    with_epoch,
)
from senju.environments.experience import Changes, Recorder
from senju.environments.generators import Purpose, set_generators, set_own_generators
from senju.environments.objects import STATEFUL, attributes_of
from senju.environments.serialise import restore, serialise
from senju.environments.snapshot import WorldSnapshot
from senju.errors import ConfigError, IllegalActionError, SenjuError, WorkerError
from senju.usercode import must_propagate, refuse_forked_child
from senju.workers.block import Block

PlayedWorld = tuple[list[float], int, list[Block]]  # rewards by agent, turns, experience by agent


class WorldCopy:
    """A world whose agents' calls of `add_memory` are recorded, and whose actions are checked."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._agents: Agents = check_world(env)
        self._where = ""
        self._recorders: list[Recorder] = []
        for number, agent in enumerate(self._agents):
            name = agent_name(self._agents, number)
            recorder = Recorder(agent.add_memory, name)
            self._recorders.append(recorder)
            _replace(agent, "add_memory", recorder, name)
            if callable(getattr(agent, "act", None)):
                _replace(agent, "act", self._checked(agent, name, recorder), name)
        self.snapshot = WorldSnapshot(env)

    def _checked(self, agent: Any, name: str, recorder: Recorder) -> Callable[..., Any]:
        """The agent's `act`, which refuses an action that the agent does not have."""
        act, count = agent.act, num_actions(agent)

        def checked(*given: Any, **named: Any) -> Any:
            action = given[1] if len(given) > 1 else named.get("action")
            if count is not None and not _is_within(action, count):
                raise IllegalActionError(
                    f"{self._where}, turn {recorder.turn}: {name} chose the action {action!r}; expected "
                    f"a whole number from 0 to {count - 1}"
                )
            return act(*given, **named)

        return checked

    def clear_memories(self) -> None:
        """Empty the memories, since this world is used again."""
        for number, agent in enumerate(self._agents):
            if not callable(getattr(agent.model.memory, "clear", None)):
                raise ConfigError(
                    f"{agent_name(self._agents, number)} has a memory without clear(), so its world cannot "
                    "be used again; set parallel.fresh_worlds=true"
                )
            agent.model.memory.clear()

    def play(self, epoch: int, copy: int, acting: Sequence[Block], settings: RunSettings) -> PlayedWorld:
        """Play one episode from its start, with its own random numbers."""
        self._where = f"epoch {epoch}, copy {copy}"
        filled: set[int] = set()
        for agent, block in zip(self._agents, acting, strict=True):
            _, exploration = restore([agent.model, None], block, filled)
            for name, value in exploration.items():
                setattr(agent, name, value)
        self.snapshot.restore_weights(filled)
        key = (settings.parallel.seed, Purpose.PLAYING, copy, epoch)
        set_generators(*key)
        set_own_generators(self.snapshot.generators, *key)
        for recorder in self._recorders:
            recorder.begin()
        with locating_errors(self._locate):
            return self._play(epoch, settings.experiment.max_turns)

    def _play(self, epoch: int, max_turns: int) -> PlayedWorld:
        self._env.reset()
        refuse_forked_child()
        self._refuse_new_agents()
        for agent in self._agents:
            call_hook(agent.model, "start_epoch_action", epoch)
            refuse_forked_child()
        before = [numbers_of(agent) for agent in self._agents]
        num_turns = self._take_turns(epoch, max_turns)
        self._refuse_direct_memory_writes()
        after = [numbers_of(agent) for agent in self._agents]
        for agent in self._agents:
            call_hook(agent.model, "end_epoch_action", epoch)
        parts = zip(self._recorders, before, after, strict=True)
        blocks = [recorder.packed(changes_between(*numbers)) for recorder, *numbers in parts]
        return [recorder.reward for recorder in self._recorders], num_turns, blocks

    def _refuse_new_agents(self) -> None:
        for number, agent in enumerate(self._env.agents):
            if number >= len(self._agents) or agent is not self._agents[number]:
                raise ConfigError(
                    f"reset() put another agent in the place of {agent_name(self._agents, number)}, so that "
                    "what it has learned would be lost; make agents where the world is made, and reset them"
                )

    def _refuse_direct_memory_writes(self) -> None:
        for number, recorder in enumerate(self._recorders):
            if recorder.is_empty and memory_size(self._agents[number].model.memory):
                raise ConfigError(
                    f"{self._where}: {agent_name(self._agents, number)} filled its memory by itself, "
                    "so that its learner would not get it; call add_memory(state, action, reward, done)"
                )

    def _take_turns(self, epoch: int, max_turns: int) -> int:
        take_turn = with_epoch(getattr(self._env, "take_turn", self._take_turn), epoch)
        for turn in range(max_turns):
            for recorder in self._recorders:
                recorder.turn = turn
            take_turn()
            refuse_forked_child()
            if is_over(self._env):
                return turn + 1
        return max_turns

    def _take_turn(self) -> None:
        """The turn of a world without `take_turn`: all observe, all decide, then they act in order."""
        world = self._env.world
        states = [agent.pov(world) for agent in self._agents]
        actions = [agent.get_action(state) for agent, state in zip(self._agents, states, strict=True)]
        for agent, state, action in zip(self._agents, states, actions, strict=True):
            reward = agent.act(world, action)
            done = agent.is_done(world) if hasattr(agent, "is_done") else False
            agent.add_memory(state, action, reward, done)

    def _locate(self, error: BaseException) -> str:
        number = _failing_agent(error, self._agents)
        who = agent_name(self._agents, number) if number is not None else "the world"
        return f"{self._where}, turn {self._recorders[0].turn}: {who} raised"


def write_acting(agent: Any) -> Block:
    """The state that a copy of the agent needs to act."""
    model = agent.model

    def is_of_learning(value: object) -> bool:
        is_owner = value is agent and value is not model  # an agent may be its own model
        return is_owner or value is model.memory or isinstance(value, STATEFUL)

    return serialise([model, _exploration(agent)], is_of_learning)


def _exploration(agent: Any) -> dict[str, float]:
    """The agent's own epsilon, if it has one beside its model's."""
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
    """Apply changes to the learner's numbers, except for those that add_memory has changed already."""
    now = numbers_of(agent)
    for name, change in changes.items():
        if name in now and now[name] == before.get(name):
            owner, attribute = (agent.model, name[6:]) if name.startswith("model.") else (agent, name)
            setattr(owner, attribute, now[name] + change if isinstance(now[name], int) else change)


@contextmanager
def locating_errors(locate: Callable[[BaseException], str], unchanged: Any = SenjuError) -> Iterator[None]:
    """Raise the user's errors as a WorkerError that says where, except those of the classes `unchanged`."""
    try:
        yield
    except unchanged:
        raise
    except BaseException as error:  # the user's code may raise anything
        if must_propagate(error):
            raise
        frames = "".join(traceback.format_tb(error.__traceback__)[-4:])
        what = f"{type(error).__name__}: {error}\n{frames}".rstrip()
        raise WorkerError(f"{locate(error)} {what}") from error


def _failing_agent(error: BaseException, agents: Agents) -> int | None:
    """The index of the agent whose code, or whose model's code, raised an error."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        for number, agent in enumerate(agents):
            if owner is not None and (owner is agent or owner is agent.model or owner is agent.model.memory):
                found = number
    return found


def _replace(agent: Any, name: str, method: Callable[..., Any], who: str) -> None:
    try:
        setattr(agent, name, method)
    except AttributeError:
        raise ConfigError(
            f"{who}: its method {name} cannot be replaced, so senju cannot record or check its calls; remove "
            "__slots__ from its class"
        ) from None


def _is_within(action: Any, count: int) -> bool:
    """Whether an action is from 0 to `count` - 1; actions that are not single numbers are not checked."""
    if type(action) is int:
        return 0 <= action < count
    if hasattr(action, "numel") or isinstance(action, np.ndarray):
        if np.prod(action.shape) != 1:
            return True
        action = action.item()
    if isinstance(action, (int, float, np.integer, np.floating)):
        return bool(0 <= action < count and action == int(action))
    return True
