"""A user's own opponent: a function of one position, or a class derived from Player.

Its mistakes cannot spoil a run unnoticed: every exception and every illegal move becomes an error that names
the opponent, the game, the row and the step.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.errors import OpponentError, UnknownNameError
from senju.games.game import Game
from senju.kernels import unpack_legal
from senju.opponents.players import KNOWN_OPPONENTS, Player, PlayerBatch, built_in_player
from senju.registry import import_named
from senju.trust import module_in
from senju.usercode import must_propagate

ChooseAction = Callable[[NDArray[Any], NDArray[np.bool_], np.random.Generator], int]


class FunctionPlayer(Player):
    """Calls `function(observation, legal, random)` for each row; `legal` has a bool per action.

    `random` is a generator whose numbers depend on (seed, row, game, step) alone: a function that draws
    only from it keeps a run repeatable.
    """

    is_deterministic = True  # it may be: matches between such players begin with random moves
    looks_at_states = False

    def __init__(self, game: Game, function: ChooseAction, name: str) -> None:
        self.game, self.function, self.name = game, function, name

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        actions = np.zeros((len(batch.clock), 1), np.int32)
        for index in range(len(batch.clock)):
            legal = unpack_legal(batch.observations.legal[index, 0], self.game.num_actions)
            observation = batch.observations.observation[index, 0].copy()  # the function may write to it
            where = _where(self.game, batch, index)
            with _blaming(self.name, where):
                action = self.function(observation, legal.copy(), _generator(batch, index))
            actions[index] = _checked(action, legal, self.name, where)
        return actions


def _generator(batch: PlayerBatch, index: int) -> np.random.Generator:
    row, game, step = (int(batch.clock[index][name]) for name in ("row", "game", "step"))
    # drawing increments the first number; the others differ for each decision
    counter = [0, row, game << 32 | step, batch.stream]
    return np.random.Generator(np.random.Philox(key=int(batch.seed), counter=counter))


class OwnPlayer(Player):
    """A user's own player, whose answers are checked."""

    def __init__(self, game: Game, player: Player, name: str) -> None:
        self.game, self.player, self.name = game, player, name
        self.is_deterministic = getattr(player, "is_deterministic", False)
        self.looks_at_states, self.oracle = player.looks_at_states, player.oracle

    def choose(self, batch: PlayerBatch) -> NDArray[np.int32]:
        legal = unpack_legal(batch.observations.legal[:, 0], self.game.num_actions)
        with _blaming(self.name, _where(self.game, batch, 0, " and others" if len(legal) > 1 else "")):
            actions = np.asarray(self.player.choose(batch))
        if actions.shape != (len(legal), 1) or actions.dtype.kind not in "iu":
            raise OpponentError(
                f"opponent {self.name} answered with {actions.dtype} of shape {actions.shape} where integers "
                f"of shape {(len(legal), 1)} are expected ({_where(self.game, batch, 0)})"
            )
        for index, action in enumerate(actions[:, 0].tolist()):
            _checked(action, legal[index], self.name, _where(self.game, batch, index))
        return actions.astype(np.int32)


def _where(game: Game, batch: PlayerBatch, index: int, more: str = "") -> str:
    clock = batch.clock[index]
    return f"{game.name}, row {clock['row']}{more}, game {clock['game']}, step {clock['step']}"


@contextmanager
def _blaming(name: str, where: str) -> Iterator[None]:
    """Turn any exception into an OpponentError that names the opponent and the line that raised."""
    try:
        yield
    except BaseException as error:  # a bot that calls sys.exit() must not end the run
        if must_propagate(error):
            raise
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        line = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
        what = f"{type(error).__name__}: {error}"
        raise OpponentError(f"opponent {name} raised {what} ({where}){line}") from error


def _checked(action: Any, legal: NDArray[np.bool_], name: str, where: str) -> int:
    is_number = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not is_number or not 0 <= action < len(legal) or not legal[action]:
        allowed = np.flatnonzero(legal)[:10].tolist()
        raise OpponentError(
            f"opponent {name} answered {action!r}, which is no legal action ({where}); "
            f"legal are {allowed}{' and others' if legal.sum() > 10 else ''}"
        )
    return int(action)


def described_player(game: Game, description: str) -> Player:
    """A player that needs no weights: a built-in one, or the one in `package.module:name`."""
    player = built_in_player(game, description)
    if player is not None:
        return player
    if module_in(description) is None:
        raise UnknownNameError(f"unknown opponent {description!r}; expected {KNOWN_OPPONENTS}")
    found = import_named("opponent", description)
    if isinstance(found, type) and issubclass(found, Player):
        make: Callable[[Game], Player] = found
        with _blaming(description, f"while it was made for {game.name}"):
            own = make(game)
        return OwnPlayer(game, own, description)
    if isinstance(found, type) or not callable(found):
        raise UnknownNameError(
            f"opponent {description!r} is neither a function of (observation, legal, random) nor a Player"
        )
    return FunctionPlayer(game, found, description)
