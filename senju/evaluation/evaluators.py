"""Evaluation during training: matches of the agent, or episodes of agents that share a world.

Evaluation has its own random numbers, so it does not change training.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from senju.algorithms.learner_group import LearnerGroup
from senju.collect.actor import Actor
from senju.collect.device_actor import DeviceProgram
from senju.evaluation.episodes import EpisodesResult, play_episodes
from senju.evaluation.matches import MatchResult, play_match
from senju.evaluation.opponents import make_players
from senju.evaluation.plot import rewards_svg, strength_svg
from senju.opponents.players import NewActor, Player, on_device
from senju.runs.interrupt import StopRequest
from senju.runs.metrics import MetricsWriter
from senju.runs.run import Run
from senju.runs.run_folder import FILMS, REWARDS, STRENGTH


class EvaluationListener(Protocol):
    """Receives the results of evaluations."""

    def on_evaluation(self, update: int, result: MatchResult) -> None:
        """A match against one opponent is over."""

    def on_episodes(self, update: int, result: EpisodesResult) -> None:
        """Episodes of agents that share a world are over."""


class Evaluation(NamedTuple):
    """An evaluation that is due: its learner and update, and the writer and listener that get its results."""

    learner: LearnerGroup
    update: int
    steps: int
    writer: MetricsWriter
    stop: StopRequest
    listener: EvaluationListener


class Evaluator(ABC):
    """Evaluates a run at intervals and at its end; an interrupted evaluation stays due."""

    word: str  # name of its spans in the timeline

    def __init__(self, run: Run) -> None:
        self.run, self.config = run, run.config

    def prepare(self) -> None:  # noqa: B027  # not all have something to prepare
        """Load what evaluations need; the trainer calls this once, before training begins."""

    @abstractmethod
    def is_due(self, update: int) -> bool:
        """Whether an evaluation belongs to this update, and is not in the records yet."""

    @abstractmethod
    def measure(self, evaluation: Evaluation) -> None:
        """Evaluate what is due; write the records and the plots."""

    def _is_time(self, update: int) -> bool:
        interval = self.config.evaluation.interval
        return self._is_last(update) or bool(update and interval and update % interval == 0)

    def _is_last(self, update: int) -> bool:
        return update >= self.config.total_updates


def new_evaluator(run: Run) -> Evaluator:
    """The evaluator for a run's seating."""
    return EpisodeEvaluator(run) if run.config.is_independent else MatchEvaluator(run)


class MatchEvaluator(Evaluator):
    """Plays the opponents that the run's settings name."""

    word = "match"
    _new_actor: NewActor  # the agent is evaluated where its games are

    def prepare(self) -> None:
        """Make all opponents once: an opponent's run that trains meanwhile stays the same opponent."""
        settings = self.config.evaluation
        names = list(dict.fromkeys((*settings.opponents, *settings.final_opponents)))
        players = make_players(self.run.game, names)
        self._players: dict[str, Player] = dict(zip(names, players, strict=True))
        device = self.config.evaluation_on_device
        self._new_actor = Actor if device is None else on_device(DeviceProgram(device))

    def is_due(self, update: int) -> bool:
        return bool(self._opponents_due(update))

    def _opponents_due(self, update: int) -> list[str]:
        if not self._is_time(update):
            return []
        settings = self.config.evaluation
        wanted = settings.opponents + (settings.final_opponents if self._is_last(update) else ())
        played = {record["opponent"] for record in self.run.evaluations if record["update"] == update}
        players = self._players.items()
        return [name for name, player in players if name in wanted and player.name not in played]

    def measure(self, evaluation: Evaluation) -> None:
        learner, update, steps, writer, stop, listener = evaluation
        [agent] = self.run.agents_of([learner.runner.weights(0)], update)
        player = agent.player(new_actor=self._new_actor)
        for name in self._opponents_due(update):
            if stop.is_set:
                break
            games, seed = self.config.evaluation.games, self.config.seed
            result = play_match(self.run.game, player, self._players[name], games, seed)
            record = {"kind": "evaluation", "update": update, **result.as_dict(), "steps": steps}
            writer.write(record, {f"strength/{name}": result.score.mean})
            listener.on_evaluation(update, result)
        self.run.write(STRENGTH, strength_svg(self.run.evaluations))


class EpisodeEvaluator(Evaluator):
    """Plays episodes with all agents of a run, each in its own seat."""

    word = "episodes"
    _random: EpisodesResult | None = None  # of random players; always the same in a run

    def is_due(self, update: int) -> bool:
        return self._is_time(update) and all(record["update"] != update for record in self.run.episodes)

    def measure(self, evaluation: Evaluation) -> None:
        learner, update, steps, writer, stop, listener = evaluation
        if stop.is_set:
            return
        weights = [learner.runner.weights(each.seat) for each in learner.settings]  # those that act
        result = play_episodes(
            self.run.game,
            self.run.agents_of(weights, update),
            self.config.evaluation.games,
            self.config.seed,
            max_length=self.config.collect.max_game_length,
            random=self._random,
        )
        self._random = result.random
        record = {"kind": "episodes", "update": update, "steps": steps, **result.as_dict()}
        record["film"] = self._write_film(result, update)
        assert result.random is not None
        scalars = {f"episodes/agent_{seat}": reward for seat, reward in enumerate(result.rewards)}
        scalars |= {"episodes/overall": result.overall, "episodes/random": result.random.overall}
        writer.write(record, scalars)  # for TensorBoard too
        self.run.write(REWARDS, rewards_svg(self.run.episodes, self.run.metrics))
        listener.on_episodes(update, result)

    def _write_film(self, result: EpisodesResult, update: int) -> str | None:
        """Write the first episode as a film, if the world can be drawn."""
        film = self.run.game.film(result.positions)
        if film is None:
            return None
        name = f"{FILMS}/update_{update:06d}.gif"
        self.run.write(name, film)
        return name
