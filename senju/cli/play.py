"""`senju play`: a game in the terminal, against an agent or a fixed player."""

from pathlib import Path
from typing import Annotated, cast, get_args

import numpy as np
import typer
from rich.markup import escape
from rich.text import Text

from senju.cli.console import out, require_file_name, say
from senju.cli.options import SeedOption, TrustOption
from senju.cli.quantities import plural, share_text
from senju.config import validated
from senju.errors import ConfigError, SenjuError
from senju.evaluation.opponents import make_player, run_of
from senju.evaluation.search_player import SearchPlayer
from senju.games import make_game
from senju.games.game import Game, States
from senju.games.rows import Rows, Stream
from senju.games.shogi.boards import Letters
from senju.games.shogi.csa import write_csa
from senju.games.shogi.game import Shogi
from senju.games.shogi.kif import write_kif
from senju.games.shogi.layout import Ending
from senju.games.shogi.record import GameRecord, RecordError, ending_word
from senju.kernels import is_allowed
from senju.opponents.players import KNOWN_OPPONENTS, Player, PlayerBatch
from senju.runs.agent import Agent
from senju.runs.run import Run
from senju.search.settings import SearchConfig
from senju.trust import accept_named

HELP = "Type a move's name; hint asks the agent, undo takes back your last move, quit ends."


def play(
    game: Annotated[str, typer.Argument(help="A game's name.")],
    run: Annotated[Path | None, typer.Option(help="Play against this run's agent.")] = None,
    against: Annotated[
        str | None, typer.Option(help=f"Or against {KNOWN_OPPONENTS}; greedy:2 or minimax:4 by default.")
    ] = None,
    nodes: Annotated[
        int, typer.Option(help="With --run: positions the agent searches per move; 0: none.", min=0)
    ] = 0,
    letters: Annotated[
        str | None, typer.Option(help="Letters of a Shogi board: japanese (the default) or latin.")
    ] = None,
    seat: Annotated[int, typer.Option(help="1 moves first, 2 moves second.", min=1, max=2)] = 1,
    temperature: Annotated[float, typer.Option(help="0: the agent plays its best move.", min=0)] = 0.0,
    record: Annotated[
        Path | None, typer.Option(help="Write a game of Shogi to this file, .csa or .kif, when it ends.")
    ] = None,
    seed: SeedOption = 0,
    trust: TrustOption = False,
) -> None:
    """Play against an agent in the terminal."""
    if run is not None and against is not None:
        raise ConfigError("give --run or --against, not both")
    accept_named(game)
    opened = Run(run) if run is not None else None
    if opened is None and nodes:
        raise ConfigError("--nodes needs an agent to search with; give --run")
    played = run_of(against) if against else opened  # a run's game has settings of its own
    if played is not None:
        played.require_game(game)
    rules = played.game if played is not None else make_game(game)
    if rules.num_seats != 2 or rules.num_acting != 1:
        seats = plural(rules.num_seats, "seat") + " that act at once" * (rules.num_acting > 1)
        raise ConfigError(f"{rules.name} has {seats}; `play` needs two that take turns")
    agent = opened.agent if opened is not None else None
    if agent is not None:
        opponent: Player = agent.player(temperature)
        if nodes:
            searching = validated(SearchConfig, {"nodes": nodes, "temperature": temperature})
            opponent = SearchPlayer(rules, agent.policy(), opponent.name, searching)
    else:
        usual = "minimax:4" if rules.heuristic() is None else "greedy:2"
        opponent = make_player(rules, against or usual, temperature)
    if letters is not None:
        _write_boards_in(rules, letters)
    if record is not None:
        _require_record(rules, record)
    session = _Session(rules, opponent, agent, seat - 1, seed)
    session.run()
    if record is not None:
        _write_record(session.record(), record)


def _write_boards_in(game: Game, letters: str) -> None:
    if not isinstance(game, Shogi):
        raise ConfigError(f"--letters is for shogi; {game.name} has one way to write its board")
    if letters not in get_args(Letters):
        raise ConfigError(f"--letters {letters}: expected {' or '.join(get_args(Letters))}")
    game.letters = cast(Letters, letters)


def _require_record(game: Game, path: Path) -> None:
    if not isinstance(game, Shogi):
        raise ConfigError(f"--record is for shogi; there is no file format for games of {game.name}")
    require_file_name("--record", path, ".csa", ".kif")
    if path.exists():
        raise ConfigError(f"--record {path}: this file exists already")


def _write_record(game: GameRecord, path: Path) -> None:
    """Write a game to its file; if that fails, print it, so that it is not lost."""
    text = write_csa(game) if path.suffix.lower() == ".csa" else write_kif(game)
    try:
        with path.open("x", encoding="utf-8") as file:  # x: the file may have been made meanwhile
            file.write(text)
    except OSError as error:
        out.print(text, markup=False, soft_wrap=True, end="")
        raise RecordError(f"{path} cannot be written: {error.strerror}; the game is printed above") from None
    say(f"The game is in {escape(str(path))}.")


