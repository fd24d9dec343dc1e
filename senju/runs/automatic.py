"""Automatic settings: the rules by which `auto` in a new run becomes a value that suits this machine.

A run is validated and saved with the values, so that resuming or repeating it gives the same bits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from senju.algorithms import ALGORITHMS
from senju.backends.measuring import MemoryNeed, Meter
from senju.config import Settings, merged
from senju.cuda import Kernels, is_cuda
from senju.divisors import divisors
from senju.errors import ConfigError
from senju.machine import available_cores, processor_has_bfloat16

if TYPE_CHECKING:
    from senju.runs.run_config import RunConfig

AUTO = "auto"
ALWAYS_AUTOMATIC = ("collect.evaluate_on", "collect.precision")  # unless they are given
SIZES = ("collect.num_games", "collect.games_per_shard", "collect.rollout_steps")
MINIBATCH, PRECISION, BACKEND = "algorithm.minibatch_size", "algorithm.precision", "backend"
EVALUATE_ON, COLLECT_PRECISION = ALWAYS_AUTOMATIC
AUTOMATIC = (*ALWAYS_AUTOMATIC, *SIZES, MINIBATCH, PRECISION, BACKEND)

BATCH_SIZES = tuple(2**power for power in range(8, 15))  # rows that are tried on a device: 256 to 16384
ROLLOUTS = (64, 32, 16)  # steps
_ENOUGH = 0.9  # of the best rate
_SPARE = 2.0  # how many times faster than the cores step a device should evaluate
_MORE_SHARDS = 1.25  # than cores: threads that wait for the device use no core
_THREADS_A_CORE = 2
_USUAL_ROWS, _USUAL_SHARDS, _USUAL_MINIBATCH = 64, 4, 2048
_LARGEST_MINIBATCH, _FEWEST_STEPS = 32768, 16  # of learning on a GPU
_MOST_GROWTH = 32  # of the games, so that a given minibatch divides the batch
_LARGEST_BATCH = 2**20  # decisions an update, where rollout_steps is automatic
_FEWEST_UPDATES = 100  # of a whole run, where num_games is automatic
_COMPILED_SPEEDUP = 4.0  # more than compiled kernels gain over eager ones
_DEVICE_SHARE, _HOST_SHARE = 1 / 2, 1 / 3  # of the free memory, for rollouts


class Rates(NamedTuple):
    """Steps of one row a second."""

    core: float  # one core steps
    device: float  # the device evaluates, in batches of the chosen size
    on_device: float  # expected, if the device evaluates
    on_workers: float  # expected, if the cores evaluate


class Sizes(NamedTuple):
    """How games are grouped."""

    games_per_shard: int
    num_shards: int
    rollout_steps: int

    @property
    def num_games(self) -> int:
        """Games played at once."""
        return self.games_per_shard * self.num_shards


class Resolved(NamedTuple):
    """Settings without `auto`, and how they were chosen."""

    settings: Settings
    chosen: str = ""  # a sentence; empty where nothing was to choose
    automatic: tuple[str, ...] = ()  # the settings that were chosen


def value_at(settings: Mapping[str, Any], path: str) -> Any:
    """A setting by its path; of a part that is named, the name; None where it is missing."""
    value: Any = settings
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value.get("name") if path == BACKEND and isinstance(value, Mapping) else value


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Settings with some replaced, by their paths; a backend keeps its own settings."""
    changed = merged(settings)
    for path, value in values.items():
        *parts, last = path.split(".")
        part: Settings = reduce(lambda inner, key: inner.setdefault(key, {}), parts, changed)
        if path == BACKEND:
            own = part.get(last)
            value = (own if isinstance(own, dict) else {}) | value  # noqa: PLW2901  # completed
        part[last] = value
    return changed


