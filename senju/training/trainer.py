"""The trainer: collect, learn, publish; evaluate and save at intervals."""

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from senju.collect.slots import Rollout
from senju.cuda import is_out_of_memory
from senju.evaluation.episodes import EpisodesResult
from senju.evaluation.evaluators import Evaluation, new_evaluator
from senju.evaluation.matches import MatchResult
from senju.events import new_event
from senju.gpus import GPU_FIELDS
from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.runs.interrupt import StopRequest
from senju.runs.live import LiveRun
from senju.runs.metrics import MetricsWriter
from senju.runs.monitor import Monitor
from senju.runs.run import Run
from senju.runs.stages import explain
from senju.runs.timeline import LEARNER
from senju.timing import StageClock, add_seconds
from senju.training.memory_shortage import explain_shortage
from senju.training.persistence import RunPersistence
from senju.trust import remember

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingProgress:
    """Where a run stands after an update."""

    update: int
    total_updates: int
    steps: int
    steps_per_second: float
    seconds_left: float
    metrics: dict[str, float]
    stages: dict[str, float]  # seconds of each stage so far in this session
    engine: dict[str, Any]  # the last sample of workers, slots, memory and GPU; empty before the first
    explanation: str  # what bounds the run, and what would help


class TrainingListener:
    """Callbacks of a training run; override the ones you need."""

    def on_start(self, run: Run, update: int) -> None:
        """Training begins after `update` updates."""

    def on_update(self, progress: TrainingProgress) -> None:
        """An update is done."""

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """A match against one opponent is over."""

    def on_episodes(self, update: int, result: EpisodesResult) -> None:
        """Episodes of agents that share a world are over."""

    def on_checkpoint(self, name: str) -> None:
        """The whole system was saved."""


