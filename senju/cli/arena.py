"""`senju arena`: a tournament of players."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TextColumn
from rich.table import Table

from senju.cli.console import out, print_json, say
from senju.cli.options import JsonOption, SeedOption, TrustOption
from senju.cli.quantities import UNKNOWN
from senju.cli.tables import new_table, plain_table, progress_bar
from senju.errors import ConfigError
from senju.evaluation.opponents import PAST_SELVES, past_selves, run_of
from senju.evaluation.plot import shortened
from senju.evaluation.tournament.result import PairResult, TournamentResult
from senju.evaluation.tournament.round_robin import PICTURE, run_tournament
from senju.evaluation.tournament.tasks import TournamentProgress, TournamentSettings
from senju.games import make_game
from senju.games.game import Game
from senju.opponents.players import KNOWN_OPPONENTS
from senju.opponents.ratings import Rating
from senju.opponents.score import Z95
from senju.runs.interrupt import stop_on_signals
from senju.runs.run import Run
from senju.runs.run_folder import ARENA
from senju.trust import accept_named

CELL, SMALL_CELL, SHORTEST_NAME = 7, 4, 12  # widths in the cross table
ALONE = "A single run meets its past versions, random, and the opponents of its evaluation"


def arena(
    players: Annotated[
        list[str], typer.Argument(metavar="RUN|PLAYER", help=f"{ALONE}. Or several: {KNOWN_OPPONENTS}.")
    ],
    games: Annotated[
        int, typer.Option(help="Games of each pair at most; even, since colours are swapped.")
    ] = 200,
    seed: SeedOption = 0,
    opening: Annotated[
        int | None,
        typer.Option(
            "--opening-plies",
            "--opening",
            help="Random plies before each pair; 4 if both players are deterministic, else 0.",
            min=0,
        ),
    ] = None,
    past: Annotated[
        int | None,
        typer.Option(help=f"Past versions of each run; {PAST_SELVES} for a single run, else 0.", min=0),
    ] = None,
    game: Annotated[str | None, typer.Option(help="The game, if no run is among the players.")] = None,
    workers: Annotated[
        int, typer.Option(help="Worker processes (0: one per core); the result is the same.", min=0)
    ] = 0,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the results; RUN/arena for a single run, else arena-DATE."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what was played in that folder.")] = False,
    early_stop: Annotated[
        bool,
        typer.Option("--early-stop/--no-early-stop", help="End a pair when it is clear who is stronger."),
    ] = True,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a round-robin tournament: ratings, the score of every pair, and cycles.

    Repeat the command to continue a stopped tournament, or to see its result. A pair ends early when its
    interval excludes 50 %. This is checked up to ten times, so intervals are wider than for a single check
    (the error is divided among the checks): 95 % holds for all checks of a pair together.
    """
    settings = TournamentSettings(games, seed, opening, early_stop)
    accept_named(game)
    alone = run_of(players[0]) if len(players) == 1 else None
    rules = _game_of(players, game)
    if alone:
        folder = folder or alone.path / ARENA
        players = _players_of_run(alone, PAST_SELVES if past is None else past)
    else:
        players = _with_past(players, past or 0)
    columns = MofNCompleteColumn(), TextColumn("games at most")
    with stop_on_signals() as stop, progress_bar(as_json, *columns) as bar:
        task = bar.add_task("playing", total=None)

        def show(progress: TournamentProgress) -> None:
            text = f"{progress.pairs_done} of {progress.num_pairs} pairs are clear or played out"
            done, most = progress.games_done, progress.games_at_most
            bar.update(task, completed=done, total=most, description=text)

        result = run_tournament(
            rules, players, folder, settings, num_workers=workers, fresh=fresh, on_progress=show, stop=stop
        )
    training = alone.training_ratings if alone is not None else ()
    if as_json:
        print_json(result.as_dict() | {"folder": str(result.folder)})
    else:
        show_arena(result, training)
    if stop.is_set and not result.is_finished:
        raise typer.Exit(stop.exit_code)


def _game_of(players: Sequence[str], name: str | None) -> Game:
    run = next(filter(None, map(run_of, players)), None)
    if run is None:
        if name is None:
            raise ConfigError(
                f"none of the players ({', '.join(players)}) is a run, so the game is unknown; "
                "name it: --game connect_four"
            )
        return make_game(name)
    if name is not None:
        run.require_game(name)
    return run.game


