"""The serial backend: all shards in this process, one after another. It is the oracle."""

from senju.backends.backend import Backend, Plan
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard, ShardState
from senju.collect.slots import Rollout, Slot, new_slot
from senju.games import make_game
from senju.models import MODELS, build_model
from senju.models.weights import WeightBlock, Weights
from senju.timing import StageClock


class Serial(Backend):
    """Plays every shard here."""

    def start(self, plan: Plan) -> None:
        """Build the game, the acting copy of the model, the shards and their slots."""
        game = make_game(**plan.game)
        game.warm_up()
        model = build_model(
            MODELS.get(plan.model["name"]),
            game.observation_shape,
            game.num_actions,
            MODELS.configure(plan.model),
            plan.seed,
        )
        self._weights = WeightBlock(model)
        self._version = 0
        self._clock = StageClock()
        self._player = RolloutPlayer(game, model, plan.games_per_shard, self._clock)
        indices = range(plan.num_shards)
        self._shards = [Shard(game, index, plan.games_per_shard, plan.seed) for index in indices]
        self._slots: list[Slot] = [new_slot(game, plan.rollout_steps, plan.games_per_shard) for _ in indices]

    def publish(self, weights: Weights, version: int) -> None:
        """Copy the weights into the acting model."""
        self._weights.write(weights)
        self._version = version

    def collect(self) -> list[Rollout]:
        """Play one rollout of each shard in turn."""
        for shard, slot in zip(self._shards, self._slots, strict=True):
            self._player.play(shard, slot)
        return [Rollout(index, self._version, slot) for index, slot in enumerate(self._slots)]

    def snapshot(self) -> list[ShardState]:
        """Copies of the shards' states."""
        return [shard.snapshot() for shard in self._shards]

    def restore(self, states: list[ShardState]) -> None:
        """Set every shard back."""
        for shard, state in zip(self._shards, states, strict=True):
            shard.restore(state)

    def take_timings(self) -> dict[str, float]:
        """Seconds per stage since the last call."""
        return self._clock.take()

    def close(self) -> None:
        """Nothing to stop: everything here belongs to this process."""
