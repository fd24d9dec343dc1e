"""Training a run whose automatic sizes may be too large for the memory of its GPU."""

import logging

from senju.config import Settings, merged, validated
from senju.cuda import release_memory
from senju.errors import ConfigError, DeviceRoomError
from senju.runs.automatic import MINIBATCH, SIZES, minibatch_on_gpu
from senju.runs.interrupt import StopRequest
from senju.runs.run import Run
from senju.runs.run_config import RunConfig
from senju.training.trainer import Trainer, TrainingListener

logger = logging.getLogger(__name__)

_MOST_HALVINGS = 4


def train_run(
    run: Run,
    listener: TrainingListener | None = None,
    checkpoint: str | None = None,
    stop: StopRequest | None = None,
    max_updates: int | None = None,
) -> bool:
    """Train a run; return whether it is finished.

    If its sizes are automatic and do not fit, it starts again with half as many games in a shard. This is
    saved before the first step, so that a repeated run gives the same bits.
    """
    for _ in range(_MOST_HALVINGS):
        try:
            return Trainer(run, listener, checkpoint).train(stop, max_updates)
        except DeviceRoomError:
            smaller = halved(run.config) if not run.checkpoints.all() else None
            if smaller is None:
                raise
        release_memory()
        logger.warning(
            "the memory of %s does not suffice for %d games at once; trying %d",
            run.config.device,
            run.config.collect.num_games,
            smaller.collect.num_games,
        )
        run.save_config(smaller)
    return Trainer(run, listener, checkpoint).train(stop, max_updates)


def halved(config: RunConfig) -> RunConfig | None:
    """The config with half as many games in each shard; None if the sizes were given, or do not fit."""
    collect = config.collect
    rows, num_shards = collect.games_per_shard // 2, collect.num_games // collect.games_per_shard
    if not rows or not {*SIZES[:2]} <= {*config.automatic}:
        return None
    changes: Settings = {"collect": {"num_games": rows * num_shards, "games_per_shard": rows}}
    if MINIBATCH in config.automatic:
        factors = [rows, num_shards, collect.rollout_steps]
        acting = config.decisions_per_update // (collect.num_games * collect.rollout_steps)
        factors.append(1 if config.is_independent else acting)
        size = minibatch_on_gpu(factors, config.algorithm.get("epochs", 1))
        changes["algorithm"] = {"minibatch_size": size}
    note = f"; the GPU's memory suffices for {rows} games in a shard, not for {collect.games_per_shard}"
    chosen = config.chosen.partition("; the GPU's memory suffices")[0] + note
    try:
        return validated(RunConfig, merged(config.model_dump(mode="json"), changes, {"chosen": chosen}))
    except ConfigError:
        return None  # a given minibatch does not divide the smaller batch
