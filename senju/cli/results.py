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
        return "No position was reached that can be judged exactly."
    return (
        f"Perfect moves: {percent(judgement.share)} of the {judgement.moves} that could be judged kept the "
        f"best reachable result; {percent(judgement.decisive_share)} of the {judgement.decisive_moves} where "
        "some move would not have."
    )
