"""Playing one epoch of one copy of the world: the result follows from (seed, copy, epoch) and the weights."""

import logging
import traceback
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np

from senju.errors import ConfigError, IllegalActionError, SenjuError, WorkerError
from senju.training.environments.acting import changes_between, numbers_of, put_acting
from senju.training.environments.config import RunSettings, WorldConfig
from senju.training.environments.contract import (
    Agents,
    agent_name,
    call_hook,
    check_world,
    is_over,
    memory_size,
    num_actions,
    offering,
)
from senju.training.environments.experience import Recorder
from senju.training.environments.factory import WorldFactory
from senju.training.environments.generators import (
    Purpose,
    generators_alone,
    seed_of,
    set_generators,
    set_own_generators,
)
from senju.training.environments.snapshot import Snapshot
from senju.training.environments.tasks import Episode, Played
from senju.usercode import passes_on, refuse_forked_child

logger = logging.getLogger(__name__)


_MOST_KEPT_BYTES = 64 * 2**20  # of arrays in the worlds that a player keeps; past that, making is no slower


class Player:
    """Plays episodes in worlds that it makes itself."""

    def __init__(self, factory: WorldFactory, config: WorldConfig, settings: RunSettings) -> None:
        self._factory, self._config, self._settings = factory, config, settings
        self._kept: dict[int, _Copy] = {}
        self._keeps = True

    def play(self, episode: Episode) -> Played:
        """Play it; the process's random generators are this episode's meanwhile."""
        began = monotonic()
        with generators_alone():
            copy = self._copy(episode)
            return copy.play(episode, self._settings, began)

    def _copy(self, episode: Episode) -> "_Copy":
        """A world as the factory makes it; whether it has been played before does not show."""
        number = episode.copy if self._factory.tells_copies_apart else 0
        kept = self._kept.pop(number, None)
        if self._keeps and (kept is None or not self._renew(kept)):
            kept = self._new_copy(number)
        if kept is None or not self._keeps:
            return self._new_copy(episode.copy, episode.epoch)
        self._kept[number] = kept
        return kept

    def _renew(self, copy: "_Copy") -> bool:
        if self._settings.parallel.fresh_worlds:
            return copy.snapshot.restore()
        copy.forget()
        return True

    def _new_copy(self, *numbers: int) -> "_Copy":
        seed = self._settings.parallel.seed
        set_generators(seed, Purpose.MAKING, *numbers)
        try:
            made = self._factory.make(
                self._config.copy(), seed_of(seed, Purpose.MAKING, *numbers), numbers[0]
            )
        except Exception:
            raise
        except BaseException as error:  # it would end this process, and without a word
            if passes_on(error):
                raise
            raise WorkerError(f"making copy {numbers[0]} of the world raised {described(error)}") from error
        copy = _Copy(made)
        if not self._keeps:
            return copy
        if self._settings.parallel.fresh_worlds:
            self._keeps = self._can_keep(copy.snapshot)
            if self._keeps:
                copy.snapshot.take()
        self._renew(copy)  # refuses what cannot forget before it has played
        return copy

    def _can_keep(self, snapshot: Snapshot) -> bool:
        num_worlds = self._settings.parallel.copies if self._factory.tells_copies_apart else 1
        reason = f"has a {snapshot.obstacle}, which cannot be put back" if snapshot.obstacle else ""
        if num_worlds * snapshot.num_bytes > _MOST_KEPT_BYTES:
            reason = f"holds {snapshot.num_bytes:,} bytes of arrays"
        if reason:
            logger.info("the world %s; it is made anew for each episode", reason)
        return not reason


