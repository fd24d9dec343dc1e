"""An agent's learner: it remembers what the agent's copies lived through, and calls its `train_step`."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

from senju.errors import ConfigError, SenjuError, WorkerError
from senju.training.environments.acting import apply_changes, numbers_of, write_acting
from senju.training.environments.block import Block, unbundle
from senju.training.environments.config import RunSettings
from senju.training.environments.contract import agent_name, call_hook, memory_size
from senju.training.environments.copies import described
from senju.training.environments.experience import changes_in, remember
from senju.training.environments.generators import Purpose, generators_alone, set_generators
from senju.training.environments.putting_back import put_into
from senju.training.environments.tasks import Learnt, Lesson
from senju.training.environments.writing_down import write_down
from senju.usercode import passes_on


class Learners:
    """The learners of some or all agents of one world, which is never played."""

    def __init__(self, env: Any, settings: RunSettings, is_alone: bool = True) -> None:
        """`is_alone`: whether lessons keep the process's random generators to themselves."""
        self._env, self._agents = env, env.agents
        self._settings, self._is_alone = settings, is_alone

    def learn(self, lesson: Lesson) -> Learnt:
        """Remember and train, by random numbers of this agent and epoch."""
        began = monotonic()
        agent, options = self._agents[lesson.agent], self._settings.parallel
        with generators_alone(self._is_alone):
            set_generators(options.seed, Purpose.LEARNING, lesson.agent, lesson.epoch)
            try:
                losses = self._learn(agent, lesson)
            except SenjuError:
                raise
            except BaseException as error:  # the user's code may raise anything
                if passes_on(error):
                    raise
                who = agent_name(self._agents, lesson.agent)
                turn = self._settings.experiment.max_turns
                raise WorkerError(
                    f"epoch {lesson.epoch}, after turn {turn}: {who} raised while learning {described(error)}"
                ) from error
        loss = sum(losses) / len(losses) if losses else None
        acting, learnt = write_acting(agent), monotonic()
        state = self.write_state(lesson.agent) if lesson.keeps else None
        ended = monotonic()
        return Learnt(lesson.agent, lesson.epoch, loss, acting, state, began, ended, ended - learnt)

    def _learn(self, agent: Any, lesson: Lesson) -> list[float]:
        losses: list[float] = []
        episodes = unbundle(lesson.experience)
        for number, episode in enumerate(episodes):
            self._remember(agent, lesson, number, episode)
            if lesson.trains and self._settings.parallel.train_after == "episode":
                losses += self._train(agent)
        if lesson.trains and self._settings.parallel.train_after == "epoch":
            losses += self._train(agent)
        if self._settings.epsilon_decay is not None and callable(getattr(agent.model, "epsilon_decay", None)):
            agent.model.epsilon_decay(self._settings.epsilon_decay)
        return losses

    def _remember(self, agent: Any, lesson: Lesson, number: int, episode: Block) -> None:
        model, size = agent.model, memory_size(agent.model.memory)
        call_hook(model, "start_epoch_action", epoch=lesson.epoch)
        if (
            number
            and size
            and not memory_size(model.memory)
            and self._settings.parallel.train_after == "epoch"
        ):
            raise ConfigError(
                f"{agent_name(self._agents, lesson.agent)} empties its memory in start_epoch_action, so that "
                f"it would learn from the last of {self._settings.parallel.copies} copies only; set "
                "parallel.train_after=episode, or parallel.copies=1"
            )
        before = numbers_of(agent)
        remember(agent.add_memory, episode)
        if number == 0:  # as if there were one world: the copies' counts are not added up
            apply_changes(agent, changes_in(episode), before)
        call_hook(model, "end_epoch_action", epoch=lesson.epoch)

    def _train(self, agent: Any) -> list[float]:
        steps = range(self._settings.parallel.train_steps)
        return [loss for _ in steps if (loss := _as_number(agent.model.train_step())) is not None]

    def write_state(self, number: int) -> Block:
        """All that an agent knows: networks, optimizer, memory, numbers."""
        strangers = _strangers(self._env, self._agents, number)
        return write_down(self._agents[number], lambda value: id(value) in strangers)

    def put_state(self, number: int, block: Block) -> None:
        """Make an agent know what another one of the same factory knew."""
        put_into(self._agents[number], block)


def _strangers(env: Any, agents: Sequence[Any], number: int) -> set[int]:
    """What an agent may refer to that is not its own."""
    others = [env, getattr(env, "world", None), *(agent for i, agent in enumerate(agents) if i != number)]
    return {id(other) for other in others if other is not None}


def _as_number(loss: Any) -> float | None:
    """A loss as it may come: a number, an array or tensor of one, a tuple that begins with it, or nothing."""
    if isinstance(loss, (tuple, list)):
        loss = loss[0] if loss else None
    if hasattr(loss, "item"):
        count = loss.numel() if hasattr(loss, "numel") else getattr(loss, "size", 1)
        loss = loss.item() if count == 1 else None
    return float(loss) if isinstance(loss, (int, float)) else None
