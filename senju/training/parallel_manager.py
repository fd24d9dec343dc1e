"""ParallelManager, for your own training loop: workers play; you collect, learn and send the new weights.

with ParallelManager("connect_four", config={"num_workers": 2}) as manager:
    model = manager.new_model()
    while training:
        experiences = manager.collect_experiences(target_steps=8192)
        ...learn...
        manager.sync_model_to_workers(model)
"""

import logging
import math
import os
import threading
import warnings
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from senju.algorithms.returns import generalised_advantages
from senju.arguments import is_whole, require_seed
from senju.collect.experiences import ExperienceBuffer, Experiences, decisions_of, no_experiences
from senju.collect.slots import Rollout
from senju.config import MOST_SECONDS, shown
from senju.errors import ConfigError, ControlError, ModelError
from senju.games import GAMES, make_game
from senju.models import MODELS, Model, make_model
from senju.models.weights import WeightBlock, Weights
from senju.runs.agent import shape_differences
from senju.timing import add_seconds
from senju.training.fair_lock import FairLock
from senju.training.parallel_config import (
    ParallelConfig,
    SettingWarning,
    new_backend,
    new_plan,
    resolved,
    settings_of,
    without_effect,
)

__all__ = ["ExperienceBuffer", "Experiences", "ParallelConfig", "ParallelManager", "SettingWarning"]

logger = logging.getLogger(__name__)

EVENTS_KEPT = 100  # in the status; backends log all of them
AnyWeights = nn.Module | Mapping[str, Tensor | NDArray[Any]] | Weights


