"""The role of learners. In a lesson, an agent adds an epoch's experience to its memory and trains."""

import gc
import math
from collections.abc import Sequence
from contextlib import nullcontext
from time import monotonic
from typing import Any, NamedTuple

from senju.algorithms.optimising import load_optimizers
from senju.environments.config import RunSettings
from senju.environments.contract import agent_name, call_hook, memory_size
from senju.environments.episodes import PlayedEpisode
from senju.environments.experience import ExperienceFile, Region, read_block, remember
from senju.environments.factory import WorldSource
from senju.environments.generators import Purpose, generators_lock, set_generators
from senju.environments.runners import WorldRole
from senju.environments.serialise import restore, serialise
from senju.environments.world_copy import apply_changes, locating_errors, numbers_of, write_acting
from senju.errors import ConfigError
from senju.workers.block import Block
from senju.workers.role import Handler, Payload, Start
from senju.workers.tasks import Assignment

preload = load_optimizers  # called by the fork server
_SAVE_INTERVAL, _LONGEST_INTERVAL = 10, 100  # lessons between two saved states of an agent
_SAVE_SHARE = 0.05  # of a learner's time that saving may take; agents are saved less often to keep to it


class LessonTask(NamedTuple):
    """Add an epoch's episodes to an agent's memory, and train it."""

    agent: int
    epoch: int
    is_last: bool  # of the run
    episodes: list[PlayedEpisode]  # by copy

    def __str__(self) -> str:
        return f"agent {self.agent} in epoch {self.epoch}"


class LessonResult(NamedTuple):
    """The result of a lesson."""

    loss: float | None
    acting: Block


class _Saved:
    """An agent's last serialised state, and the lessons since."""

    def __init__(self, state: Block) -> None:
        self.state, self.interval = state, _SAVE_INTERVAL
        self.lessons: list[LessonTask] = []
        self.sent_to: Any = None  # the worker that has the current lesson
        self.holder: Any = None  # the worker whose agent has had these lessons


class LessonRole(WorldRole):
    """Trains agents. A learner keeps the agents that it has trained.

    Where learners are processes, this role keeps each agent's last serialised state and the lessons since.
    A learner that does not have an agent gets both, and repeats the lessons with the same random numbers.
    """

    worker_name = "learner"
    activity = "learning"
    repeats = "The agent is restored and trained again, exactly."
    new_handler = "senju.environments.lessons:new_handler"

    @staticmethod
    def prefer(task: LessonTask, workers: Sequence[int]) -> int:
        """An agent stays with its learner."""
        return workers[task.agent % len(workers)]

    def __init__(self, source: WorldSource, experience: ExperienceFile, env: Any) -> None:
        """`env` is the world whose agents learn."""
        super().__init__(source, experience)
        self._env = env
        self._saved: list[_Saved] = []  # by agent; empty if this process trains

    def save_agents(self) -> None:
        """Save the agents as they are now: processes train them from here."""
        self._saved = [_Saved(serialise_agent(self._env, agent)) for agent in range(len(self._env.agents))]

    def local_handler(self, start: Start) -> "LessonHandler":
        """The handler of a thread, which trains the agents of this process."""
        return LessonHandler(self._env, self.source.settings, self.experience.descriptor)

    def task_payload(self, task: Assignment, worker: dict[str, Any]) -> Payload:
        """The lesson and, for a learner without this agent, its state and the lessons since."""
        lesson: LessonTask = task.task
        lessons, blocks, saves = [lesson], list[Block](), False
        if self._saved:
            saved = self._saved[lesson.agent]
            saves = lesson.is_last or len(saved.lessons) + 1 >= saved.interval
            if saved.holder is not worker:
                blocks, lessons = [saved.state], [*saved.lessons, lesson]
            saved.holder, saved.sent_to = None, worker
        described = [
            (each.epoch, [episode.experience[lesson.agent] for episode in each.episodes]) for each in lessons
        ]
        return Payload([lesson.agent, described, saves], blocks)

    def _read(self, task: LessonTask, payload: Payload) -> LessonResult:
        loss, learning_seconds, saving_seconds = payload.values
        acting, *states = payload.blocks
        if self._saved:
            saved = self._saved[task.agent]
            saved.holder = saved.sent_to
            saved.lessons.append(task)
        if states:
            saved.state, saved.lessons = states[0], []
            saved.interval = save_interval(learning_seconds, saving_seconds)
        return LessonResult(loss, acting)

    def restore_agents(self) -> None:
        """Copy the state that learner processes saved last into the agents of this process."""
        for agent, saved in zip(self._env.agents, self._saved, strict=False):
            restore(agent, saved.state)


