"""Policies that are evaluated together: on the worker's core, or on a device."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.collect.actor import Actor, NetworkOutput, StackedActor
from senju.collect.device_actor import DeviceActor
from senju.collect.device_columns import DeviceSlot
from senju.collect.policy import PolicyInPlay
from senju.collect.step_actor import StepProgram
from senju.games.game import Observations, SeatView
from senju.games.rows import Rows
from senju.models.mlp import Mlp
from senju.models.stacked import can_stack, have_one_shape
from senju.timing import StageClock


class PolicyGroup(ABC):
    """Policies that are evaluated together: networks of one shape, or a single policy."""

    is_late = False  # whether positions are valued after the last step, from copies

    def __init__(self, policies: Sequence[PolicyInPlay]) -> None:
        self.policies = list(policies)
        self.is_valuing = policies[0].is_valuing  # whether the values of these policies are learned from

    def begin(self, rows: Rows, kept: Sequence[DeviceSlot]) -> None:  # noqa: B027  # the host has nothing to do
        """Start a rollout, or continue one, after its policies have begun; `kept` are their device slots."""

    @abstractmethod
    def act(self, rows: Rows, time: int, is_partial: bool, clock: StageClock) -> None:
        """Evaluate what the policies see, choose, and write the choice to their slots.

        With `is_partial`, a policy decides only in some positions.
        """

    @abstractmethod
    def evaluate(self, observations: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The values of one batch for each policy."""

    def value_later(self, seen: Sequence[Observations], chosen: NDArray[np.int64], time: int) -> None:
        """Value these rows' positions after the last step, if `is_late`; `seen` holds these rows alone."""
        raise NotImplementedError

    def finish(self) -> None:  # noqa: B027  # the host has nothing to do
        """Finish what was put off."""

    def refresh(self) -> None:  # noqa: B027  # the host's networks read the models in place
        """Take over the models' weights after a change."""


