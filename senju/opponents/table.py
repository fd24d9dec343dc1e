"""The table of opponents: draws who sits where when a game begins, and lets each play its seats.

Whoever sits in a game stays until its end: the draw is part of the shard's state. The seats of one
opponent are one batch, whatever games they are in. A rollout's new games draw from a menu of at most
`in_play` opponents, so that a large pool costs no more than a small one.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senju.collect.exploration import Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.seating import CURRENT, Failure, Others
from senju.errors import OpponentError, UnknownNameError
from senju.games.game import Game, Observations
from senju.games.rows import Rows, Stream, first_allowed
from senju.kernels import compiled, random_word, unit_interval
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.batches import Batches
from senju.opponents.functions import load_player
from senju.opponents.players import AgentPlayer, Player, Table, fixed_player

OPPONENT, MENU = int(Stream.OPPONENT), int(Stream.MENU)

_KEPT_MENUS = 4  # so many rollouts' opponents keep a network of their own, ready to be used again


@dataclass(frozen=True)
class OpponentSpec:
    """A fixed opponent as plain data: a player by description, or an agent with its network.

    An agent's weights lie in the place that the orders name.
    """

    description: str
    model: dict[str, Any] | None = None
    acting: dict[str, Any] = field(default_factory=dict)

    @property
    def is_agent(self) -> bool:
        """Whether it needs weights."""
        return self.model is not None


@dataclass(frozen=True)
class TableSettings:
    """How opponents are drawn, and how snapshots of the current policy play."""

    fixed: tuple[OpponentSpec, ...] = ()
    in_play: int = 4
    self_share: float = 0.0  # of the games, played by the current policy in every seat
    epsilon: float = 0.05  # of opponents that play by action values


@compiled
def _seat(
    clock: NDArray[np.void],
    seed: np.uint64,
    ids: NDArray[np.int32],
    thresholds: NDArray[np.float64],  # cumulated odds
    self_share: float,
    current: int,
    seated: NDArray[np.int32],  # [row, seat]
) -> None:
    """Seat the current policy in turn in each seat, and draw somebody for every other one."""
    num_seats = seated.shape[1]
    for row in range(clock.shape[0]):
        if clock[row]["step"] != 0:
            continue
        number, game = clock[row]["row"], clock[row]["game"]
        seated[row] = current
        chance = unit_interval(random_word(seed, number, game, 0, OPPONENT))
        if ids.shape[0] == 0 or chance < self_share:
            continue
        own = (int(number) + int(game)) % num_seats
        for seat in range(num_seats):
            if seat == own:
                continue
            chance = unit_interval(random_word(seed, number, game, seat + 1, OPPONENT))
            drawn = 0
            while drawn < ids.shape[0] - 1 and thresholds[drawn] <= chance:
                drawn += 1
            seated[row, seat] = ids[drawn]


@compiled
def _draw_menu(
    seed: np.uint64,
    row: int,
    version: int,
    thresholds: NDArray[np.float64],
    menu: NDArray[np.int64],
) -> None:
    """Independent draws by the odds: choosing any of them with equal chances keeps the odds."""
    for index in range(menu.shape[0]):
        chance = unit_interval(random_word(seed, row, version, index, MENU))
        drawn = 0
        while drawn < thresholds.shape[0] - 1 and thresholds[drawn] <= chance:
            drawn += 1
        menu[index] = drawn


class _Substitute(AgentPlayer):
    """A network that plays for one opponent after another, with the weights of each."""

    def __init__(self, game: Game, model: Model, acting: Acting, epsilon: float) -> None:
        super().__init__(game, model, "", temperature=1.0, acting=acting, epsilon=epsilon)
        self._block = WeightBlock(model)

    def stand_in(self, name: str, weights: Weights) -> None:
        """Play for another from now on."""
        self.name = name
        self._block.write(weights)


class OpponentTable(Others):
    """The opponents of one worker: fixed ones, and snapshots whose weights it takes when they are needed.

    `models` are a network of the current policy's kind, and one for each fixed agent in turn: copies of
    them take the weights. The copies for snapshots are few, however large the pool is: they go from those
    that have not been in play for longest to those that are.
    """

    def __init__(
        self,
        game: Game,
        num_rows: int,
        settings: TableSettings,
        models: Sequence[Model],
        acting: Acting,
        weights_at: Callable[[int], Weights],
    ) -> None:
        self.game, self.settings = game, settings
        self._models, self._acting, self._weights_at = models, acting, weights_at
        self._fixed: dict[int, Player] = {}
        self._snapshots: dict[int, _Substitute] = {}  # those that played last are last
        self._idle: list[_Substitute] = []
        self._orders = NO_ORDERS
        self._ids = np.zeros(0, np.int32)
        self._thresholds = np.zeros(0)
        self._failures: list[Failure] = []
        self._broken: set[int] = set()  # in this rollout
        self._batches = Batches(game, num_rows)

    def begin(self, orders: Orders, rows: Rows) -> None:
        """Forget who left or was not needed for long, and write the menu for new games."""
        self._orders = orders
        self._broken.clear()
        unneeded = max(0, len(self._snapshots) - _KEPT_MENUS * self.settings.in_play)
        longest_idle = list(self._snapshots)[:unneeded]
        for number in {*longest_idle, *self._snapshots.keys() - set(orders.ids)}:
            self._idle.append(self._snapshots.pop(number))
        self._write_menu(rows)

    def _write_menu(self, rows: Rows) -> None:
        orders, in_play = self._orders, self.settings.in_play
        drawn = [
            (number, odds)
            for number, odds in zip(orders.ids, orders.odds, strict=True)
            if odds > 0.0 and number not in self._broken
        ]
        self._ids = np.array([number for number, _ in drawn], np.int32)
        odds = np.array([odds for _, odds in drawn])
        self._thresholds = np.cumsum(odds) / odds.sum() if drawn else odds
        if len(drawn) > in_play:
            menu = np.zeros(in_play, np.int64)
            _draw_menu(rows.seed, int(rows.clock[0]["row"]), orders.version, self._thresholds, menu)
            self._ids = self._ids[menu]
            self._thresholds = np.arange(1, in_play + 1) / in_play

    def seat(self, rows: Rows, seated: NDArray[np.int32]) -> None:
        """Draw for each game that begins."""
        share = self.settings.self_share
        _seat(rows.clock, rows.seed, self._ids, self._thresholds, share, CURRENT, seated)

    def choose(
        self,
        rows: Rows,
        observations: Observations,
        seats: NDArray[np.int8],
        seated: NDArray[np.int32],
        actions: NDArray[np.int32],
    ) -> NDArray[np.int64] | None:
        """Let each opponent decide for all its seats at once."""
        flat = actions.reshape(-1)
        failed: list[NDArray[np.int64]] = []
        for number, place, part in self._batches.fill(rows, observations, seats, seated):
            positions = self._batches.positions(part)
            player = self._player(number)
            if player is None:
                failed.append(positions)
                continue
            table = self._batches.table(rows, place, part, player.looks_at_states)
            try:
                flat[positions] = player.choose(table)[:, 0]
            except OpponentError as error:
                self._note(number, player, table, error)
                failed.append(positions)
        return self._give_up(rows, observations, np.concatenate(failed), actions) if failed else None

    def _give_up(
        self,
        rows: Rows,
        observations: Observations,
        positions: NDArray[np.int64],
        actions: NDArray[np.int32],
    ) -> NDArray[np.int64]:
        """Somebody has to move where no answer came; which move it is has no consequence."""
        self._write_menu(rows)
        those = np.unique(positions // actions.shape[1])
        first = np.zeros_like(actions)
        first_allowed(observations.legal, those, first)
        actions.reshape(-1)[positions] = first.reshape(-1)[positions]
        return those

    def _player(self, number: int) -> Player | None:
        """Whoever has that number; None where nobody does.

        That happens to a shard that was set aside and is played again by a resumed run: what it met may be
        gone.
        """
        if number <= len(self.settings.fixed):
            if number not in self._fixed:
                self._fixed[number] = self._new_fixed(number)
            return self._fixed[number]
        player = self._snapshots.pop(number, None)
        if player is None:
            if number not in self._orders.ids:
                return None
            player = self._idle.pop() if self._idle else self._substitute(self._models[0], self._acting)
            player.stand_in(f"snapshot {number}", self._weights_of(number))
        self._snapshots[number] = player  # the last now
        return player

    def _new_fixed(self, number: int) -> Player:
        fixed = self.settings.fixed
        spec = fixed[number - 1]
        if not spec.is_agent:
            return described_player(self.game, spec.description)
        model = self._models[1 + sum(other.is_agent for other in fixed[: number - 1])]
        player = self._substitute(model, Acting(**spec.acting))
        player.stand_in(spec.description, self._weights_of(number))
        return player

    def _substitute(self, model: Model, acting: Acting) -> _Substitute:
        return _Substitute(self.game, copy.deepcopy(model), acting, self.settings.epsilon)

    def _weights_of(self, number: int) -> Weights:
        return self._weights_at(self._orders.places[self._orders.ids.index(number)])

    def _note(self, number: int, player: Player, table: Table, error: OpponentError) -> None:
        if number in self._broken:
            return
        self._broken.add(number)
        row, game, step = (int(table.clock[0][name]) for name in ("row", "game", "step"))
        self._failures.append(Failure(number, player.name, row, game, step, str(error)))

    def take_failures(self) -> list[Failure]:
        """Who failed since the last call."""
        taken, self._failures = self._failures, []
        return taken


def described_player(game: Game, description: str) -> Player:
    """A player that needs nothing but its description."""
    player = fixed_player(game, description) or load_player(game, description)
    if player is None:
        raise UnknownNameError(f"unknown opponent {description!r}")
    return player
