"""The settings of a whole run: all parts together, and whether they fit each other."""

import dataclasses
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from pydantic import AfterValidator, Field, model_validator

from senju.algorithms import ALGORITHMS
from senju.algorithms.independent import SeatSettings
from senju.algorithms.learner import Demands
from senju.backends import BACKENDS
from senju.backends.backend import Plan
from senju.collect.independent import require_seats_at_once
from senju.collect.seating import Seating, seat_seed
from senju.collect.shard import count_shards
from senju.config import Part, Settings, merged, read_yaml, shown, validated
from senju.divisors import divisors
from senju.errors import ConfigError
from senju.games import GAMES, make_game
from senju.machine import available_cores
from senju.models import MODELS
from senju.opponents.pool import OpponentsConfig
from senju.registry import Registry
from senju.training.seats import (
    Learners,
    ParallelOptions,
    SeatConfig,
    demands_of,
    policies_of,
    seat_parts,
)
from senju.trust import require_trust


def _resolver(registry: Registry[Any]) -> AfterValidator:
    def resolve(settings: Settings) -> Settings:
        if "name" not in settings:
            raise ConfigError(f"{registry.kind}: no name given; known are {', '.join(registry.names())}")
        config = registry.configure(settings)
        return {"name": settings["name"], **config.model_dump(mode="json")}

    return AfterValidator(resolve)


DEFAULT_PARTS: Settings = {
    "model": {"name": "mlp"},
    "algorithm": {"name": "ppo"},
    "backend": {"name": "serial"},
}

MOST_GAMES = 2**20

_PRESETS = resources.files("senju.presets")

GamePart = Annotated[Settings, _resolver(GAMES)]
ModelPart = Annotated[Settings, _resolver(MODELS)]
AlgorithmPart = Annotated[Settings, _resolver(ALGORITHMS)]
BackendPart = Annotated[Settings, _resolver(BACKENDS)]


