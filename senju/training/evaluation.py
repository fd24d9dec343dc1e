"""Strength: matches with colours swapped in pairs, scores with intervals, moves judged exactly."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.arguments import is_whole, require_seed
from senju.config import shown
from senju.errors import ConfigError
from senju.games.game import ILLEGAL, Game, Oracle, States
from senju.games.rows import Rows, Stream, choose_at_random
from senju.opponents.players import Player, Table

Z95 = 1.959963984540054  # standard normal quantile of a 95 % interval
FIRST_PAIR = np.uint32(2**31)  # rows beyond those of training, so that no game coincides with one of it


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def wilson_interval(score: float, games: float) -> Interval:
    """Wilson's interval for a share of `games` (Wilson 1927); draws may count as halves.

    >>> [round(bound, 3) for bound in wilson_interval(0.97, 100)]
    [0.915, 0.99]
    """
    if games == 0:
        return Interval(0.0, 1.0)
    spread = Z95 * math.sqrt(score * (1 - score) / games + Z95**2 / (4 * games**2))
    centre, scale = score + Z95**2 / (2 * games), 1 + Z95**2 / games
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(max(0.0, min(score, low)), min(1.0, max(score, high)))  # rounding may miss 0 and 1


@dataclass(frozen=True)
class Judgement:
    """How many moves kept the best result that was reachable before them."""

    moves: int
    kept: int
    decisive_moves: int  # made where some legal move would have thrown the best result away
    decisive_kept: int

    @property
    def share(self) -> float:
        """Share of all judged moves that kept the best result."""
        return self.kept / self.moves if self.moves else math.nan

    @property
    def decisive_share(self) -> float:
        """The same where it mattered."""
        return self.decisive_kept / self.decisive_moves if self.decisive_moves else math.nan


@dataclass(frozen=True)
class MatchResult:
    """A match from the first player's side."""

    player: str
    opponent: str
    wins: int
    draws: int
    losses: int
    wins_moving_first: int
    losses_moving_first: int
    opening_plies: int
    judgement: Judgement | None = None

    @property
    def games(self) -> int:
        """Games played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Wins plus half the draws, as a share of the games."""
        return (self.wins + 0.5 * self.draws) / self.games

    @property
    def interval(self) -> Interval:
        """95 % interval of the score."""
        return wilson_interval(self.score, self.games)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        record = {**asdict(self), "games": self.games, "score": self.score, "interval": list(self.interval)}
        if self.judgement is not None:
            shares = {"share": self.judgement.share, "decisive_share": self.judgement.decisive_share}
            # JSON has no NaN
            record["judgement"] |= {name: None if math.isnan(s) else s for name, s in shares.items()}
        return record


def play_match(
    game: Game,
    player: Player,
    opponent: Player,
    num_games: int,
    seed: int = 0,
    opening_plies: int | None = None,
    on_games_done: Callable[[int], None] | None = None,
) -> MatchResult:
    """Play games in pairs: the same opening twice, with the seats swapped.

    `opening_plies` random plies come first; by default none where a player plays at random, and
    four where both are deterministic, since otherwise all games would be the same. Against an
    opponent that plays by an oracle, every move of the player that it can judge is judged.
    """
    require_turns_of_two(game)
    require_seed(seed)
    for name, given in (("player", player), ("opponent", opponent)):
        if not isinstance(given, Player):
            raise ConfigError(f"{name}={shown(given)}: expected a Player, as agent.player() gives it")
    if opening_plies is not None and not is_whole(opening_plies, 0):
        raise ConfigError(f"opening_plies={shown(opening_plies)}: expected a whole number from 0")
    if not is_whole(num_games, 2, 2**31) or num_games % 2:
        raise ConfigError(
            f"games={shown(num_games)}: expected an even number, since colours are swapped in pairs"
        )
    if opening_plies is None:
        opening_plies = 4 if player.is_deterministic and opponent.is_deterministic else 0
    match = _Match(game, (player, opponent), num_games, seed, opening_plies)
    while match.running.any():
        match.play_ply()
        if on_games_done is not None:
            on_games_done(int(num_games - match.running.sum()))
    return match.result()