def resolve_automatic(
    settings: Settings,
    config_of: Callable[[Settings], "RunConfig"],
    meter_of: Callable[["RunConfig"], Meter],
    need_of: Callable[["RunConfig"], MemoryNeed],
    is_importable: Callable[["RunConfig"], bool],
) -> Resolved:
    """Replace every `auto` in complete settings whose device is known; measure only for a GPU."""
    device = settings["device"]
    explicit = [path for path in AUTOMATIC if value_at(settings, path) == AUTO]
    if not is_cuda(device):
        if not explicit:
            return Resolved(settings)
        config = config_of(_valid_meanwhile(settings, explicit))
        values = values_on_cpu(config, explicit, available_cores(), fixed_minibatch(settings))
        own = settings.get(BACKEND)
        if BACKEND in values and isinstance(own, dict) and len(own) > 1:  # settings that serial does not have
            values[BACKEND] = {"name": "processes"}
        return Resolved(with_values(settings, values), _sentence_on_cpu(values), tuple(explicit))
    implicit = [path for path in ALWAYS_AUTOMATIC if value_at(settings, path) is None]
    wanted = [path for path in AUTOMATIC if path in (*explicit, *implicit)]
    if not wanted and (value_at(settings, BACKEND) or value_at(settings, EVALUATE_ON) != "device"):
        return Resolved(settings)
    config = config_of(_valid_meanwhile(settings, wanted))
    return _Chooser(settings, config, wanted, config_of, meter_of(config), need_of, is_importable).resolve()


def _valid_meanwhile(settings: Settings, wanted: Sequence[str]) -> Settings:
    """Settings in which values that are valid stand for `auto`, so that all others can be checked."""
    games, rows, _ = (value_at(settings, path) for path in SIZES)
    known_rows = rows if SIZES[1] not in wanted else games if SIZES[0] not in wanted else _USUAL_ROWS
    stand_ins: Settings = {
        EVALUATE_ON: "workers",
        COLLECT_PRECISION: "float32",
        SIZES[0]: known_rows,
        SIZES[1]: known_rows,
        SIZES[2]: ROLLOUTS[0],
        MINIBATCH: 1,
        PRECISION: "float32",
        BACKEND: {"name": "serial"},
    }
    values = {path: stand_ins[path] for path in wanted}
    if not set(SIZES).isdisjoint(wanted) and _minibatch_field(settings) is not None:
        values[MINIBATCH] = 1  # the given one is checked with the final sizes
    found = with_values(settings, {path: value for path, value in values.items() if path != BACKEND})
    return found | {BACKEND: values[BACKEND]} if BACKEND in values else found


def _minibatch_field(settings: Settings) -> Any:
    """The minibatch size of the algorithm's settings as declared; None where it has none."""
    name = value_at(settings, "algorithm.name")
    try:
        return ALGORITHMS.config_class(str(name)).model_fields.get("minibatch_size")
    except ConfigError:
        return None  # validation reports the error


def fixed_minibatch(settings: Settings) -> int | None:
    """The minibatch that sizes must suit: none if it is automatic, or if the algorithm has none."""
    field, given = _minibatch_field(settings), value_at(settings, MINIBATCH)
    if field is None or given == AUTO:
        return None
    size = field.default if given is None else given
    return size if isinstance(size, int) and size > 0 else None  # validation reports the error


def values_on_cpu(config: "RunConfig", wanted: Sequence[str], cores: int, minibatch: int | None) -> Settings:
    """Values of automatic settings where the CPU evaluates and learns; nothing is measured."""
    sizes = sizes_on_workers(config, wanted, cores, minibatch)
    found: Settings = {
        EVALUATE_ON: "workers",
        COLLECT_PRECISION: "float32",
        **_named(sizes),
        MINIBATCH: _largest_divisor(_batch(config, sizes), _USUAL_MINIBATCH),
        PRECISION: "bfloat16" if processor_has_bfloat16() else "float32",
        BACKEND: {"name": "processes" if cores > 1 else "serial"},
    }
    return {path: found[path] for path in wanted}


def sizes_on_workers(config: "RunConfig", wanted: Sequence[str], cores: int, minibatch: int | None) -> Sizes:
    """Shards of a usual size, two for each core, where workers evaluate."""
    steps = ROLLOUTS[0] if SIZES[2] in wanted else config.collect.rollout_steps
    return _fitting(config, wanted, Sizes(_USUAL_ROWS, max(_USUAL_SHARDS, 2 * cores), steps), minibatch)


