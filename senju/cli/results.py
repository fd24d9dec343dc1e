"""Match results as tables."""

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from senju.cli.console import percent, score_text
from senju.training.evaluation import Judgement, MatchResult


def match_table(results: Iterable[MatchResult], title: str) -> Table:
    """One line per opponent."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("against")
    table.add_column("score (95 % interval)")
    for name in ("won", "drawn", "lost", "lost moving first", "games"):
        table.add_column(name, justify="right")
    for result in results:
        counts = (result.wins, result.draws, result.losses, result.losses_moving_first, result.games)
        table.add_row(escape(result.opponent), score_text(result), *map(str, counts))
    return table


def judgement_text(judgement: Judgement) -> str:
    """What the solver says of the moves."""
    if not judgement.moves:
        return "No position with 14 stones or more was reached, so no move could be judged."
    return (
        f"Perfect moves: {percent(judgement.share)} of {judgement.moves} moves from positions with 14 stones "
        f"or more kept the best reachable result; {percent(judgement.decisive_share)} of the "
        f"{judgement.decisive_moves} where some move would not have."
    )