def save_interval(learning_seconds: float, saving_seconds: float) -> int:
    """Lessons until an agent's state is saved again."""
    lessons = math.ceil(saving_seconds / (_SAVE_SHARE * max(learning_seconds, 1e-6)))
    return min(max(lessons, _SAVE_INTERVAL), _LONGEST_INTERVAL)


def serialise_agent(env: Any, number: int) -> Block:
    """All that an agent knows: networks, optimizer, memory, numbers; not the world nor other agents."""
    agent = env.agents[number]
    others = {id(other) for other in (env, getattr(env, "world", None), *env.agents) if other is not None}
    return serialise(agent, lambda value: id(value) in others and value is not agent)


class LessonHandler(Handler):
    """Trains the agents of one world, which is never played."""

    def __init__(self, env: Any, settings: RunSettings, descriptor: int) -> None:
        self._env, self._agents = env, env.agents
        self._settings, self._options, self._descriptor = settings, settings.parallel, descriptor

    def execute(self, task: Payload) -> Payload:
        """Restore an agent if its state came along, and execute its lessons; the last one is new."""
        number, lessons, saves = task.values
        for state in task.blocks:
            restore(self._agents[number], state)
        for epoch, experience in lessons:
            began = monotonic()
            losses = self._learn(number, epoch, experience)
        loss = sum(losses) / len(losses) if losses else None
        blocks, ended = [write_acting(self._agents[number])], monotonic()
        if saves:
            blocks.append(serialise_agent(self._env, number))
        return Payload([loss, ended - began, monotonic() - ended], blocks)

    def _learn(self, number: int, epoch: int, experience: Sequence[Region]) -> list[float]:
        """Fill the memory and train, with the random numbers of this agent and epoch."""
        model, losses = self._agents[number].model, list[float]()
        options, decay = self._options, self._settings.epsilon_decay
        trains = (epoch + 1) % options.train_interval == 0
        where = f"epoch {epoch}, after turn {self._settings.experiment.max_turns}"
        who = agent_name(self._agents, number)
        with (
            nullcontext() if options.async_learning else generators_lock,
            locating_errors(lambda _: f"{where}: {who} raised while learning"),
        ):
            set_generators(options.seed, Purpose.LEARNING, number, epoch)
            for copy, region in enumerate(experience):
                self._remember(number, epoch, copy, read_block(self._descriptor, *region))
                if trains and options.train_after == "episode":
                    losses += self._train(model)
            if trains and options.train_after == "epoch":
                losses += self._train(model)
            if decay is not None and callable(getattr(model, "epsilon_decay", None)):
                model.epsilon_decay(decay)
        return losses

    def _remember(self, number: int, epoch: int, copy: int, episode: Block) -> None:
        agent = self._agents[number]
        model, size = agent.model, memory_size(agent.model.memory)
        call_hook(model, "start_epoch_action", epoch)
        is_emptied = size and not memory_size(model.memory)
        if copy and is_emptied and self._options.train_after == "epoch":
            raise ConfigError(
                f"{agent_name(self._agents, number)} empties its memory in start_epoch_action, so that "
                f"it would learn from the last of {self._options.copies} copies only; set "
                "parallel.train_after=episode, or parallel.copies=1"
            )
        before = numbers_of(agent)
        changes = remember(agent.add_memory, episode)
        if copy == 0:  # as if there were one world: the copies' counts are not added up
            apply_changes(agent, changes, before)
        call_hook(model, "end_epoch_action", epoch)

    def _train(self, model: Any) -> list[float]:
        losses = (_as_number(model.train_step()) for _ in range(self._options.train_steps))
        return [loss for loss in losses if loss is not None]


def _as_number(loss: Any) -> float | None:
    """The loss in a number, in an array or tensor of one, or in a tuple that begins with it; else None."""
    if isinstance(loss, (tuple, list)):
        loss = loss[0] if loss else None
    if hasattr(loss, "item"):
        count = loss.numel() if hasattr(loss, "numel") else getattr(loss, "size", 1)
        loss = loss.item() if count == 1 else None
    return float(loss) if isinstance(loss, (int, float)) else None


def new_handler(start: Start) -> LessonHandler:
    """Make the handler in a worker process."""
    source = WorldSource.unpacked(start.payload)
    env = source.new_learning_world()
    gc.freeze()  # imported modules are not scanned again and again
    return LessonHandler(env, source.settings, start.descriptors[0])
