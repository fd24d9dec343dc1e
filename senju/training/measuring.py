"""How good a run is while it trains: matches of its agent, or episodes of agents that share a world.

Measuring has random numbers of its own, so that training does not notice it.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from senju.algorithms.independent import Independent
from senju.algorithms.learner import Learner
from senju.opponents.players import Player
from senju.training.episodes import EpisodesResult, play_episodes
from senju.training.evaluation import MatchResult, play_match
from senju.training.interrupt import StopRequest
from senju.training.metrics import MetricsWriter
from senju.training.opponents import make_player
from senju.training.plot import rewards_svg, strength_svg
from senju.training.run import Run
from senju.training.run_folder import FILMS, REWARDS, STRENGTH


class Moment(NamedTuple):
    """When something was measured."""

    update: int
    steps: int


class Audience(Protocol):
    """Told what was measured."""

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """A match against one opponent is over."""

    def on_episodes(self, update: int, result: EpisodesResult) -> None:
        """Episodes of agents that share a world are over."""


class Measuring(ABC):
    """Measures a run at intervals and at its end; what a stop cut short is still due afterwards."""

    word: str  # what it does, in the timeline

    def __init__(self, run: Run) -> None:
        self.run, self.config = run, run.config

    def prepare(self) -> None:  # noqa: B027  # not all have something to prepare
        """Before training begins."""

    @abstractmethod
    def is_due(self, update: int) -> bool:
        """Whether something is to be measured after this update, and has not been yet."""

    @abstractmethod
    def measure(
        self, learner: Learner, now: Moment, writer: MetricsWriter, stop: StopRequest, audience: Audience
    ) -> None:
        """Measure what is due, write it down, and draw it."""

    def _is_time(self, update: int) -> bool:
        interval = self.config.evaluation.interval
        return self._is_last(update) or bool(update and interval and update % interval == 0)

    def _is_last(self, update: int) -> bool:
        return update >= self.config.total_updates


def new_measuring(run: Run) -> Measuring:
    """What suits a run."""
    return EpisodeMeasuring(run) if run.config.is_independent else MatchMeasuring(run)


class MatchMeasuring(Measuring):
    """Plays the opponents that the run's settings name."""

    word = "match"

    def prepare(self) -> None:
        """All opponents by description, made once: a run that trains on elsewhere stays the same here."""
        settings = self.config.evaluation
        names = dict.fromkeys((*settings.opponents, *settings.final_opponents))
        self._players: dict[str, Player] = {name: make_player(self.run.game, name) for name in names}

    def is_due(self, update: int) -> bool:
        """Whether somebody has not been played yet."""
        return bool(self._opponents_due(update))

    def _opponents_due(self, update: int) -> list[str]:
        if not self._is_time(update):
            return []
        settings = self.config.evaluation
        wanted = settings.opponents + (settings.final_opponents if self._is_last(update) else ())
        played = {record["opponent"] for record in self.run.evaluations if record["update"] == update}
        return [name for name in wanted if self._players[name].name not in played]

    def measure(
        self, learner: Learner, now: Moment, writer: MetricsWriter, stop: StopRequest, audience: Audience
    ) -> None:
        """Play those that are due."""
        player = self.run.agent_from(learner.state().tensors, now.update).player()
        for name in self._opponents_due(now.update):
            if stop.is_set:
                break
            games, seed = self.config.evaluation.games, self.config.seed
            result = play_match(self.run.game, player, self._players[name], games, seed)
            record = {"kind": "evaluation", "update": now.update, **result.as_dict(), "steps": now.steps}
            writer.write(record, {f"strength/{name}": result.score})
            audience.on_evaluation(now.update, result)
        self.run.write(STRENGTH, strength_svg(self.run.evaluations))


class EpisodeMeasuring(Measuring):
    """Plays episodes with all agents of a run, each in its own seat."""

    word = "episodes"
    _random: EpisodesResult | None = None  # as random players fare; always the same in a run

    def is_due(self, update: int) -> bool:
        """Whether the agents of this update have not been measured yet."""
        if not self._is_time(update):
            return False
        return all(record["update"] != update for record in self.run.episodes)

    def measure(
        self, learner: Learner, now: Moment, writer: MetricsWriter, stop: StopRequest, audience: Audience
    ) -> None:
        """Play the episodes; the first of them becomes a film, where the world can be drawn."""
        if stop.is_set:
            return
        assert isinstance(learner, Independent)
        weights = [learner.way.weights(seat.seat) for seat in learner.seats]  # those that act
        result = play_episodes(
            self.run.game,
            self.run.agents_of(weights, now.update),
            self.config.evaluation.games,
            self.config.seed,
            max_length=self.config.collect.max_game_length,
            random=self._random,
        )
        self._random = result.random
        record = {"kind": "episodes", "update": now.update, "steps": now.steps, **result.as_dict()}
        record["film"] = self._write_film(result, now.update)
        writer.write(record, _scalars(result))
        self.run.write(REWARDS, rewards_svg(self.run.episodes, self.run.metrics))
        audience.on_episodes(now.update, result)

    def _write_film(self, result: EpisodesResult, update: int) -> str | None:
        film = self.run.game.film(result.positions)
        if film is None:
            return None
        name = f"{FILMS}/update_{update:06d}.gif"
        self.run.write(name, film)
        return name


def _scalars(result: EpisodesResult) -> dict[str, float]:
    """For TensorBoard."""
    scalars = {f"episodes/agent_{seat}": reward for seat, reward in enumerate(result.rewards)}
    assert result.random is not None
    return scalars | {"episodes/overall": result.overall, "episodes/random": result.random.overall}
