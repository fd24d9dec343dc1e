"""The settings of a trial: a game's preset, with as many shards and steps as the trial needs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from senju.algorithms import ALGORITHMS
from senju.config import Settings, merged
from senju.divisors import divisors
from senju.errors import ConfigError
from senju.runs.presets import preset_for
from senju.runs.run_config import DEFAULT_PARTS, MOST_GAMES, CollectConfig, RunConfig, resolve_config

_MOST_SHARDS = 64


class Scale(NamedTuple):
    """How much is played per update, unless the settings say otherwise."""

    num_shards: int  # or a multiple of it, where games_per_shard is None and the game's preset has more
    games_per_shard: int | None = None  # None: as the game's preset has it, but at most the default
    rollout_steps: int | None = None  # None: as the game's preset has it
    gradient_steps: int = 1  # at least, per pass over a batch


# Five shards: more than the workers, and no multiple of two, three or four.
SMALL = Scale(num_shards=5, games_per_shard=16, rollout_steps=16, gradient_steps=4)


def shared_evenly(workers: Sequence[int]) -> Scale:
    """A scale at which the shards divide evenly among each of these numbers of workers.

    >>> shared_evenly([1, 2, 3]).num_shards
    6
    """
    multiple = math.lcm(*workers)
    return Scale(multiple if multiple <= _MOST_SHARDS else max(workers))


def scaled_config(game: str | None, scale: Scale, *layers: Settings) -> RunConfig:
    """A config at that scale: the game's preset, then the scale, then the given layers in order.

    The device is the CPU unless the layers name another one.
    """
    given = merged({"game": {}}, *layers, {"game": game} if game else {})
    name = given["game"].get("name") if isinstance(given["game"], dict) else None
    asked = given.get("collect", {})
    if name is None or not isinstance(asked, dict):
        return resolve_config(game, *layers)  # raises
    usual = merged(DEFAULT_PARTS, {"collect": CollectConfig().model_dump()}, preset_for(str(name), given))
    collect = _collect_settings(scale, usual["collect"], asked)
    algorithm = _algorithm_settings(scale, collect | asked, usual, given)
    return resolve_config(game, {"device": "cpu", "collect": collect, "algorithm": algorithm}, *layers)


def _collect_settings(scale: Scale, usual: Settings, asked: Settings) -> Settings:
    """Games and steps at that scale, unless they are given."""
    default = CollectConfig.model_fields["games_per_shard"].default
    rows = asked.get("games_per_shard", scale.games_per_shard or min(usual["games_per_shard"], default))
    steps = scale.rollout_steps or usual["rollout_steps"]
    settings = {"num_games": rows, "games_per_shard": rows, "rollout_steps": steps}
    if not isinstance(rows, int) or rows < 1:
        return settings  # validation reports the error later
    games = rows * scale.num_shards
    if scale.games_per_shard is None:
        games *= math.ceil(usual["num_games"] / games)
    return settings | {"num_games": games}


def _algorithm_settings(scale: Scale, collect: Settings, usual: Settings, given: Settings) -> Settings:
    """A minibatch that divides the batch, and learning from the first update, unless they are given."""
    algorithm = merged(usual, {"algorithm": given.get("algorithm", {})})["algorithm"]
    if not isinstance(algorithm, dict):
        return {}
    fields = ALGORITHMS.config_class(str(algorithm.get("name"))).model_fields
    named = {"name": algorithm["name"]}
    if "learning_starts" in fields:
        named["learning_starts"] = 1
    if "minibatch_size" not in fields:
        return named
    largest = algorithm.get("minibatch_size", fields["minibatch_size"].default)
    games, steps = collect["num_games"], collect["rollout_steps"]
    are_good = all(isinstance(n, int) and 1 <= n <= MOST_GAMES for n in (games, steps))
    if not are_good or not isinstance(largest, int):
        return named  # validation reports the error later
    limit = min(largest, games * steps // scale.gradient_steps)
    return named | {"minibatch_size": max((n for n in divisors([games, steps]) if n <= limit), default=1)}


def require_sync(config: RunConfig) -> None:
    """Refuse a config whose result depends on the clock."""
    if config.collect.mode != "sync":
        raise ConfigError(
            f"collect.mode={config.collect.mode!r}: equal bytes are promised in sync mode only, since in "
            "async mode the clock decides which weights act; leave it out, or set collect.mode=sync"
        )
