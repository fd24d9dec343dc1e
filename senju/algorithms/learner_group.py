"""A group of learners: one for self-play, one for every seat with independent agents.

Nothing is shared between them. The group decides which agent is trained after which turn. A `LearnerRunner`
runs the learners: one after another, stacked, or in processes.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from senju.algorithms.learner import LearnerState
from senju.algorithms.learner_runner import LearnerRunner, LearnerSettings, TrainingResult, TrainingTask
from senju.collect.slots import Ring, Rollout
from senju.games.game import Game, SeatView
from senju.models.weights import Weights

Turns = list[tuple[int, tuple[int, ...]]]  # numbers of turns, and the shards that played them; oldest first

_MIN_WAIT_SECONDS = 5.0  # for a learner


class Attention:
    """Gives more training to agents whose reward or loss moves more.

    It compares fast and slow running means of both. The mean share of the agents that learn is 1, so that
    the total work stays about the same.
    """

    FAST, SLOW = 0.5, 0.1  # rates of the running means
    LEAST = 0.5  # share of an agent whose reward and loss do not move

    def __init__(self, learns: Sequence[bool]) -> None:
        num_seats, self._learns = len(learns), np.array(learns, np.bool_)
        self._means = np.zeros((num_seats, 2, 2))  # [seat, reward or loss, fast or slow]
        self._counts = np.zeros((num_seats, 2), np.int64)

    def record(self, seat: int, reward: float | None = None, loss: float | None = None) -> None:
        """Record an agent's newest reward or loss."""
        for kind, value in enumerate((reward, loss)):
            if value is None:
                continue
            means = self._means[seat, kind]
            rates = np.array([self.FAST, self.SLOW])
            means += value - means if not self._counts[seat, kind] else rates * (value - means)
            self._counts[seat, kind] += 1

    def shares(self) -> list[float]:
        """How much each agent learns; 1 on average over those that learn."""
        fast, slow = self._means[..., 0], self._means[..., 1]
        scale = np.abs(slow) + 1e-3 * np.abs(slow).max(axis=0) + 1e-12
        moves = (np.abs(fast - slow) / scale).sum(axis=1)
        learning = moves[self._learns]
        if not learning.any():
            return [1.0] * len(moves)
        shares = self.LEAST + (1.0 - self.LEAST) * moves / learning.mean()
        return [float(share) for share in shares]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"means": self._means.tolist(), "counts": self._counts.tolist()}

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `as_dict` returned."""
        self._means[:], self._counts[:] = saved["means"], saved["counts"]


class LearnerGroup:
    """All learners of a run. Their weights are published together.

    metrics = group.update(backend.collect())
    backend.publish(group.weights(), group.version)
    """

    def __init__(
        self,
        settings: Sequence[LearnerSettings],
        runner: LearnerRunner,
        attention: Literal["equal", "adaptive"] = "equal",
        turns_ahead: int = 1,
    ) -> None:
        """With a free-running runner, collecting is at most `turns_ahead` turns ahead of a learner."""
        self.settings, self.runner, self.version = list(settings), runner, 0
        self._turns_ahead = turns_ahead
        # of each agent: the turn of its last task, and of the last task that took too long
        self._last_task_turn, self._timed_out_turn = ([-1] * len(self.settings) for _ in range(2))
        self._longest = 0.0  # seconds of the longest training
        self._is_adaptive = attention == "adaptive"
        self._attention = Attention([each.learns for each in self.settings])
        # of each agent: turns and their shards since its last task, and those of the task that is under way
        self._new: list[Turns] = [[] for _ in self.settings]
        self._in_training: list[Turns] = [[] for _ in self.settings]
        self._rings: Sequence[Ring] = ()
        self._trained: list[TrainingResult] = []

    @property
    def has_agents(self) -> bool:
        """Whether there are several agents: metrics and pictures then show each one."""
        return len(self.settings) > 1

    @property
    def _seats(self) -> range:
        return range(len(self.settings))

    def attach(self, rings: Sequence[Ring], view: Game | SeatView) -> None:
        """Learn from these rings, one for each agent."""
        self._rings = rings
        self.runner.attach(rings, view)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Each agent's share of random moves."""
        return tuple(self.runner.epsilon(seat) for seat in self._seats)

    def update(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Train the agents that are due, each on what it has seen since its last training."""
        turn, shards = rollouts[0].turn, tuple(rollout.shard for rollout in rollouts)
        for seat in self._seats:
            self._new[seat].append((turn, shards))
            del self._new[seat][: -self._rings[seat].shape.kept]
        rewards = self._rewards(rollouts)
        trained = self._wait_for_the_slowest(turn) + self.runner.learn(self._tasks(turn))
        self.version += 1
        lags = {f"agent_{i}/lag": float(self._lag(i, turn)) for i in self._seats if self.runner.is_busy(i)}
        return self._describe(trained) | rewards | lags

    def _rewards(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Each agent's reward per step of a game."""
        if not self.has_agents:
            return {}
        steps = sum(rollout.data.terminated.size for rollout in rollouts)
        found = {}
        for seat in self._seats:
            rewards = (rollout.slots[seat].rewards.sum(dtype=np.float64) for rollout in rollouts)
            reward = found[f"agent_{seat}/reward"] = sum(map(float, rewards)) / steps
            self._attention.record(seat, reward=reward)
        return found

    def _lag(self, seat: int, turn: int) -> int:
        """The number of turns since an agent's unfinished task was given; 0 if it has none."""
        return turn - self._last_task_turn[seat] if self.runner.is_busy(seat) else 0

    def _wait_for_the_slowest(self, turn: int) -> list[TrainingResult]:
        """Wait for learners that are `turns_ahead` turns behind. A learner that hangs is waited for once."""
        late = [
            seat
            for seat in self._seats
            if self._lag(seat, turn) >= self._turns_ahead
            and self._timed_out_turn[seat] != self._last_task_turn[seat]
        ]
        if not late:
            return []
        trained = self.runner.finish(late, max(_MIN_WAIT_SECONDS, 3.0 * self._longest))
        for seat in late:
            if self.runner.is_busy(seat):
                self._timed_out_turn[seat] = self._last_task_turn[seat]
        return trained

    def _tasks(self, turn: int) -> list[TrainingTask]:
        """The trainings that are due, in order."""
        shares = self._attention.shares() if self._is_adaptive else [1.0] * len(self.settings)
        due = [
            each
            for each in self.settings
            if each.learns and (turn + 1) % each.train_every == 0 and not self.runner.is_busy(each.seat)
        ]
        due.sort(key=lambda each: (each.train_order, -shares[each.seat], each.seat))
        tasks = []
        for each in due:
            turns, shards = zip(*self._new[each.seat], strict=True)
            self._last_task_turn[each.seat] = turn
            self._in_training[each.seat], self._new[each.seat] = self._new[each.seat], []
            number = (turn + 1) // each.train_every
            tasks.append(TrainingTask(each.seat, turns, shards, shares[each.seat], number))
        return tasks

    def _describe(self, trained: Sequence[TrainingResult]) -> dict[str, float]:
        """The metrics' means over all agents and, of several agents, each agent's own."""
        if self.has_agents:  # with a single learner, `take_trained` is never called
            self._trained += trained
        self._longest = max([self._longest, *(each.ended - each.began for each in trained)])
        own: dict[str, float] = {}
        values: dict[str, list[float]] = {}
        for each in trained:
            if not self.runner.is_busy(each.seat):  # a new task may be under way already
                self._in_training[each.seat] = []
            loss = each.metrics.get("loss", each.metrics.get("value_loss"))  # a policy's loss says little
            self._attention.record(each.seat, loss=loss)
            for name, value in each.metrics.items():
                values.setdefault(name, []).append(value)
            if self.has_agents:
                own |= {f"agent_{each.seat}/{name}": value for name, value in each.metrics.items()}
        return {name: float(np.mean(found)) for name, found in values.items()} | own

    def _turns_to_learn(self, seat: int) -> Turns:
        """The turns in an agent's ring from which no finished training has learned."""
        return (self._in_training[seat] + self._new[seat])[-self._rings[seat].shape.kept :]

    def first_new_turn(self, seat: int, turn: int) -> int:
        """The oldest turn that an agent has not learned from; `turn` if there is none."""
        turns = self._turns_to_learn(seat)
        return turns[0][0] if turns else turn

    def finish(self) -> dict[str, float]:
        """Wait for the last trainings of a free-running runner."""
        return self._describe(self.runner.finish())

    def take_trained(self) -> list[TrainingResult]:
        """The trainings since the last call."""
        trained, self._trained = self._trained, []
        return trained

    def weights(self) -> Weights:
        """All agents' weights, one after another."""
        blocks = [self.runner.weights(seat) for seat in self._seats]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def state(self) -> LearnerState:
        """Every agent's state, and the turns that are not in it, which are trained after a resume."""
        tensors: dict[str, torch.Tensor] = {}
        agents, new = [], []
        for seat in self._seats:
            state, is_trained = self.runner.state_for_saving(seat)
            new.append(self._new[seat] if is_trained else self._turns_to_learn(seat))
            tensors |= {f"{seat}.{name}": tensor for name, tensor in state.tensors.items()}
            agents.append(state.numbers)
        attention = self._attention.as_dict()
        numbers = {"version": self.version, "agents": agents, "new": new, "attention": attention}
        return LearnerState(tensors, numbers)

    def load_state(self, state: LearnerState) -> None:
        """Continue from a saved state."""
        self.version = state.count("version")
        self._attention.load(state.numbers["attention"])
        saved = zip(self._seats, state.numbers["agents"], state.numbers["new"], strict=True)
        for seat, numbers, new in saved:
            self._new[seat] = [(turn, tuple(shards)) for turn, shards in new]
            self._in_training[seat] = []
            prefix = f"{seat}."
            own = {n.removeprefix(prefix): t for n, t in state.tensors.items() if n.startswith(prefix)}
            self.runner.load_state(seat, LearnerState(own, numbers))

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self.runner.take_timings()

    def close(self) -> None:
        """Stop the learners; may be called twice."""
        self.runner.close()
