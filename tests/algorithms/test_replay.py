"""Replay: drawn decisions, their frequencies and weights; a resume does not change the draws."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from senju.algorithms.dqn import DQNConfig
from senju.algorithms.replay import Priorities, Replay, Sample
from senju.collect.exploration import Acting
from senju.collect.orders import Orders
from senju.collect.policy import Policy
from senju.collect.rollout import RolloutPlayer
from senju.collect.shard import Shard
from senju.collect.slots import Ring, RingShape, Rollout
from senju.config import Part
from senju.errors import CheckpointError, ConfigError, ModelError, WorkerError
from senju.timing import StageClock
from tests.algorithms.chi_squared import fits
from tests.algorithms.hand_ring import At, HandRing, drawn
from tests.collect.toy_games import Race
from tests.collect.toy_models import ReadsObservation
from tests.facts import mentions

SPARSE = RingShape(num_shards=3, num_steps=6, num_rows=4, kept=3, ahead=1, keeps_final=True)


def sparse_turns(ring: HandRing, turns: range) -> Iterator[list[Rollout]]:
    """Rollouts in which a third of the places are decisions, and a few games end."""
    for turn in turns:
        rollouts = []
        for shard in range(ring.shape.num_shards):
            rng = np.random.default_rng([turn, shard])
            slot = ring.slot(turn, shard)
            slot.seats[:] = np.where(
                rng.random(slot.seats.shape) < 0.3, rng.integers(0, 2, slot.seats.shape), -1
            )
            slot.rewards[:] = rng.normal(size=slot.rewards.shape)
            slot.terminated[:] = rng.random(slot.terminated.shape) < 0.1
            for final, row in enumerate(np.flatnonzero(rng.random(ring.shape.num_rows) < 0.5)):
                ring.truncate(slot, int(rng.integers(0, 6)), int(row), final, [int(rng.integers(0, 2))])
            rollouts.append(ring.rollout(turn, shard))
        yield rollouts


def sparse_replay(priorities: Priorities | None = None, turns: int = 10) -> Replay:
    ring = HandRing(SPARSE)
    replay = Replay(ring.ring, 5, 2, 0.9, is_zero_sum=True, priorities=priorities)
    for rollouts in sparse_turns(ring, range(turns)):
        replay.add(rollouts)
    return replay


def ready_frames(replay: Replay) -> NDArray[np.int64]:
    links = replay._linker.links
    size = replay._linker.segment_size
    return np.concatenate(
        [
            segment * size + np.sort(links.ready[segment, :count]).astype(np.int64)
            for segment, count in enumerate(links.num_ready)
        ]
    )


def test_all_ready_decisions_are_drawn_alike() -> None:
    """From rollouts most of whose places are blank, and of which some are emptier than others."""
    replay = sparse_replay()
    ready = ready_frames(replay)
    assert 30 < len(ready) == len(replay) < 0.3 * SPARSE.num_shards * SPARSE.kept * 24
    counts = np.zeros(ready.max() + 1, np.int64)
    for step in range(200):
        np.add.at(counts, replay.sample(256, step).frames, 1)
    assert counts.sum() == counts[ready].sum(), "nothing else is drawn"
    assert fits(counts[ready], np.full(len(ready), 1 / len(ready)))
    assert (replay.sample(256, 0).weights == 1.0).all()


def test_prioritised_decisions_are_drawn_in_proportion_to_their_error() -> None:
    priorities = Priorities(exponent=0.5, smallest=0.25)
    replay = sparse_replay(priorities)
    ready = ready_frames(replay)
    errors = np.random.default_rng(0).normal(size=len(ready)).astype(np.float32)
    replay.learn_priorities(ready, errors)
    shares = np.sqrt(np.abs(errors.astype(np.float64)) + 0.25)
    shares /= shares.sum()
    counts = np.zeros(ready.max() + 1, np.int64)
    for step in range(6_000):
        counts[replay.sample(1, step).frames] += 1  # one at a time: several at once are stratified
    assert counts.sum() == counts[ready].sum()
    assert fits(counts[ready], shares)
    assert not fits(counts[ready], np.full(len(ready), 1 / len(ready)))


def one_step_games(num_rows: int, priorities: Priorities) -> tuple[HandRing, Replay]:
    """As many decisions as rows, each a game of its own."""
    ring = HandRing(RingShape(1, 1, num_rows, kept=2))
    replay = Replay(ring.ring, 1, 1, 0.9, is_zero_sum=True, priorities=priorities)
    add_games(ring, replay, 0)
    return ring, replay


def add_games(ring: HandRing, replay: Replay, turn: int) -> None:
    slot = ring.slot(turn)
    slot.seats.fill(0)
    slot.terminated.fill(True)
    replay.add([ring.rollout(turn)])


def weights_by_row(replay: Replay, correction: float, count: int = 400) -> dict[At, float]:
    sample = replay.sample(count, 0, correction)
    return {At(*own.tolist()): float(w) for own, w in zip(sample.observation, sample.weights, strict=True)}


def test_priorities_and_weights_are_those_worked_out_by_hand() -> None:
    ring, replay = one_step_games(4, Priorities(exponent=0.5, smallest=0.25))
    # errors 0, 2, -6 and 0.75: |error| + 0.25 = 0.25, 2.25, 6.25, 1, whose roots are 0.5, 1.5, 2.5, 1;
    # together 5.5, so that the chances are 1/11, 3/11, 5/11, 2/11 and 4 · chance = 4/11, 12/11, 20/11, 8/11
    replay.learn_priorities(np.arange(4), np.array([0.0, 2.0, -6.0, 0.75], np.float32))
    assert replay.state()["weights"][:4].tolist() == [0.5, 1.5, 2.5, 1.0]
    counts = np.bincount(replay.sample(1100, 0).frames, minlength=4)
    assert np.abs(counts - [100, 300, 500, 200]).max() <= 1, "stratified: never more than one off"
    # beta 1: weights in the ratio 11/4 : 11/12 : 11/20 : 11/8, and the largest is made 1
    expected = {0: 1.0, 1: 1 / 3, 2: 1 / 5, 3: 1 / 2}
    assert weights_by_row(replay, 1.0) == {At(0, 0, row): pytest.approx(w) for row, w in expected.items()}
    # beta 1/2: the roots of these
    assert weights_by_row(replay, 0.5) == {
        At(0, 0, row): pytest.approx(w**0.5) for row, w in expected.items()
    }
    assert set(weights_by_row(replay, 0.0).values()) == {1.0}
    # what is new weighs as much as the largest that was ever seen, also after that one became smaller
    replay.learn_priorities(np.array([2]), np.array([0.0], np.float32))
    add_games(ring, replay, 1)
    assert replay.state()["weights"].tolist() == [0.5, 1.5, 0.5, 1.0, 2.5, 2.5, 2.5, 2.5]
    # chances among all eight: 13.5 together; the first has 8 · 0.5 / 13.5, the new ones 8 · 2.5 / 13.5
    weights = weights_by_row(replay, 1.0)
    assert weights[At(1, 0, 0)] == pytest.approx(0.5 / 2.5)
    assert weights[At(0, 0, 0)] == 1.0


def test_exponent_of_zero_draws_all_alike() -> None:
    _, replay = one_step_games(4, Priorities(exponent=0.0))
    replay.learn_priorities(np.arange(4), np.array([0.0, 1.0, 10.0, 100.0], np.float32))
    assert np.bincount(replay.sample(400, 0).frames).tolist() == [100] * 4
    assert set(weights_by_row(replay, 1.0).values()) == {1.0}


def same(one: Sample, other: Sample) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("priorities", [None, Priorities()], ids=["uniform", "prioritised"])
def test_draws_depend_on_content_seed_and_step_alone(priorities: Priorities | None) -> None:
    one, other = sparse_replay(priorities), sparse_replay(priorities)
    for step in (3, 1, 2**40):  # in any order, and beyond 32 bits
        assert same(one.sample(64, step, 0.4), other.sample(64, step, 0.4))
    assert not same(one.sample(64, 3), one.sample(64, 4))
    assert not same(one.sample(64, 0), one.sample(64, 2**32))
    other._seed = np.uint64(6)
    assert not same(one.sample(64, 3), other.sample(64, 3))


@pytest.mark.parametrize("stopped", [1, 2, 4, 9], ids=lambda turn: f"after_{turn}")
@pytest.mark.parametrize("priorities", [None, Priorities()], ids=["uniform", "prioritised"])
def test_rebuilt_replay_goes_on_as_the_uninterrupted_one(priorities: Priorities | None, stopped: int) -> None:
    """The ring has four places for each shard: by turn 9 it went around twice."""
    ring, resumed_ring = HandRing(SPARSE), HandRing(SPARSE)
    replay = Replay(ring.ring, 5, 2, 0.9, is_zero_sum=True, priorities=priorities)
    learn = np.random.default_rng(1)

    def step_both(step: int, *replays: Replay) -> None:
        samples = [each.sample(32, step, 0.4) for each in replays]
        assert all(same(samples[0], sample) for sample in samples[1:])
        errors = learn.normal(size=32).astype(np.float32)
        for each, sample in zip(replays, samples, strict=True):
            if priorities:
                each.learn_priorities(sample.frames, errors)

    for turn, rollouts in enumerate(sparse_turns(ring, range(stopped))):
        replay.add(rollouts)
        for step in range(5):
            step_both(turn * 5 + step, replay)
    for column, saved in zip(resumed_ring.ring.columns, ring.ring.columns, strict=True):
        column[:] = saved
    resumed_ring.ring.sequence_numbers[:] = ring.ring.sequence_numbers
    # what workers were writing ahead, or had finished ahead, when the checkpoint was taken
    resumed_ring.ring.open(0, stopped)
    resumed_ring.ring.complete(1, stopped)
    resumed = Replay(resumed_ring.ring, 5, 2, 0.9, is_zero_sum=True, priorities=priorities)
    resumed.rebuild(last_turn=stopped - 1)
    resumed.load_state(replay.state())
    if priorities:
        assert resumed._tree is not None
        assert replay._tree is not None
        assert resumed._tree._tree.tobytes() == replay._tree._tree.tobytes(), "sums, bit by bit"
    going_on = range(stopped, stopped + 6)
    pairs = zip(sparse_turns(ring, going_on), sparse_turns(resumed_ring, going_on), strict=True)
    for turn, (rollouts, again) in zip(going_on, pairs, strict=True):
        for step in range(5):
            step_both(turn * 5 + step, replay, resumed)
        replay.add(rollouts)
        resumed.add(again)
        assert len(replay) == len(resumed)


def test_rebuilding_forgets_what_was_there_before() -> None:
    replay = sparse_replay(Priorities())
    before = replay.sample(100, 0)
    replay.learn_priorities(before.frames, np.full(100, 9.0, np.float32))
    state = replay.state()
    replay.rebuild(last_turn=9)
    replay.rebuild(last_turn=9)
    replay.load_state(state)
    assert replay.state()["weights"].tobytes() == state["weights"].tobytes()
    assert replay.state()["largest"] == state["largest"] > 1.0


def test_priorities_of_other_rollouts_are_refused() -> None:
    replay = sparse_replay(Priorities())
    state = replay.state()
    with pytest.raises(CheckpointError, match="belong together"):
        replay.load_state(state | {"weights": np.roll(state["weights"], 1)})
    with pytest.raises(CheckpointError, match=f"in {replay._linker.num_frames - 1} entries"):
        replay.load_state(state | {"weights": state["weights"][1:]})
    with pytest.raises(CheckpointError, match=mentions("no priorities", "largest and weights")):
        replay.load_state({})
    with pytest.raises(CheckpointError, match=mentions("largest and weights", "expected none")):
        sparse_replay().load_state(state)


def test_rollouts_of_a_shard_that_was_set_aside_leave_with_the_others() -> None:
    ring = HandRing(SPARSE)
    replay = Replay(ring.ring, 5, 1, 0.9, is_zero_sum=True)
    for turn, rollouts in enumerate(sparse_turns(ring, range(6))):
        replay.add(rollouts if turn < 2 else rollouts[1:])
        shards = {at.shard for at in drawn(replay.sample(500, turn))}
        assert shards == ({0, 1, 2} if turn < 4 else {1, 2})


def test_played_games_are_linked_to_the_positions_they_went_through() -> None:
    """Race shows total, moves and mover: a seat's next position has two moves more, the other's one more."""
    game, shape = Race(), RingShape(2, 7, 8, kept=4, keeps_final=True)
    ring = Ring(game, shape)
    model = ReadsObservation(game.observation_shape, game.num_actions, Part())
    player = RolloutPlayer(game, [Policy(model, Acting("action_values"))], shape.num_rows, StageClock())
    shards = [Shard(game, index, shape.num_rows, 3) for index in range(shape.num_shards)]
    replay = Replay(ring, 0, 1, 0.5, game.is_zero_sum, stops_at_exploration=False)
    kinds = set()
    for turn in range(9):
        rollouts = []
        for shard in shards:
            ring.open(shard.index, turn)
            slot = ring.slot(shard.index, turn)
            player.play(shard, [slot], Orders(epsilons=(1.0,)))
            ring.complete(shard.index, turn)
            rollouts.append(Rollout(shard.index, 0, (slot,), shard.rows.clock, turn))
        replay.add(rollouts)
        sample = replay.sample(300, turn)
        for own, after, action, reward, factor in zip(
            sample.observation,
            sample.next_observation,
            sample.actions,
            sample.returns,
            sample.factors,
            strict=True,
        ):
            moves = int(after[1]) - int(own[1])
            kinds.add((moves, float(reward), float(factor)))
            if factor > 0:
                assert own[2] == after[2]
                assert after[0] - own[0] - (action + 1) in (1, 2), "the other's move is between"
            elif factor < 0:
                assert own[2] != after[2]
                assert after[0] == own[0] + action + 1
                assert after[1] == game.LIMIT
    # on to the next decision; cut after one's own move or after the other's; won; lost by the other's move
    assert kinds == {(2, 0.0, 0.5), (1, 0.0, -0.5), (0, 1.0, 0.0), (0, -1.0, 0.0)}


def test_sample_holds_what_the_ring_does() -> None:
    replay = sparse_replay()
    sample = replay.sample(500, 0)
    columns = replay.ring.columns
    assert (sample.actions == columns.actions.reshape(-1)[sample.frames]).all()
    assert (sample.legal[:, 0] == sample.actions).all(), "so it was written"
    to_final = sample.next_observation[:, 1] >= 100
    goes_on = (sample.factors != 0) & ~to_final
    assert to_final.any()
    assert goes_on.any()
    assert (sample.next_legal[to_final, 0] == 77).all()
    named = sample.next_observation.astype(np.uint64) @ np.array([1, 100, 1, 1, 1], np.uint64)
    assert (sample.next_legal[~to_final, 0] == named[~to_final]).all()
    assert sample.observation.shape == (500, 5)
    assert sample.observation.dtype == np.uint8


class FloatRace(Race):
    """Positions of odd size that are not bytes."""

    observation_shape = (3, 1)
    observation_dtype = np.float32


def test_observations_keep_their_shape_and_type() -> None:
    ring = Ring(FloatRace(), RingShape(1, 1, 2, keeps_final=True))
    slot = ring.slot(0, 0)
    slot.observation[:] = np.array([1.5, -2.5, np.pi], np.float32)[:, None]
    slot.terminated.fill(True)
    slot.final_at.fill(-1)
    ring.complete(0, 0)
    replay = Replay(ring, 0, 1, 1.0, is_zero_sum=True)
    replay.add([Rollout(0, 0, (slot,), np.zeros(0), 0)])
    sample = replay.sample(2, 0)
    assert sample.observation.dtype == sample.next_observation.dtype == np.float32
    assert sample.observation.shape == sample.next_observation.shape == (2, 3, 1)
    assert (sample.observation == slot.observation[0, 0, 0]).all()


def test_nothing_ready_says_so() -> None:
    ring = HandRing(RingShape(1, 2, 1))
    replay = Replay(ring.ring, 0, 1, 1.0, is_zero_sum=True)
    with pytest.raises(ConfigError, match="nothing to learn"):
        replay.sample(1, 0)
    replay.add([])
    replay.add([ring.play(0, [0, 1])])
    with pytest.raises(ConfigError, match="nothing to learn"):
        replay.sample(1, 0)


def test_overwritten_kept_rollout_is_reported_as_a_bug() -> None:
    ring = HandRing(RingShape(1, 1, 1, kept=2))
    replay = Replay(ring.ring, 0, 1, 1.0, is_zero_sum=True)
    first = ring.play(0, [0], terminated=[0])
    replay.add([first])
    ring.ring.open(0, 2)  # in the place of turn 0
    with pytest.raises(WorkerError, match=mentions("slot 0", "shard 0", "turn 0", "-3")):
        replay.sample(8, 0)
    with pytest.raises(WorkerError, match=mentions("shard 0", "turn 0", "-3")):
        replay.add([first])


@pytest.mark.parametrize("priorities", [None, Priorities()], ids=["uniform", "prioritised"])
def test_decisions_that_were_written_over_are_replaced_on_request(priorities: Priorities | None) -> None:
    ring = HandRing(RingShape(1, 1, 1, kept=3))
    replay = Replay(ring.ring, 0, 1, 1.0, is_zero_sum=True, priorities=priorities)
    for turn in range(3):
        ring.play(turn, [0], terminated=[0])
    assert replay.follow() == 3
    ring.ring.open(0, 3)  # in the place of turn 0
    sample = replay.sample(100, 0, correction=1.0, is_free_running=True)
    assert set(drawn(sample)) == {At(1, 0), At(2, 0)}
    assert (sample.weights == 1.0).all()
    assert 0 < replay.num_redrawn < 100
    assert len(replay) == 2
    if priorities:  # a frame of the rollout that is gone must not be drawn because it was learned from
        replay.learn_priorities(np.arange(3), np.full(3, 1e6, np.float32))
        assert set(drawn(replay.sample(100, 1, is_free_running=True))) == {At(1, 0), At(2, 0)}
    ring.play(3, [0], terminated=[0])
    assert set(drawn(replay.sample(100, 2, is_free_running=True))) == {At(1, 0), At(2, 0)}, (
        "no rollout has followed yet"
    )
    assert replay.follow() == 1
    assert set(drawn(replay.sample(100, 3, is_free_running=True))) == {At(1, 0), At(2, 0), At(3, 0)}


def test_follower_that_was_left_behind_links_nothing_across_the_gap() -> None:
    ring = HandRing(RingShape(1, 1, 1, kept=2))
    replay = Replay(ring.ring, 0, 1, 1.0, is_zero_sum=True)
    ring.play(0, [0])
    assert replay.follow() == 1
    for turn in range(1, 6):  # the place of turn 0 was written over twice
        ring.play(turn, [0])
    assert replay.follow() == 2
    assert set(drawn(replay.sample(10, 0))) == {At(4, 0)}, "which leads to turn 5"
    assert replay.follow() == 0


def test_errors_that_are_not_finite_are_refused() -> None:
    _, replay = one_step_games(4, Priorities())
    before = replay.state()["weights"].tobytes()
    for wrong in (np.nan, np.inf):
        with pytest.raises(ModelError, match=mentions("1 of 2 errors", "not finite")):
            replay.learn_priorities(np.arange(2), np.array([0.5, wrong], np.float32))
    assert replay.state()["weights"].tobytes() == before


def test_priorities_that_would_never_be_drawn_are_refused() -> None:
    with pytest.raises(ValidationError, match=mentions("priority_exponent", "greater than or equal to 0")):
        DQNConfig(priority_exponent=-0.1)
