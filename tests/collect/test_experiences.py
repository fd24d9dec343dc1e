"""Experiences: where each decision was made, worked out by hand and by the games; batches and buffers."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.algorithms.returns import generalised_advantages
from senju.collect.experiences import (
    ExperienceBuffer,
    ExperienceError,
    Experiences,
    decisions_of,
    no_experiences,
)
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Rollout, Slot, new_slot
from senju.games.connect_four import ConnectFour
from senju.games.game import Game
from senju.games.rows import CLOCK
from senju.games.tic_tac_toe import TicTacToe
from senju.models.model import ModelConfig, build_model
from senju.timing import StageClock
from tests.collect.toy_games import GeneralSumRace, Meeting, Nim, Race
from tests.collect.toy_models import ReadsObservation
from tests.facts import assert_mentions, mentions

GAMES = [TicTacToe(), ConnectFour(), Race(), GeneralSumRace(), Meeting(), Nim()]
NAMES = list(no_experiences(Race()).columns())


def named(game: Game) -> str:
    return game.name


def play(game: Game, num_rollouts: int, num_steps: int = 11, num_rows: int = 5) -> list[Rollout]:
    """Consecutive rollouts of shard 2, each in a slot of its own."""
    model = build_model(ReadsObservation, game.observation_shape, game.num_actions, ModelConfig(), 0)
    shard = Shard(game, 2, num_rows, seed=3)
    player = RolloutPlayer(game, [Policy(model)], num_rows, StageClock())
    rollouts = []
    for version in range(num_rollouts):
        slot, clock = new_slot(game, num_steps, num_rows), shard.rows.clock.copy()
        player.play(shard, [slot])
        rollouts.append(Rollout(2, version, (slot,), clock))
    return rollouts


def experiences_of(rollout: Rollout) -> Experiences:
    return decisions_of(rollout, *generalised_advantages(rollout.data, 0.9, 0.95))


def batches_of(game: Game, num_batches: int, **shape: int) -> list[Experiences]:
    return [experiences_of(rollout) for rollout in play(game, num_batches, **shape)]


def contents(experiences: Experiences) -> dict[str, bytes]:
    return {name: column.tobytes() for name, column in experiences.columns().items()}


def slow_decisions(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """One dictionary per decision, by a loop over everything; the games are counted by their ends."""
    first = rollouts[0]
    games = {row: int(clock["game"]) for row, clock in enumerate(first.clock)}
    steps = {row: int(clock["step"]) for row, clock in enumerate(first.clock)}
    decisions = []
    for rollout in rollouts:
        slot, estimate = rollout.data, generalised_advantages(rollout.data, 0.9, 0.95)
        for time, row in np.ndindex(slot.terminated.shape):
            for place, seat in enumerate(slot.seats[time, row]):
                if seat < 0:
                    continue
                at = (time, row, place)
                decisions.append(
                    {
                        "observation": slot.observation[at],
                        "legal": slot.legal[at],
                        "actions": slot.actions[at],
                        "log_probs": slot.log_probs[at],
                        "values": slot.values[at],
                        "rewards": slot.rewards[time, row, seat],
                        "terminated": slot.terminated[time, row],
                        "truncated": slot.truncated[time, row],
                        "advantages": estimate.advantages[at],
                        "returns": estimate.returns[at],
                        "is_known": estimate.is_known[at],
                        "version": rollout.version,
                        "row": rollout.shard * slot.seats.shape[1] + row,
                        "game": games[row],
                        "seat": seat,
                        "step": steps[row],
                    }
                )
            has_ended = slot.terminated[time, row] or slot.truncated[time, row]
            games[row] += has_ended
            steps[row] = 0 if has_ended else steps[row] + 1
    return decisions


def hand_rollout(
    game: Game,
    clock: list[tuple[int, int, int]],
    seats: Any,
    *,
    terminated: Sequence[tuple[int, int]] = (),
    truncated: Sequence[tuple[int, int]] = (),
) -> Rollout:
    """A rollout with these seats [time, row, acting] and ends at (time, row); other arrays identify it."""
    places = np.array(seats, np.int8)
    slot = new_slot(game, *places.shape[:2])
    slot.seats[:] = places
    slot.actions.reshape(-1)[:] = np.arange(slot.actions.size)
    slot.rewards[..., 0] = 10 * np.arange(places.shape[0])[:, None] + np.arange(places.shape[1])
    slot.rewards[..., 1] = -slot.rewards[..., 0]
    for array, ends in ((slot.terminated, terminated), (slot.truncated, truncated)):
        for time, row in ends:
            array[time, row] = True
    return Rollout(0, 7, (slot,), np.array(clock, CLOCK))


def test_race_by_hand() -> None:
    """Row 4 is in step 3 of its game 8, and ends it at once and the next two steps later; row 5 goes on."""
    rollout = hand_rollout(
        Race(),
        [(4, 8, 3), (5, 2, 1)],
        [[[1], [1]], [[0], [0]], [[1], [1]], [[0], [0]]],
        terminated=[(0, 0)],
        truncated=[(2, 0)],
    )
    experiences = experiences_of(rollout)
    assert experiences.row.tolist() == [4, 5, 4, 5, 4, 5, 4, 5]
    assert experiences.game.tolist() == [8, 2, 9, 2, 9, 2, 10, 2]
    assert experiences.step.tolist() == [3, 1, 0, 2, 1, 3, 0, 4]
    assert experiences.seat.tolist() == [1, 1, 0, 0, 1, 1, 0, 0]
    assert experiences.terminated.tolist() == [True] + 7 * [False]
    assert experiences.truncated.tolist() == [False] * 4 + [True] + 3 * [False]
    # step t pays 10 t + row to seat 0, minus that to seat 1
    assert experiences.rewards.tolist() == [0, -1, 10, 11, -20, -21, 30, 31]
    assert experiences.actions.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert experiences.version.tolist() == [7] * 8


def test_meeting_by_hand() -> None:
    """Two seats at once; where one sits out there is no decision, but the game's step goes on."""
    rollout = hand_rollout(
        Meeting(),
        [(0, 0, 0)],
        [[[0, 1]], [[0, -1]], [[-1, -1]], [[-1, 1]], [[0, 1]]],
        terminated=[(3, 0)],
    )
    experiences = experiences_of(rollout)
    assert experiences.step.tolist() == [0, 0, 1, 3, 0, 0]
    assert experiences.game.tolist() == [0, 0, 0, 0, 1, 1]
    assert experiences.seat.tolist() == [0, 1, 0, 1, 0, 1]
    assert experiences.rewards.tolist() == [0, 0, 10, -30, 40, -40]
    assert experiences.actions.tolist() == [0, 1, 2, 7, 8, 9]
    assert experiences.terminated.tolist() == [False, False, False, True, False, False]


