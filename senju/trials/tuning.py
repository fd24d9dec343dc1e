"""Tuning: settings of a run that are faster on this machine, found by trying them end to end.

The search starts from the automatic settings and changes one at a time, as long as that helps.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from senju.config import Settings, merged, validated
from senju.cuda import has_native_bfloat16, is_cuda, is_out_of_memory, release_memory
from senju.divisors import divisors
from senju.errors import ConfigError, SenjuError
from senju.machine import available_cores, processor_has_bfloat16
from senju.runs.automatic import AUTO
from senju.runs.run_config import RunConfig
from senju.trials.speed import Entrant, Figures, Spread, measure, spread

BATCH_SETTINGS = ("collect.num_games", "collect.rollout_steps")
LEARNING_SETTINGS = (*BATCH_SETTINGS, "algorithm.minibatch_size")  # they change what is learned

_WORTHWHILE = 1.02  # times as fast: less is noise
_SEARCH_SHARE = 0.7  # of the time; the rest repeats the fastest
_REPEATED, _MOST_REPEATS = 3, 5
_TRIAL_SHARE, _SHORTEST = 1 / 60, 0.2  # seconds of each stage of a trial
_FEWEST_STEPS = 4  # gradient steps an update
_REASON_LENGTH = 200

Changes = dict[str, Any]  # values by their paths
Measure = Callable[[RunConfig, float, Callable[[str], None]], Figures[float]]


@dataclass
class Trial:
    """One combination of settings, and what was measured of it."""

    changes: Changes  # from the settings that the search began with
    config: RunConfig
    figures: list[Figures[float]] = field(default_factory=list)
    failure: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether it ran."""
        return bool(self.figures) and not self.failure

    def spread(self, name: str) -> Spread:
        """Median and range of a figure, in steps a second."""
        return spread([float(getattr(each, name)) for each in self.figures])

    @property
    def speed(self) -> float:
        """Median steps a second, end to end."""
        return self.spread("end_to_end").median if self.is_measured else 0.0


def measure_run(config: RunConfig, seconds: float, on_stage: Callable[[str], None]) -> Figures[float]:
    """Collect, learn and both in turn, with the config's own backend."""
    return measure(config, Entrant("tuned", config.backend, config.threads), seconds, on_stage)


class Tuner:
    """A search that can be interrupted at any time; `trials` holds what was tried so far."""

    def __init__(
        self, config: RunConfig, given: Settings, seconds: float, measure_one: Measure = measure_run
    ) -> None:
        self.trials: list[Trial] = []
        self._first, self._fixed, self._measure = config, paths_of(given), measure_one
        self._seconds, self._trial_seconds = seconds, max(_SHORTEST, _TRIAL_SHARE * seconds)

    @property
    def best(self) -> Trial | None:
        """The fastest trial so far; the first one, unless another is faster by more than noise."""
        fastest = max((each for each in self.trials if each.is_measured), key=lambda t: t.speed, default=None)
        first = self.trials[0] if self.trials else None
        if fastest and first and first.speed * _WORTHWHILE >= fastest.speed:
            return first
        return fastest

    def run(self, on_stage: Callable[[Trial, str], None] = lambda trial, stage: None) -> None:
        """Search, then repeat the fastest trials, until the time is over."""
        began = monotonic()
        self._try({}, on_stage)
        while self._sweep(began, on_stage):
            pass
        self._repeat(began, on_stage)

    def _sweep(self, began: float, on_stage: Callable[[Trial, str], None]) -> bool:
        """Change each setting in turn; return whether one helped and there is time for another sweep."""
        has_improved = False
        for knob in KNOBS:
            best = self.best or self.trials[0]
            for changes in list(knob(best.config, self._fixed)):
                if monotonic() - began > _SEARCH_SHARE * self._seconds:
                    return False
                before = best.speed
                trial = self._try(best.changes | changes, on_stage)
                has_improved |= trial is not None and trial.speed > _WORTHWHILE * before
        return has_improved

    def _try(self, changes: Changes, on_stage: Callable[[Trial, str], None]) -> Trial | None:
        """Measure a combination that was not tried yet; None if it is not valid, or known."""
        changes = {path: value for path, value in changes.items() if value != value_of(self._first, path)}
        try:
            config = with_changes(self._first, changes)
        except ConfigError:
            return None
        if any(each.config == config for each in self.trials):
            return None
        trial = Trial(changes, config)
        self.trials.append(trial)
        self._measure_once(trial, on_stage)
        return trial

    def _measure_once(self, trial: Trial, on_stage: Callable[[Trial, str], None]) -> None:
        try:
            figures = self._measure(trial.config, self._trial_seconds, lambda stage: on_stage(trial, stage))
            trial.figures.append(figures)
        except (SenjuError, RuntimeError) as error:
            if not isinstance(error, SenjuError) and not is_out_of_memory(error):
                raise
            trial.failure = str(error).partition("\n")[0][:_REASON_LENGTH]
        if trial.failure:
            release_memory()

    def _repeat(self, began: float, on_stage: Callable[[Trial, str], None]) -> None:
        """Measure the fastest trials and the first again, in turn, so that they are compared fairly."""
        fastest = sorted((t for t in self.trials if t.is_measured), key=lambda t: -t.speed)[:_REPEATED]
        chosen = [*fastest, *(t for t in self.trials[:1] if t.is_measured and t not in fastest)]
        for _ in range(_MOST_REPEATS - 1):
            for trial in chosen:
                if monotonic() - began > self._seconds:
                    return
                if trial.is_measured:
                    self._measure_once(trial, on_stage)


