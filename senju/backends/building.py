"""Objects that a plan describes. Every worker builds the same ones, from classes that it finds by name."""

import dataclasses
import logging
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from senju.backends.plan import Plan, PolicyPlan
from senju.collect.device_actor import DeviceProgram
from senju.collect.device_columns import DeviceColumns, DeviceSlot
from senju.collect.orders import Orders
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer, policy_view, warm_up
from senju.collect.shard import Shard
from senju.collect.slots import Allocate, Ring, RingShape, new_slot
from senju.collect.step_actor import StepProgram
from senju.cuda import free_memory, reporting_memory
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.models import MODELS, make_model
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.opponent_players import OpponentPlayers, OpponentSettings, OpponentSpec
from senju.timing import StageClock
from senju.workers.script import find_importable

logger = logging.getLogger(__name__)

_WARM_UP_STEPS = 4  # enough for every seat to move


class WeightSizes(NamedTuple):
    """Bytes of a plan's weights."""

    policies: int  # of all policies together, as published
    fixed: list[int]  # of each fixed opponent that is an agent


class PlanModels(NamedTuple):
    """The networks of a plan."""

    policies: list[Model]  # with the weights that they start from
    fixed: list[Model]  # of the fixed opponents that are agents

    def read_weights(self) -> Weights:
        """The policies' weights, one after another, as they are published."""
        return WeightBlock(nn.ModuleList(self.policies)).read()

    @property
    def sizes(self) -> WeightSizes:
        """The sizes of the networks' weights."""
        policies = WeightBlock(nn.ModuleList(self.policies)).num_bytes
        return WeightSizes(policies, [WeightBlock(model).num_bytes for model in self.fixed])


def new_models(plan: Plan, game: Game | None = None) -> PlanModels:
    """The networks with their first weights."""
    game = game or make_game(**plan.game)
    shape, num_actions = game.observation_shape, game.num_actions
    fixed = plan.opponents.fixed if plan.opponents else ()
    return PlanModels(
        [make_model(policy.model, shape, num_actions, policy.seed) for policy in plan.policies],
        [make_model(spec.model, shape, num_actions, plan.seed) for spec in fixed if spec.model is not None],
    )


def warm_up_plan(plan: Plan, game: Game, models: PlanModels) -> None:
    """Compile, or load from the cache, what playing the plan needs; workers then find it in the cache."""
    warm_up(game, models.policies)
    if plan.opponents is not None:
        settings = OpponentSettings(fixed=(OpponentSpec("random"),) * 2, in_play=1)
        orders = Orders(ids=(1, 2), weight_indices=(-1, -1), probabilities=(0.5, 0.5))
        policies, no_weights = [Policy(model) for model in models.policies], dict[int, Weights]()
        opponents = OpponentPlayers(game, settings, policies, models.fixed, no_weights.__getitem__)
        player = RolloutPlayer(game, policies, 1, StageClock(), opponents=opponents)
        view = policy_view(game, len(policies))
        slots = [new_slot(view, _WARM_UP_STEPS, 1) for _ in policies]
        player.play(Shard(game, 0, 1, 0), slots, orders)


def new_rings(plan: Plan, game: Game, allocate: Allocate = np.zeros) -> tuple[Ring, ...]:
    """A ring for each policy."""
    view = policy_view(game, len(plan.policies))
    return tuple(Ring(view, shape, allocate) for shape in _ring_shapes(plan))


def _ring_shapes(plan: Plan) -> list[RingShape]:
    return [
        RingShape(
            num_shards=plan.num_shards,
            num_steps=plan.rollout_steps,
            num_rows=plan.games_per_shard,
            kept=policy.kept_turns,
            ahead=plan.max_lag,
            keeps_final=policy.keeps_final,
            transient=policy.transient_turns,
            keeps_uploaded=not _only_on_device(plan, policy),
        )
        for policy in plan.policies
    ]


def new_program(plan: Plan) -> DeviceProgram | None:
    """What a device executes for the plan; None if workers evaluate on their cores."""
    return DeviceProgram(plan.evaluation) if plan.evaluation is not None else None