class ParallelManager:
    """Workers that play a game with your network, for a training loop that you write.

    `game` and `model` are names, settings with a name, or `package.module:Class`: every worker builds its
    own. Each of the `num_workers` plays `games_per_worker` games. Without timeouts, and with a
    `queue_maxsize` of 1, the same calls give the same bytes on every backend.

    Threads may share a manager: the manager serves threads that collect in the order of their calls.
    """

    def __init__(
        self,
        game: str | Mapping[str, Any],
        model: str | Mapping[str, Any] = "mlp",
        config: ParallelConfig | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        """`config` may also be the path of a YAML file."""
        require_seed(seed)
        self.config, self.seed = resolved(config), seed
        self._plan = new_plan(self.config, settings_of(GAMES, game), settings_of(MODELS, model), seed)
        self.game = make_game(**self._plan.game)
        self._plan.resignation.check(self.game)
        self._outgoing = self.new_model()  # weights are copied here and checked before they are sent
        self._block = WeightBlock(self._outgoing)
        self._backend = new_backend(self.config)
        self._notes = without_effect(self.config)
        for note in self._notes:
            warnings.warn(note, SettingWarning, stacklevel=2)
        self._state = "new"  # then running, then stopped
        self._collecting = FairLock()  # held by the thread that collects
        self._starting, self._sending, self._counting = threading.RLock(), threading.Lock(), threading.Lock()
        self._paused: set[int] = set()
        self._uncopied: list[Rollout] = []  # collected last, still in their slots
        self._waiting: list[Experiences] = []  # copied, not yet handed over
        self._handed_over = 0
        self._sync_calls, self._calls_since_sync, self._version = 0, 0, 0
        self._stages: dict[str, float] = {}
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)

    def __enter__(self) -> "ParallelManager":
        if self._state != "running":
            self.start_workers()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop_workers()

    def new_model(self) -> Model:
        """The network that workers play with, with the weights they begin with; yours to train."""
        return make_model(
            self._plan.policies[0].model, self.game.observation_shape, self.game.num_actions, self.seed
        )

    def start_workers(self) -> None:
        """Start the workers; they play from the first collecting on."""
        with self._starting:
            if self._state != "new":
                what = "are running already" if self._state == "running" else "were stopped"
                raise ControlError(f"the workers {what}; make a new ParallelManager to start others")
            try:
                self._backend.start(self._plan)
                self._backend.publish(self._block.read(), self._version)
            except BaseException:
                self._state = "stopped"
                self._backend.close()
                raise
            self._state = "running"

    def collect_experiences(
        self, timeout: float | None = None, target_steps: int | None = None
    ) -> Experiences:
        """The next experiences: `target_steps` decisions, or fewer if `timeout` seconds are not enough.

        A `timeout` alone returns all that is finished in that time; without both, one batch of every worker
        is returned. Experiences that are finished but not returned come with the next call, before newer
        ones. The `serial` backend plays during the call, and finishes the batch it has begun. If another
        thread is collecting, this thread waits for its turn; `timeout` limits that too.
        """
        self._require_running()
        _require_positive(timeout, target_steps)
        limit = self.config.timeout if timeout is None else timeout
        deadline = None if limit is None else monotonic() + limit
        if deadline is None and self._paused and self._paused >= self._workers(None):
            logger.warning("all workers are paused: collecting waits until another thread resumes them")
        goal = math.inf if timeout is not None else None
        with self._collecting.acquire(limit, self._require_running) as is_my_turn:
            if not is_my_turn:
                return no_experiences(self.game)
            self._receive(goal if target_steps is None else target_steps, deadline)
            return self._hand_over(target_steps)

    def _receive(self, goal: float | None, deadline: float | None) -> None:
        """Take rollouts until `goal` decisions wait or the time is up; None: take them once."""
        while goal is None or self._num_waiting() < goal:
            left = None if deadline is None else max(deadline - monotonic(), 0.0)
            self._uncopied = self._uncopied or self._backend.collect(left)
            if self._uncopied:
                with self._timed("copy"):
                    copied = self._copied(self._uncopied)
                    # after Ctrl-C in between, the next call copies them: their slots are valid until then
                    self._waiting, self._uncopied = [*self._waiting, copied], []
            self._take_report()
            if goal is None or left == 0.0:
                return

    def _copied(self, rollouts: list[Rollout]) -> Experiences:
        """Decisions with their returns, copied out of the slots."""
        gamma, gae_lambda = self.config.gamma, self.config.gae_lambda
        return Experiences.merge(
            [decisions_of(each, *generalised_advantages(each.data, gamma, gae_lambda)) for each in rollouts]
        )

    def _num_waiting(self) -> int:
        return sum(map(len, self._waiting))

    def _hand_over(self, limit: int | None) -> Experiences:
        """The first waiting experiences, up to the limit; the others keep waiting."""
        if not self._waiting:
            return no_experiences(self.game)
        batch = self._waiting[0] if len(self._waiting) == 1 else Experiences.merge(self._waiting)
        rest: list[Experiences] = []
        if limit is not None and len(batch) > limit:
            rest = [batch.select(slice(limit, None))]
            batch = batch.select(slice(limit))
        self._waiting, self._handed_over = rest, self._handed_over + len(batch)
        return batch

    def sync_model_to_workers(self, model: AnyWeights, force: bool = False) -> bool:
        """Let workers play with these weights from their next batch on; return whether they were sent.

        They are sent with every `model_sync_interval`-th call, or with `force`. `model` is a network like
        `new_model()`, on any device and in any precision, its `state_dict()`, or a block of weights.
        """
        self._require_running()
        with self._sending:
            tensors = self._tensors_like_ours(model)
            self._sync_calls += 1
            self._calls_since_sync += 1
            if not force and self._calls_since_sync < self.config.model_sync_interval:
                return False
            with self._timed("publish"):
                self._publish(tensors)
            self._calls_since_sync = 0
            return True

    def _tensors_like_ours(self, model: Any) -> Mapping[str, Any]:
        """The weights by name; ModelError unless names and shapes are those of the workers' network."""
        if isinstance(model, np.ndarray):
            self._block.write(model.view(np.uint8).reshape(-1))
            return self._outgoing.state_dict()
        tensors = model.state_dict() if isinstance(model, nn.Module) else model
        if not isinstance(tensors, Mapping):
            raise ModelError(
                f"{type(model).__name__} is no network: expected one like new_model(), or its state_dict()"
            )
        wrong = shape_differences(self._outgoing.state_dict(), tensors)
        if wrong:
            raise ModelError(
                f"a network unlike the workers': {wrong[0]} ({len(wrong)} differ); "
                "train the one that new_model() gives"
            )
        return tensors

    @torch.no_grad()
    def _publish(self, tensors: Mapping[str, Any]) -> None:
        for name, tensor in self._outgoing.state_dict().items():
            tensor.copy_(torch.as_tensor(tensors[name]))
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise ModelError(
                    f"{name} has numbers that are not finite: nothing was sent, workers go on with "
                    f"version {self._version}; try a smaller learning rate"
                )
        self._backend.publish(self._block.read(), self._version + 1)
        self._version += 1

    def pause_workers(self, ids: Collection[int] | None = None) -> None:
        """Let these workers (None: all) finish their batch and begin no other."""
        chosen = self._workers(ids)
        with self._counting:
            self._backend.team.pause(ids)
            self._paused |= chosen

    def resume_workers(self, ids: Collection[int] | None = None) -> None:
        """Let paused workers play on."""
        chosen = self._workers(ids)
        with self._counting:
            self._backend.team.resume(ids)
            self._paused -= chosen

    def reset_workers(self, ids: Collection[int] | None = None) -> None:
        """Replace these workers by fresh ones; their games continue where they were, nothing is lost."""
        self._workers(ids)
        self._backend.team.reset(ids)

    def _workers(self, ids: Collection[int] | None) -> set[int]:
        """These workers, or all; ConfigError for one that does not exist."""
        self._require_running()
        if ids is not None and not (isinstance(ids, Collection) and all(is_whole(each, 0) for each in ids)):
            raise ConfigError(f"ids={shown(ids)}: expected a list of workers' numbers, or None for all")
        known = {worker.index for worker in self._backend.status().workers}
        unknown = sorted(set(ids or ()) - known)
        if unknown:
            raise ConfigError(f"there is no worker {unknown[0]}; workers are {sorted(known)}")
        return known if ids is None else set(ids)

    def get_status(self) -> dict[str, Any]:
        """Workers, slots and weights now: plain values, ready for JSON."""
        self._require_running()
        self._take_report()
        status, config = self._backend.status(), self.config
        is_shared_out = config.backend["name"] == "serial" and config.num_workers > 1
        remark = f"num_workers={config.num_workers}: the serial backend plays all workers' games in turn"
        return {
            **status.as_dict(),
            "set_aside": list(status.set_aside),
            "num_games": config.num_workers * config.games_per_worker,
            "rollout_steps": self._plan.rollout_steps,
            "decisions_collected": self._handed_over,
            "decisions_waiting": self._num_waiting(),
            "sync_calls": self._sync_calls,
            "stages": dict(self._stages),
            "events": list(self._events),
            "notes": [*self._notes, *([remark] if is_shared_out else [])],
        }

    def stop_workers(self) -> None:
        """Stop, and leave nothing behind; experiences that were not collected are lost. May be called twice.

        Threads that are collecting raise ControlError.
        """
        with self._starting:
            was_running, self._state = self._state == "running", "stopped"
            self._collecting.wake()
            if was_running:
                self._backend.close()

    def _take_report(self) -> None:
        report = self._backend.report()
        with self._counting:
            self._events.extend(event._asdict() for event in report.events)
            add_seconds(self._stages, report.timings)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = monotonic()
        yield
        with self._counting:
            add_seconds(self._stages, {stage: monotonic() - began})

    def _require_running(self) -> None:
        if self._state == "new":
            raise ControlError("the workers are not started; call start_workers(), or write `with manager:`")
        if self._state == "stopped":
            raise ControlError("the workers were stopped; make a new ParallelManager to go on")


def _require_positive(timeout: float | None, target_steps: int | None) -> None:
    if timeout is not None and not (isinstance(timeout, Real) and 0 <= timeout <= MOST_SECONDS):
        raise ConfigError(f"timeout={shown(timeout)}: expected seconds, 0 to {MOST_SECONDS}; None waits")
    if target_steps is not None and not is_whole(target_steps, 1):
        raise ConfigError(f"target_steps={shown(target_steps)}: expected 1 decision or more")
