"""A player that searches the game tree with a network, to measure the strength that search adds."""

import numpy as np
from numpy.typing import NDArray

from senju.errors import ConfigError
from senju.games.game import Game
from senju.kernels import random_word
from senju.models.model import Model
from senju.opponents.players import Player, PlayerBatch
from senju.search.puct import TreeSearch
from senju.search.settings import SearchConfig


class SearchPlayer(Player):
    """Searches the rows one after another, each with a new tree."""

    def __init__(self, game: Game, model: Model, name: str, config: SearchConfig | None = None) -> None:
        config = config or SearchConfig()
        if config.nodes == 0:
            raise ConfigError("nodes=0: a player needs a limit of nodes, or its search would never end")
        self.name = f"{name} ({config.nodes} nodes)"
        self.is_deterministic = config.noise == 0.0 and config.temperature == 0.0
        self._search = TreeSearch(game, model, config)

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        actions = np.zeros((len(batch.states), 1), np.int32)
        for row, clock in enumerate(batch.clock):
            seed = random_word(batch.seed, clock["row"], clock["game"], clock["step"], batch.stream)
            actions[row] = self._search.run(batch.states[row : row + 1], seed=int(seed)).best
        return actions