def test_race_itself_shows_the_step_and_the_seat() -> None:
    for batch in batches_of(Race(), 4):
        assert batch.step.tolist() == batch.observation[:, 1].tolist()
        assert batch.seat.tolist() == batch.observation[:, 2].tolist()


def test_meeting_has_no_decision_of_the_seat_that_sits_out() -> None:
    batch = batches_of(Meeting(), 1)[0]
    second = batch.select(batch.seat == 1)
    assert 0 < len(second) < len(batch) - len(second)
    assert set((second.observation[:, 0] % 2).tolist()) == {0}


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_every_column_is_what_a_slow_loop_over_consecutive_rollouts_finds(game: Game) -> None:
    rollouts = play(game, 3)
    experiences = Experiences.merge([experiences_of(rollout) for rollout in rollouts])
    expected = slow_decisions(rollouts)
    assert len(experiences) == len(expected)
    for name, column in experiences.columns().items():
        values = np.array([decision[name] for decision in expected], column.dtype)
        assert column.tobytes() == values.tobytes(), name
    assert experiences.game.max() > 0, "no game ended"


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_no_experiences_are_like_some_experiences(game: Game) -> None:
    some, none = batches_of(game, 1)[0], no_experiences(game)
    assert len(none) == 0
    assert not none
    assert contents(Experiences.merge([none, some, none])) == contents(some)


@pytest.mark.parametrize("game", [Race(), Meeting()], ids=named)
def test_merged_experiences_own_their_memory(game: Game) -> None:
    rollout = play(game, 1)[0]
    merged = Experiences.merge([experiences_of(rollout)])
    before = contents(merged)
    for array in rollout.data:
        array.view(np.uint8).fill(1)  # as the next rollout in the same slot would
    assert contents(merged) == before


def test_merge_keeps_the_order() -> None:
    batches = batches_of(Race(), 3)
    merged = Experiences.merge(batches)
    assert merged.version.tolist() == [version for version in range(3) for _ in range(55)]
    for name, column in merged.columns().items():
        assert column.tolist() == [value for batch in batches for value in batch.columns()[name].tolist()]


def test_selecting_takes_the_same_decisions_from_every_column() -> None:
    batch = batches_of(Meeting(), 1)[0]
    order = np.array([5, 0, 3])
    chosen = batch.select(order)
    assert len(chosen) == 3
    for name, column in batch.columns().items():
        assert chosen.columns()[name].tolist() == [column[index].tolist() for index in order]
    assert len(batch.select(slice(2, 6))) == 4
    assert len(batch.select(batch.seat == 0)) == int((batch.seat == 0).sum())


def test_legal_mask_has_one_boolean_per_action() -> None:
    batch = batches_of(Nim(), 1)[0]
    mask, piles = batch.legal_mask(3), batch.observation.any(axis=1).argmax(axis=1)
    assert mask.tolist() == [[pile >= 1, pile >= 2, pile >= 3] for pile in piles.tolist()]


