"""Schedules the epochs of a user's world: hands out episodes and lessons, and reports their results."""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.environments.config import RunSettings
from senju.environments.episodes import EpisodeTask, PlayedEpisode
from senju.environments.experience import ExperienceFile
from senju.environments.lessons import LessonTask
from senju.environments.runners import FinishedTask, TaskRunner
from senju.runs.timeline import Timeline
from senju.workers.block import Block

logger = logging.getLogger(__name__)


class EpochReport(NamedTuple):
    """An epoch that all copies have played and all agents have learned from."""

    epoch: int
    rewards: tuple[float, ...]  # by agent: the sum over the epoch's turns, averaged over copies
    losses: tuple[float | None, ...]  # by agent; None where it did not train
    num_turns: int  # of all copies
    seconds: float  # since the report before
    playing_seconds: float  # of all workers together
    learning_seconds: float  # of all learners together

    def __str__(self) -> str:
        rewards = ", ".join(f"{reward:.4g}" for reward in self.rewards)
        losses = ", ".join("-" if loss is None else f"{loss:.4g}" for loss in self.losses)
        return f"epoch {self.epoch}: rewards {rewards}; losses {losses}; {self.seconds:.2f} s"


@dataclass(frozen=True)
class ExperimentResult:
    """Every epoch's figures, the failures that were repaired, and the timeline of all workers."""

    epochs: tuple[EpochReport, ...]
    events: tuple[str, ...]
    timeline: Timeline = field(repr=False)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """[epoch, agent]: sums over an epoch's turns, averaged over copies."""
        return np.array([report.rewards for report in self.epochs])

    @property
    def losses(self) -> NDArray[np.float64]:
        """[epoch, agent]: not a number where an agent did not train."""
        return np.array([report.losses for report in self.epochs], np.float64)

    @property
    def num_turns(self) -> int:
        """Turns of all copies in all epochs."""
        return sum(report.num_turns for report in self.epochs)

    @property
    def seconds(self) -> float:
        """From the first episode's start to the last lesson's end."""
        return sum(report.seconds for report in self.epochs)


Listener = Callable[[EpochReport], None]


class Runners(NamedTuple):
    """Where episodes are played and where agents are trained."""

    players: TaskRunner
    learners: TaskRunner
    changed: threading.Condition  # notified when a runner is due
    epochs_ahead: int  # how far playing may be ahead of learning; 0: results do not depend on timing
    most_at_once: int | None = None  # episodes and lessons together; None: as many as the runners take


@dataclass
class _Epoch:
    """An epoch that not all agents have learned from yet."""

    number: int
    num_episodes: int = 0  # handed out
    learning: set[int] = field(default_factory=set)  # agents whose lesson was handed out
    episodes: dict[int, FinishedTask] = field(default_factory=dict)  # by copy
    lessons: dict[int, FinishedTask] = field(default_factory=dict)  # by agent

    def played(self) -> list[PlayedEpisode]:
        return [finished.result for _, finished in sorted(self.episodes.items())]

    @property
    def num_running(self) -> int:
        return self.num_episodes + len(self.learning) - len(self.episodes) - len(self.lessons)