def _fitting(config: "RunConfig", wanted: Sequence[str], sizes: Sizes, minibatch: int | None) -> Sizes:
    """Sizes that keep what the user gave, and whose batch the given minibatch divides."""
    rows, shards, steps = sizes
    collect, acting = config.collect, _acting(config)
    if SIZES[0] not in wanted:
        rows = collect.games_per_shard
        if SIZES[1] in wanted:
            rows = _divisor_near(
                collect.num_games, min(sizes.games_per_shard, max(1, collect.num_games // 2))
            )
        return Sizes(rows, collect.num_games // rows, steps)
    factor = minibatch or 1
    if SIZES[1] not in wanted:
        rows = collect.games_per_shard
        unit = factor // math.gcd(factor, rows * steps * acting)
        fitting = Sizes(rows, -(-shards // unit) * unit, steps)
    else:
        unit = factor // math.gcd(factor, shards * steps * acting)
        fitting = Sizes(max(rows // unit, 1) * unit, shards, steps)
    if fitting.num_games > _MOST_GROWTH * rows * shards:
        nearest = _largest_divisor([rows, shards, steps, acting], factor)
        raise ConfigError(
            f"algorithm.minibatch_size={factor} divides no batch of about {rows * shards} games × {steps} "
            f"steps; try {nearest}, or auto"
        )
    return fitting


def _divisor_near(number: int, wanted: int) -> int:
    """The largest divisor up to `wanted`, or one above it where that is much smaller.

    >>> _divisor_near(1000, 64), _divisor_near(1009, 64)
    (50, 1009)
    """
    below = _largest_divisor([number], wanted)
    return below if 4 * below >= wanted else next(n for n in divisors([number]) if n >= wanted)


def _largest_divisor(factors: Sequence[int], limit: float) -> int:
    return max(n for n in divisors(factors) if n <= max(limit, 1))


def _acting(config: "RunConfig") -> int:
    """The factor by which one learner's batch is larger than games × steps."""
    if config.is_independent:
        return 1
    return config.decisions_per_update // (config.collect.num_games * config.collect.rollout_steps)


def _batch(config: "RunConfig", sizes: Sizes) -> list[int]:
    """The factors of one learner's batch."""
    return [sizes.games_per_shard, sizes.num_shards, sizes.rollout_steps, _acting(config)]


def _named(sizes: Sizes) -> Settings:
    return dict(zip(SIZES, (sizes.num_games, sizes.games_per_shard, sizes.rollout_steps), strict=True))


def minibatch_on_gpu(batch: Sequence[int], epochs: int) -> int:
    """The largest divisor of the batch that a GPU gains from and that leaves enough gradient steps.

    >>> minibatch_on_gpu([4096, 16, 64], epochs=1), minibatch_on_gpu([64, 4, 64], epochs=1)
    (32768, 1024)
    """
    return _largest_divisor(batch, min(_LARGEST_MINIBATCH, math.prod(batch) * epochs // _FEWEST_STEPS))


def shards_for(num_rows: int, core: float, device: float, cores: int) -> int:
    """Twice as many shards as keep the device busy while cores step: cores that work together are slower.

    >>> shards_for(4096, core=550_000, device=2_600_000, cores=16)
    12
    >>> shards_for(256, core=10_000, device=2_000_000, cores=16)
    20
    """
    step, evaluate = num_rows / core, num_rows / device
    return max(2, min(2 * math.ceil((step + evaluate) / evaluate), math.ceil(_MORE_SHARDS * cores)))


def rate_on_device(sizes: Sizes, core: float, device: float, cores: int) -> float:
    """Expected steps a second: the device, the cores, or one round of all shards is the limit."""
    one_round = sizes.games_per_shard * (1 / core + 1 / device)
    return min(device, cores * core, sizes.num_games / one_round)


def batch_size_for(rates: Mapping[int, float], stepping: float) -> int:
    """The smallest batch at which the device is nearly as fast as it can be, or much faster than the cores.

    >>> batch_size_for({256: 1.0e6, 1024: 2.0e6, 4096: 2.1e6}, stepping=9e6)
    1024
    >>> batch_size_for({256: 1.0e6, 1024: 2.0e6, 4096: 2.1e6}, stepping=16_000)
    256
    """
    needed = min(_ENOUGH * max(rates.values()), _SPARE * stepping)
    return min(rows for rows, rate in rates.items() if rate >= needed)


class _Chooser:
    """The choice for one run that learns on a GPU."""

    def __init__(
        self,
        settings: Settings,
        config: "RunConfig",
        wanted: Sequence[str],
        config_of: Callable[[Settings], "RunConfig"],
        meter: Meter,
        need_of: Callable[["RunConfig"], MemoryNeed],
        is_importable: Callable[["RunConfig"], bool],
    ) -> None:
        self._settings, self._config, self._wanted, self._meter = settings, config, wanted, meter
        self._config_of, self._need_of, self._is_importable = config_of, need_of, is_importable
        self._kernels: Kernels = config.kernels
        self._minibatch = fixed_minibatch(settings)
        self._notes: list[str] = []

    def resolve(self) -> Resolved:
        """Choose where networks are evaluated, then sizes, backend and minibatch."""
        wanted, config = self._wanted, self._config
        precision = self._precision()
        sizes = sizes_on_workers(config, wanted, self._cores, self._minibatch)
        rates, is_on_device = None, config.collect.evaluate_on == "device"
        if EVALUATE_ON in wanted or (is_on_device and not set(SIZES).isdisjoint(wanted)):
            on_device, rates = self._sizes_on_device(precision)
            is_on_device = EVALUATE_ON not in wanted or rates.on_device > rates.on_workers
            sizes = on_device if is_on_device else sizes
        backend, is_new_backend = self._backend(sizes, is_on_device)
        found: Settings = {
            EVALUATE_ON: "device" if is_on_device else "workers",
            COLLECT_PRECISION: precision if is_on_device else "float32",
            **_named(sizes),
            PRECISION: "bfloat16" if self._meter.has_bfloat16 else "float32",
            MINIBATCH: minibatch_on_gpu(_batch(config, sizes), config.algorithm.get("epochs", 1)),
            BACKEND: backend,
        }
        changed = [path for path in AUTOMATIC if path in wanted or (path == BACKEND and is_new_backend)]
        values = {path: found[path] for path in changed}
        sentence = self._sentence(sizes, rates, is_on_device, backend, found[COLLECT_PRECISION])
        return Resolved(with_values(self._settings, values), sentence, tuple(changed))

    @property
    def _cores(self) -> int:
        """Cores that step games."""
        if BACKEND in self._wanted or self._may_replace_backend:
            return self._meter.cores
        backend = self._config.backend
        if backend["name"] == "serial":
            return 1
        return min(backend.get("num_workers") or self._meter.cores, self._meter.cores)

    @property
    def _may_replace_backend(self) -> bool:
        """Whether the backend is only the default one."""
        config = self._config
        is_parallel = not config.is_independent or config.parallel.backend["name"] != "serial"
        return value_at(self._settings, BACKEND) is None and is_parallel

    def _precision(self) -> str:
        if COLLECT_PRECISION not in self._wanted:
            return str(self._config.collect.precision)
        return "bfloat16" if self._meter.has_bfloat16 else "float32"

    def _sizes_on_device(self, precision: str) -> tuple[Sizes, Rates]:
        """The sizes if the device evaluates, and what speed to expect."""
        meter, cores, collect = self._meter, self._cores, self._config.collect
        core = meter.core_steps
        steps = self._rollout_steps()
        rows = collect.games_per_shard if SIZES[1] not in self._wanted else self._batch_size(precision)
        if SIZES[1] in self._wanted and SIZES[0] not in self._wanted:
            rows = _fitting(self._config, self._wanted, Sizes(rows, 2, steps), None).games_per_shard
        device = self._device_rate(rows, precision)
        if not device:
            return Sizes(rows, 2, steps), Rates(core, 0.0, 0.0, self._rate_on_workers())
        wished = Sizes(rows, shards_for(rows, core, device, cores), steps)
        sizes = _fitting(self._config, self._wanted, self._smaller(wished), self._minibatch)
        expected = rate_on_device(sizes, core, device, cores)
        return sizes, Rates(core, device, expected, self._rate_on_workers())

    def _rate_on_workers(self) -> float:
        if EVALUATE_ON not in self._wanted:
            return 0.0
        return self._cores / (1 / self._meter.core_steps + 1 / self._meter.core_evaluates)

    def _rollout_steps(self) -> int:
        return ROLLOUTS[0] if SIZES[2] in self._wanted else self._config.collect.rollout_steps

    def _batch_size(self, precision: str) -> int:
        """Rows of a batch; measured with eager kernels, which need no compilation for each size."""
        rates = {rows: self._meter.device_evaluates(rows, precision, "eager") for rows in BATCH_SIZES}
        return batch_size_for(rates, self._cores * self._meter.core_steps)

    def _device_rate(self, rows: int, precision: str) -> float:
        """The rate with the run's own kernels, or with eager ones where these cannot be enough."""
        rate = self._meter.device_evaluates(rows, precision, "eager")
        is_hopeless = EVALUATE_ON in self._wanted and rate * _COMPILED_SPEEDUP < self._rate_on_workers()
        if self._kernels == "eager" or is_hopeless or not rate:
            return rate
        return self._meter.device_evaluates(rows, precision, "repeatable")

    def _smaller(self, sizes: Sizes) -> Sizes:
        """Shorter rollouts and fewer rows, as far as they are automatic: for learning, then for memory."""
        (rows, shards, steps), acting = sizes, _acting(self._config)
        total = self._config.total_steps // _FEWEST_UPDATES
        if SIZES[2] in self._wanted:
            limit = min(total, _LARGEST_BATCH) // (rows * shards * acting)
            steps = next((each for each in ROLLOUTS if each <= limit), ROLLOUTS[-1])
        if SIZES[0] in self._wanted and SIZES[1] in self._wanted:
            while rows > BATCH_SIZES[0] and rows * shards * steps * acting > total:
                rows //= 2
        fitting = Sizes(rows, shards, steps)
        while fitting.games_per_shard > 1 and not self._has_room(fitting):
            smaller = self._one_smaller(fitting)
            if smaller == fitting:
                break
            fitting = smaller
        if fitting.num_games < rows * shards:
            self._notes.append(f"{rows * shards} games at once do not fit into the free memory")
        return fitting

    def _one_smaller(self, sizes: Sizes) -> Sizes:
        rows, shards, steps = sizes
        if SIZES[0] not in self._wanted:  # the number of games is given
            return sizes
        if SIZES[1] in self._wanted:
            return Sizes(rows // 2, shards, steps)
        return Sizes(rows, max(shards - 1, 1), steps)

    def _has_room(self, sizes: Sizes) -> bool:
        valid = _valid_meanwhile(self._settings, self._wanted)
        need = self._need_of(self._config_of(with_values(valid, _named(sizes))))
        meter = self._meter
        fits_host = need.host <= _HOST_SHARE * meter.host_bytes
        return fits_host and need.device <= _DEVICE_SHARE * meter.device_bytes

    def _backend(self, sizes: Sizes, is_on_device: bool) -> tuple[Settings, bool]:
        """The backend, and whether it replaces the one in the settings."""
        config = self._config
        may_replace = self._may_replace_backend and (is_on_device or EVALUATE_ON in self._wanted)
        if BACKEND not in self._wanted and not may_replace:
            return config.backend, False
        own = self._settings.get(BACKEND)
        asked = int(own.get("num_workers") or 0) if isinstance(own, dict) else 0
        if self._meter.releases_lock:
            workers = asked
            if is_on_device and not asked:
                is_few = sizes.num_shards <= _THREADS_A_CORE * self._meter.cores
                workers = sizes.num_shards if is_few else self._meter.cores
            return {"name": "threads", "num_workers": workers}, True
        name = "processes" if self._is_importable(config) else "threads"
        return {"name": name, "num_workers": asked}, True

    def _sentence(
        self, sizes: Sizes, rates: Rates | None, is_on_device: bool, backend: Settings, precision: str
    ) -> str:
        name, notes = self._meter.device_name, "".join(f"; {note}" for note in self._notes)
        if rates is None:
            return f"{name} evaluates and learns" if is_on_device else f"{name} learns, the workers evaluate"
        if not is_on_device:
            return (
                f"{name} learns, the cores evaluate: about {millions(rates.on_workers)} moves/s, and with "
                f"evaluation on the GPU about {millions(rates.on_device)}{notes}"
            )
        count = backend.get("num_workers") or min(sizes.num_shards, self._meter.cores)
        who = "this process steps" if backend["name"] == "serial" else f"{count} {backend['name']} step"
        return (
            f"{name} evaluates and learns ({precision}); {who} {sizes.num_shards} shards of "
            f"{sizes.games_per_shard} games: one core steps {millions(rates.core)} moves/s, the GPU "
            f"evaluates {millions(rates.device)}/s{notes}"
        )


def millions(rate: float) -> str:
    """A rate for a sentence.

    >>> millions(2_563_000.0), millions(548_000.0), millions(950.4)
    ('2.6 M', '0.55 M', '950')
    """
    if rate < 10_000:
        return f"{rate:,.0f}"
    return f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1e6:.2f} M"


def _sentence_on_cpu(values: Settings) -> str:
    """What was chosen for the CPU, for the settings that were `auto`."""
    shown = ", ".join(
        f"{path}={value['name'] if isinstance(value, dict) else value}" for path, value in values.items()
    )
    return f"the CPU evaluates and learns: {shown}"
