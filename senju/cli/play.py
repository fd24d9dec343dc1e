"""`senju play`: a game in the terminal, against an agent or a fixed player."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.text import Text

from senju.cli.console import SeedOption, friendly_errors, out, percent
from senju.errors import ConfigError, IllegalActionError
from senju.games import make_game
from senju.games.game import Game, States
from senju.games.rows import Rows, Stream
from senju.kernels import is_allowed
from senju.training.opponents import make_player
from senju.training.players import Player, Table
from senju.training.run import Agent, Run

HELP = "Type a move's name; hint asks the agent, undo takes back your last move, quit ends."


def play(
    game: Annotated[str, typer.Argument(help="A game's name.")],
    run: Annotated[Path | None, typer.Option(help="Play against this run's agent.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Or against random, minimax:DEPTH or perfect; minimax:4 by default.")
    ] = None,
    seat: Annotated[int, typer.Option(help="1 moves first, 2 moves second.", min=1, max=2)] = 1,
    temperature: Annotated[float, typer.Option(help="0: the agent plays its best move.", min=0)] = 0.0,
    seed: SeedOption = 0,
) -> None:
    """Play against an agent in the terminal."""
    with friendly_errors():
        if run is not None and against is not None:
            raise ConfigError("give --run or --against, not both")
        agent: Agent | None = None
        if run is not None:
            opened = Run(run)
            opened.require_game(game)
            rules, agent = opened.game, opened.agent
            opponent: Player = agent.player(temperature)
        else:
            rules = make_game(game)
            opponent = make_player(rules, against or "minimax:4", temperature)
        if rules.num_seats != 2 or rules.num_acting != 1:
            raise ConfigError(f"{game} has {rules.num_seats} seats; `play` needs two that take turns")
        _Session(rules, opponent, agent, seat - 1, seed).run()


class _Session:
    """One game between a person and a player; every position is kept, so that moves can be taken back."""

    def __init__(self, game: Game, opponent: Player, agent: Agent | None, seat: int, seed: int) -> None:
        self.game, self.opponent, self.agent, self.seat = game, opponent, agent, seat
        self.rows = Rows(game, np.zeros(1, np.uint32), seed)
        self.observations, self.outcomes = game.new_observations(1), game.new_outcomes(1)
        self.past: list[States] = []  # positions in which the person was to move

    def run(self) -> None:
        out.print(
            f"You play seat {self.seat + 1} against {escape(self.opponent.name)}. {HELP}", highlight=False
        )
        while True:
            self.rows.observe(self.observations)
            mine = self.observations.seats[0, 0] == self.seat
            if mine:
                self.show()
            action = self.ask() if mine else self.reply()
            if action is None:
                out.print("Good-bye.")
                return
            self.rows.step(np.array([[action]], np.int32), self.outcomes)
            self.rows.clock["step"] += 1
            if self.outcomes.terminated[0] or self.outcomes.truncated[0]:
                self.show()
                self.announce()
                return

    def show(self) -> None:
        out.print()
        board = Text(self.game.board_text(self.rows.states[0]))
        board.highlight_words(["X"], "bold red")
        board.highlight_words(["O"], "bold yellow")
        out.print(board)

    def ask(self) -> int | None:
        """The person's move, or None to end."""
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
                out.print(f"{HELP} {self.game.describe_actions()}.", highlight=False)
            else:
                action = self.parse(text)
                if action is not None:
                    self.past.append(self.rows.states.copy())
                    return action

    def parse(self, text: str) -> int | None:
        try:
            action = self.game.parse_action(text)
        except IllegalActionError as error:
            out.print(f"[red]{escape(str(error))}[/]", highlight=False)
            return None
        if not is_allowed(self.observations.legal[0, 0], action):
            out.print(f"[red]{text} is not legal here.[/]", highlight=False)
            return None
        return action

    def undo(self) -> None:
        if not self.past:
            out.print("There is nothing to take back.")
            return
        self.rows.states[:] = self.past.pop()
        self.rows.observe(self.observations)
        self.show()

    def hint(self) -> None:
        if self.agent is None:
            out.print("Only an agent can be asked; start with --run.")
            return
        probabilities, values = self.agent.evaluate(self.rows.states)
        order = np.argsort(-probabilities[0])[:5]
        moves = ", ".join(f"{self.game.action_name(int(a))} {percent(probabilities[0, a], 0)}" for a in order)
        out.print(f"The agent would play {moves}; it expects {values[0]:+.2f} for you.", highlight=False)

    def reply(self) -> int:
        table = Table(
            self.rows.states, self.observations, self.rows.clock, self.rows.seed, int(Stream.PERSONS_OPPONENT)
        )
        action = int(self.opponent.choose(table)[0, 0])
        expects = ""
        if self.agent is not None:
            _, values = self.agent.evaluate(self.rows.states)
            expects = f" (it expects {values[0]:+.2f} for itself)"
        out.print(
            f"{escape(self.opponent.name)} plays [bold]{self.game.action_name(action)}[/]{expects}",
            highlight=False,
        )
        return action

    def announce(self) -> None:
        rewards = self.outcomes.rewards[0]
        if rewards[self.seat] == rewards[1 - self.seat]:
            out.print("A draw.")
        else:
            out.print("[bold]You win![/]" if rewards[self.seat] > rewards[1 - self.seat] else "You lose.")
