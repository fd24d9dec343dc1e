"""Rollouts written by hand into a ring: each position names itself, so that draws can be identified."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from senju.algorithms.linking import NOTHING, Linker
from senju.algorithms.replay import Sample
from senju.collect.slots import Ring, RingShape, Rollout, Slot
from senju.games.game import Game
from tests.collect.toy_games import Meeting, Race

FINAL = 100  # added to the time of a truncated position
NO_CLOCK = np.zeros(0, np.dtype([("row", np.uint32)]))


class At(NamedTuple):
    """Which decision, or which truncated position (FINAL + the time of the step that led to it)."""

    turn: int
    time: int
    row: int = 0
    place: int = 0
    shard: int = 0


class Led(NamedTuple):
    """What a decision led to."""

    reward: float
    to: At | None
    factor: float


class TurnGame(Race):
    """Only its shape counts: two seats in turn, positions of five bytes."""

    name = "turn_game"
    observation_shape = (len(At._fields),)


class SimultaneousGame(Meeting):
    """Only its shape counts: two seats at once, positions of five bytes."""

    name = "simultaneous_game"
    observation_shape = (len(At._fields),)


class HandRing:
    """A ring, written turn by turn."""

    def __init__(self, shape: RingShape, game: Game | None = None) -> None:
        self.ring = Ring(game or TurnGame(), shape)
        self.shape = shape

    def slot(self, turn: int, shard: int = 0) -> Slot:
        """A rollout in which no seat acts and nothing happens."""
        slot = self.ring.slot(shard, turn)
        slot.seats.fill(-1)
        slot.final_at.fill(-1)
        for column in (slot.explored, slot.rewards, slot.terminated, slot.truncated):
            column.fill(0)
        for time, row, place in np.ndindex(slot.seats.shape):
            slot.observation[time, row, place] = At(turn, time, row, place, shard)
        slot.legal[..., 0] = slot.observation.astype(np.uint64) @ np.array([1, 100, 1, 1, 1], np.uint64)
        slot.actions[:] = slot.legal[..., 0]
        return slot

    def truncate(self, slot: Slot, time: int, row: int, final: int, seats: Sequence[int]) -> None:
        """End a game at a step, and keep the position it led to."""
        turn, _, _, _, shard = slot.observation[time, row, 0]
        slot.truncated[time, row] = True
        slot.final_at[time, row] = final
        slot.final_seats[final] = seats
        for place in range(len(seats)):
            slot.final_observation[final, place] = At(turn, FINAL + time, row, place, shard)
        slot.final_legal[final] = 77

    def rollout(self, turn: int, shard: int = 0) -> Rollout:
        """Hand a written rollout over."""
        self.ring.open(shard, turn)
        self.ring.complete(shard, turn)
        return Rollout(shard, 0, (self.ring.slot(shard, turn),), NO_CLOCK, turn)

    def play(
        self,
        turn: int,
        seats: Sequence[int | Sequence[int]],
        rewards: Mapping[int, Sequence[float]] | None = None,
        *,
        explored: Sequence[int] = (),
        terminated: Sequence[int] = (),
        truncated: Mapping[int, Sequence[int] | None] | None = None,  # the seats to move then; None: not kept
    ) -> Rollout:
        """One row, step by step; rewards, random moves and ends by the step's number."""
        slot = self.slot(turn)
        slot.seats[:, 0] = np.array(seats).reshape(len(seats), -1)
        for time, of_seats in (rewards or {}).items():
            slot.rewards[time, 0] = of_seats
        slot.explored[list(explored), 0] = True
        slot.terminated[list(terminated), 0] = True
        for final, (time, movers) in enumerate((truncated or {}).items()):
            slot.truncated[time, 0] = True
            if movers is not None:
                self.truncate(slot, time, 0, final, movers)
        return self.rollout(turn)


def drawn(sample: Sample) -> dict[At, Led]:
    """What was drawn, with what it led to, as the positions themselves say it."""
    found: dict[At, Led] = {}
    columns = (sample.observation, sample.next_observation, sample.returns, sample.factors)
    for own, after, reward, factor in zip(*columns, strict=True):
        at, to = At(*own.tolist()), At(*after.tolist())
        led = Led(float(reward), to if factor else None, float(factor))
        assert factor or to == at, "where nothing is to come, the next position is the decision's own"
        assert found.setdefault(at, led) == led, "a decision always leads to the same"
    return found


def linked(linker: Linker, shape: RingShape, num_places: int) -> dict[At, Led]:
    """All that is ready, by the numbers of the frames."""
    links, size = linker.links, linker.segment_size
    final_size = shape.final_rows * num_places
    found: dict[At, Led] = {}

    def position(frame: int) -> At:
        if frame < linker.num_frames:
            segment, inner = divmod(frame, size)
            time, row, place = np.unravel_index(inner, (shape.num_steps, shape.num_rows, num_places))
            return At(int(links.turns[segment]), int(time), int(row), int(place), segment // shape.depth)
        segment, inner = divmod(frame - linker.num_frames, final_size)
        final, place = divmod(inner, num_places)
        return At(int(links.turns[segment]), FINAL + final, -1, place, segment // shape.depth)

    for segment in range(len(links.turns)):
        for inner in links.ready[segment, : links.num_ready[segment]]:
            frame = segment * size + int(inner)
            following, factor, reward = links.outcomes[frame].tolist()
            to = None if following == NOTHING else position(following)
            assert position(frame) not in found, "a decision is ready once"
            found[position(frame)] = Led(reward, to, factor)
    return found