def add_device_columns(plan: Plan, game: Game, rings: Sequence[Ring], device: torch.device) -> None:
    """Keep what is evaluated on the device for the learner: all turns if there is room, or the newest.

    The newest are always kept if the host does not have them.
    """
    view, free = policy_view(game, len(plan.policies)), free_memory(device) // 2
    per_turn = [DeviceColumns.bytes_per_turn(view, ring.shape) for ring in rings]
    whole = [ring.shape.depth for ring in rings]
    newest = [ring.shape.ahead + ring.shape.transient for ring in rings]
    needed = sum(map(operator.mul, newest, per_turn))
    has_whole_room = sum(map(operator.mul, whole, per_turn)) <= free
    if not has_whole_room and needed > free and all(ring.shape.keeps_uploaded for ring in rings):
        logger.warning(
            "%d MiB of observations do not fit into the device's free %d MiB: they are uploaded again to be "
            "learned from; fewer num_games or rollout_steps avoid this",
            needed >> 20,
            free >> 20,
        )
        return
    with reporting_memory():
        for ring, turns in zip(rings, whole if has_whole_room else newest, strict=True):
            ring.on_device = DeviceColumns(view, ring.shape, turns, device)


def device_slots(rings: Sequence[Ring], shard: int, turn: int) -> list[DeviceSlot]:
    """The rollout's slots on the device: of every ring, or none."""
    kept = [ring.on_device for ring in rings]
    return [each.slot(shard, turn) for each in kept if each is not None]


def placed(plan: Plan, game: Game) -> Plan:
    """The plan; the host keeps the observations if the device has no room for the newest."""
    evaluation = plan.evaluation
    if evaluation is None or not evaluation.frees_host:
        return plan
    view = policy_view(game, len(plan.policies))
    needed = sum(
        DeviceColumns.bytes_per_turn(view, shape) * (shape.ahead + shape.transient)
        for shape in _ring_shapes(plan)
    )
    has_room = needed <= free_memory(torch.device(evaluation.device)) // 2
    return plan.model_copy(update={"evaluation": evaluation._replace(frees_host=has_room)})


def _only_on_device(plan: Plan, policy: PolicyPlan) -> bool:
    """Whether observations stay on the device alone: they are learned from once, and never saved."""
    is_freed = plan.evaluation is not None and plan.evaluation.frees_host
    return is_freed and policy.kept_turns == 1 and not policy.keeps_final


def acting_policies(plan: Plan, models: Sequence[Model]) -> list[Policy]:
    """The plan's policies, with these networks."""
    return [
        Policy(model, policy.acting._replace(rungs=plan.num_shards))
        for model, policy in zip(models, plan.policies, strict=True)
    ]


def new_rollout_player(
    plan: Plan,
    game: Game,
    models: PlanModels,
    clock: StageClock,
    weights_at: Callable[[int], Weights],
    program: StepProgram | None = None,
) -> RolloutPlayer:
    """A player for the plan's shards; `weights_at` gives the weights at an index of the orders."""
    policies = acting_policies(plan, models.policies)
    num_rows, opponents = plan.games_per_shard, None
    if plan.opponents is not None:
        own = program if isinstance(program, DeviceProgram) else None  # of this process
        opponents = OpponentPlayers(game, plan.opponents, policies, models.fixed, weights_at, num_rows, own)
    with reporting_memory():
        return RolloutPlayer(
            game, policies, num_rows, clock, plan.resignation, opponents, plan.whole_games, program
        )


def new_shard(plan: Plan, game: Game, index: int) -> Shard:
    """One of the plan's shards, at its start."""
    return Shard(game, index, plan.games_per_shard, plan.seed, plan.max_game_length)


def with_modules(plan: Plan) -> Plan:
    """The plan with `module:Class` for game and networks; ConfigError for a class inside a function."""

    def name_in_module(name: str, kind: str) -> str:
        if kind == "opponent":  # its description is such a name already
            return name
        return GAMES.importable_name(name) if kind == "game" else MODELS.importable_name(name)

    return _renamed(plan, name_in_module)


def importable_plan(plan: Plan) -> tuple[Plan, str | None]:
    """The plan with names that another process can import, and the script it must import first, if any."""
    scripts: list[str | None] = []

    def importable(name: str, kind: str) -> str:
        found, script = find_importable(name, kind)
        scripts.append(script)
        return found

    return _renamed(with_modules(plan), importable), next(filter(None, scripts), None)


def _renamed(plan: Plan, rename: Callable[[str, str], str]) -> Plan:
    """The plan with its classes renamed; `rename` gets a name and its kind: game, model or opponent."""

    def changed(settings: dict[str, Any], kind: str) -> dict[str, Any]:
        return settings | {"name": rename(settings["name"], kind)}

    game, opponents = changed(plan.game, "game"), plan.opponents
    policies = [each.model_copy(update={"model": changed(each.model, "model")}) for each in plan.policies]
    if opponents is not None:
        fixed = [
            dataclasses.replace(spec, description=rename(spec.description, "opponent"))
            for spec in opponents.fixed
        ]
        opponents = dataclasses.replace(opponents, fixed=tuple(fixed))
    return plan.model_copy(update={"game": game, "policies": tuple(policies), "opponents": opponents})
