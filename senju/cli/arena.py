"""`senju arena`: who beats whom."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from senju.cli.console import (
    JsonOption,
    SeedOption,
    TrustOption,
    err,
    friendly_errors,
    out,
    print_json,
)
from senju.cli.trials import plain_table
from senju.errors import ConfigError
from senju.games import make_game
from senju.games.game import Game
from senju.opponents.ratings import Rating
from senju.training.arena.picture import shortened
from senju.training.arena.result import ArenaResult, PairResult
from senju.training.arena.round_robin import PICTURE, run_arena
from senju.training.arena.tasks import ArenaSettings
from senju.training.arena.tasks import Progress as ArenaProgress
from senju.training.evaluation import Z95
from senju.training.interrupt import stop_on_signals
from senju.training.opponents import KNOWN_OPPONENTS, PAST_SELVES, past_selves, run_of
from senju.training.run import Run
from senju.training.run_folder import ARENA
from senju.trust import accept_named, trusting

CELL, SMALL_CELL, SHORTEST_NAME = 7, 4, 12  # widths in the cross table
ALONE = "A run alone meets its past selves, random, and whom it was evaluated against"


def arena(
    players: Annotated[
        list[str],
        typer.Argument(metavar="RUN|PLAYER", help=f"{ALONE}. Or several: {KNOWN_OPPONENTS}."),
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
            help="Random plies before each two games; 4 if both sides may always play alike.",
            min=0,
        ),
    ] = None,
    past: Annotated[
        int | None,
        typer.Option(help=f"Past selves of each run; {PAST_SELVES} of a run alone, else none.", min=0),
    ] = None,
    game: Annotated[
        str | None, typer.Option(help="The game, where no run among the players tells it.")
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Worker processes (0: one per core); the result is the same.", min=0)
    ] = 0,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the results; RUN/arena of a run alone, else arena-DATE."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what was played in that folder.")] = False,
    early_stop: Annotated[
        bool,
        typer.Option("--early-stop/--no-early-stop", help="End a pair when it is clear who is stronger."),
    ] = True,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let everybody play everybody: ratings, the table of who beats whom, and cycles.

    The same command again goes on where it was stopped, or shows the result. A pair ends early when its
    interval leaves out 50 %. Since that is looked at up to ten times, intervals are wider than those of a
    single look would be (the error is divided by the looks): 95 % holds for all looks of a pair together.
    """
    with friendly_errors(), trusting(trust):
        settings = ArenaSettings(games, seed, opening, early_stop)
        accept_named(game)
        alone = run_of(players[0]) if len(players) == 1 else None
        rules = _game_of(players, game)
        if alone:
            folder = folder or alone.path / ARENA
            everybody = _around(alone, PAST_SELVES if past is None else past)
        else:
            everybody = _with_past(players, past or 0)
        with stop_on_signals() as stop, _ArenaBar(as_json) as bar:
            result = run_arena(
                rules,
                everybody,
                folder,
                settings,
                num_workers=workers,
                fresh=fresh,
                on_progress=bar.show,
                stop=stop,
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
                f"none of the players ({', '.join(players)}) is a run that tells the game; "
                "name it: --game connect_four"
            )
        return make_game(name)
    if name is not None:
        run.require_game(name)
    return run.game


def _around(run: Run, num_past: int) -> list[str]:
    """A run's agent, and whom it is measured by."""
    evaluation = run.config.evaluation
    others = [name for name in (*evaluation.opponents, *evaluation.final_opponents) if run_of(name) is None]
    return list(dict.fromkeys((str(run.path), *reversed(past_selves(run, num_past)), "random", *others)))


def _with_past(players: Sequence[str], num_past: int) -> list[str]:
    """The players as given, each run followed by its past selves; one that is given too comes once."""
    everybody: list[str] = []
    for player in players:
        everybody.append(player)
        run = run_of(player) if num_past and Path(player).is_dir() else None
        if run is not None:
            everybody += [self for self in reversed(past_selves(run, num_past)) if self not in players]
    return everybody


class _ArenaBar:
    """Games done of at most so many, and the time left."""

    def __init__(self, is_silent: bool) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("games at most"),
            TimeRemainingColumn(),
            console=err,
            transient=True,
            disable=is_silent,
        )
        self._task = self._bar.add_task("playing", total=None)

    def __enter__(self) -> "_ArenaBar":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show(self, progress: ArenaProgress) -> None:
        """Show how far it is."""
        self._bar.update(
            self._task,
            completed=progress.games_done,
            total=progress.games_at_most,
            description=f"{progress.pairs_done} of {progress.num_pairs} pairs are clear or played out",
        )


def show_arena(result: ArenaResult, training: Sequence[Rating] = ()) -> None:
    """Print an arena as tables; `training` are ratings of the run's own training games."""
    out.print(f"\nRatings in {escape(result.game)}, with 95 % intervals", style="bold", highlight=False)
    out.print(_rating_table(result, training))
    out.print("\nWho beats whom: the row's score against the column in %", style="bold")
    out.print(_cross_table(result))
    out.print("[green]green[/]: clearly stronger   [red]red[/]: clearly weaker")
    for cycle in result.cycles:
        circle = " beats ".join(escape(name) for name in (*cycle, cycle[0]))
        out.print(f"[bold yellow]A cycle:[/] {circle}", highlight=False, soft_wrap=True)
    if not result.is_finished:
        out.print("Stopped; what was played is kept. The same command goes on.", highlight=False)
    path = escape(str(result.folder))
    out.print(f"As a picture: {path}/{PICTURE}", highlight=False, soft_wrap=True)


def _rating_table(result: ArenaResult, training: Sequence[Rating]) -> Table:
    trained = _training_column(result, training)
    table = Table()
    table.add_column("", justify="right")
    table.add_column("player")
    table.add_column("rating", justify="right")
    table.add_column("games", justify="right")
    if trained:
        table.add_column("in training", justify="right")
    for rank, place in enumerate(result.ranking, 1):
        rating = result.ratings[place]
        row = [str(rank), escape(rating.name), _rating_text(rating), str(rating.games)]
        table.add_row(*row, *([trained.get(place, "—")] if trained else []))
    return table


def _rating_text(rating: Rating) -> str:
    return f"{rating.mean:+.0f} ± {Z95 * rating.deviation:.0f}"


def _training_column(result: ArenaResult, training: Sequence[Rating]) -> dict[int, str]:
    """Ratings of training games by place, moved so that those who have both agree on average."""
    by_name = {rating.name: rating for rating in training}
    names = {place: name.rpartition("@")[2] for place, name in enumerate(result.names)}
    found = {
        place: rating
        for place, name in names.items()
        if (rating := by_name.get(f"update {name}") or by_name.get(result.names[place])) is not None
    }
    if not found:
        return {}
    shift = sum(result.ratings[place].mean - rating.mean for place, rating in found.items()) / len(found)
    return {
        place: f"{rating.mean + shift:+.0f} ± {Z95 * rating.deviation:.0f}" for place, rating in found.items()
    }


def _cross_table(result: ArenaResult) -> Table:
    """Columns are the ranks; intervals are left out, and names cut, where they would not fit the screen."""
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
    if not pair.games:
        return "[dim]—[/]"
    low, high = pair.interval
    colour = ("green" if pair.is_won else "red") if pair.is_separated else "default"
    interval = f"\n[dim]{100 * low:.0f}–{100 * high:.0f}[/]" if has_interval else ""
    return f"[{colour}]{100 * pair.score:.0f}[/]{interval}"
