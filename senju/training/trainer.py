"""The trainer: collect, learn, publish; measure and save at intervals."""

import logging
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from senju.collect.slots import Rollout
from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.opponents.players import Player
from senju.timing import StageClock
from senju.training.evaluation import MatchResult, play_match
from senju.training.interrupt import StopRequest
from senju.training.keeping import Keeper
from senju.training.live import LiveRun
from senju.training.metrics import MetricsWriter
from senju.training.monitor import Monitor
from senju.training.opponents import make_player
from senju.training.plot import strength_svg
from senju.training.run import Run
from senju.training.stages import Setting, explain

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an update."""

    update: int
    total_updates: int
    steps: int
    steps_per_second: float
    seconds_left: float
    metrics: dict[str, float]
    stages: dict[str, float]  # seconds of each stage so far in this session
    engine: dict[str, Any]  # the last sample of workers, slots and memory; empty before the first
    explanation: str  # what bounds the run, and what would help


class Listener:
    """Told what happens while training; every method may be left as it is."""

    def on_start(self, run: Run, update: int) -> None:
        """Training begins after `update` updates."""

    def on_update(self, progress: Progress) -> None:
        """An update is done."""

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """A match against one opponent is over."""

    def on_checkpoint(self, name: str) -> None:
        """The whole system was saved."""


class Trainer:
    """Trains one run, from its newest checkpoint or from nothing, to its total_steps."""

    def __init__(self, run: Run, listener: Listener | None = None, checkpoint: str | None = None) -> None:
        self.run, self.config = run, run.config
        self.listener = listener or Listener()
        self.total_updates = self.config.total_updates
        self.update, self.steps, self.seconds = 0, 0, 0.0
        self._clock = StageClock()
        self._stages: dict[str, float] = {}
        self._keeper = Keeper(run, checkpoint)
        self.loop = self._keeper.new_loop()
        self.learner, self.backend = self.loop.learner, self.loop.backend
        self._players: dict[str, Player] = {}
        self._monitor = Monitor(run.path, self.backend)
        self._live = LiveRun(self.backend, self._report, lambda event: self._monitor.note(event, self.update))
        self._latest: Progress | None = None
        self._engine: dict[str, Any] = {}

    def train(self, stop: StopRequest | None = None, max_updates: int | None = None) -> bool:
        """Train until done, or until asked to stop; return whether the run is finished.

        `max_updates` bounds the updates of this call. Stopping saves what was learned; an error leaves
        the last checkpoint as it was.
        """
        stop = stop or StopRequest()
        keep_freed_memory()
        with (
            self.run.locked(),
            math_threads(self.config.threads or available_cores()),
            self._live.listening(self.run.path),
        ):
            try:
                with self._clock.stage("start"):
                    self._players = self._make_players()
                    self.loop.start()
                    self._resume()
                self._live.is_started = True
                with closing(MetricsWriter(self.run.path, after_update=self.update)) as writer:
                    return self._loop(stop, writer, max_updates)
            finally:
                self._live.is_ending = True
                self._keeper.close()
                self.backend.close()
                if self._live.is_started:
                    self._monitor.finish(self.update)

    def _loop(self, stop: StopRequest, writer: MetricsWriter, max_updates: int | None) -> bool:
        last = self.total_updates
        if max_updates is not None:
            last = min(self.update + max_updates, last)
        self.listener.on_start(self.run, self.update)
        self._began, self._first, self._first_steps = monotonic(), self.update, self.steps
        saved = self.update if self.run.checkpoints.all() else None
        self._evaluate(writer, stop)  # what an earlier stop cut short
        while self.update < last and not stop.is_set:
            self._stand_while_paused(stop)
            if stop.is_set:
                break
            self._one_update(writer)
            if self.update % self.config.checkpoint.interval == 0 or self.update == self.total_updates:
                self._save()
                saved = self.update
            self._evaluate(writer, stop)
        if saved != self.update:
            self._save()
        return self.update >= self.total_updates and not self._opponents_due()

    def _stand_while_paused(self, stop: StopRequest) -> None:
        gate = self._live.gate
        if not gate.is_closed:
            return
        began = monotonic()
        self.backend.pause()
        try:
            gate.pass_through(stop)
        finally:
            self.backend.resume()
            self._began += monotonic() - began  # a pause is no training time

    def _one_update(self, writer: MetricsWriter) -> None:
        span, number = self._monitor.span, self.update + 1
        with span("collect", update=number):
            rollouts = self.loop.collect()
        lag = self._lag(rollouts)
        with span("learn", update=number):
            metrics = self.loop.learn(rollouts) | self._describe_games(rollouts) | lag
        with span("publish", update=number), self._clock.stage("publish"):
            self.loop.publish()
        self.update = number
        self.steps += self.loop.count_steps(rollouts)
        self._keeper.note_turn(self.loop, number, self._next_save())
        stages = self._take_stages()
        sample = self._monitor.after_update(self.update)
        self._engine = sample or self._engine
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
            writer.write(record, {f"train/{name}": value for name, value in metrics.items()})
        self.listener.on_update(progress)

    def _take_stages(self) -> dict[str, float]:
        stages = {**self.backend.take_timings(), **self.learner.take_timings(), **self._clock.take()}
        for name, seconds in stages.items():
            self._stages[name] = self._stages.get(name, 0.0) + seconds
        return stages

    def _progress(self, metrics: dict[str, float]) -> Progress:
        done = self.update - self._first
        pace = (monotonic() - self._began) / done
        working = sum(seconds for name, seconds in self._stages.items() if name not in ("start", "match"))
        return Progress(
            update=self.update,
            total_updates=self.total_updates,
            steps=self.steps,
            steps_per_second=(self.steps - self._first_steps) / working,
            seconds_left=pace * (self.total_updates - self.update),
            metrics=metrics,
            stages=dict(self._stages),
            engine=self._engine,
            explanation=explain(self._stages, setting=self._setting()),
        )

    def _lag(self, rollouts: list[Rollout]) -> dict[str, float]:
        """How many versions the weights that acted are behind those that learn now."""
        lags = [self.learner.version - rollout.version for rollout in rollouts]
        assert max(lags) <= self.loop.plan.max_lag, (
            f"lags of {lags} where {self.loop.plan.max_lag} is allowed"
        )
        return {"lag_mean": sum(lags) / len(lags), "lag_max": float(max(lags))}

    def _setting(self) -> Setting:
        """What this run has to work with."""
        return Setting(
            backend=self.config.backend["name"],
            num_workers=self._engine.get("workers") or self.config.backend.get("num_workers") or 1,
            cores=available_cores(),
            num_shards=self.loop.plan.num_shards,
            device=self.config.device,
            mode=self.config.collect.mode,
            is_replaying=self.config.demands.is_replaying,
        )

    def _report(self) -> dict[str, Any]:
        """Where the run stands, for other terminals; asked from another thread."""
        latest = self._latest
        found = {
            "update": self.update,
            "total_updates": self.total_updates,
            "steps": self.steps,
        }
        if latest is None:
            return found
        return found | {
            "steps_per_second": latest.steps_per_second,
            "seconds_left": latest.seconds_left,
            "lag": latest.metrics["lag_max"],
            "explanation": latest.explanation,
        }

    def _make_players(self) -> dict[str, Player]:
        """All opponents by description, made once: a run that trains on elsewhere stays the same here."""
        settings = self.config.evaluation
        names = dict.fromkeys((*settings.opponents, *settings.final_opponents))
        return {name: make_player(self.run.game, name) for name in names}

    def _opponents_due(self) -> list[str]:
        """Who is to be played after this update and has not been yet."""
        settings, is_last = self.config.evaluation, self.update >= self.total_updates
        is_due = is_last or (settings.interval and self.update % settings.interval == 0)
        if not self.update or not is_due:
            return []
        wanted = settings.opponents + (settings.final_opponents if is_last else ())
        played = {record["opponent"] for record in self.run.evaluations if record["update"] == self.update}
        return [name for name in wanted if self._players[name].name not in played]

    def _evaluate(self, writer: MetricsWriter, stop: StopRequest) -> None:
        """Play the opponents that are due; random numbers of its own keep training from noticing."""
        due = self._opponents_due()
        if not due:
            return
        with self._monitor.span("match", update=self.update), self._clock.stage("match"):
            player = self.run.agent_from(self.learner.state().tensors, self.update).player()
            for name in due:
                if stop.is_set:
                    break
                games, seed = self.config.evaluation.games, self.config.seed
                result = play_match(self.run.game, player, self._players[name], games, seed)
                record = {"kind": "evaluation", "update": self.update, **result.as_dict()}
                record["steps"] = self.steps
                writer.write(record, {f"strength/{name}": result.score})
                self.listener.on_evaluation(self.update, result)
            self.run.write("strength.svg", strength_svg(self.run.evaluations))

    def _next_save(self) -> int:
        """The update after which the run is saved next, should nothing stop it before."""
        interval = self.config.checkpoint.interval
        return min(-(-self.update // interval) * interval, self.total_updates)

    def _save(self) -> None:
        with self._monitor.span("checkpoint", update=self.update), self._clock.stage("checkpoint"):
            counters = {
                "update": self.update,
                "steps": self.steps,
                "seconds": self.seconds + monotonic() - self._began,
            }
            path = self._keeper.save(self.loop, counters)
        self.listener.on_checkpoint(path.name)

    def _resume(self) -> None:
        """Take up the newest checkpoint, if there is one; publish the weights either way."""
        saved = self._keeper.restore(self.loop)
        if saved:
            self.update, self.seconds = saved["update"], saved["seconds"]
            # 0.1.0 kept no steps
            self.steps = saved.get("steps", self.update * self.config.decisions_per_update)
        self.loop.publish_all()

    def _describe_games(self, rollouts: list[Rollout]) -> dict[str, float]:
        """What happened in the games of a batch."""
        ended = np.stack([rollout.data.terminated | rollout.data.truncated for rollout in rollouts])
        rewards = np.stack([rollout.data.rewards for rollout in rollouts])
        count = int(ended.sum())
        first = rewards[..., 0][ended]
        return {
            "games_finished": float(count),
            "steps_per_game": self.loop.count_moves(rollouts) / count if count else 0.0,
            "first_seat_mean_reward": float(first.mean()) if count else 0.0,
        }