class EpochScheduler:
    """Runs epochs from `first` on.

    An epoch begins when every agent has learned from all but `epochs_ahead` of the epochs before it.
    """

    def __init__(
        self,
        settings: RunSettings,
        first: int,
        acting: Sequence[Block],
        experience: ExperienceFile,
        runners: Runners,
        listener: Listener | None = None,
    ) -> None:
        self._options, numbers = settings.parallel, range(first, first + settings.experiment.epochs)
        self._epochs = [_Epoch(number) for number in numbers[: runners.epochs_ahead + 1]]  # that may run now
        self._later, self._last = iter(numbers[runners.epochs_ahead + 1 :]), numbers[-1]
        self._acting, self._experience = list(acting), experience  # acting: by agent, as published last
        self._runners, self._listener = runners, listener
        self._reported_at = monotonic()
        self.reports: list[EpochReport] = []
        self.events: list[str] = []
        self.timeline = Timeline()

    def run(self) -> None:
        """Run until every agent has learned from the last epoch."""
        players, learners, changed, _, _ = self._runners
        while self._epochs:
            self._submit_lessons()
            self._submit_episodes()
            with changed:
                changed.wait_for(lambda: players.is_due() or learners.is_due())
            for finished in players.take():
                self._put_episode(finished)
            for finished in learners.take():
                self._put_lesson(finished)

    def _has_room(self) -> bool:
        most = self._runners.most_at_once
        return most is None or sum(epoch.num_running for epoch in self._epochs) < most

    def _submit_lessons(self) -> None:
        for agent in range(len(self._acting)):
            epoch = next((each for each in self._epochs if agent not in each.lessons), None)
            if epoch is None or agent in epoch.learning or len(epoch.episodes) < self._options.copies:
                continue
            if self._has_room():
                epoch.learning.add(agent)
                is_last = epoch.number == self._last
                self._runners.learners.submit(LessonTask(agent, epoch.number, is_last, epoch.played()))

    def _submit_episodes(self) -> None:
        players, copies = self._runners.players, self._options.copies
        for epoch in self._epochs:
            while epoch.num_episodes < copies:
                if players.room <= 0 or not self._has_room():
                    return
                slot = self._experience.new_slot()
                task = EpisodeTask(epoch.number, epoch.num_episodes, tuple(self._acting), slot)
                epoch.num_episodes += 1
                players.submit(task)

    def _epoch(self, number: int) -> _Epoch:
        return self._epochs[number - self._epochs[0].number]

    def _put_episode(self, finished: FinishedTask) -> None:
        task: EpisodeTask = finished.task
        self._epoch(task.epoch).episodes[task.copy] = finished
        self._add_span("worker", "episode", finished, copy=task.copy)

    def _put_lesson(self, finished: FinishedTask) -> None:
        task: LessonTask = finished.task
        epoch = self._epoch(task.epoch)
        epoch.lessons[task.agent] = finished
        self._acting[task.agent] = finished.result.acting
        self._add_span("learner", "lesson", finished, agent=task.agent)
        self._check_loss(task, finished.result.loss)
        if len(epoch.lessons) == len(self._acting):
            self._report(epoch)

    def _add_span(self, who: str, name: str, finished: FinishedTask, **details: int) -> None:
        worker, _, began, ended = finished.activity
        self.timeline.add(f"{who} {worker}", name, began, ended, epoch=finished.task.epoch, **details)

    def _check_loss(self, task: LessonTask, loss: float | None) -> None:
        """Report an agent's first loss that is not finite; the agent may handle it, so the run continues."""
        start = f"the loss of agent {task.agent} is "
        if loss is None or math.isfinite(loss) or any(start in event for event in self.events):
            return
        event = f"epoch {task.epoch}: {start}{loss}: it may have diverged"
        logger.warning("%s", event)
        self.events.append(event)

    def _report(self, epoch: _Epoch) -> None:
        """Report an epoch that all agents have learned from, and let a later one begin."""
        self._epochs.remove(epoch)
        self._epochs += [_Epoch(number) for number in islice(self._later, 1)]
        episodes, now = epoch.played(), monotonic()
        report = EpochReport(
            epoch=epoch.number,
            rewards=tuple(np.mean([episode.rewards for episode in episodes], axis=0).tolist()),
            losses=tuple(lesson.result.loss for _, lesson in sorted(epoch.lessons.items())),
            num_turns=sum(episode.num_turns for episode in episodes),
            seconds=now - self._reported_at,
            playing_seconds=_busy_seconds(epoch.episodes),
            learning_seconds=_busy_seconds(epoch.lessons),
        )
        self._reported_at = now
        self.reports.append(report)
        logger.info("%s", report)
        if self._listener is not None:
            self._listener(report)


def _busy_seconds(finished: dict[int, FinishedTask]) -> float:
    return sum(each.activity.ended - each.activity.began for each in finished.values())
