"""All commands, as one program."""

from typing import Annotated

import typer

from senju.cli.arena import arena
from senju.cli.bench import bench
from senju.cli.console import new_app, out
from senju.cli.control import pause, reset, resume, workers
from senju.cli.doctor import doctor
from senju.cli.evaluate import evaluate
from senju.cli.explain import explain_action
from senju.cli.games import games
from senju.cli.play import play
from senju.cli.profile import profile
from senju.cli.reproduce import reproduce
from senju.cli.soak import soak
from senju.cli.status import status
from senju.cli.train import train
from senju.cli.tune import tune
from senju.cli.usi import usi
from senju.cli.verify import verify
from senju.version import __version__


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"senju {__version__}", highlight=False)
        raise typer.Exit


def senju(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train game-playing agents in parallel."""


USING = (train, evaluate, arena, play, usi, games, explain_action, doctor)
STEERING = (status, pause, resume, reset, workers)
TRYING = (verify, bench, tune, profile, soak, reproduce)
app = new_app(senju, *USING, *STEERING, *TRYING)
