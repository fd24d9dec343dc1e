"""Opponents as users write them: functions of one position, and classes; good ones and bad ones."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from senju.games.game import Game
from senju.opponents.players import Player, PlayerBatch, RandomPlayer

HERE = __name__

NOT_CALLABLE = 3


def first(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """The first legal action."""
    return int(np.flatnonzero(legal)[0])


def last(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """The last legal action."""
    return int(np.flatnonzero(legal)[-1])


def any_of(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """Any legal action."""
    return int(random.choice(np.flatnonzero(legal)))


def scribbler(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """The first legal action, found in a destructive way."""
    action = int(np.flatnonzero(legal)[0])
    observation[...] = 0
    legal[...] = True
    return action


def stumbler(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """Fails when five stones or more lie on a board of noughts and crosses."""
    if np.count_nonzero(observation) >= 5:
        raise ZeroDivisionError("too many stones")
    return int(np.flatnonzero(legal)[0])


def cheat(observation: NDArray[Any], legal: NDArray[np.bool_], random: np.random.Generator) -> int:
    """Plays onto a stone where one lies."""
    taken = np.flatnonzero(~legal)
    return int(taken[0]) if len(taken) else 0


class Centre(Player):
    """A class of a user's own: the middle of the legal actions; notes the batches it is asked for."""

    is_deterministic = True
    batches: ClassVar[list[int]] = []

    def __init__(self, game: Game) -> None:
        self.game, self.name = game, "centre"

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        assert len(batch.states) == len(batch.clock)
        self.batches.append(len(batch.clock))
        legal = np.array([int(words[0]) for words in batch.observations.legal[:, 0]])
        options = [[action for action in range(64) if bits >> action & 1] for bits in legal.tolist()]
        return np.array([[actions[len(actions) // 2]] for actions in options], np.int32)


class Crasher(Player):
    """A class that fails at once."""

    is_deterministic = True

    def __init__(self, game: Game) -> None:
        self.name = "crasher"

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        raise KeyError("lost")


class Shapeless(Crasher):
    """A class that forgets the axis of the places."""

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        return np.zeros(len(batch.clock), np.int32)


class Illegal(Crasher):
    """A class whose last answer is out of range."""

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        actions = RandomPlayer().choose(batch)
        actions[-1] = 99
        return actions


class Unmade(Player):
    """A class that cannot be made."""

    def __init__(self, game: Game) -> None:
        raise OSError("no opening book")

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        raise AssertionError