class _Session:
    """One game between the user and a player; positions are kept, so that moves can be taken back."""

    def __init__(self, game: Game, opponent: Player, agent: Agent | None, seat: int, seed: int) -> None:
        self.game, self.opponent, self.agent, self.seat = game, opponent, agent, seat
        self.rows = Rows(game, np.zeros(1, np.uint32), seed)
        self.observations, self.outcomes = game.new_observations(1), game.new_outcomes(1)
        self.past: list[States] = []  # positions in which the user was to move
        self.moves: list[str] = []

    def run(self) -> None:
        out.print(f"You play seat {self.seat + 1} against {escape(self.opponent.name)}. {HELP}")
        while True:
            self.rows.observe(self.observations)
            mine = self.observations.seats[0, 0] == self.seat
            if mine:
                self.show()
            action = self.ask() if mine else self.reply()
            if action is None:
                out.print("Good-bye.")
                return
            self.moves.append(self.game.move_name(self.rows.states[0], action))
            self.rows.step(np.array([[action]], np.int32), self.outcomes)
            self.rows.clock["step"] += 1
            if self.outcomes.terminated[0] or self.outcomes.truncated[0]:
                self.show()
                self.announce()
                return

    def show(self) -> None:
        out.print()
        board = Text(self.game.board_text(self.rows.states[0]))
        if not isinstance(self.game, Shogi):
            board.highlight_words(["X"], "bold red")
            board.highlight_words(["O"], "bold yellow")
        out.print(board)

    def ask(self) -> int | None:
        """The user's move, or None to end."""
        while True:
            try:
                text = out.input("your move> ").strip()
            except (EOFError, KeyboardInterrupt):
                return None
            if text in ("quit", "q", "exit"):
                return None
            if text in ("undo", "u"):
                self.undo()
            elif text in ("hint", "h"):
                self.hint()
            elif text in ("help", "?", ""):
                out.print(f"{HELP} {self.game.describe_actions()}.")
            else:
                action = self.parse(text)
                if action is not None:
                    self.past.append(self.rows.states.copy())
                    return action

    def parse(self, text: str) -> int | None:
        state = self.rows.states[0]
        try:
            action = self.game.parse_move(state, text)
        except SenjuError as error:
            out.print(f"[red]{escape(str(error))}[/]")
            return None
        if not is_allowed(self.observations.legal[0, 0], action):
            out.print(f"[red]{escape(self.game.explain_action(state, action))}[/]")
            return None
        return action

    def undo(self) -> None:
        if not self.past:
            out.print("No move to take back.")
            return
        self.rows.states[:] = self.past.pop()
        del self.moves[-2:]  # the user's move and the reply
        self.rows.observe(self.observations)
        self.show()

    def hint(self) -> None:
        if self.agent is None:
            out.print("Only an agent gives hints; start with --run.")
            return
        probabilities, values = self.agent.evaluate(self.rows.states)
        order = np.argsort(-probabilities[0])[:5]
        state = self.rows.states[0]
        moves = ", ".join(
            f"{self.game.move_name(state, int(a))} {share_text(float(probabilities[0, a]))}"
            for a in order
            if probabilities[0, a] > 0
        )
        out.print(f"The agent would play {moves}; it expects {values[0]:+.2f} for you.")

    def reply(self) -> int | None:
        """The opponent's move, or None if the user interrupts it."""
        rows, stream = self.rows, int(Stream.HUMANS_OPPONENT)
        batch = PlayerBatch(rows.states, self.observations, rows.clock, rows.seed, stream)
        try:
            action = int(self.opponent.choose(batch)[0, 0])
        except KeyboardInterrupt:
            return None
        expects = ""
        if self.agent is not None:
            _, values = self.agent.evaluate(self.rows.states)
            expects = f" (it expects {values[0]:+.2f} for itself)"
        move = self.game.move_name(self.rows.states[0], action)
        out.print(f"{escape(self.opponent.name)} plays [bold]{move}[/]{expects}")
        return action

    def record(self) -> GameRecord:
        """The game of Shogi so far, for a file."""
        state = self.rows.states[0]
        names = ("You", self.opponent.name) if self.seat == 0 else (self.opponent.name, "You")
        ending = ending_word(Ending(int(state["ending"])), int(state["side"])) or "%CHUDAN"
        return GameRecord(names=names, moves=list(self.moves), ending=ending)

    def announce(self) -> None:
        rewards, how = self.outcomes.rewards[0], self.game.ending_text(self.rows.states[0])
        reason = f" ({how})" if how else ""
        own, other = rewards[self.seat], rewards[1 - self.seat]
        if own == other:
            out.print(f"A draw{reason}." if self.outcomes.terminated[0] else f"Undecided{reason}.")
        else:
            out.print(f"[bold]You win![/]{reason}" if own > other else f"You lose{reason}.")
