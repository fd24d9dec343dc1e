"""What all commands share: consoles, results for machines, and errors for people."""

import json
import math
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from senju.config import Settings, merged, parse_assignment, read_yaml
from senju.errors import ConfigError, SenjuError
from senju.trust import require_trust

if TYPE_CHECKING:  # it loads torch, and an engine must be there at once
    from senju.training.evaluation import MatchResult

out = Console()
err = Console(stderr=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Load code that a run or file names, though it is not installed."),
]
MAX_SEED = 2**63 - 1
SeedOption = Annotated[int, typer.Option(help="Of openings and of players that draw.", min=0, max=MAX_SEED)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PART.KEY=VALUE", help="Change one setting; may be given often."),
]


def print_json(result: Any) -> None:
    """Print a result as one JSON document; what is not a number becomes null.

    Where the output cannot encode some character, all of them beyond ASCII are escaped as JSON has it.
    """
    finite = _finite(result)
    text = json.dumps(finite, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = json.dumps(finite, indent=2, ensure_ascii=True)
    print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def friendly_errors() -> Iterator[None]:
    """Show senju's own errors as one message: exit code 2 for bad input, 1 for anything else."""
    try:
        yield
    except SenjuError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None


def settings_from(config_file: Any, assignments: list[str] | None, **options: Any) -> Settings:
    """Settings of a YAML file, then of `--set`, then of options of their own."""
    layers = [read_yaml(config_file)] if config_file else []
    require_trust(config_file, layers)
    layers += [parse_assignment(text) for text in assignments or []]
    given = {key: value for key, value in options.items() if value is not None}
    return merged(*layers, given)


def program() -> str:
    """How this program was called, so that a hint can be typed as it stands."""
    called = sys.argv[0]
    return called if called.endswith("senju") and shutil.which("senju") is None else "senju"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage; a dash where it is not known."""
    return "—" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def score_text(result: "MatchResult") -> str:
    """A score with its interval."""
    low, high = result.interval
    return f"{percent(result.score)} [dim]({percent(low)} to {percent(high)})[/]"
