"""What decisions lead to, worked out by hand, then against a plain reading of the definition.

Throughout: a seat's decisions are numbered within a game; g(k) is the sum of its rewards from its decision k
up to just before its decision k + 1. With n = 2 decision k is worth g(k) + 0.9 · g(k+1) and then 0.81 times
the position at its decision k + 2.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest

from senju.algorithms.linking import Linker, Steps
from senju.algorithms.replay import Replay
from senju.collect.slots import RingShape, Rollout, Slot
from tests.algorithms.hand_ring import FINAL, At, HandRing, Led, SimultaneousGame, TurnGame, drawn, linked

DISCOUNT = 0.9


def led(ring: HandRing, rollouts: Iterable[Rollout], n_step: int, is_zero_sum: bool = True) -> dict[At, Led]:
    """Add the rollouts turn by turn and draw until everything that is ready has come up."""
    replay = Replay(ring.ring, 1, n_step, DISCOUNT, is_zero_sum)
    for rollout in rollouts:
        replay.add([rollout])
    found = drawn(replay.sample(40 * len(replay), 0)) if len(replay) else {}
    assert len(found) == len(replay)
    return found


def check(found: dict[At, Led], expected: dict[At, Led]) -> None:
    assert sorted(found) == sorted(expected)
    for at, wanted in expected.items():
        assert found[at].to == wanted.to, at
        assert found[at].reward == pytest.approx(wanted.reward, rel=1e-6), at
        assert found[at].factor == pytest.approx(wanted.factor, rel=1e-6), at


# Two seats in turn; seat 0 gets 0.5 with seat 1's first move, and wins with its own third.
# Seat 0 decides at 0, 2, 4: g = 0.5, 0, 1. Seat 1 decides at 1, 3: g = -0.5, -1.
WON = {1: (0.5, -0.5), 4: (1.0, -1.0)}
N_STEP_TARGETS = {
    1: {
        At(0, 0): Led(0.5, At(0, 2), 0.9),
        At(0, 1): Led(-0.5, At(0, 3), 0.9),
        At(0, 2): Led(0.0, At(0, 4), 0.9),
        At(0, 3): Led(-1.0, None, 0.0),  # by the other's move
        At(0, 4): Led(1.0, None, 0.0),
    },
    2: {
        At(0, 0): Led(0.5, At(0, 4), 0.81),
        At(0, 1): Led(-1.4, None, 0.0),  # -0.5 - 0.9
        At(0, 2): Led(0.9, None, 0.0),
        At(0, 3): Led(-1.0, None, 0.0),
        At(0, 4): Led(1.0, None, 0.0),
    },
    3: {
        At(0, 0): Led(1.31, None, 0.0),  # 0.5 + 0.81
        At(0, 1): Led(-1.4, None, 0.0),
        At(0, 2): Led(0.9, None, 0.0),
        At(0, 3): Led(-1.0, None, 0.0),
        At(0, 4): Led(1.0, None, 0.0),
    },
}
N_STEP_TARGETS[7] = N_STEP_TARGETS[3]  # longer than the game


@pytest.mark.slow
@pytest.mark.parametrize("n_step", N_STEP_TARGETS)
def test_two_seats_in_turn(n_step: int) -> None:
    ring = HandRing(RingShape(1, 5, 1))
    check(led(ring, [ring.play(0, [0, 1, 0, 1, 0], WON, terminated=[4])], n_step), N_STEP_TARGETS[n_step])


@pytest.mark.parametrize("n_step", N_STEP_TARGETS)
def test_rollouts_that_follow_each_other_are_one_sequence(n_step: int) -> None:
    """The same game, but every step is a rollout of its own."""
    ring = HandRing(RingShape(1, 1, 1, kept=5))
    rollouts = [
        ring.play(turn, [turn % 2], {0: WON.get(turn, (0.0, 0.0))}, terminated=[0] if turn == 4 else [])
        for turn in range(5)
    ]
    expected = {
        At(at.time, 0): Led(of.reward, At(of.to.time, 0) if of.to else None, of.factor)
        for at, of in N_STEP_TARGETS[n_step].items()
    }
    check(led(ring, rollouts, n_step), expected)


def test_what_the_opponent_wins_is_lost_by_the_last_decision_before() -> None:
    # the opponent moves at 1 and 3 and is not learned from; g = 0.25 (which comes with its move), then -1
    ring = HandRing(RingShape(1, 4, 1))
    rollout = ring.play(0, [0, -1, 0, -1], {1: (0.25, -0.25), 3: (-1.0, 1.0)}, terminated=[3])
    expected = {At(0, 0): Led(0.25, At(0, 2), 0.9), At(0, 2): Led(-1.0, None, 0.0)}
    check(led(ring, [rollout], 1), expected)


def test_rewards_before_the_first_decision_belong_to_no_decision() -> None:
    ring = HandRing(RingShape(1, 3, 1))
    rollout = ring.play(0, [0, -1, 1], {0: (0.0, 5.0), 2: (0.0, 1.0)}, terminated=[2])
    expected = {At(0, 0): Led(0.0, None, 0.0), At(0, 2): Led(1.0, None, 0.0)}
    check(led(ring, [rollout], 1), expected)


@pytest.mark.parametrize("n_step", [1, 2])
def test_truncated_position_counts_for_its_mover_and_against_the_other(n_step: int) -> None:
    # seat 0 decides at 0 and 2, seat 1 at 1; cut after step 2, with seat 1 to move; g(0) = 0.5, g(2) = 0.25
    ring = HandRing(RingShape(1, 3, 1, keeps_final=True))
    rollout = ring.play(0, [0, 1, 0], {0: (0.5, -0.5), 2: (0.25, -0.25)}, truncated={2: [1]})
    final = At(0, FINAL + 2)
    first = {1: Led(0.5, At(0, 2), 0.9), 2: Led(0.725, final, -0.81)}  # 0.5 + 0.9 · 0.25
    expected = {
        At(0, 0): first[n_step],
        At(0, 1): Led(-0.25, final, 0.9),
        At(0, 2): Led(0.25, final, -0.9),
    }
    check(led(ring, [rollout], n_step), expected)


def test_other_movers_position_says_nothing_where_the_game_is_not_zero_sum() -> None:
    ring = HandRing(RingShape(1, 3, 1, keeps_final=True))
    rollout = ring.play(0, [0, 1, 0], truncated={2: [1]})
    expected = {At(0, 0): Led(0.0, At(0, 2), 0.9), At(0, 1): Led(0.0, At(0, FINAL + 2), 0.9)}
    check(led(ring, [rollout], 1, is_zero_sum=False), expected)


@pytest.mark.parametrize("keeps_final", [True, False])
def test_decision_whose_truncated_position_was_not_kept_is_never_ready(keeps_final: bool) -> None:
    ring = HandRing(RingShape(1, 4, 1, kept=2, keeps_final=keeps_final))
    rollouts = [
        ring.play(0, [0, 1, 0, 1], truncated={1: None}),
        ring.play(1, [0, 1, 0, 1], {1: (1.0, -1.0)}, terminated=[1]),
    ]
    # of the second game, decided at 2 and 3; the third begins with step 2 of the second rollout
    expected = {
        At(0, 2): Led(0.0, At(1, 0), 0.9),
        At(0, 3): Led(0.0, At(1, 1), 0.9),
        At(1, 0): Led(1.0, None, 0.0),
        At(1, 1): Led(-1.0, None, 0.0),
    }
    check(led(ring, rollouts, 1), expected)


def test_game_that_ends_by_the_rules_at_the_limit_is_over() -> None:
    ring = HandRing(RingShape(1, 1, 1, keeps_final=True))
    rollout = ring.play(0, [0], {0: (1.0, -1.0)}, terminated=[0], truncated={0: [1]})
    check(led(ring, [rollout], 1), {At(0, 0): Led(1.0, None, 0.0)})


def test_seats_that_act_at_once_have_sequences_of_their_own() -> None:
    # seat 1 comes to every other step; cut after step 3, when only seat 0 is to act
    ring = HandRing(RingShape(1, 4, 1, keeps_final=True), SimultaneousGame())
    rewards = dict.fromkeys(range(4), (1.0, 10.0))
    rollout = ring.play(0, [[0, 1], [0, -1], [0, 1], [0, -1]], rewards, truncated={3: [0, -1]})
    final = At(0, FINAL + 3)
    expected = {
        At(0, 0): Led(1.0, At(0, 1), 0.9),
        At(0, 1): Led(1.0, At(0, 2), 0.9),
        At(0, 2): Led(1.0, At(0, 3), 0.9),
        At(0, 3): Led(1.0, final, 0.9),
        At(0, 0, place=1): Led(20.0, At(0, 2, place=1), 0.9),
    }
    # the other's view of a position in which all act at once is another position, zero-sum or not
    for is_zero_sum in (False, True):
        check(led(ring, [rollout], 1, is_zero_sum), expected)


def test_seat_is_found_at_any_place_in_which_it_acts() -> None:
    ring = HandRing(RingShape(1, 1, 1, keeps_final=True), SimultaneousGame())
    rollout = ring.play(0, [[0, 1]], {0: (1.0, 2.0)}, truncated={0: [1, 0]})
    expected = {
        At(0, 0): Led(1.0, At(0, FINAL, place=1), 0.9),
        At(0, 0, place=1): Led(2.0, At(0, FINAL, place=0), 0.9),
    }
    check(led(ring, [rollout], 1, is_zero_sum=False), expected)


def test_row_that_rests_leaves_nothing() -> None:
    ring = HandRing(RingShape(1, 4, 1, kept=2))
    rollouts = [
        ring.play(0, [0, 1, -1, -1], {1: (-1.0, 1.0)}, terminated=[1]),
        ring.play(1, [0, -1, -1, -1], {0: (1.0, -1.0)}, terminated=[0]),
    ]
    expected = {
        At(0, 0): Led(-1.0, None, 0.0),
        At(0, 1): Led(1.0, None, 0.0),
        At(1, 0): Led(1.0, None, 0.0),
    }
    check(led(ring, rollouts, 3), expected)


def test_decision_that_left_the_ring_while_it_waited_is_not_written() -> None:
    # each rollout is one step, two are kept: seat 0's decision of turn 0 leads to turn 2, when it is gone
    ring = HandRing(RingShape(1, 1, 1, kept=2))
    replay = Replay(ring.ring, 1, 1, DISCOUNT, is_zero_sum=True)
    for turn in range(4):
        replay.add([ring.play(turn, [turn % 2])])
        assert len(replay) == 0
    replay.add([ring.play(4, [0], {0: (1.0, -1.0)}, terminated=[0])])
    check(drawn(replay.sample(40, 0)), {At(3, 0): Led(-1.0, None, 0.0), At(4, 0): Led(1.0, None, 0.0)})


def test_decision_at_the_seam_leads_to_the_younger_rollout_across_it() -> None:
    # three places: turn 2 lies in the last, turn 3 in the first
    ring = HandRing(RingShape(1, 2, 1, kept=3))
    rollouts = (ring.play(turn, [0, 1]) for turn in range(5))  # each is taken in before the next is played
    expected = {At(turn, time): Led(0.0, At(turn + 1, time), 0.9) for turn in (2, 3) for time in (0, 1)}
    check(led(ring, rollouts, 1), expected)


def test_what_waited_for_a_rollout_that_never_came_is_never_ready() -> None:
    ring = HandRing(RingShape(1, 2, 1, kept=4))
    rollouts = (ring.play(turn, [0, 1]) for turn in (0, 2, 3))
    expected = {At(2, time): Led(0.0, At(3, time), 0.9) for time in (0, 1)}
    check(led(ring, rollouts, 1), expected)


Moment = tuple[int, int]  # turn and time
Moments = list[Moment]


# The same game as above, but seat 0's second move, at 2, is made at random. Its own first decision goes on
# from there, and so does seat 1's first, with the other sign: seat 0 would have done something else.
CUT_BY_EXPLORATION = N_STEP_TARGETS[3] | {
    At(0, 0): Led(0.5, At(0, 2), 0.9),
    At(0, 1): Led(-0.5, At(0, 2), -0.9),
}


@pytest.mark.parametrize("n_step", [3, 7])
def test_window_ends_before_a_random_move(n_step: int) -> None:
    ring = HandRing(RingShape(1, 5, 1))
    rollout = ring.play(0, [0, 1, 0, 1, 0], WON, explored=[2], terminated=[4])
    check(led(ring, [rollout], n_step), CUT_BY_EXPLORATION)


def test_random_moves_of_another_say_nothing_where_the_game_is_not_zero_sum() -> None:
    ring = HandRing(RingShape(1, 5, 1))
    rollout = ring.play(0, [0, 1, 0, 1, 0], WON, explored=[2], terminated=[4])
    expected = N_STEP_TARGETS[3] | {At(0, 0): CUT_BY_EXPLORATION[At(0, 0)]}
    check(led(ring, [rollout], 3, is_zero_sum=False), expected)


def test_random_moves_count_like_others_on_request() -> None:
    ring = HandRing(RingShape(1, 5, 1))
    rollout = ring.play(0, [0, 1, 0, 1, 0], WON, explored=[2], terminated=[4])
    replay = Replay(ring.ring, 1, 3, DISCOUNT, is_zero_sum=True, stops_at_exploration=False)
    replay.add([rollout])
    check(drawn(replay.sample(200, 0)), N_STEP_TARGETS[3])


class Rules(NamedTuple):
    """What decides where a window ends."""

    n_step: int
    gamma: float
    is_zero_sum: bool
    stops: bool  # at random moves


class Story:
    """Random rollouts of one shard, and what each of their decisions must lead to."""

    def __init__(self, rng: np.random.Generator, num_places: int) -> None:
        self.num_places = num_places
        num_steps, num_rows, kept, ahead, num_turns = rng.integers([1, 1, 1, 0, 1], [7, 4, 4, 3, 7]).tolist()
        self.shape = RingShape(1, num_steps, num_rows, kept, ahead, keeps_final=True)
        self.ring = HandRing(self.shape, TurnGame() if num_places == 1 else SimultaneousGame())
        self.steps: list[Steps] = []
        for turn in range(num_turns):
            slot = self.ring.slot(turn)
            self._fill(rng, slot)
            self.steps.append(Steps(*(np.array(getattr(slot, name)) for name in Steps._fields)))

    def _fill(self, rng: np.random.Generator, slot: Slot) -> None:
        num_steps, num_rows = self.shape.num_steps, self.shape.num_rows
        final = 0
        for time, row in np.ndindex(num_steps, num_rows):
            slot.seats[time, row] = self._movers(rng)
            slot.explored[time, row] = rng.random(self.num_places) < 0.2
            slot.rewards[time, row] = rng.integers(-2, 3, 2) * rng.integers(0, 2)
            end = rng.random()
            slot.terminated[time, row] = end < 0.15
            if 0.1 < end < 0.3:
                slot.truncated[time, row] = True
                if rng.random() < 0.8 and final < len(slot.final_seats):
                    self.ring.truncate(slot, time, row, final, self._movers(rng))
                    final += 1

    def _movers(self, rng: np.random.Generator) -> list[int]:
        if self.num_places == 1:
            return [int(rng.integers(-1, 2))]
        seats = rng.permutation(2)
        return [int(seat) if rng.random() < 0.8 else -1 for seat in seats]

    def expected(self, rules: Rules) -> dict[At, Led]:
        """The definition, game by game and seat by seat, with everything known."""
        found: dict[At, Led] = {}
        oldest = len(self.steps) - self.shape.kept
        for row in range(self.shape.num_rows):
            for game in self._games(row):
                for seat in range(2):
                    found |= self._sequence(game, row, seat, rules)
        return {at: of for at, of in found.items() if at.turn >= oldest}

    def _games(self, row: int) -> list[Moments]:
        games: list[Moments] = [[]]
        for turn, steps in enumerate(self.steps):
            for time in range(self.shape.num_steps):
                games[-1].append((turn, time))
                if steps.terminated[time, row] or steps.truncated[time, row]:
                    games.append([])
        return games

    def _sequence(self, game: Moments, row: int, seat: int, rules: Rules) -> dict[At, Led]:
        found: dict[At, Led] = {}
        for number, (turn, time) in enumerate(game):
            for place, mover in enumerate(self.steps[turn].seats[time, row]):
                if mover == seat:
                    led = self._window(game[number:], row, seat, rules)
                    found |= {At(turn, time, row, place): led} if led is not None else {}
        return found

    def _window(self, game: Moments, row: int, seat: int, rules: Rules) -> Led | None:
        """Where the window of the decision ends with which the rest of a game begins."""
        age, reward = 0, float(self.steps[game[0][0]].rewards[game[0][1], row, seat])
        for turn, time in game[1:]:
            steps = self.steps[turn]
            for place, mover in enumerate(steps.seats[time, row]):
                at, is_random = (
                    At(turn, time, row, place),
                    rules.stops and bool(steps.explored[time, row, place]),
                )
                if mover == seat:
                    age += 1
                    if age == rules.n_step or is_random:
                        return Led(reward, at, rules.gamma**age)
                elif mover >= 0 and is_random and rules.is_zero_sum and self.num_places == 1:
                    return Led(reward, at, -(rules.gamma ** (age + 1)))
            reward += rules.gamma**age * float(steps.rewards[time, row, seat])
        end = self._end(game[-1], row, seat, rules.is_zero_sum)
        return Led(reward, end.to, end.factor * rules.gamma ** (age + 1)) if end is not None else None

    def _end(self, last: Moment, row: int, seat: int, is_zero_sum: bool) -> Led | None:
        """What a game's end is to a seat; None: it continues, or the result is unknown."""
        turn, time = last
        steps = self.steps[turn]
        if steps.terminated[time, row]:
            return Led(0.0, None, 0.0)
        final = int(steps.final_at[time, row])
        if not steps.truncated[time, row] or final < 0:
            return None
        movers = steps.final_seats[final].tolist()
        if seat in movers:
            return Led(0.0, At(turn, FINAL + final, -1, movers.index(seat)), 1.0)
        if is_zero_sum and movers in ([0], [1]):
            return Led(0.0, At(turn, FINAL + final, -1, 0), -1.0)
        return None


@pytest.mark.parametrize("num_places", [1, 2])
@pytest.mark.parametrize("is_zero_sum", [True, False])
@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("stops", [True, False])
def test_thousands_of_random_games_are_linked_as_defined(
    stops: bool, n_step: int, is_zero_sum: bool, num_places: int
) -> None:
    """Halves are exact in floating point, in whatever order they are summed: so is the comparison."""
    rng = np.random.default_rng([n_step, is_zero_sum, num_places])
    num_ready, rules = 0, Rules(n_step, 0.5, is_zero_sum, stops)
    for _ in range(150):
        story = Story(rng, num_places)
        linker = Linker(story.shape, story.ring.ring.slot(0, 0), *rules)
        for turn, steps in enumerate(story.steps):
            if turn >= story.shape.kept:
                linker.drop(linker.segment(0, turn - story.shape.kept))
            linker.link(0, turn, steps)
        expected = story.expected(rules)
        assert linked(linker, story.shape, num_places) == expected
        num_ready += len(expected)
    assert num_ready > 500
