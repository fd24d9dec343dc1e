"""Opponents in a rollout: draws an opponent for each seat when a game begins, and chooses their moves.

An opponent stays in its seat until the game ends: the draw is part of the shard's state. The seats of one
opponent are one batch, whatever games they are in. A rollout's new games draw from at most `in_play` active
opponents, so that a large pool costs no more than a small one.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from senju.collect.actor import Actor
from senju.collect.device_actor import DeviceProgram
from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.policy import Policy
from senju.collect.seating import CURRENT, Failure, Opponents
from senju.errors import OpponentError
from senju.games.game import Game, Observations
from senju.games.rows import Rows, Stream, first_allowed
from senju.kernels import compiled, random_word, unit_interval
from senju.models.model import Model
from senju.models.weights import WeightBlock, Weights
from senju.opponents.batches import Batches
from senju.opponents.functions import described_player
from senju.opponents.players import AgentPlayer, NewActor, Player, on_device

OPPONENT, ACTIVE = int(Stream.OPPONENT), int(Stream.ACTIVE_OPPONENTS)

_READY_ROLLOUTS = 4  # the opponents of the last 4 rollouts keep a network with their weights


@dataclass(frozen=True)
class OpponentSpec:
    """A fixed opponent: a player by description, or an agent with its network, whose weights are published.

    Like a plan, of which it is a part, it takes plain data as well: `OpponentSpec(**plain)`.
    """

    description: str
    model: dict[str, Any] | None = None
    acting: Acting = BY_POLICY  # of an agent

    @property
    def is_agent(self) -> bool:
        """Whether it needs weights."""
        return self.model is not None


@dataclass(frozen=True)
class OpponentSettings:
    """How opponents are drawn and play; `OpponentSettings(**plain)` also takes `fixed` as plain data."""

    fixed: tuple[OpponentSpec, ...] = ()
    in_play: int = 4
    self_share: float = 0.0  # of the games, played by the current policy in every seat
    epsilon: float = 0.05  # of opponents that play by action values


@compiled
def _draw(
    seed: np.uint64, row: int, game: int, draw: int, stream: int, thresholds: NDArray[np.float64]
) -> int:
    """Draw an index with these cumulative probabilities."""
    chance = unit_interval(random_word(seed, row, game, draw, stream))
    drawn = 0
    while drawn < thresholds.shape[0] - 1 and thresholds[drawn] <= chance:
        drawn += 1
    return drawn


@compiled
def _seat(
    clock: NDArray[np.void],
    seed: np.uint64,
    ids: NDArray[np.int32],
    thresholds: NDArray[np.float64],  # cumulative probabilities
    self_share: float,
    current: int,
    seated: NDArray[np.int32],  # [row, seat]
) -> None:
    """Seat the current policy in each seat in turn, and draw an opponent for every other seat."""
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
            if seat != own:
                seated[row, seat] = ids[_draw(seed, number, game, seat + 1, OPPONENT, thresholds)]


class _ReloadableAgent(AgentPlayer):
    """A network that plays for one opponent after another; `load` writes the next one's weights."""

    def __init__(self, game: Game, model: Model, acting: Acting, epsilon: float, new_actor: NewActor) -> None:
        super().__init__(game, model, "", 1.0, acting, epsilon, new_actor)
        self._block = WeightBlock(model)

    def load(self, name: str, weights: Weights) -> None:
        self.name = name
        self._block.write(weights)