class HostGroup(PolicyGroup):
    """Evaluated on the worker's core."""

    def __init__(self, policies: Sequence[PolicyInPlay], num_rows: int) -> None:
        super().__init__(policies)
        first, models = policies[0], [policy.model for policy in policies]
        self._actor = Actor(first.view, first.model, num_rows) if len(policies) == 1 else None
        if self._actor is None:
            assert isinstance(first.view, SeatView)
            self._stack = StackedActor(first.view, models, num_rows)

    def act(self, rows: Rows, time: int, is_partial: bool, clock: StageClock) -> None:
        evaluations = self._evaluate_step(time, is_partial)
        clock.lap("evaluate")
        for policy, evaluation in zip(self.policies, evaluations, strict=True):
            policy.choose(evaluation, rows, time)

    def evaluate(self, observations: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        return [values for _, values in self._evaluate(observations)]

    def _evaluate(self, observations: Sequence[NDArray[Any]]) -> list[NetworkOutput]:
        if self._actor is not None:
            return [self._actor.evaluate(observations[0])]
        return self._stack.evaluate(observations)

    def _evaluate_step(self, time: int, is_partial: bool) -> list[NetworkOutput]:
        if self._actor is None or not is_partial:  # `grouped` makes no stack with `is_partial`
            return self._evaluate([policy.slot.observation[time] for policy in self.policies])
        (policy,) = self.policies
        return [self._actor.evaluate_some(policy.slot.observation[time], policy.positions)]


class _Later(NamedTuple):
    """Positions to be valued after the last step."""

    time: int
    chosen: NDArray[np.int64]
    seen: Sequence[Observations]  # of each policy, of the chosen rows


class DeviceGroup(PolicyGroup):
    """Evaluated on a device, in one batch of fixed shape, which also chooses the actions.

    A batch of a few truncated positions would take as long as a whole one, so they are copied and valued
    after the last step. The weights are the same then.
    """

    is_late = True

    def __init__(self, policies: Sequence[PolicyInPlay], num_rows: int, program: StepProgram) -> None:
        super().__init__(policies)
        first, models = policies[0], [policy.model for policy in policies]
        streams = [policy.stream for policy in policies]
        self._actor = program.new_actor(first.view, models, first.acting, streams, num_rows)
        self._batch = num_rows * first.view.num_acting
        self._later: list[_Later] = []

    def begin(self, rows: Rows, kept: Sequence[DeviceSlot]) -> None:
        self._kept = kept
        self._later.clear()
        self._actor.begin(rows.seed, [policy.epsilon for policy in self.policies])

    def act(self, rows: Rows, time: int, is_partial: bool, clock: StageClock) -> None:
        seen = [policy.seen_at(time) for policy in self.policies]
        results = self._actor.act(seen, rows.clock, self._kept, time)
        clock.lap("evaluate")
        for index, policy in enumerate(self.policies):
            if not policy.store_choice(results, index, time):
                position = int(results.actions[index].argmin())
                policy.refuse_choice(position, self._actor.logits_at(index, position), time)

    def evaluate(self, observations: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        flat = [each.reshape(-1, *self.policies[0].view.observation_shape) for each in observations]
        batches = range(0, len(flat[0]), self._batch)
        found = [
            self._actor.evaluate([each[start : start + self._batch] for each in flat]) for start in batches
        ]
        return list(np.concatenate(found, axis=1)) if found else [np.zeros(0, np.float32) for _ in flat]

    def time_steps(self, count: int) -> float:
        """Seconds of one evaluation and choice without uploads, averaged over `count`."""
        assert isinstance(self._actor, DeviceActor), "only this process can time its device"
        return self._actor.time_steps(count)

    def value_later(self, seen: Sequence[Observations], chosen: NDArray[np.int64], time: int) -> None:
        self._later.append(_Later(time, chosen, seen))

    def finish(self) -> None:
        """Value the positions that were put off, and wait until everything is on the device."""
        later, self._later = self._later, []
        if later:
            joined = [
                np.concatenate([each.seen[index].observation for each in later])
                for index in range(len(self.policies))
            ]
            acting, values, first = self.policies[0].view.num_acting, self.evaluate(joined), 0
            for each in later:
                end = first + len(each.chosen) * acting
                for policy, seen, found in zip(self.policies, each.seen, values, strict=True):
                    policy.store_some_values(seen.seats, found[first:end], each.chosen, each.time)
                first = end
        self._actor.finish()

    def refresh(self) -> None:
        self._actor.refresh()


def grouped(
    policies: Sequence[PolicyInPlay], num_rows: int, is_partial: bool, program: StepProgram | None = None
) -> list[PolicyGroup]:
    """Group policies whose networks have one shape; groups are in the order of their first policies.

    On the host, with `is_partial`, each policy decides in some of the rows only: it gets a group of its own,
    which evaluates these rows. A device evaluates all rows.
    """
    if program is None:
        groups = _join(policies, partial(_can_join_on_host, is_partial))
        return [HostGroup(group, num_rows) for group in groups]
    return [DeviceGroup(group, num_rows, program) for group in device_groups(policies)]


def device_groups(policies: Sequence[PolicyInPlay]) -> list[list[PolicyInPlay]]:
    """The policies that a device evaluates together."""
    return _join(policies, _can_join_on_device)


def _join(
    policies: Sequence[PolicyInPlay], can_join: Callable[[PolicyInPlay, PolicyInPlay], bool]
) -> list[list[PolicyInPlay]]:
    """Put each policy into the first group that it can join."""
    groups: list[list[PolicyInPlay]] = []
    for policy in policies:
        for group in groups:
            if can_join(group[0], policy):
                group.append(policy)
                break
        else:
            groups.append([policy])
    return groups


def _can_join_on_host(is_partial: bool, first: PolicyInPlay, policy: PolicyInPlay) -> bool:
    """Whether a policy can be stacked with the first one of a group; `vmap` is slow on a CPU."""
    is_alike = first.is_valuing == policy.is_valuing and not is_partial and type(policy.model) is Mlp
    return is_alike and have_one_shape([first.model, policy.model])


def _can_join_on_device(first: PolicyInPlay, policy: PolicyInPlay) -> bool:
    models = [first.model, policy.model]
    is_alike = first.acting == policy.acting and have_one_shape(models)
    return is_alike and (type(policy.model) is Mlp or can_stack(models, policy.view.observation_shape))