class _Copy:
    """A world whose agents' memories and actions are looked at on their way."""

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
        self.snapshot = Snapshot(env)

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

    def forget(self) -> None:
        """Empty the memories, since this world is used again."""
        for number, agent in enumerate(self._agents):
            if not callable(getattr(agent.model.memory, "clear", None)):
                raise ConfigError(
                    f"{agent_name(self._agents, number)} has a memory without clear(), so its world cannot "
                    "be used again; set parallel.fresh_worlds=true"
                )
            agent.model.memory.clear()

    def play(self, episode: Episode, settings: RunSettings, began: float) -> Played:
        """Play one episode from its start, by random numbers of its own."""
        self._where = f"epoch {episode.epoch}, copy {episode.copy}"
        filled: set[int] = set()
        for agent, published in zip(self._agents, episode.acting, strict=True):
            put_acting(agent, published.block, filled)
        self.snapshot.restore_weights(filled)
        by = (settings.parallel.seed, Purpose.PLAYING, episode.copy, episode.epoch)
        set_generators(*by)
        set_own_generators(self.snapshot.generators, *by)
        try:
            num_turns, blocks = self._play(episode.epoch, settings.experiment.max_turns)
        except SenjuError:
            raise
        except BaseException as error:  # the user's code may raise anything
            if passes_on(error):
                raise
            raise self._located(error) from error
        rewards = tuple(recorder.reward for recorder in self._recorders)
        return Played(episode.copy, episode.epoch, blocks, rewards, num_turns, began, monotonic())

    def _play(self, epoch: int, max_turns: int) -> tuple[int, Any]:
        for recorder in self._recorders:
            recorder.begin()
        self._env.reset()
        refuse_forked_child()
        self._refuse_new_agents()
        for agent in self._agents:
            call_hook(agent.model, "start_epoch_action", epoch=epoch)
            refuse_forked_child()
        before = [numbers_of(agent) for agent in self._agents]
        num_turns = self._take_turns(epoch, max_turns)
        self._refuse_other_ways_to_remember()
        after = [numbers_of(agent) for agent in self._agents]
        changes = [changes_between(*numbers) for numbers in zip(before, after, strict=True)]
        for agent in self._agents:
            call_hook(agent.model, "end_epoch_action", epoch=epoch)
        parts = zip(self._recorders, changes, strict=True)
        return num_turns, tuple(recorder.packed(change) for recorder, change in parts)

    def _refuse_new_agents(self) -> None:
        for number, agent in enumerate(self._env.agents):
            if number >= len(self._agents) or agent is not self._agents[number]:
                raise ConfigError(
                    f"reset() put another agent in the place of {agent_name(self._agents, number)}, so that "
                    "what it has learned would be lost; make agents where the world is made, and reset them"
                )

    def _refuse_other_ways_to_remember(self) -> None:
        for number, recorder in enumerate(self._recorders):
            if recorder.is_empty and memory_size(self._agents[number].model.memory):
                raise ConfigError(
                    f"{self._where}: {agent_name(self._agents, number)} filled its memory by itself, "
                    "so that its learner would not get it; call add_memory(state, action, reward, done)"
                )

    def _take_turns(self, epoch: int, max_turns: int) -> int:
        take_turn = offering(getattr(self._env, "take_turn", self._take_turn), epoch=epoch)
        for turn in range(max_turns):
            for recorder in self._recorders:
                recorder.turn = turn
            take_turn()
            refuse_forked_child()
            if is_over(self._env):
                return turn + 1
        return max_turns

    def _take_turn(self) -> None:
        """The turn of a world that has none of its own: all observe, all decide, then they act in order."""
        world = self._env.world
        states = [agent.pov(world) for agent in self._agents]
        actions = [agent.get_action(state) for agent, state in zip(self._agents, states, strict=True)]
        for agent, state, action in zip(self._agents, states, actions, strict=True):
            reward = agent.act(world, action)
            done = agent.is_done(world) if hasattr(agent, "is_done") else False
            agent.add_memory(state, action, reward, done)

    def _located(self, error: BaseException) -> WorkerError:
        """An error of the user's code, with agent, turn and epoch."""
        number = _whose(error, self._agents)
        who = f"{agent_name(self._agents, number)} raised" if number is not None else "the world raised"
        turn = self._recorders[0].turn
        return WorkerError(f"{self._where}, turn {turn}: {who} {described(error)}")


def described(error: BaseException) -> str:
    """What was raised, and where in the user's code."""
    frames = traceback.format_tb(error.__traceback__)
    return f"{type(error).__name__}: {error}\n{''.join(frames[-4:])}".rstrip()


def _whose(error: BaseException, agents: Agents) -> int | None:
    """The agent in whose code, or in whose model's, an error was raised."""
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
            f"{who} does not let its method {name} be replaced, so nobody can see what it does; take "
            "__slots__ out of its class"
        ) from None


def _is_within(action: Any, count: int) -> bool:
    """Whether an action is one of so many; what is no single number is the agent's own affair."""
    if type(action) is int:
        return 0 <= action < count
    if hasattr(action, "numel") or isinstance(action, np.ndarray):
        if np.prod(action.shape) != 1:
            return True
        action = action.item()
    if isinstance(action, (int, float, np.integer, np.floating)):
        return bool(0 <= action < count and action == int(action))
    return True
