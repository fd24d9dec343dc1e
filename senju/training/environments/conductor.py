"""Who plays and who learns when: episodes and lessons are given out, and their results put together."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import monotonic

import numpy as np

from senju.training.environments.block import Block, bundle
from senju.training.environments.config import RunSettings
from senju.training.environments.result import EpochReport
from senju.training.environments.stations import Station, readable
from senju.training.environments.tasks import Episode, Learnt, Lesson, Played, Published, Result
from senju.training.timeline import Timeline

logger = logging.getLogger(__name__)

_KEEP_INTERVAL, _LONGEST_INTERVAL = 10, 100  # epochs between the states that are kept of an agent
_KEEP_SHARE = 0.05  # of a learner's time that may go into them; then they are kept less often
Listener = Callable[[EpochReport], None]


class Conductor:
    """Runs epochs from `first` on.

    An epoch begins when every agent has learned from all but `ahead` of the epochs before it. With 0
    there is one order of everything, and results do not depend on timing.
    """

    def __init__(
        self,
        settings: RunSettings,
        first: int,
        acting: Sequence[Block],
        stations: tuple[Station, Station],
        ahead: int,
        listener: Listener | None,
        most_at_once: int | None = None,
    ) -> None:
        """`most_at_once`: episodes and lessons together; None: as many as the stations take."""
        self._options = settings.parallel
        self._first, self._end = first, first + settings.experiment.epochs
        self._ahead, self._most_at_once = ahead, most_at_once
        self._num_given = 0  # episodes and lessons that have not come back
        self._players, self._learners = stations
        self._listener = listener
        self._acting = [Published(0, block) for block in acting]
        self._next = (first, 0)  # epoch and copy to be played
        self._played: defaultdict[int, dict[int, Played]] = defaultdict(dict)
        self._learnt: defaultdict[int, dict[int, Learnt]] = defaultdict(dict)
        self._num_learnt = [first] * len(acting)  # by agent: the epoch it is to learn from next
        self._is_learning = [False] * len(acting)
        self._keep_at = [first + _KEEP_INTERVAL - 1] * len(acting)  # by agent: the next epoch to keep a state
        self._reported_at = monotonic()
        self.reports: list[EpochReport] = []
        self.events: list[str] = []
        self._diverged: set[int] = set()  # agents of whom it was said
        self.timeline = Timeline()

    def run(self) -> None:
        """Until every agent has learned from the last epoch."""
        while self._first + len(self.reports) < self._end:
            self._give_out()
            self._wait()
            for station in (self._players, self._learners):
                began, works = monotonic(), station.has_work_here
                for result in station.take():
                    self._put(result)
                if works:
                    self._excuse(monotonic() - began)

    def _give_out(self) -> None:
        self._give_lessons()
        epoch, copy = self._next
        while epoch < self._end and epoch - min(self._num_learnt) <= self._ahead and self._players.room > 0:
            if not self._has_room():
                break
            self._num_given += 1
            self._players.give(Episode(copy, epoch, tuple(self._acting)))
            copy += 1
            if copy == self._options.copies:
                epoch, copy = epoch + 1, 0
            self._next = epoch, copy

    def _has_room(self) -> bool:
        return self._most_at_once is None or self._num_given < self._most_at_once

    def _give_lessons(self) -> None:
        for agent, epoch in enumerate(self._num_learnt):
            episodes = self._played[epoch] if epoch < self._end else {}
            if self._is_learning[agent] or len(episodes) < self._options.copies or not self._has_room():
                continue
            self._is_learning[agent] = True
            self._num_given += 1
            blocks = [episodes[copy].experience[agent] for copy in range(self._options.copies)]
            trains = (epoch + 1) % self._options.train_interval == 0
            keeps = self._learners.needs_states and (epoch in (self._keep_at[agent], self._end - 1))
            self._learners.give(Lesson(agent, epoch, bundle(blocks), trains, keeps))

    def _wait(self) -> None:
        """Sleep until there may be something to take."""
        stations = (self._players, self._learners)
        deadlines = [at for station in stations if (at := station.deadline()) is not None]
        patience = max(0.0, min(deadlines) - monotonic()) if deadlines else None
        if any(station.has_work_here for station in stations):
            patience = 0.0
        sources = [number for station in stations for number in station.sources()]
        readable(sources, patience)

    def _excuse(self, seconds: float) -> None:
        for station in (self._players, self._learners):
            station.excuse(seconds)

    def _put(self, result: Result) -> None:
        self._num_given -= 1
        name = "episode" if isinstance(result, Played) else "lesson"
        details = {"copy": result.copy} if isinstance(result, Played) else {"agent": result.agent}
        self.timeline.add(result.track, name, result.began, result.ended, epoch=result.epoch, **details)
        if isinstance(result, Played):
            self._played[result.epoch][result.copy] = result
            return
        self._learnt[result.epoch][result.agent] = result
        self._look_at_loss(result)
        if result.state is not None:
            self._keep_at[result.agent] = result.epoch + keep_interval(result)
        self._acting[result.agent] = Published(self._acting[result.agent].version + 1, result.acting)
        self._num_learnt[result.agent] += 1
        self._is_learning[result.agent] = False
        if min(self._num_learnt) > result.epoch:
            self._report(result.epoch)

    def _look_at_loss(self, learnt: Learnt) -> None:
        """Say of an agent, once, that its loss is no number: it may be its own affair, so it goes on."""
        if learnt.loss is None or math.isfinite(learnt.loss) or learnt.agent in self._diverged:
            return
        self._diverged.add(learnt.agent)
        event = (
            f"epoch {learnt.epoch}: the loss of agent {learnt.agent} is {learnt.loss}: it may have diverged"
        )
        logger.warning("%s", event)
        self.events.append(event)

    def _report(self, epoch: int) -> None:
        played = [episode for _, episode in sorted(self._played.pop(epoch).items())]
        learnt = [lesson for _, lesson in sorted(self._learnt.pop(epoch).items())]
        now = monotonic()
        report = EpochReport(
            epoch=epoch,
            rewards=tuple(np.mean([episode.rewards for episode in played], axis=0).tolist()),
            losses=tuple(lesson.loss for lesson in learnt),
            num_turns=sum(episode.num_turns for episode in played),
            seconds=now - self._reported_at,
            playing_seconds=sum(episode.ended - episode.began for episode in played),
            learning_seconds=sum(lesson.ended - lesson.began for lesson in learnt),
        )
        self._reported_at = now
        self.reports.append(report)
        logger.info("%s", describe(report))
        if self._listener is not None:
            self._listener(report)


def keep_interval(learnt: Learnt) -> int:
    """Epochs until an agent's state is kept again."""
    lesson = learnt.ended - learnt.began - learnt.keeping_seconds
    epochs = math.ceil(learnt.keeping_seconds / (_KEEP_SHARE * max(lesson, 1e-6)))
    return min(max(epochs, _KEEP_INTERVAL), _LONGEST_INTERVAL)


def describe(report: EpochReport) -> str:
    """A line for the log."""
    rewards = ", ".join(f"{reward:.4g}" for reward in report.rewards)
    losses = ", ".join("-" if loss is None else f"{loss:.4g}" for loss in report.losses)
    return f"epoch {report.epoch}: rewards {rewards}; losses {losses}; {report.seconds:.2f} s"
