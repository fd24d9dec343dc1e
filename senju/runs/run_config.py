"""The settings of a whole run, and whether its parts fit each other."""

import logging
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Literal

import torch
import yaml
from pydantic import AfterValidator, Field, field_validator, model_validator

from senju.algorithms import ALGORITHMS
from senju.algorithms.learner_runner import LearnerSettings
from senju.backends import BACKENDS
from senju.backends.building import importable_plan, new_models
from senju.backends.measuring import Announce, MachineMeter, MemoryNeed, Meter, memory_need
from senju.backends.options import GameEndOptions
from senju.backends.plan import Plan
from senju.collect.device_actor import DeviceEvaluation
from senju.collect.seating import Seating
from senju.collect.shard import count_shards
from senju.config import Part, Settings, merged, read_yaml, validated
from senju.cuda import Kernels, find_gpu, is_cuda
from senju.divisors import divisors
from senju.errors import ConfigError
from senju.games import GAMES, make_game
from senju.games.game import Game
from senju.machine import available_cores
from senju.models import MODELS
from senju.opponents.opponent_players import OpponentSettings, OpponentSpec
from senju.opponents.players import KNOWN_OPPONENTS
from senju.opponents.pool import OpponentsConfig
from senju.runs.automatic import AUTO, BACKEND, resolve_automatic
from senju.runs.parallel_options import LearnerKind, RunParallelOptions
from senju.runs.presets import preset, preset_for, preset_variants
from senju.runs.seats import SeatConfig, policies_of, resolved_part, settings_of_seats
from senju.trust import require_trust

logger = logging.getLogger(__name__)

DEFAULT_PARTS: Settings = {
    "model": {"name": "mlp"},
    "algorithm": {"name": "ppo"},
    "backend": {"name": "serial"},
}

MOST_GAMES = 2**20
GamePart = Annotated[Settings, AfterValidator(partial(resolved_part, GAMES))]
ModelPart = Annotated[Settings, AfterValidator(partial(resolved_part, MODELS))]
AlgorithmPart = Annotated[Settings, AfterValidator(partial(resolved_part, ALGORITHMS))]
BackendPart = Annotated[Settings, AfterValidator(partial(resolved_part, BACKENDS))]


class CollectConfig(GameEndOptions):
    """How games are grouped and how far they are played between updates."""

    num_games: int = Field(256, ge=1, le=MOST_GAMES, description="Games played at once.")
    games_per_shard: int = Field(
        64, ge=1, description="Games evaluated as one batch; fixes the result's bits."
    )
    rollout_steps: int = Field(64, ge=1, le=2**16, description="Steps of every game per update.")
    seating: Seating = Field(
        "self_play",
        description="Who plays: one agent every seat, one agent and opponents, or an agent in each seat.",
    )
    whole_games: bool = Field(
        False, description="Each update is one game of every row, whole where rollout_steps are enough."
    )
    mode: Literal["sync", "async"] = Field(
        "sync", description="Whether games wait for the learner (repeatable) or go on while it learns."
    )
    evaluate_on: Literal["workers", "device"] = Field(
        "workers",
        description="Where networks are evaluated: by the workers on their cores, or on the learner's "
        "device; auto: wherever it is faster.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Precision of the networks' matrix products on the device; auto: what it is fast in.",
    )
    max_lag: int = Field(
        1, ge=1, le=64, description="In async mode: how many versions old the weights that act may be."
    )

    @model_validator(mode="after")
    def _divides(self) -> "CollectConfig":
        count_shards(self.num_games, self.games_per_shard)
        return self


class EvaluationConfig(Part):
    """How strength is measured while training."""

    interval: int = Field(25, ge=0, description="Updates between evaluations; 0 measures only at the end.")
    games: int = Field(
        100, ge=2, le=100_000, multiple_of=2, description="Games per opponent, colours swapped."
    )
    opponents: tuple[str, ...] = Field(("random",), description=f"Opponents: {KNOWN_OPPONENTS}.")
    final_opponents: tuple[str, ...] = Field((), description="Additional opponents at the end.")


class CheckpointConfig(Part):
    """When the whole system is saved."""

    interval: int = Field(25, ge=1, description="Updates between checkpoints.")
    keep: int = Field(3, ge=1, le=10_000, description="How many are kept; the oldest are removed.")