def require_turns_of_two(game: Game) -> None:
    """Refuse a game in which no match can be played."""
    if not isinstance(game, Game):
        raise ConfigError(f"game={shown(game)}: expected a Game, as make_game gives it")
    if game.num_seats != 2 or game.num_acting != 1:
        at_once = " at once" if game.num_acting > 1 else ""
        own = "give each seat its own agent with collect.seating=independent, or " if at_once else ""
        raise ConfigError(
            f"matches need two seats that take turns; in {game.name} {game.num_acting} of {game.num_seats} "
            f"act{at_once}; {own}train it with evaluation.opponents=[]"
        )


class _Match:
    """Games side by side; finished ones stand still."""

    def __init__(
        self, game: Game, players: tuple[Player, Player], num_games: int, seed: int, opening_plies: int
    ) -> None:
        self.game, self.players, self.opening_plies = game, players, opening_plies
        pairs = np.arange(num_games, dtype=np.uint32) // 2
        self.rows = Rows(game, FIRST_PAIR + pairs, seed)  # both games of a pair start alike
        self.rows.clock["row"] = FIRST_PAIR + np.arange(num_games)  # but players draw on their own
        self.first_seat = np.arange(num_games) % 2  # the seat in which the first player sits
        self.running = np.ones(num_games, np.bool_)
        self.totals = np.zeros((num_games, 2))  # rewards of each seat
        self.ply = 0
        oracle = players[1].oracle
        self.judge = MoveJudge(oracle) if oracle is not None else None

    def play_ply(self) -> None:
        rows, game = np.flatnonzero(self.running), self.game
        states = self.rows.states[rows]
        observations = game.new_observations(len(rows))
        game.observe(states, observations)
        clock = self.rows.clock[rows]
        clock["step"] = self.ply
        actions = np.zeros((len(rows), 1), np.int32)
        if self.ply < self.opening_plies:
            clock["row"] //= 2  # both games of a pair draw the same opening
            choose_at_random(observations.legal, clock, self.rows.seed, int(Stream.OPENING), actions)
        else:
            sits = observations.seats[:, 0] == self.first_seat[rows]
            for index, mine in enumerate((sits, ~sits)):
                if mine.any():
                    view = type(observations)(*(array[mine] for array in observations))
                    stream = int((Stream.FIRST_PLAYER, Stream.SECOND_PLAYER)[index])
                    table = Table(states[mine], view, clock[mine], self.rows.seed, stream)
                    actions[mine] = self.players[index].choose(table)
            if self.judge is not None and sits.any():
                self.judge.see(states[sits], actions[sits])
        outcomes = game.new_outcomes(len(rows))
        game.step(states, actions, outcomes)
        self.rows.states[rows] = states
        self.totals[rows] += outcomes.rewards
        self.running[rows] = ~(outcomes.terminated | outcomes.truncated)
        self.ply += 1

    def result(self) -> MatchResult:
        games = np.arange(len(self.totals))
        margin = self.totals[games, self.first_seat] - self.totals[games, 1 - self.first_seat]
        moved_first = self.first_seat == 0
        return MatchResult(
            player=self.players[0].name,
            opponent=self.players[1].name,
            wins=int((margin > 0).sum()),
            draws=int((margin == 0).sum()),
            losses=int((margin < 0).sum()),
            wins_moving_first=int(((margin > 0) & moved_first).sum()),
            losses_moving_first=int(((margin < 0) & moved_first).sum()),
            opening_plies=self.opening_plies,
            judgement=self.judge.verdict() if self.judge is not None else None,
        )


class MoveJudge:
    """Collects a player's moves and asks an oracle about those it can judge."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._states: list[States] = []
        self._actions: list[NDArray[np.int32]] = []

    def see(self, states: States, actions: NDArray[np.int32]) -> None:
        """Remember moves made in positions that can be judged."""
        solvable = self._oracle.can_judge(states)
        self._states.append(states[solvable])
        self._actions.append(actions[solvable, 0])

    def verdict(self) -> Judgement:
        """Judge all moves seen so far."""
        if not any(map(len, self._states)):
            return Judgement(0, 0, 0, 0)
        states, actions = np.concatenate(self._states), np.concatenate(self._actions)
        values = self._oracle.values(states)
        best = values.max(axis=1)
        kept = values[np.arange(len(states)), actions] == best
        decisive = ((values != ILLEGAL) & (values < best[:, None])).any(axis=1)
        return Judgement(
            moves=len(states),
            kept=int(kept.sum()),
            decisive_moves=int(decisive.sum()),
            decisive_kept=int((kept & decisive).sum()),
        )
