"""`senju evaluate`: how strong a run's agent is."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from senju.cli.console import JsonOption, SeedOption, err, friendly_errors, out, print_json
from senju.cli.results import judgement_text, match_table
from senju.training.evaluation import MatchResult, play_match
from senju.training.opponents import KNOWN_OPPONENTS, make_player
from senju.training.run import Run


def evaluate(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    against: Annotated[
        list[str],
        typer.Option(
            help=f"{KNOWN_OPPONENTS}; self@UPDATE is an older checkpoint of this run. May be given often."
        ),
    ] = ["random"],  # noqa: B006  # typer copies it
    games: Annotated[int, typer.Option(help="Games per opponent; even, since colours are swapped.")] = 200,
    seed: SeedOption = 0,
    temperature: Annotated[
        float, typer.Option(help="Of the agents: 0 plays the best move, 1 draws from the policy.", min=0)
    ] = 0.0,
    opening_plies: Annotated[
        int | None,
        typer.Option(help="Random plies before each pair; 4 if both sides may always play alike.", min=0),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="A checkpoint by name or update; the newest by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure strength: matches with colours swapped in pairs, scores with Wilson intervals.

    Against `perfect`, every move from positions with at least 14 stones is judged by an exact solver.
    """
    with friendly_errors():
        opened = Run(run)
        player = opened.agent_at(checkpoint).player(temperature)
        names = [f"{run}@{name[5:]}" if name.startswith("self@") else name for name in against]
        opponents = [make_player(opened.game, name, temperature) for name in names]
        results: list[MatchResult] = []
        with Progress(console=err, transient=True, disable=as_json) as progress:
            for opponent in opponents:
                task = progress.add_task(f"against {escape(opponent.name)}", total=games)
                show = partial(_show_done, progress, task)
                result = play_match(opened.game, player, opponent, games, seed, opening_plies, show)
                results.append(result)
    if as_json:
        print_json([result.as_dict() for result in results])
        return
    out.print(match_table(results, f"{player.name}, temperature {temperature:g}"))
    for result in results:
        if result.judgement is not None:
            out.print(judgement_text(result.judgement), highlight=False)


def _show_done(progress: Progress, task: TaskID, games_done: int) -> None:
    progress.update(task, completed=games_done)