def _players_of_run(run: Run, num_past: int) -> list[str]:
    """A run's agent, its past versions and the opponents of its evaluation."""
    evaluation = run.config.evaluation
    others = [name for name in (*evaluation.opponents, *evaluation.final_opponents) if run_of(name) is None]
    return list(dict.fromkeys((str(run.path), *reversed(past_selves(run, num_past)), "random", *others)))


def _with_past(players: Sequence[str], num_past: int) -> list[str]:
    """The players as given, each run followed by its past versions, unless they are given too."""
    participants: list[str] = []
    for player in players:
        participants.append(player)
        run = run_of(player) if num_past and Path(player).is_dir() else None
        if run is not None:
            participants += [past for past in reversed(past_selves(run, num_past)) if past not in players]
    return participants


def show_arena(result: TournamentResult, training: Sequence[Rating] = ()) -> None:
    """Print a tournament as tables; `training` are ratings of the run's own training games."""
    out.print(f"\nRatings in {escape(result.game)}, with 95 % intervals", style="bold")
    out.print(_rating_table(result, training))
    out.print("\nWho beats whom: the row's score against the column in %", style="bold")
    out.print(_cross_table(result))
    out.print("[green]green[/]: clearly stronger   [red]red[/]: clearly weaker")
    for cycle in result.cycles:
        circle = " beats ".join(escape(name) for name in (*cycle, cycle[0]))
        say(f"[bold yellow]A cycle:[/] {circle}")
    if not result.is_finished:
        out.print("Stopped; finished games are kept. The same command continues.")
    say(f"As a picture: {escape(str(result.folder))}/{PICTURE}")


def _rating_table(result: TournamentResult, training: Sequence[Rating]) -> Table:
    trained = _training_column(result, training)
    table = new_table(("", "player"), ("rating", "games", *(["in training"] if trained else [])))
    table.columns[0].justify = "right"
    for rank, index in enumerate(result.ranking, 1):
        rating = result.ratings[index]
        row = [str(rank), escape(rating.name), _rating_text(rating), str(rating.games)]
        table.add_row(*row, *([trained.get(index, UNKNOWN)] if trained else []))
    return table


def _rating_text(rating: Rating, shift: float = 0.0) -> str:
    return f"{rating.mean + shift:+.0f} ± {Z95 * rating.deviation:.0f}"


def _training_column(result: TournamentResult, training: Sequence[Rating]) -> dict[int, str]:
    """Ratings from training games by player index, shifted so that their mean is that of the tournament."""
    by_name = {rating.name: rating for rating in training}
    found = {
        index: rating
        for index, name in enumerate(result.names)
        if (rating := by_name.get(f"update {name.rpartition('@')[2]}") or by_name.get(name)) is not None
    }
    if not found:
        return {}
    shift = sum(result.ratings[index].mean - rating.mean for index, rating in found.items()) / len(found)
    return {index: _rating_text(rating, shift) for index, rating in found.items()}


def _cross_table(result: TournamentResult) -> Table:
    """Columns are ranks; without intervals, and with shortened names, where they do not fit the screen."""
    ranking, width = result.ranking, out.width
    has_intervals = SHORTEST_NAME + CELL * len(ranking) <= width
    space = width - (CELL if has_intervals else SMALL_CELL) * len(ranking) - SMALL_CELL
    table = plain_table(["", "player", *map(str, range(1, 1 + len(ranking)))], gap=1)
    table.columns[1].justify = "left"
    for rank, first in enumerate(ranking, 1):
        pairs = [None if first == second else result.between(first, second) for second in ranking]
        cells = [_cell(pair, has_intervals) if pair else "" for pair in pairs]
        table.add_row(str(rank), escape(shortened(result.names[first], max(space, SHORTEST_NAME))), *cells)
    return table


def _cell(pair: PairResult, has_interval: bool) -> str:
    if not pair.score.games:
        return "[dim]—[/]"
    low, high = pair.interval
    colour = ("green" if pair.is_won else "red") if pair.is_separated else "default"
    interval = f"\n[dim]{100 * low:.0f}–{100 * high:.0f}[/]" if has_interval else ""
    return f"[{colour}]{100 * pair.score.mean:.0f}[/]{interval}"
