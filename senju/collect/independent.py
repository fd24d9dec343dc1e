"""The hot loop where every seat has a policy of its own: T steps of one shard, written into a slot for each.

All seats observe first; then each policy chooses for its own seat; then the game carries all actions out
in its own order. What a policy gets to see, and what is kept for it, is its own seat's alone.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from senju.collect.exploration import Acting
from senju.collect.orders import NO_ORDERS, Orders
from senju.collect.rollout import Actor, choose_into, leave_empty_finals
from senju.collect.shard import Shard
from senju.collect.slots import Ring, RingShape, Slot
from senju.errors import ConfigError
from senju.games.game import Game, Observations, SeatView
from senju.games.rows import ACTION, Rows
from senju.kernels import compiled
from senju.models.model import Model
from senju.timing import StageClock


@compiled
def _take_seats(
    seats: NDArray[np.int8],  # [row, acting]
    seat: int,
    own: NDArray[np.int8],  # [row, 1], 0 where the seat acts, else -1
) -> bool:
    """Return whether it acts everywhere."""
    acts_everywhere = True
    for row in range(seats.shape[0]):
        own[row, 0] = 0 if seats[row, seat] == seat else -1
        acts_everywhere &= own[row, 0] == 0
    return acts_everywhere


class _Seat:
    """One seat's policy in a shard."""

    def __init__(self, view: SeatView, model: Model, num_rows: int, seat: int, acting: Acting) -> None:
        self.actor = Actor(view, model, num_rows)
        self.seat, self.acting = seat, acting
        self._stream = ACTION + (seat << 8)  # chance as if all seats were one policy's
        self._epsilon, self._num_final = 0.0, 0

    def begin(self, slot: Slot, orders: Orders, shard: int) -> None:
        """A rollout begins."""
        published = orders.epsilons[self.seat] if orders.epsilons else 0.0
        self._epsilon, self._num_final = self.acting.epsilon(published, shard), 0
        slot.bootstrap.fill(0.0)
        slot.final_at.fill(-1)
        slot.seated.fill(0)

    def see(self, seen: Observations, slot: Slot, time: int) -> None:
        """Take what this seat sees, and nothing else."""
        slot.observation[time, :, 0] = seen.observation[:, self.seat]
        slot.legal[time, :, 0] = seen.legal[:, self.seat]
        if not _take_seats(seen.seats, self.seat, slot.seats[time]):
            # games write what the acting seats see: the rest is left from whatever was seen before
            is_away = slot.seats[time, :, 0] < 0
            slot.observation[time, is_away], slot.legal[time, is_away] = 0, 0

    def choose(self, rows: Rows, slot: Slot, time: int) -> None:
        """Evaluate what is seen, and act."""
        logits, values = self.actor.evaluate(slot.observation[time])
        choose_into(slot, time, logits, values, rows, self._stream, self.acting, self._epsilon)

    def look_at_truncated(
        self, after: Observations, truncated: NDArray[np.bool_], slot: Slot, time: int
    ) -> None:
        """Value or keep the positions in which games were cut."""
        own = np.ascontiguousarray(after.observation[:, self.seat, None])
        if self.acting.by == "policy":
            self.value(own, after, truncated, slot, time)
        room = len(slot.final_seats) - self._num_final
        chosen = np.flatnonzero(truncated)[:room]
        if len(chosen):
            finals = np.arange(self._num_final, self._num_final + len(chosen))
            slot.final_at[time, chosen] = finals
            is_there = after.seats[chosen, self.seat] == self.seat
            slot.final_observation[finals] = own[chosen]
            slot.final_legal[finals, 0] = after.legal[chosen, self.seat]
            slot.final_seats[finals, 0] = np.where(is_there, 0, -1)
            away = finals[~is_there]
            slot.final_observation[away], slot.final_legal[away] = 0, 0
            self._num_final += len(chosen)

    def value(
        self,
        own: NDArray[np.uint8],
        after: Observations,
        chosen: NDArray[np.bool_],
        slot: Slot,
        time: int,
    ) -> None:
        """What positions are worth to this seat; not known where it does not act in them."""
        _, values = self.actor.evaluate(own)
        is_there = after.seats[:, self.seat] == self.seat
        worth = np.where(is_there, values, np.float32(np.nan))
        slot.bootstrap[time, chosen, 0] = worth[chosen]

    def end(self, slot: Slot) -> None:
        """Leave nothing of an older rollout in the slot."""
        leave_empty_finals(slot, self._num_final)