class RunConfig(Part):
    """Everything that decides what a run computes, and how it is watched."""

    game: GamePart = Field(description="The game and its settings.")
    model: ModelPart = Field(DEFAULT_PARTS["model"], description="The network and its settings.")
    algorithm: AlgorithmPart = Field(DEFAULT_PARTS["algorithm"], description="The learner and its settings.")
    backend: BackendPart = Field(DEFAULT_PARTS["backend"], description="Where games are played.")
    collect: CollectConfig = CollectConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    opponents: OpponentsConfig = OpponentsConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    seats: dict[str, SeatConfig] = Field({}, description="Settings of single seats, by number.")
    learners: LearnerKind = Field(
        "auto", description="How agents are trained: one by one (sequential), in processes, or stacked."
    )
    attention: Literal["equal", "adaptive"] = Field(
        "equal", description="Whether agents whose reward or loss changes more are trained more."
    )
    parallel: RunParallelOptions = RunParallelOptions()
    total_steps: int = Field(
        1_000_000, ge=1, description="Decisions to learn from, rounded up to whole updates."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of all random numbers in the run.")
    device: str = Field(
        "cpu", description="Where the learner computes: cpu, cuda, cuda:1, …; auto: a GPU if there is one."
    )
    kernels: Kernels = Field(
        "repeatable",
        description="How a GPU computes: torch's own kernels (eager), compiled ones that repeat their bits, "
        "or the fastest by measurement, whose bits differ from run to run.",
    )
    threads: int = Field(
        0,
        ge=0,
        le=1024,
        description="Math threads of the learner; 0: all cores, in async mode what workers leave.",
    )
    chosen: str = Field(
        "", description="Why senju chose the automatic settings of this run; a note without effect."
    )
    automatic: tuple[str, ...] = Field(
        (), description="The settings that senju chose; its sizes may shrink where GPU memory runs out."
    )

    @field_validator("device")
    @classmethod
    def _is_concrete(cls, device: str) -> str:
        if device == AUTO:
            raise ValueError("a run has one device: name it; only settings of new runs may be auto")
        return device

    @cached_property
    def decisions_per_update(self) -> int:
        """Decisions in one batch of rollouts."""
        acting = make_game(**self.game).num_acting
        return self.collect.num_games * self.collect.rollout_steps * acting

    @property
    def total_updates(self) -> int:
        """Updates until total_steps are reached."""
        return -(-self.total_steps // self.decisions_per_update)

    @property
    def is_independent(self) -> bool:
        """Whether every seat has an agent of its own."""
        return self.collect.seating == "independent"

    @cached_property
    def learner_settings(self) -> tuple[LearnerSettings, ...]:
        """The learners: one for each seat if the seating is `independent`, otherwise one."""
        only = LearnerSettings(
            seat=0,
            model=self.model,
            algorithm=self.algorithm,
            seed=self.seed,
            total_updates=self.total_updates,
            device=self.device,
            kernels=self.kernels,
        )
        if not self.is_independent:
            return (only,)
        return settings_of_seats(only, self.seats, make_game(**self.game), self.parallel)

    @property
    def has_opponents(self) -> bool:
        """Whether opponents sit in some games; beside independent agents if `opponents` is given."""
        is_given = self.is_independent and self.opponents != OpponentsConfig()
        return self.collect.seating == "opponents" or is_given

    @property
    def plan(self) -> Plan:
        """What a backend plays; the trainer fills in fixed opponents that need weights."""
        collect, opponents = self.collect, self.opponents
        fixed = tuple(OpponentSpec(description) for description in opponents.fixed)
        players = OpponentSettings(fixed, opponents.in_play, opponents.self_share, opponents.epsilon)
        is_ahead = self.is_independent and collect.mode == "async"
        decisions = collect.num_games * collect.rollout_steps  # of one seat
        return Plan(
            game=self.game,
            policies=policies_of(
                self.learner_settings,
                decisions if self.is_independent else self.decisions_per_update,
                turns_ahead=self.parallel.epochs_ahead if is_ahead else 0,
            ),
            seed=self.seed,
            num_shards=count_shards(collect.num_games, collect.games_per_shard),
            games_per_shard=collect.games_per_shard,
            rollout_steps=collect.rollout_steps,
            opponents=players if self.has_opponents else None,
            is_shared=self.is_independent and self.learners == "processes",
            num_snapshots=opponents.num_weight_slots if self.has_opponents else 0,
            whole_games=collect.whole_games,
            max_lag=collect.max_lag if collect.mode == "async" else 0,
            max_game_length=collect.max_game_length,
            resignation=collect.resignation,
            evaluation=self.evaluation_on_device,
        )

    @property
    def evaluation_on_device(self) -> DeviceEvaluation | None:
        """How the device evaluates while games are played; None if the workers do it."""
        if self.collect.evaluate_on == "workers":
            return None
        is_read_elsewhere = self.is_independent and self.learners == "processes"
        precision, frees_host = self.collect.precision, not is_read_elsewhere
        return DeviceEvaluation(self.device, precision, self.kernels, frees_host)

    @model_validator(mode="after")
    def _parts_fit_each_other(self) -> "RunConfig":
        game = make_game(**self.game)
        if not self.is_independent:
            self._refuse_settings_of_agents()
        elif not any(learner.learns for learner in self.learner_settings):
            raise ConfigError(
                "seats: learns=false in every seat, so no agent would learn; leave it out in one seat"
            )
        self.plan.resignation.check(game)
        self._require_opponents(game)
        for learner in self.learner_settings:
            where = f"seats.{learner.seat}." if str(learner.seat) in self.seats else ""
            factor = learner.train_every if self.is_independent else game.num_acting
            self._require_divisor(learner.algorithm.get("minibatch_size"), factor, where)
        return self

    def _refuse_settings_of_agents(self) -> None:
        for name in ("seats", "learners", "attention", "parallel"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ConfigError(
                    f"{name} needs an agent in each seat, and collect.seating is {self.collect.seating}; "
                    "set it to independent"
                )

    def _require_opponents(self, game: Game) -> None:
        seating, fixed = f"collect.seating={self.collect.seating}", self.opponents.fixed
        if fixed and not self.has_opponents:
            raise ConfigError(
                f"opponents.fixed names {fixed[0]!r}, but with {seating} the learner plays every seat; "
                "set collect.seating to opponents, or remove opponents.fixed"
            )
        if self.has_opponents and game.num_seats < 2:
            raise ConfigError(f"{seating}: {game.name} has one seat, so opponents cannot take part")
        if self.has_opponents and not fixed and not self.opponents.snapshot_interval:
            raise ConfigError(
                f"{seating} without any opponent: name some in opponents.fixed, or set "
                "opponents.snapshot_interval to play against snapshots of its own past"
            )

    def _require_divisor(self, size: int | None, factor: int, where: str) -> None:
        """Refuse a minibatch that does not divide the batch; `factor` is turns in it, or seats at once."""
        num_games, num_steps = self.collect.num_games, self.collect.rollout_steps
        batch = num_games * num_steps * factor
        if size is None or batch % size == 0:
            return
        possible = divisors([num_games, num_steps, factor])
        smaller = max(n for n in possible if n <= size)
        larger = min((n for n in possible if n >= size), default=smaller)
        fits = " or ".join(str(n) for n in sorted({smaller, larger}))
        raise ConfigError(
            f"{where}algorithm.minibatch_size={size} does not divide the batch of {batch} decisions "
            f"({num_games} games × {num_steps} steps{f' × {factor}' if factor > 1 else ''}); try {fits}"
        )


def require_device(device: str) -> None:
    """Refuse a device that this machine lacks. Only training needs it: any machine can open a run."""
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device={device!r} cannot be used here: {reason}") from None


def resolve_config(
    game: str | None = None,
    *layers: Settings,
    variant: str | None = None,
    announce: Announce = logger.info,
    num_runs: int = 1,
) -> RunConfig:
    """The settings of a run: defaults, then the game's preset, then the given layers in order.

    `variant` names another preset of the game instead of the usual one. `auto` becomes a value; where this
    needs a measurement, `announce` gets its progress. `num_runs` runs share this machine.
    """
    given = merged({"game": {}}, *layers, {"game": game} if game else {})
    name = given["game"].get("name") if isinstance(given["game"], dict) else None
    if name is None:
        raise ConfigError(f"no game given; known are {', '.join(GAMES.names())}")
    GAMES.get(name)
    settings = _with_preset(str(name), given, variant)
    resolved = resolve_automatic(
        settings,
        config_of=partial(validated, RunConfig),
        meter_of=partial(_new_meter, announce, num_runs),
        need_of=_memory_need,
        is_importable=_is_importable,
    )
    if BACKEND in resolved.automatic:
        given = merged(given, {"backend": resolved.settings["backend"]})
    config = resolve_parallel(validated(RunConfig, resolved.settings), given)
    require_device(config.device)
    # resolved, since rounding may depend on it: a resume must not take another machine's cores
    threads = config.threads or _math_threads(config)
    chosen = {"chosen": resolved.chosen, "automatic": resolved.automatic} if resolved.chosen else {}
    return config.model_copy(update={"threads": threads, **chosen})


def chosen_settings(config: RunConfig) -> Settings:
    """The settings that were chosen automatically, with the note, for other runs like this one."""
    if not config.chosen:
        return {}
    values, found = config.model_dump(mode="json"), Settings()
    for path in config.automatic:
        part, _, name = path.partition(".")
        found = merged(found, {part: {name: values[part][name]} if name else values[part]})
    return found | {"device": config.device, "chosen": config.chosen, "automatic": config.automatic}


def _with_preset(game: str, given: Settings, variant: str | None) -> Settings:
    """Defaults, preset and given settings with the device resolved, but otherwise as they are.

    On a GPU the preset for GPUs is the usual one, unless another algorithm is given.
    """
    ready_made = preset_for(game, given) if variant is None else preset(game, variant)
    device = given.get("device", ready_made.get("device", AUTO))
    if device == AUTO:
        device = find_gpu() or "cpu"
    if variant is None and is_cuda(device) and "gpu" in preset_variants(game):
        for_gpus = preset(game, "gpu")
        usual, asked = (merged(DEFAULT_PARTS, each)["algorithm"] for each in (for_gpus, given))
        if not isinstance(asked, Mapping) or asked["name"] == usual["name"]:
            ready_made = for_gpus
    settings = merged(ready_made, given, {"device": device})
    defaults = {part: own for part, own in DEFAULT_PARTS.items() if part != "backend" or part in settings}
    return merged(defaults, settings)


def _new_meter(announce: Announce, num_runs: int, config: RunConfig) -> Meter:
    require_device(config.device)
    return MachineMeter(config.plan, config.device, announce, num_runs)


def _memory_need(config: RunConfig) -> MemoryNeed:
    game = make_game(**config.game)
    return memory_need(config.plan, game, new_models(config.plan, game).sizes)


def _is_importable(config: RunConfig) -> bool:
    """Whether worker processes can import the classes that the run names."""
    try:
        importable_plan(config.plan)
    except ConfigError:
        return False
    return True


def resolve_parallel(config: RunConfig, given: Settings) -> RunConfig:
    """Fill backend, mode and learners according to `parallel`, unless they are given."""
    if not config.is_independent:
        return config
    parallel = config.parallel
    learners = parallel.learners(config.learners, len(config.learner_settings), config.device)
    changes: Settings = {"learners": learners}
    if "mode" not in merged({"collect": {}}, given)["collect"]:
        changes["collect"] = {"mode": "async" if parallel.enabled and parallel.async_learning else "sync"}
    if "opponents" not in merged({"evaluation": {}}, given)["evaluation"]:
        changes["evaluation"] = {"opponents": []}  # rewards are measured instead of matches
    if "backend" not in given:
        changes["backend"] = parallel.backend
    return validated(RunConfig, merged(config.model_dump(mode="json"), changes))


def _math_threads(config: RunConfig) -> int:
    """All cores; in async mode, where workers play meanwhile, those that the workers leave.

    Math threads that share a core with other work wait for each other, and become many times slower.
    """
    cores = available_cores()
    if config.is_independent and config.learners != "stacked":
        return 1  # of each learner: equal bytes, however many learn at once
    if config.collect.mode == "sync" or config.device != "cpu" or config.backend["name"] == "serial":
        return cores
    num_workers = config.backend.get("num_workers") or cores
    return max(1, cores - min(num_workers, config.plan.num_shards))


def dump_config(config: RunConfig) -> str:
    """The resolved settings as YAML; reading them back gives an equal config."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def load_config(path: Path, trust: bool = False) -> RunConfig:
    """The resolved settings of an existing run; code that they name is loaded only if it is trusted."""
    settings = read_yaml(path)
    require_trust(path.parent, settings, trust)
    return validated(RunConfig, settings)
