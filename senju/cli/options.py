"""Options and arguments that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

MAX_SEED = 2**63 - 1

RunArgument = Annotated[Path, typer.Argument(help="The run's folder.")]
GameArgument = Annotated[str | None, typer.Argument(help="A game's name, or package.module:Class.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Load code that a run or file names, though it is not installed.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of openings and random players.", min=0, max=MAX_SEED)]
SeedSetting = Annotated[int | None, typer.Option(help="Short for --set seed=N.")]
ConfigOption = Annotated[Path | None, typer.Option(help="Settings in a YAML file.", exists=False)]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PART.KEY=VALUE", help="Change one setting; may be repeated."),
]
CheckpointOption = Annotated[
    str | None, typer.Option(help="A checkpoint by name or update; the newest by default.")
]
BackendOption = Annotated[str, typer.Option(help="What workers are: processes or threads.")]
