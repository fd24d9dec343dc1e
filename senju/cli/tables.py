"""Tables and progress bars that several commands draw."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import JustifyMethod, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from senju.cli.console import err, out
from senju.cli.quantities import score_text, share_text
from senju.evaluation.matches import Judgement, MatchResult

BARS = " ▁▂▃▄▅▆▇█"


def new_table(
    words: Iterable[str],
    figures: Iterable[str] = (),
    title: str | None = None,
    rows: Iterable[Iterable[RenderableType]] = (),
    *,
    no_wrap: bool = False,
    header_style: str = "",
    **style: Any,
) -> Table:
    """A table whose first columns hold text and whose others hold numbers, aligned to the right."""
    table = Table(title=title and escape(title), title_justify="left", **style)
    columns: tuple[tuple[JustifyMethod, Iterable[str]], ...] = (("left", words), ("right", figures))
    for justify, names in columns:
        for name in names:
            table.add_column(name, justify=justify, no_wrap=no_wrap, header_style=header_style)
    for row in rows:
        table.add_row(*row)
    return table


def live_table(words: Iterable[str], figures: Iterable[str] = (), **options: Any) -> Table:
    """A table without lines, for a display that is redrawn."""
    return new_table(words, figures, box=None, padding=(0, 2), **options)


def plain_table(columns: Iterable[str], title: str | None = None, gap: int = 2, **options: Any) -> Table:
    """A table without lines, so that figures fit into 80 columns; the first column is text."""
    first, *others = columns
    options |= {"title_style": "bold", "box": None, "padding": (0, gap, 0, 0)}
    return new_table([first], others, title, no_wrap=True, header_style="dim", **options)


def facts_table(rows: Mapping[str, str], title: str | None = None) -> Table:
    """Two columns: names and what is known of each; `rows` may hold markup."""
    return new_table((), (), title, rows.items(), show_header=False)


def show_matches(results: Sequence[MatchResult], title: str) -> None:
    """Print match results, one line per opponent, and what an exact solver says about the moves."""
    table = new_table(
        ("against", "score (95 % interval)"), ("won", "drawn", "lost", "lost moving first", "games"), title
    )
    for result in results:
        score = result.score
        counts = (score.wins, score.draws, score.losses, score.losses_moving_first, score.games)
        table.add_row(escape(result.opponent), score_text(score.mean, score.interval), *map(str, counts))
    out.print(table)
    for result in results:
        if result.judgement is not None:
            out.print(_judgement_text(result.judgement))


def _judgement_text(judgement: Judgement) -> str:
    if not judgement.moves:
        return "No position was reached that can be judged exactly."
    share, decisive_share = share_text(judgement.share, 1), share_text(judgement.decisive_share, 1)
    return (
        f"Perfect moves: {share} of the {judgement.moves} that could be judged kept the best reachable "
        f"result; {decisive_share} of the {judgement.decisive_moves} where some move would not have."
    )


def progress_bar(is_silent: bool, *columns: ProgressColumn) -> Progress:
    """A bar on standard error that disappears when it is done."""
    description, left = TextColumn("{task.description}"), TimeRemainingColumn()
    return Progress(description, BarColumn(), *columns, left, console=err, transient=True, disable=is_silent)
