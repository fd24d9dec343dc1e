"""Opponents of a user's own, good and bad, and one that counts how it is asked."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game
from senju.opponents.players import Player, PlayerBatch, RandomPlayer

HERE = "tests.collect.toy_opponents"


def first_legal(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    return int(legal.argmax())


def any_legal(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    return int(random.choice(np.flatnonzero(legal)))


def raises_in_the_middle(
    observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator
) -> int:
    """In a race: does not know what to do when three moves were made."""
    if observation[1] == 3:
        raise ZeroDivisionError("three is too many")
    return first_legal(observation, legal, random)


def cheats_in_the_middle(
    observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator
) -> int:
    """In a race: adds 6 when two moves were made."""
    return 5 if observation[1] == 2 else 1


class Counting(Player):
    """Plays at random, and remembers the row ids of each batch that it is asked about."""

    name = "counting"
    is_deterministic = False
    asked: ClassVar[list[list[int]]] = []

    def __init__(self, game: Game) -> None:
        self._random = RandomPlayer()

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        self.asked.append(batch.clock["row"].tolist())
        return self._random.choose(batch)