class IndependentPlayer:
    """Plays rollouts of shards with an actor for each seat; one per worker."""

    others = None  # every seat has its policy: nobody else sits anywhere

    def __init__(
        self,
        game: Game,
        models: Sequence[Model],
        num_rows: int,
        clock: StageClock,
        acting: Sequence[Acting],
    ) -> None:
        require_seats_at_once(game)
        self.game, self.clock = game, clock
        self.seats = [
            _Seat(game.seat_view, model, num_rows, seat, how)
            for seat, (model, how) in enumerate(zip(models, acting, strict=True))
        ]
        self._seen, self._after = game.new_observations(num_rows), game.new_observations(num_rows)
        self._outcomes = game.new_outcomes(num_rows)
        self._actions = np.zeros((num_rows, game.num_acting), np.int32)

    @torch.inference_mode()  # once per rollout: entering it costs microseconds
    def play_all(self, shard: Shard, slots: Sequence[Slot], orders: Orders = NO_ORDERS) -> None:
        """Fill each seat's slot with the shard's next steps."""
        rows, clock, outcomes, actions = shard.rows, self.clock, self._outcomes, self._actions
        pairs = list(zip(self.seats, slots, strict=True))
        for seat, slot in pairs:
            seat.begin(slot, orders, shard.index)
        clock.start()
        for time in range(slots[0].num_steps):
            rows.observe(self._seen)
            for seat, slot in pairs:
                seat.see(self._seen, slot, time)
            clock.lap("observe")
            for seat, slot in pairs:
                seat.choose(rows, slot, time)
                actions[:, seat.seat] = slot.actions[time, :, 0]
                clock.lap("evaluate")
            rows.step(actions, outcomes)
            for seat, slot in pairs:
                slot.rewards[time, :, 0] = outcomes.rewards[:, seat.seat]
                slot.terminated[time], slot.truncated[time] = outcomes.terminated, outcomes.truncated
            clock.lap("step")
            if outcomes.truncated.any():
                rows.observe(self._after)
                for seat, slot in pairs:
                    seat.look_at_truncated(self._after, outcomes.truncated, slot, time)
                clock.lap("evaluate")
            rows.advance(outcomes)
            clock.lap("restart")
        self._end(rows, slots)

    def _end(self, rows: Rows, slots: Sequence[Slot]) -> None:
        """Value what goes on, for those who learn a policy."""
        running = ~(self._outcomes.terminated | self._outcomes.truncated)
        rows.observe(self._after)
        for seat, slot in zip(self.seats, slots, strict=True):
            seat.end(slot)
            if seat.acting.by == "policy" and running.any():
                own = np.ascontiguousarray(self._after.observation[:, seat.seat, None])
                seat.value(own, self._after, running, slot, -1)
        self.clock.lap("evaluate")


def require_seats_at_once(game: Game) -> None:
    """Refuse a game in which seats take turns: there, what one seat sees is no game of its own."""
    if game.num_acting != game.num_seats:
        raise ConfigError(
            f"collect.seating=independent: in {game.name} {game.num_acting} of {game.num_seats} seats act at "
            "a time, and every seat's own policy must act in every step; use self_play or opponents"
        )


def warm_up_independent(game: Game, models: Sequence[Model], acting: Sequence[Acting]) -> None:
    """Compile, or load from the cache, every kernel that collecting needs; workers then find it all."""
    game.warm_up()
    ring = Ring(game.seat_view, RingShape(1, 1, 1))
    ring.open(0, 0)
    shard, outcomes = Shard(game, 0, 1, 0), game.new_outcomes(1)
    player = IndependentPlayer(game, models, 1, StageClock(), acting)
    player.play_all(shard, [ring.slot(0, 0)] * len(models))
    outcomes.truncated.fill(True)
    shard.rows.advance(outcomes)