class OpponentPlayers(Opponents):
    """The opponents of one worker: fixed ones, and snapshots whose weights are loaded when they are needed.

    Copies of the networks of `policies` play for snapshots, and copies of `fixed_models` for the fixed
    agents. A snapshot holds the weights of all policies; with one policy for each seat it plays each seat
    with that seat's network. The copies for snapshots are few, however large the pool is: those that were
    idle for longest are used again. With a `program` they are evaluated on its device.
    """

    def __init__(
        self,
        game: Game,
        settings: OpponentSettings,
        policies: Sequence[Policy],
        fixed_models: Sequence[Model],
        weights_at: Callable[[int], Weights],
        num_rows: int = 1,
        program: DeviceProgram | None = None,
    ) -> None:
        # on a device one for all rows, so that it never grows
        self._new_actor = Actor if program is None else on_device(program, num_rows)
        self.game, self.settings = game, settings
        self._policies, self._weights_at = policies, weights_at
        sizes = [WeightBlock(policy.model).num_bytes for policy in policies]
        ends = np.cumsum(sizes).tolist()
        self._parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        agents = [number for number, spec in enumerate(settings.fixed, start=1) if spec.is_agent]
        self._fixed_models = dict(zip(agents, fixed_models, strict=False))  # by the agent's number
        self._fixed: dict[int, Player] = {}
        self._snapshots: dict[
            int, dict[int, _ReloadableAgent]
        ] = {}  # by number and policy; in the order in which they last played
        self._idle: list[list[_ReloadableAgent]] = [[] for _ in policies]
        self._orders = NO_ORDERS
        self._ids = np.zeros(0, np.int32)
        self._thresholds = np.zeros(0)
        self._failures: list[Failure] = []
        self._failed: set[int] = set()  # opponents that failed in this rollout
        self._batches = Batches(game, by_seat=len(policies) > 1)

    def begin(self, orders: Orders, rows: Rows) -> None:
        self._orders = orders
        self._failed.clear()
        self._failures = []  # an interrupted rollout, which is played again, may have left some
        unneeded = max(0, len(self._snapshots) - _READY_ROLLOUTS * self.settings.in_play)
        longest_idle = list(self._snapshots)[:unneeded]
        for number in {*longest_idle, *self._snapshots.keys() - set(orders.ids)}:
            for policy, player in self._snapshots.pop(number).items():
                self._idle[policy].append(player)
        self._choose_active(rows)

    def _choose_active(self, rows: Rows) -> None:
        """Choose the opponents that new games may draw."""
        orders, in_play = self._orders, self.settings.in_play
        drawn = [
            (number, probability)
            for number, probability in zip(orders.ids, orders.probabilities, strict=True)
            if probability > 0.0 and number not in self._failed
        ]
        self._ids = np.array([number for number, _ in drawn], np.int32)
        probabilities = np.array([probability for _, probability in drawn])
        self._thresholds = np.cumsum(probabilities) / probabilities.sum() if drawn else probabilities
        if len(drawn) > in_play:
            # drawn independently, so that a uniform choice among them keeps the probabilities
            row = int(rows.clock[0]["row"])
            active = [
                _draw(rows.seed, row, orders.version, index, ACTIVE, self._thresholds)
                for index in range(in_play)
            ]
            self._ids = self._ids[active]
            self._thresholds = np.arange(1, in_play + 1) / in_play

    def seat(self, rows: Rows, seated: NDArray[np.int32]) -> None:
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
        flat = actions.reshape(-1)
        failed: list[NDArray[np.int64]] = []
        for number, acting_index, part in self._batches.fill(rows, observations, seats, seated):
            positions = self._batches.positions[part]
            player = self._player(number, acting_index)
            if player is None:
                failed.append(positions)
                continue
            batch = self._batches.player_batch(rows, acting_index, part, player.looks_at_states)
            try:
                flat[positions] = player.choose(batch)[:, 0]
            except OpponentError as error:
                failed.append(positions)
                if number not in self._failed:
                    self._failed.add(number)
                    row, game, step = (int(batch.clock[0][name]) for name in ("row", "game", "step"))
                    self._failures.append(Failure(number, player.name, row, game, step, str(error)))
        return self._give_up(rows, observations, np.concatenate(failed), actions) if failed else None

    def _give_up(
        self, rows: Rows, observations: Observations, positions: NDArray[np.int64], actions: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Play the first legal move for opponents that failed; these games have no result."""
        self._choose_active(rows)
        failed_rows = np.unique(positions // actions.shape[1])
        first = np.zeros_like(actions)
        first_allowed(observations.legal, failed_rows, first)
        actions.reshape(-1)[positions] = first.reshape(-1)[positions]
        return failed_rows

    def _player(self, number: int, acting_index: int) -> Player | None:
        """The opponent of that number; None if it is gone, as when a shard that was set aside plays again."""
        if number <= len(self.settings.fixed):
            if number not in self._fixed:
                self._fixed[number] = self._new_fixed(number)
            return self._fixed[number]
        players = self._snapshots.pop(number, {})
        policy = acting_index if len(self._policies) > 1 else 0
        if policy not in players:
            if number not in self._orders.ids:
                return None
            idle = self._idle[policy]
            player = idle.pop() if idle else self._new_agent(*self._policies[policy])
            player.load(f"snapshot {number}", self._weights_of(number)[self._parts[policy]])
            players[policy] = player
        self._snapshots[number] = players  # moves it to the end
        return players[policy]

    def _new_fixed(self, number: int) -> Player:
        spec = self.settings.fixed[number - 1]
        if not spec.is_agent:
            return described_player(self.game, spec.description)
        player = self._new_agent(self._fixed_models[number], spec.acting)
        player.load(spec.description, self._weights_of(number))
        return player

    def _new_agent(self, model: Model, acting: Acting) -> _ReloadableAgent:
        own = copy.deepcopy(model)
        return _ReloadableAgent(self.game, own, acting, self.settings.epsilon, self._new_actor)

    def _weights_of(self, number: int) -> Weights:
        return self._weights_at(self._orders.weight_indices[self._orders.ids.index(number)])

    def take_failures(self) -> list[Failure]:
        taken, self._failures = self._failures, []
        return taken