def paths_of(settings: Mapping[str, Any], prefix: str = "") -> frozenset[str]:
    """The paths of given settings, and of the parts they are in, except of those that are `auto`.

    >>> sorted(paths_of({"collect": {"num_games": 64, "games_per_shard": "auto"}, "seed": 1}))
    ['collect', 'collect.num_games', 'seed']
    """
    found: set[str] = set()
    for name, value in settings.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            inner = paths_of(value, f"{path}.")
            found |= inner | ({path} if inner else set())
        elif value != AUTO:
            found.add(path)
    return frozenset(found)


def value_of(config: RunConfig, path: str) -> Any:
    """A setting of a config by its path."""
    value: Any = config.model_dump(mode="json")
    for key in path.split("."):
        value = value.get(key)
    return value


def with_changes(config: RunConfig, changes: Changes) -> RunConfig:
    """The config with other values; ConfigError if they do not fit each other."""
    layers: list[Settings] = []
    for path, value in changes.items():
        part, _, name = path.partition(".")
        layers.append({part: {name: value} if name else value})
    note: Settings = {"chosen": "", "automatic": []} if changes else {}
    return validated(RunConfig, merged(config.model_dump(mode="json"), *layers, note))


Fixed = frozenset[str]


def _backends(config: RunConfig, fixed: Fixed) -> Iterator[Changes]:
    """Other backends, with a worker for each core and with half as many again."""
    if "backend" in fixed:
        return
    cores, shards = available_cores(), config.plan.num_shards
    counts = {cores, math.ceil(1.5 * cores), *([cores // 2] if cores > 3 else [])}  # of a few
    if config.collect.evaluate_on == "device":
        counts.add(min(shards, 2 * cores))
    yield {"backend": {"name": "serial"}}
    for name in ("threads", "processes"):
        for count in sorted({min(count, shards) for count in counts}):
            if count > 1:
                yield {"backend": {"name": name, "num_workers": count}}


def _evaluation(config: RunConfig, fixed: Fixed) -> Iterator[Changes]:
    if is_cuda(config.device) and "collect.evaluate_on" not in fixed:
        is_on_device = config.collect.evaluate_on == "device"
        yield {"collect.evaluate_on": "workers" if is_on_device else "device"}


def _precisions(config: RunConfig, fixed: Fixed) -> Iterator[Changes]:
    """Bfloat16 where it is computed natively, and float32."""
    is_gpu = is_cuda(config.device)
    has_bfloat16 = has_native_bfloat16(config.device) if is_gpu else processor_has_bfloat16()
    names = ["float32", *(["bfloat16"] if has_bfloat16 else [])]
    if "precision" in config.algorithm and "algorithm.precision" not in fixed:
        yield from ({"algorithm.precision": name} for name in names)
    if is_gpu and config.collect.evaluate_on == "device" and "collect.precision" not in fixed:
        yield from ({"collect.precision": name} for name in names)


def _shard_sizes(config: RunConfig, fixed: Fixed) -> Iterator[Changes]:
    """Larger and smaller shards of the same games: fewer or more of them."""
    if "collect.games_per_shard" in fixed:
        return
    rows, games = config.collect.games_per_shard, config.collect.num_games
    for size in (2 * rows, rows // 2):
        if size and games % size == 0:
            yield {"collect.games_per_shard": size}


def _shard_counts(config: RunConfig, fixed: Fixed) -> Iterator[Changes]:
    """Twice and half as many shards of the same size: another batch for each update."""
    if "collect.num_games" in fixed:
        return
    games, rows = config.collect.num_games, config.collect.games_per_shard
    for count in (2 * games, games // 2):
        if count >= rows and count % rows == 0:
            yield {"collect.num_games": count}


def _minibatches(config: RunConfig, fixed: Fixed) -> Iterator[Changes]:
    size = config.algorithm.get("minibatch_size")
    if size is None or "algorithm.minibatch_size" in fixed:
        return
    batch = [config.decisions_per_update]
    limit = batch[0] * config.algorithm.get("epochs", 1) // _FEWEST_STEPS
    larger = min((n for n in divisors(batch) if n >= 2 * size), default=size)
    smaller = max((n for n in divisors(batch) if n <= size // 2), default=size)
    for other in (larger, smaller):
        if other != size and other <= max(limit, size):
            yield {"algorithm.minibatch_size": other}


Knob = Callable[[RunConfig, Fixed], Iterator[Changes]]
KNOBS: Sequence[Knob] = (_evaluation, _backends, _precisions, _shard_sizes, _shard_counts, _minibatches)


def warnings_about(changes: Changes, first: RunConfig, config: RunConfig) -> list[str]:
    """How the changes affect what is learned, in sentences."""
    found = []
    if any(path in changes for path in BATCH_SETTINGS):
        before, after = first.decisions_per_update, config.decisions_per_update
        found.append(
            f"collect.num_games × collect.rollout_steps is the batch of an update: it becomes {after:,} "
            f"decisions instead of {before:,}, so the agent learns in other steps"
        )
    if "algorithm.minibatch_size" in changes:
        found.append(
            "algorithm.minibatch_size changes the gradient steps; algorithm.learning_rate may need to change "
            "with it"
        )
    if any("precision" in path for path in changes):
        found.append("another precision rounds differently: the same strength as a rule, not the same bits")
    return found


def tuned_config(trial: Trial) -> RunConfig:
    """The trial's config, with a note about where it comes from."""
    note = f"senju tune measured {trial.speed:,.0f} steps/s end to end"
    return trial.config.model_copy(update={"chosen": note, "automatic": ()})