class CollectConfig(Part):
    """How games are grouped and how far they are played between updates."""

    num_games: int = Field(256, ge=1, le=MOST_GAMES, description="Games played at once.")
    games_per_shard: int = Field(
        64, ge=1, description="Games evaluated as one batch; fixes the result's bits."
    )
    rollout_steps: int = Field(64, ge=1, le=2**16, description="Steps of every game per update.")
    seating: Seating = Field(
        "self_play",
        description="Who sits where: itself in all seats, opponents in the others, or an agent in each.",
    )
    whole_games: bool = Field(
        False, description="Each update is one game of every row, whole where rollout_steps are enough."
    )
    mode: Literal["sync", "async"] = Field(
        "sync", description="Whether games wait for the learner (repeatable) or go on while it learns."
    )
    max_lag: int = Field(
        1, ge=1, le=64, description="In async mode: how many versions old the weights that act may be."
    )
    max_game_length: int = Field(
        0, ge=0, le=2**31, description="Steps after which a game is cut (truncated); 0: never."
    )
    resign_below: float = Field(
        0.0, ge=0, le=1, description="A mover gives up where its value is below minus this; 0: never."
    )
    resign_exempt: float = Field(
        0.1, ge=0, le=1, description="Share of the games that are played to the end all the same."
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
    opponents: tuple[str, ...] = Field(
        ("random",),
        description="Who is played: random, minimax:DEPTH, greedy:DEPTH, perfect, a run, RUN@UPDATE.",
    )
    final_opponents: tuple[str, ...] = Field((), description="Who is played in addition at the end.")


class CheckpointConfig(Part):
    """When the whole system is saved."""

    interval: int = Field(25, ge=1, description="Updates between checkpoints.")
    keep: int = Field(3, ge=1, le=10_000, description="How many are kept; the oldest go.")


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
    seats: dict[str, SeatConfig] = Field({}, description="Seat by seat, what is different there.")
    learners: Learners = Field(
        "auto", description="How agents are trained: one by one (sequential), in processes, or stacked."
    )
    attention: Literal["equal", "adaptive"] = Field(
        "equal", description="Whether agents whose reward or loss moves more are trained more."
    )
    parallel: ParallelOptions = ParallelOptions()
    total_steps: int = Field(
        1_000_000, ge=1, description="Decisions to learn from, rounded up to whole updates."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Of everything random in the run.")
    device: str = Field("cpu", description="Where the learner computes: cpu, cuda, cuda:1, …")
    threads: int = Field(
        0,
        ge=0,
        le=1024,
        description="Math threads of the learner; 0: all cores, in async mode what workers leave.",
    )

    @cached_property
    def decisions_per_update(self) -> int:
        """How many places to decide there are in one batch of rollouts."""
        acting = make_game(**self.game).num_acting
        return self.collect.num_games * self.collect.rollout_steps * acting

    @property
    def decisions_per_seat(self) -> int:
        """The same of one seat, where all act at once."""
        return self.collect.num_games * self.collect.rollout_steps

    @property
    def total_updates(self) -> int:
        """Updates until total_steps are reached."""
        return -(-self.total_steps // self.decisions_per_update)

    @cached_property
    def demands(self) -> Demands:
        """What the learner asks of collecting."""
        return demands_of(self.algorithm)

    @property
    def is_independent(self) -> bool:
        """Whether every seat has an agent of its own."""
        return self.collect.seating == "independent"

    @cached_property
    def seat_settings(self) -> tuple[SeatSettings, ...]:
        """Who learns in each seat, where each has an agent of its own."""
        if not self.is_independent:
            return ()
        parts = seat_parts(make_game(**self.game), self.model, self.algorithm, self.seats)
        interval = self.parallel.train_interval
        return tuple(
            SeatSettings(
                seat=seat,
                model=model,
                algorithm=algorithm,
                seed=seat_seed(self.seed, seat),
                total_updates=max(1, self.total_updates // (interval * config.train_every)),
                device=self.device,
                train_every=interval * config.train_every,
                order=config.order,
                learns=config.learns,
            )
            for seat, (model, algorithm, config) in enumerate(parts)
        )

    @property
    def has_opponents(self) -> bool:
        """Whether others than the learner itself sit in games."""
        return self.collect.seating == "opponents"

    @property
    def plan(self) -> Plan:
        """What a backend is to play; fixed opponents that need weights are for the trainer to fill in."""
        collect, opponents, demands = self.collect, self.opponents, self.demands
        table = {
            "fixed": [{"description": description} for description in opponents.fixed],
            "in_play": opponents.in_play,
            "self_share": opponents.self_share,
            "epsilon": opponents.epsilon,
        }
        kept = -(-demands.kept_positions // self.decisions_per_update)
        return Plan(
            game=self.game,
            model=self.model,
            seed=self.seed,
            num_shards=count_shards(collect.num_games, collect.games_per_shard),
            games_per_shard=collect.games_per_shard,
            rollout_steps=collect.rollout_steps,
            seating=collect.seating,
            opponents=table if self.has_opponents else {},
            policies=self._policies,
            is_shared=self.is_independent and self.learners == "processes",
            num_snapshots=opponents.num_places if self.has_opponents else 0,
            acting=demands.acting,
            kept_turns=1 if self.is_independent else max(1, kept),
            keeps_final=demands.is_replaying and not self.is_independent,
            whole_games=collect.whole_games,
            max_lag=collect.max_lag if collect.mode == "async" else 0,
            max_game_length=collect.max_game_length,
            resign_below=collect.resign_below,
            resign_exempt=collect.resign_exempt,
        )

    @property
    def _policies(self) -> tuple[dict[str, Any], ...]:
        turns_ahead = self.parallel.epochs_ahead if self.collect.mode == "async" else 0
        policies = policies_of(self.seat_settings, self.decisions_per_seat, turns_ahead)
        return tuple(dataclasses.asdict(policy) for policy in policies)

    @model_validator(mode="after")
    def _fits_its_seating(self) -> "RunConfig":
        if not self.is_independent:
            for name in ("seats", "learners", "attention", "parallel"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ConfigError(
                        f"{name} is about agents that each have a seat; collect.seating is "
                        f"{self.collect.seating}, set it to independent"
                    )
            return self
        require_seats_at_once(make_game(**self.game))
        for name, off in {"whole_games": False, "resign_below": 0.0}.items():
            if getattr(self.collect, name) != off:
                raise ConfigError(f"collect.{name} is not for collect.seating=independent; leave it out")
        if not any(seat.learns for seat in self.seat_settings):
            raise ConfigError(
                "seats: learns=false in every seat, so that nobody would learn; leave it out in one"
            )
        return self

    @model_validator(mode="after")
    def _can_resign(self) -> "RunConfig":
        self.plan.resignation.check(make_game(**self.game))
        return self

    @model_validator(mode="after")
    def _has_somebody_to_play(self) -> "RunConfig":
        if not self.has_opponents:
            if self.opponents.fixed:
                raise ConfigError(
                    f"opponents.fixed names {self.opponents.fixed[0]!r}, and collect.seating=self_play seats "
                    "the learner everywhere; set collect.seating to opponents, or name nobody"
                )
            return self
        game = make_game(**self.game)
        if game.num_seats < 2:
            raise ConfigError(
                f"collect.seating=opponents: {game.name} has one seat, and nobody else sits in it"
            )
        if not self.opponents.fixed and not self.opponents.snapshot_interval:
            raise ConfigError(
                "collect.seating=opponents without any opponent: name some in opponents.fixed, or set "
                "opponents.snapshot_interval to play against snapshots of its own past"
            )
        return self

    @model_validator(mode="after")
    def _minibatches_divide(self) -> "RunConfig":
        if not self.is_independent:
            acting = self.decisions_per_update // self.decisions_per_seat
            return self._divides_by(self.algorithm.get("minibatch_size"), acting)
        for seat in self.seat_settings:
            where = f"seats.{seat.seat}." if str(seat.seat) in self.seats else ""
            size = seat.algorithm.get("minibatch_size")
            self._divides_by(size, seat.train_every, where)
        return self

    def _divides_by(self, size: int | None, turns: int, where: str = "") -> "RunConfig":
        """Refuse a minibatch that does not divide the batch of so many turns, or of so many seats at once."""
        num_games, num_steps = self.collect.num_games, self.collect.rollout_steps
        batch = num_games * num_steps * turns
        if size is not None and batch % size:
            possible = divisors([num_games, num_steps, turns])
            smaller = max(n for n in possible if n <= size)
            larger = min((n for n in possible if n >= size), default=smaller)
            fits = " or ".join(str(n) for n in sorted({smaller, larger}))
            raise ConfigError(
                f"{where}algorithm.minibatch_size={size} does not divide the batch of {batch} decisions "
                f"({num_games} games × {num_steps} steps{f' × {turns}' if turns > 1 else ''}); try {fits}"
            )
        return self


def require_device(device: str) -> None:
    """Refuse a device this machine lacks; only training needs it, so that any machine can open a run."""
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device={device!r} cannot be used here: {reason}") from None


def resolve_config(game: str | None = None, *layers: Settings, variant: str | None = None) -> RunConfig:
    """The settings of a run: defaults, then the game's preset, then the given layers in order.

    `variant` takes another of the game's presets than the usual one; an algorithm that has a preset of
    its own for the game takes that.
    """
    given = merged({"game": {}}, *layers, {"game": game} if game else {})
    name = given["game"].get("name") if isinstance(given["game"], dict) else None
    if name is None:
        raise ConfigError(f"no game given; known are {', '.join(GAMES.names())}")
    GAMES.get(name)
    algorithm = merged({"algorithm": {}}, given)["algorithm"]
    if (
        variant is None
        and isinstance(algorithm, dict)
        and algorithm.get("name") in preset_variants(str(name))
    ):
        variant = algorithm["name"]
    complete = merged(DEFAULT_PARTS, preset(str(name), variant), given)
    config = _in_parallel(validated(RunConfig, complete), given)
    require_device(config.device)
    # resolved, since rounding may depend on it: a resume must not take another machine's cores
    return config.model_copy(update={"threads": config.threads or _math_threads(config)})


def _in_parallel(config: RunConfig, given: Settings) -> RunConfig:
    """What `parallel` asks for, as settings of backend, mode and learners; those that are given win."""
    if not config.is_independent:
        return config
    parallel, collect = config.parallel, config.collect
    if "mode" not in merged({"collect": {}}, given)["collect"]:
        collect = collect.model_copy(update={"mode": parallel.mode})
    learners = parallel.learners(config.learners, len(config.seat_settings), config.device)
    changes: Settings = {"learners": learners, "collect": collect.model_dump(mode="json")}
    if "opponents" not in merged({"evaluation": {}}, given)["evaluation"]:
        changes["evaluation"] = {"opponents": []}  # nobody is played: rewards are measured
    if "backend" not in given:
        changes["backend"] = parallel.backend
    return validated(RunConfig, merged(config.model_dump(mode="json"), changes))


def _math_threads(config: RunConfig) -> int:
    """All cores, but where workers play on them while the learner learns: then what they leave.

    Math threads that share a core with others wait for each other, and become many times slower.
    """
    cores = available_cores()
    if config.is_independent and config.learners != "stacked":
        return 1  # of each learner: equal bytes, however many learn at once
    if config.collect.mode == "sync" or config.device != "cpu" or config.backend["name"] == "serial":
        return cores
    num_workers = config.backend.get("num_workers") or cores
    return max(1, cores - min(num_workers, config.plan.num_shards))


def preset(game: str, variant: str | None = None) -> Settings:
    """The ready-made settings for a game, if senju brings any; a variant is another set of them."""
    if variant is not None and variant not in preset_variants(game):
        known = ", ".join(preset_variants(game)) or "none"
        raise ConfigError(
            f"no preset {shown(variant)} for {game}; there are: {known}; "
            "without one, its usual settings are taken"
        )
    file = _PRESETS.joinpath(f"{game}{f'_{variant}' if variant else ''}.yaml")
    if ":" in game or not file.is_file():
        return {}
    with resources.as_file(file) as path:
        return read_yaml(path)


def preset_variants(game: str) -> list[str]:
    """The presets of a game besides its usual one."""
    names = {file.name.removesuffix(".yaml") for file in _PRESETS.iterdir() if file.name.endswith(".yaml")}
    others = tuple(other for other in GAMES.names() if other.startswith(f"{game}_"))
    own = (name for name in names if name.startswith(f"{game}_") and not name.startswith(others))
    return sorted(name.removeprefix(f"{game}_") for name in own)


def known_presets() -> str:
    """The presets besides the games' usual ones, in words: `gpu (shogi)`."""
    found: dict[str, list[str]] = {}
    for game in GAMES.names():
        for variant in preset_variants(game):
            found.setdefault(variant, []).append(game)
    return ", ".join(f"{variant} ({', '.join(games)})" for variant, games in found.items()) or "none yet"


def dump_config(config: RunConfig) -> str:
    """The resolved settings as YAML; reading them back gives an equal config."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def load_config(path: Path, trust: bool = False) -> RunConfig:
    """The resolved settings of an existing run; what they name is loaded only where it is trusted."""
    settings = read_yaml(path)
    require_trust(path.parent, settings, trust)
    return validated(RunConfig, settings)
