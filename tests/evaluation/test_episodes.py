"""Whole episodes with an agent in each seat: known rewards, chance of their own, and one to look at."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.shard import Shard
from senju.errors import ConfigError
from senju.evaluation import episodes
from senju.evaluation.episodes import EpisodesResult, mean_interval, play_episodes, student95
from senju.games import make_game
from senju.games.game import Game
from senju.models.model import Model, ModelConfig
from senju.runs.agent import Agent
from tests.collect.toy_games import Meeting

BY_VALUES = Acting("action_values")


class Fixed(Model):
    """The same logits for every observation; records the observations."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__((3,), 3, ModelConfig())
        self.logits, self.shown = torch.tensor(logits), list[Tensor]()

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        self.shown.append(observation.clone())
        return self.logits.expand(len(observation), 3), torch.zeros(len(observation))


def agents_like(*logits: list[float], acting: Acting = BY_VALUES) -> list[Agent]:
    game = Meeting()
    return [Agent(game, Fixed(own), f"agent {seat}", acting) for seat, own in enumerate(logits)]


def test_agents_that_always_agree_get_what_the_rules_give() -> None:
    result = play_episodes(Meeting(), agents_like([0, 1, 0], [0, 1, 0]), 64)
    # a game begins at step 0 (3 turns, 1 - 0.5 + 1 for seat 1) or at step 1 (4 turns, 1 - 0.5 - 0.5 + 1)
    late = result.turns - 3
    assert 0 < late < 1
    assert result.rewards == (2.0, pytest.approx(1.5 - 0.5 * late))
    assert result.intervals[0] == (2.0, 2.0)
    assert result.overall == pytest.approx((2.0 + 1.5 - 0.5 * late) / 2)


def test_agents_that_never_agree_get_the_other_rewards() -> None:
    result = play_episodes(Meeting(), agents_like([0, 1, 0], [0, 0, 1]), 64)
    assert result.rewards == (0.0, pytest.approx(-0.5 * result.turns))


def test_each_agent_sees_its_own_seat_alone() -> None:
    agents = agents_like([0, 1, 0], [0, 1, 0])
    play_episodes(Meeting(), agents, 20)
    for seat, agent in enumerate(agents):
        assert isinstance(agent.model, Fixed)
        assert {float(number) for shown in agent.model.shown for number in shown[:, 1]} == {seat}


@pytest.mark.slow
def test_action_values_are_followed_and_policies_are_drawn_from() -> None:
    """Equal logits: the first of the best is the same for both, two draws are seldom alike."""
    greedy = play_episodes(Meeting(), agents_like([0, 0, 0], [0, 0, 0]), 200)
    drawn = play_episodes(Meeting(), agents_like([0, 0, 0], [0, 0, 0], acting=BY_POLICY), 200)
    assert greedy.rewards[0] == 2.0
    assert 0.5 < drawn.rewards[0] < 1.5


def test_random_players_are_measured_in_the_same_worlds_beside_the_agents() -> None:
    game, agents = Meeting(), agents_like([0, 1, 0], [0, 1, 0])
    alone, beside = play_episodes(game, None, 50, seed=5), play_episodes(game, agents, 50, seed=5)
    assert beside.random == alone
    assert alone.random is None
    assert beside.positions[0] == alone.positions[0]
    known = play_episodes(game, agents, 50, seed=5, random=alone)
    assert known == beside
    assert known.random is alone


def test_seed_decides_everything() -> None:
    def measure(seed: int) -> EpisodesResult:
        return play_episodes(Meeting(), agents_like([0, 0, 0], [0, 0, 0], acting=BY_POLICY), 30, seed)

    assert measure(1) == measure(1)
    assert measure(1) != measure(2)


def test_batches_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = agents_like([0, 0.5, 0], [0, 0, 0.5], acting=BY_POLICY)
    whole = play_episodes(Meeting(), agents, 30)
    monkeypatch.setattr(episodes, "AT_ONCE", 7)
    assert play_episodes(Meeting(), agents, 30) == whole


def test_no_episode_is_one_of_training() -> None:
    game = make_game("treasure_hunt")
    trained = {bytes(state) for shard in range(4) for state in Shard(game, shard, 64, 0).rows.states}
    measured = play_episodes(game, None, 2, seed=0).positions[0]
    assert bytes(measured) not in trained


def test_first_episode_is_kept_from_its_start_to_its_end() -> None:
    game = make_game("treasure_hunt", max_turns=12)
    result = play_episodes(game, None, 4)
    assert result.turns == 12
    assert result.positions["turn"].tolist() == list(range(13))
    film = game.film(result.positions)
    assert film is not None
    assert film.startswith(b"GIF8")


def test_game_that_cannot_be_filmed_says_so() -> None:
    assert Meeting().film(play_episodes(Meeting(), None, 2).positions) is None


def test_episodes_can_be_cut_as_in_training() -> None:
    result = play_episodes(Meeting(), agents_like([0, 1, 0], [0, 0, 1]), 10, max_length=2)
    assert result.turns == 2
    assert result.random is not None
    assert result.random.turns <= 2


def test_ratio_is_known_only_where_random_play_surely_gains() -> None:
    game = make_game("tag")
    random = play_episodes(game, None, 20)
    equal = EpisodesResult(**{**vars(random), "random": random})
    assert equal.ratio(0) == equal.overall_ratio == 1.0
    assert math.isnan(play_episodes(Meeting(), agents_like([0, 1, 0], [0, 1, 0]), 50).ratio(1))
    assert math.isnan(random.overall_ratio)


@pytest.mark.parametrize(
    ("game", "num_agents", "num_episodes", "expected"),
    [
        (Meeting(), 2, 1, "episodes=1"),
        (Meeting(), 1, 4, "meeting .*2 seats.*1 agents"),
    ],
)
def test_what_cannot_be_played_is_refused(
    game: Game, num_agents: int, num_episodes: int, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        play_episodes(game, agents_like(*[[0.0, 0.0, 0.0]] * num_agents), num_episodes)


@pytest.mark.parametrize(("freedom", "exactly"), [(2, 4.3027), (4, 2.7764), (30, 2.0423), (1000, 1.9623)])
def test_students_quantile_is_that_of_the_tables(freedom: int, exactly: float) -> None:
    assert student95(freedom) == pytest.approx(exactly, rel=0.01)


def test_interval_holds_the_mean_as_often_as_it_promises() -> None:
    samples = np.random.default_rng(0).normal(3.0, 2.0, size=(4000, 8))
    intervals = [mean_interval(sample) for sample in samples]
    share = sum(low <= 3.0 <= high for low, high in intervals) / len(intervals)
    assert share == pytest.approx(0.95, abs=0.012)
