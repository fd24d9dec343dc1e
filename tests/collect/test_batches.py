"""How often networks and players are called: once a step each, with all their seats as one batch."""

from collections import Counter

import numpy as np
import pytest
from torch import Tensor

from senju.collect.seating import CURRENT
from senju.games.connect_four import ConnectFour
from senju.models.model import ModelConfig
from tests.collect.seated_play import Seated, evenly, preferring, replayed
from tests.collect.toy_games import Meeting, Race
from tests.collect.toy_models import ReadsObservation
from tests.collect.toy_opponents import HERE, Counting

Asked = list[tuple[float, int]]  # the first logit, by which a network is known, and the batch's size
asked: Asked = []


class CountedReader(ReadsObservation):
    """Remembers each batch that it, or any copy of it, is given."""

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        asked.append((float(self.preference[0]), len(observation)))
        return super().forward(observation)


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    asked.clear()
    Counting.asked.clear()


def test_each_snapshots_seats_are_one_batch_a_step_and_so_are_the_learners() -> None:
    """And no network is evaluated for a seat that another player decides for."""
    game = ConnectFour()
    weights = {place: preferring(game, [place + 1.0] + [0.0] * 6) for place in range(3)}
    model = CountedReader(game.observation_shape, game.num_actions, ModelConfig())
    seated = Seated(game, weights=weights, model=model, num_rows=16, self_share=0.2)
    slot = seated.play(30, evenly(1, 2, 3, snapshots=3))
    expected: Asked = []
    for step in replayed(game, [slot]):
        whose = slot.seated[step.time][np.arange(16), step.seen.seats[:, 0]]
        expected += [(float(number), count) for number, count in sorted(Counter(whose.tolist()).items())]
    last = asked.pop()
    assert last == (0.0, 16), "what all games are worth when the rollout is over"
    assert asked == expected
    assert len({number for number, _ in asked}) == 4


@pytest.mark.parametrize("game", [Race(), Meeting()], ids=lambda game: game.name)
def test_each_player_is_asked_once_a_step_and_place(game: Race | Meeting) -> None:
    seated = Seated(game, f"{HERE}:Counting", num_rows=16)
    slot = seated.play(20, evenly(1))
    expected = []
    for step in replayed(game, [slot]):
        for place in range(game.num_acting):
            seats = step.seen.seats[:, place]
            whose = slot.seated[step.time][np.arange(16), np.maximum(seats, 0)]
            rows = step.clock["row"][(seats >= 0) & (whose != CURRENT)].tolist()
            expected += [rows] if rows else []
    assert Counting.asked == expected
    assert max(map(len, expected)) > 4


def test_cost_follows_the_opponents_in_play_and_not_those_in_the_pool() -> None:
    game = ConnectFour()
    counts = []
    for size in (2, 50):
        asked.clear()
        weights = {place: preferring(game, [place + 1.0] + [0.0] * 6) for place in range(size)}
        model = CountedReader(game.observation_shape, game.num_actions, ModelConfig())
        seated = Seated(game, weights=weights, model=model, num_rows=16, in_play=2)
        seated.play(8, evenly(*range(1, size + 1), snapshots=size))
        counts.append(len({number for number, _ in asked}))
    assert counts == [3, 3], "the learner and two others"