class Trainer:
    """Trains one run to its total_steps, starting from its newest checkpoint if it has one."""

    def __init__(
        self, run: Run, listener: TrainingListener | None = None, checkpoint: str | None = None
    ) -> None:
        self.run, self.config = run, run.config
        self.listener = listener or TrainingListener()
        self.total_updates = self.config.total_updates
        self.update, self.steps, self.seconds = 0, 0, 0.0
        self._clock = StageClock()
        self._stages: dict[str, float] = {}
        self._persistence = RunPersistence(run, checkpoint)
        self.loop = self._persistence.loop
        self.learner, self.backend = self.loop.learner, self.loop.backend
        self._evaluator = new_evaluator(run)
        self._trainings: dict[str, float] = {}  # number of trainings per agent, with independent agents
        devices = {each.device for each in self.config.learner_settings}
        self._monitor = Monitor(run.path, self.backend, devices)
        self._live = LiveRun(self.backend, self._report, lambda event: self._monitor.note(event, self.update))
        self._latest: TrainingProgress | None = None
        self._engine: dict[str, Any] = {}
        self._has_learned = False  # in this session

    def train(self, stop: StopRequest | None = None, max_updates: int | None = None) -> bool:
        """Train until done, or until asked to stop; return whether the run is finished.

        `max_updates` bounds the updates of this call. Stopping saves what was learned; an error leaves
        the last checkpoint as it was.
        """
        try:
            return self._train(stop or StopRequest(), max_updates)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            newest = self.run.checkpoints.newest_update if self.run.checkpoints.all() else None
            shortage = explain_shortage(self.config, str(error), self.update, self._has_learned, newest)
        raise shortage  # outside, since the error's traceback would keep the memory

    def _train(self, stop: StopRequest, max_updates: int | None) -> bool:
        remember(self.config.model_dump(mode="json"), self.run.path)
        keep_freed_memory()
        with (
            self.run.locked(),
            math_threads(self.config.threads or available_cores()),
            self._live.listening(self.run.path),
        ):
            try:
                with self._clock.stage("start"):
                    self._evaluator.prepare()
                    self.loop.start()
                    self._resume()
                self._live.is_started = True
                with (
                    self._monitor.sampling_gpus(),
                    closing(MetricsWriter(self.run.path, after_update=self.update)) as writer,
                ):
                    return self._loop(stop, writer, max_updates)
            finally:
                self._live.is_ending = True
                self._persistence.close()
                self.loop.close()
                if self._live.is_started:
                    self._monitor.finish(self.update)

    def _loop(self, stop: StopRequest, writer: MetricsWriter, max_updates: int | None) -> bool:
        last = (
            self.total_updates if max_updates is None else min(self.update + max_updates, self.total_updates)
        )
        self.listener.on_start(self.run, self.update)
        self._began, self._first, self._first_steps = monotonic(), self.update, self.steps
        saved = self.update if self.run.checkpoints.all() else None
        self._trainings = self._count_trainings()
        self._evaluate(writer, stop)  # an evaluation that an earlier stop interrupted
        while self.update < last and not stop.is_set:
            self._wait_while_paused(stop)
            if stop.is_set:
                break
            self._one_update(writer)
            is_last = self.update == self.total_updates
            if is_last:
                self._finish_learning()  # before saving and evaluating
            if is_last or self.update % self.config.checkpoint.interval == 0:
                self._save()
                saved = self.update
            self._evaluate(writer, stop)
        if self._finish_learning() or saved != self.update:
            self._save()
        return self.update >= self.total_updates and not self._evaluator.is_due(self.update)

    def _wait_while_paused(self, stop: StopRequest) -> None:
        gate = self._live.gate
        if not gate.is_closed:
            return
        began = monotonic()
        self.backend.team.pause()
        try:
            gate.pass_through(stop)
        finally:
            self.backend.team.resume()
            self._began += monotonic() - began  # a pause is no training time
            self._monitor.pause_ended()

    def _one_update(self, writer: MetricsWriter) -> None:
        span, number = self._monitor.span, self.update + 1
        with span("collect", update=number):
            rollouts = self.loop.collect()
        lag = self._lag(rollouts)
        with span("learn", update=number):
            metrics = self.loop.learn(rollouts) | self._describe_games(rollouts) | lag
        with span("publish", update=number), self._clock.stage("publish"):
            self.loop.publish()
        self.update, self._has_learned = number, True
        self.steps += self.loop.count_steps(rollouts)
        self._persistence.note_turn(number)
        collecting, sample = self._monitor.after_update(number)
        stages = {**collecting, **self.learner.take_timings(), **self._clock.take()}
        add_seconds(self._stages, stages)
        self._engine = sample or self._engine
        self._note_agents()
        metrics |= self._trainings
        gpus = _gpu_fields(sample)
        progress = self._latest = self._progress(metrics)
        record = {
            "kind": "update",
            "update": self.update,
            "steps": progress.steps,
            "seconds": round(self.seconds + monotonic() - self._began, 3),
            **metrics,
            **({"engine": sample} if sample else {}),
            "stages": {name: round(seconds, 6) for name, seconds in stages.items()},
        }
        with self._clock.stage("metrics"):
            scalars = {f"train/{name}": value for name, value in metrics.items()}
            writer.write(record, scalars | {f"engine/{name}": value for name, value in gpus.items()})
        self.listener.on_update(progress)

    def _finish_learning(self) -> bool:
        """Wait for trainings in the background; return whether there were any."""
        began = monotonic()
        self.loop.finish()
        has_waited = self._note_agents()
        if has_waited:
            self._monitor.timeline.add(LEARNER, "await", began, monotonic(), update=self.update)
        return has_waited

    def _count_trainings(self) -> dict[str, float]:
        """How often each agent was trained before this session."""
        if not self.learner.has_agents:
            return {}
        before = self.run.metrics[-1] if self.run.metrics else {}
        names = [f"agent_{each.seat}/trainings" for each in self.learner.settings]
        return {name: before.get(name, 0.0) for name in names}

    def _note_agents(self) -> bool:
        """Record which agents were trained since the last call; return whether any was."""
        learner = self.learner
        trained = learner.take_trained()
        for each in trained:
            track = learner.settings[each.seat].name
            self._monitor.timeline.add(track, "train", each.began, each.ended, update=self.update)
            self._trainings[f"agent_{each.seat}/trainings"] += 1.0
        for event in learner.runner.take_events():
            self._monitor.note(event, self.update)
        return bool(trained)

    def _progress(self, metrics: dict[str, float]) -> TrainingProgress:
        pace = (monotonic() - self._began) / (self.update - self._first)
        working = sum(seconds for name, seconds in self._stages.items() if name not in ("start", "match"))
        num_workers = self._engine.get("workers") or self.config.backend.get("num_workers") or 1
        return TrainingProgress(
            update=self.update,
            total_updates=self.total_updates,
            steps=self.steps,
            steps_per_second=(self.steps - self._first_steps) / working,
            seconds_left=pace * (self.total_updates - self.update),
            metrics=metrics,
            stages=dict(self._stages),
            engine=self._engine,
            explanation=explain(
                self._stages, setting=self.loop.setting(num_workers), gpu_busy=self._monitor.gpu_busy
            ),
        )

    def _lag(self, rollouts: list[Rollout]) -> dict[str, float]:
        """How many versions the weights that acted are behind those that learn now."""
        lags = [self.learner.version - rollout.version for rollout in rollouts]
        allowed = self.loop.plan.max_lag
        assert max(lags) <= allowed, f"lags of {lags} where {allowed} is allowed"
        return {"lag_mean": sum(lags) / len(lags), "lag_max": float(max(lags))}

    def _report(self) -> dict[str, Any]:
        """Where the run stands, for other terminals; called from another thread."""
        latest, learner = self._latest, self.learner
        found: dict[str, Any] = {
            "update": self.update,
            "total_updates": self.total_updates,
            "steps": self.steps,
            "chosen": self.config.chosen,
        }
        if latest is None:
            return found
        found |= {
            "steps_per_second": latest.steps_per_second,
            "seconds_left": latest.seconds_left,
            "lag": latest.metrics["lag_max"],
            "explanation": latest.explanation,
            **_gpu_fields(latest.engine),
        }
        if learner.has_agents:
            names = [f"agent_{each.seat}/reward_per_game" for each in learner.settings]
            found["rewards"] = [latest.metrics.get(name) for name in names]
            found["learners"] = [status._asdict() for status in learner.runner.status()]
        return found

    def _evaluate(self, writer: MetricsWriter, stop: StopRequest) -> None:
        """Run the evaluation that is due, if any."""
        if not self._evaluator.is_due(self.update):
            return
        due = Evaluation(self.learner, self.update, self.steps, writer, stop, self.listener)
        with self._monitor.span(self._evaluator.word, update=self.update), self._clock.stage("match"):
            self._evaluator.measure(due)

    def _save(self) -> None:
        with self._monitor.span("checkpoint", update=self.update), self._clock.stage("checkpoint"):
            counters = {
                "update": self.update,
                "steps": self.steps,
                "seconds": self.seconds + monotonic() - self._began,
            }
            path = self._persistence.save(counters)
        self.listener.on_checkpoint(path.name)

    def _resume(self) -> None:
        """Restore the checkpoint, if the run has one; publish the weights either way."""
        saved = self._persistence.restore()
        if saved:
            self.update, self.seconds = saved["update"], saved["seconds"]
            # 0.1.0 kept no steps
            self.steps = saved.get("steps", self.update * self.config.decisions_per_update)
        if self._persistence.changed_versions:
            logger.warning("%s", self._persistence.changed_versions)
            self._monitor.note(new_event("versions_differ", self._persistence.changed_versions), self.update)
        self.loop.publish_all()

    def _describe_games(self, rollouts: list[Rollout]) -> dict[str, float]:
        """Metrics of the games in a batch."""
        ended = np.stack([rollout.data.terminated | rollout.data.truncated for rollout in rollouts])
        count = int(ended.sum())
        found = {
            "games_finished": float(count),
            "steps_per_game": self.loop.count_moves(rollouts) / count if count else 0.0,
        }
        if self.learner.has_agents:
            return found | _rewards_per_game(rollouts, count)
        first = np.stack([rollout.data.rewards for rollout in rollouts])[..., 0][ended]
        return found | {"first_seat_mean_reward": float(first.mean()) if count else 0.0}


def _gpu_fields(engine: Mapping[str, Any]) -> dict[str, Any]:
    """The GPU's load in a sample of the engine; empty where it was not measured."""
    return {name: engine[name] for name in GPU_FIELDS if name in engine}


def _rewards_per_game(rollouts: list[Rollout], count: int) -> dict[str, float]:
    """Each agent's reward in a batch, per game that ended in it; empty if no game ended."""
    if not count:
        return {}
    totals = [
        sum(float(rollout.slots[seat].rewards.sum(dtype=np.float64)) for rollout in rollouts)
        for seat in range(len(rollouts[0].slots))
    ]
    each = {f"agent_{seat}/reward_per_game": total / count for seat, total in enumerate(totals)}
    return {"reward_per_game": sum(totals) / count / len(totals)} | each
