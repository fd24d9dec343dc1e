"""Messages for a GPU whose memory is exhausted: which settings to lower, and about what would fit."""

import torch

from senju.backends.building import new_models
from senju.backends.measuring import memory_need
from senju.cuda import is_cuda
from senju.errors import DeviceMemoryError, DeviceRoomError, SenjuError
from senju.games import make_game
from senju.runs.run_config import RunConfig

_ROLLOUT_SHARE = 1 / 2  # of a GPU's memory; networks, gradients and batches need the rest
_REASON_LENGTH = 300


def explain_shortage(
    config: RunConfig, error: str, update: int, has_learned: bool, checkpoint: int | None
) -> SenjuError:
    """The error for the user: at the start about settings, later about the run that was going well."""
    reason = error.partition("\n")[0][:_REASON_LENGTH].rstrip(". ")
    if not has_learned and checkpoint is None:
        games = games_that_fit(config, device_bytes(config.device))
        return DeviceRoomError(
            f"the run does not fit into the memory of {config.device} ({reason}); lower "
            f"{_settings_to_lower(config, games)}, or take a smaller model"
        )
    safe = f"The checkpoint of update {checkpoint} is safe" if checkpoint is not None else "Nothing was saved"
    return DeviceMemoryError(
        f"the memory of {config.device} is exhausted in update {update + 1} ({reason}). {safe}. If other "
        "programs took the memory, end them and resume the run; otherwise start a new run with a smaller "
        f"{_settings_to_lower(config)}, or with a smaller model"
    )


def _settings_to_lower(config: RunConfig, games: int | None = None) -> str:
    hint = f"about {games} may fit" if games else ""
    now = f"now {config.collect.num_games}"
    found = [f"collect.num_games ({', '.join(filter(None, (now, hint)))})"]
    sizes = [name for name in ("minibatch_size", "batch_size") if name in config.algorithm]
    found += [f"algorithm.{name} (now {config.algorithm[name]})" for name in sizes]
    return " or ".join(found)


def device_bytes(device: str) -> int:
    """The memory of a GPU, as far as this process may use it; 0 if unknown."""
    if not is_cuda(device) or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.mem_get_info(torch.device(device))[1])


def games_that_fit(config: RunConfig, num_bytes: int) -> int:
    """About how many games at once fit into a GPU's memory: at most half as many as now, in whole shards."""
    collect, game = config.collect, make_game(**config.game)
    most = collect.num_games // 2
    if num_bytes and collect.evaluate_on == "device":
        need = memory_need(config.plan, game, new_models(config.plan, game).sizes)
        most = min(most, int(_ROLLOUT_SHARE * num_bytes * collect.num_games / max(need.device, 1)))
    return max(most // collect.games_per_shard * collect.games_per_shard, min(most, collect.games_per_shard))