def test_representation_is_short() -> None:
    text = repr(batches_of(Race(), 1)[0])
    assert_mentions(text, "55 experiences", "shape (3,)")
    assert len(text) < 60


def test_nothing_to_merge_is_refused() -> None:
    with pytest.raises(ExperienceError, match="nothing to merge"):
        Experiences.merge([])


def test_experiences_of_another_game_are_refused() -> None:
    race, nim = batches_of(Race(), 1)[0], batches_of(Nim(), 1)[0]
    expected = r"observation .*\(2, 10\) and uint8, expected \(3,\) and uint8"
    with pytest.raises(ExperienceError, match=expected):
        Experiences.merge([race, nim])
    buffer = ExperienceBuffer(200)
    buffer.add_batch(race)
    before = contents(buffer.batch)
    with pytest.raises(ExperienceError, match=expected):
        buffer.add_batch(nim)
    other = ExperienceBuffer(200)
    other.add_batch(nim)
    with pytest.raises(ExperienceError, match=expected):
        buffer.merge(other)
    assert contents(buffer.batch) == before


@settings(deadline=None, max_examples=50, database=None)
@given(cuts=st.lists(st.integers(0, 55), max_size=6), is_meeting=st.booleans())
def test_buffer_filled_in_any_pieces_holds_what_was_added(cuts: list[int], is_meeting: bool) -> None:
    whole = BATCHES[is_meeting]
    borders = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    buffer = ExperienceBuffer(len(whole))
    for start, stop in itertools.pairwise(borders):
        buffer.add_batch(whole.select(slice(start, stop)))
        assert len(buffer) == stop
        assert contents(buffer.batch) == contents(whole.select(slice(stop)))


BATCHES = [batches_of(Race(), 1)[0], batches_of(Meeting(), 1)[0]]


def test_buffers_merge_into_one() -> None:
    first, second, third = batches_of(Race(), 3)
    one, other = ExperienceBuffer(200), ExperienceBuffer(110)
    one.add_batch(first)
    other.add_batch(second)
    other.add_batch(third)
    one.merge(other)
    assert contents(one.batch) == contents(Experiences.merge([first, second, third]))
    assert len(other) == 110
    one.merge(ExperienceBuffer(1))
    assert len(one) == 165


def test_full_buffer_refuses_and_keeps_what_it_has() -> None:
    first, second = batches_of(Race(), 2)
    buffer = ExperienceBuffer(100)
    buffer.add_batch(first)
    expected = mentions("55 experiences", "55 of 100", "clear", "110 or more")
    with pytest.raises(ExperienceError, match=expected):
        buffer.add_batch(second)
    assert contents(buffer.batch) == contents(first)
    other = ExperienceBuffer(100)
    other.add_batch(second)
    with pytest.raises(ExperienceError, match="do not fit"):
        buffer.merge(other)
    assert contents(buffer.batch) == contents(first)


def test_cleared_buffer_uses_its_room_again() -> None:
    first, second = batches_of(Race(), 2)
    buffer = ExperienceBuffer(55)
    buffer.add_batch(first)
    room = buffer.batch.observation.ctypes.data
    buffer.clear()
    assert (len(buffer), len(buffer.batch)) == (0, 0)
    buffer.add_batch(second)
    assert contents(buffer.batch) == contents(second)
    assert buffer.batch.observation.ctypes.data == room


def test_buffer_copies_what_is_added() -> None:
    rollout = play(Race(), 1)[0]
    expected = contents(experiences_of(rollout))
    buffer = ExperienceBuffer(55)
    buffer.add_batch(experiences_of(rollout))
    for array in rollout.data:
        array.view(np.uint8).fill(1)
    assert contents(buffer.batch) == expected


def test_batch_of_a_buffer_is_a_view() -> None:
    first, second = batches_of(Race(), 2)
    buffer = ExperienceBuffer(110)
    buffer.add_batch(first)
    views = buffer.batch
    buffer.add_batch(second)
    for name, column in buffer.batch.columns().items():
        assert column.ctypes.data == views.columns()[name].ctypes.data, name


def test_buffer_that_never_held_anything_has_no_batch() -> None:
    buffer = ExperienceBuffer(3)
    assert len(buffer) == 0
    with pytest.raises(ExperienceError, match="added"):
        _ = buffer.batch


@pytest.mark.parametrize("capacity", [0, -5])
def test_buffer_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(ExperienceError, match=f"capacity={capacity}"):
        ExperienceBuffer(capacity)


def test_slots_of_any_shape_are_flattened_in_order_of_time_then_row() -> None:
    slot: Slot = play(Meeting(), 1)[0].data
    batch = experiences_of(play(Meeting(), 1)[0])
    assert batch.actions.tolist() == slot.actions[slot.seats >= 0].tolist()
