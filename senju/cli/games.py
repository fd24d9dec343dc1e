"""`senju games`: the list of games, and the check of one."""

from typing import Annotated, Any

import typer

from senju.cli.console import out, print_json
from senju.cli.options import JsonOption
from senju.cli.tables import new_table
from senju.games import GAMES, make_game
from senju.games.check import check_game


def games(
    name: Annotated[str | None, typer.Argument(help="Check this game against the Game contract.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the games; with a name (or package.module:Class), check that game against the contract."""
    if name is not None:
        _check(name, as_json)
        return
    facts = [_facts(known) for known in GAMES.names()]
    if as_json:
        print_json(facts)
        return
    table = new_table(("game", "seats", "actions", "observation", "what it is"))
    for fact in facts:
        seats = f"{fact['num_seats']} at once" if fact["num_acting"] != 1 else str(fact["num_seats"])
        shape = "×".join(map(str, fact["observation_shape"]))
        table.add_row(fact["name"], seats, str(fact["num_actions"]), shape, fact["description"])
    out.print(table)


def _facts(name: str) -> dict[str, Any]:
    game = make_game(name)
    return {
        "name": name,
        "num_seats": game.num_seats,
        "num_acting": game.num_acting,
        "num_actions": game.num_actions,
        "observation_shape": list(game.observation_shape),
        "is_zero_sum": game.is_zero_sum,
        "description": (type(game).__doc__ or "").strip().splitlines()[0],
    }


def _check(name: str, as_json: bool) -> None:
    report = check_game(make_game(name))
    if as_json:
        print_json({**_facts(name), "checks": list(report.checks), "num_steps": report.num_steps})
        return
    for check in report.checks:
        out.print(f"[green]✓[/] {check}")
    out.print(
        f"{name} keeps the Game contract: {report.num_games_finished} games, {report.num_steps} steps, "
        f"the longest game {report.longest_game} steps."
    )
