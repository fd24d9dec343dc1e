"""`senju evaluate`: the strength of a run's agent, or the rewards of the agents of a world."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from senju.cli.agents import agents_as_dicts, episodes_table
from senju.cli.console import err, out, print_json, require_file_name, say
from senju.cli.options import CheckpointOption, JsonOption, RunArgument, SeedOption, TrustOption
from senju.cli.tables import show_matches
from senju.errors import ConfigError
from senju.evaluation.episodes import EpisodesResult, play_episodes
from senju.evaluation.matches import MatchResult, play_match
from senju.evaluation.opponents import make_players
from senju.files import describe_os_error
from senju.opponents.players import KNOWN_OPPONENTS
from senju.runs.run import Run


def evaluate(
    run: RunArgument,
    against: Annotated[
        list[str],
        typer.Option(
            help=f"{KNOWN_OPPONENTS}; self@UPDATE is an older checkpoint of this run. May be repeated."
        ),
    ] = ["random"],  # noqa: B006  # typer copies it
    games: Annotated[
        int, typer.Option(help="Games per opponent, even, since colours are swapped; or episodes of a world.")
    ] = 200,
    seed: SeedOption = 0,
    temperature: Annotated[
        float, typer.Option(help="Of all agents: 0 plays the best move, 1 draws from the policy.", min=0)
    ] = 0.0,
    opening_plies: Annotated[
        int | None,
        typer.Option(
            help="Random plies before each pair; 4 if both players are deterministic, else 0.", min=0
        ),
    ] = None,
    checkpoint: CheckpointOption = None,
    gif: Annotated[
        Path | None,
        typer.Option(help="In a world with an agent in each seat: write an episode to this file."),
    ] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure strength: matches with colours swapped in pairs, scores with Wilson intervals.

    Against `perfect`, every move from positions with at least 14 stones is judged by an exact solver.
    If every seat has its own agent, measure each agent's reward in whole episodes, beside random play.
    """
    opened = Run(run)
    if opened.config.is_independent:
        _refuse_match_options(opened, against, temperature, opening_plies)
        _evaluate_agents(opened, checkpoint, games, seed, gif, as_json)
        return
    if gif is not None:
        raise ConfigError(
            f"--gif {gif} needs a world with an agent in each seat; {run} is measured by matches"
        )
    player = opened.agent_at(checkpoint).player(temperature)
    names = [f"{run}@{name[5:]}" if name.startswith("self@") else name for name in against]
    opponents = make_players(opened.game, names, temperature)
    results: list[MatchResult] = []
    with Progress(console=err, transient=True, disable=as_json) as progress:
        for opponent in opponents:
            task = progress.add_task(f"against {escape(opponent.name)}", total=games)

            def show(games_done: int, task: TaskID = task) -> None:
                progress.update(task, completed=games_done)

            results.append(play_match(opened.game, player, opponent, games, seed, opening_plies, show))
    if as_json:
        print_json([result.as_dict() for result in results])
        return
    show_matches(results, f"{player.name}, temperature {temperature:g}")


def _refuse_match_options(
    run: Run, against: list[str], temperature: float, opening_plies: int | None
) -> None:
    """Refuse options of matches where all agents of a world play together."""
    given = {
        f"--against {against[-1]}": against != ["random"],
        f"--temperature {temperature:g}": temperature != 0.0,
        f"--opening-plies {opening_plies}": opening_plies is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise ConfigError(
                f"{option} is for matches; in {run.path} every seat has an agent of its own, and they are "
                "measured together, beside random play"
            )


def _evaluate_agents(
    run: Run, checkpoint: str | None, episodes: int, seed: int, gif: Path | None, as_json: bool
) -> None:
    """Play whole episodes with all agents, and show the reward of each."""
    if gif is not None:
        require_file_name("--gif", gif, ".gif")
    agents = run.agents_at(checkpoint)
    length = run.config.collect.max_game_length
    with err.status("playing episodes …", spinner="dots"):
        result = play_episodes(run.game, agents, episodes, seed, max_length=length)
    if gif is not None:
        _write_gif(run, result, gif)
    if as_json:
        print_json(agents_as_dicts(run, agents, result))
        return
    name, _, _ = agents[0].name.partition(" agent ")
    out.print(episodes_table(run, result, f"{name}, {episodes} episodes of {result.turns:g} turns"))
    if gif is not None:
        say(f"An episode: {escape(str(gif))}")


def _write_gif(run: Run, result: EpisodesResult, path: Path) -> None:
    film = run.game.film(result.positions)
    if film is None:
        raise ConfigError(f"--gif {path}: {run.game.name} cannot be drawn as a film; its `film` returns None")
    try:
        path.write_bytes(film)
    except OSError as error:
        raise ConfigError(f"--gif {path} cannot be written: {describe_os_error(error)}") from None
