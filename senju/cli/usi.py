"""`senju usi`: a run's agent as an engine for Shogi programs."""

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from senju.arguments import is_whole
from senju.cli.options import CheckpointOption, TrustOption
from senju.config import Settings, read_yaml, validated
from senju.errors import ConfigError
from senju.trust import require_trust
from senju.usi.engine import Engine
from senju.usi.lines import LineWriter
from senju.usi.options import MAX_SEED, EngineConfig
from senju.usi.thinker import Thinker
from senju.version import __version__

if TYPE_CHECKING:
    from senju.models.model import Model

DEFAULTS = EngineConfig()


def usi(
    run: Annotated[Path, typer.Argument(help="The folder of a run of Shogi.")],
    nodes: Annotated[
        int, typer.Option(help="Nodes per move; 0: as many as the time allows.", min=0, max=10**9)
    ] = DEFAULTS.nodes,
    checkpoint: CheckpointOption = None,
    seed: Annotated[
        int, typer.Option(help="Seed of moves that are drawn at random.", min=0, max=MAX_SEED)
    ] = DEFAULTS.seed,
    threads: Annotated[
        int, typer.Option(help="Math threads; one gives the same moves every time.", min=1, max=512)
    ] = DEFAULTS.threads,
    overhead: Annotated[
        int, typer.Option(help="Milliseconds that sending a move takes.", min=0, max=60_000)
    ] = DEFAULTS.move_overhead,
    byoyomi_margin: Annotated[
        int, typer.Option(help="Milliseconds of a byoyomi or clock left unused.", min=0, max=60_000)
    ] = DEFAULTS.byoyomi_margin,
    log: Annotated[Path | None, typer.Option(help="Write all messages to this file.")] = None,
    trust: TrustOption = False,
) -> None:
    """Serve as an engine for Shogi programs: the USI protocol, on standard input and output.

    The program can change all of this, and more, by the options that the engine announces.
    """
    with _logging_to(log) if log is not None else contextlib.nullcontext():
        game = _game_of(run)
        _require_checkpoint(run, checkpoint)
        config = validated(
            EngineConfig,
            {
                "nodes": nodes,
                "seed": seed,
                "threads": threads,
                "move_overhead": overhead,
                "byoyomi_margin": byoyomi_margin,
                "max_ply": game.get("max_plies", DEFAULTS.max_ply),
                "declaration_rule": game.get("declaration", DEFAULTS.declaration_rule),
            },
        )
        _serve(run, partial(_load_model, run, checkpoint, trust), config, int(game.get("history", 0)))


def _serve(run: Path, load: "partial[Model]", config: EngineConfig, history: int) -> None:
    writer = LineWriter(sys.stdout.buffer)
    name = f"senju {__version__} ({run.resolve().name})"
    source: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)  # raw: reads what has arrived
    with contextlib.redirect_stdout(sys.stderr):  # only the protocol is written to standard output
        Engine(name, Thinker(load, writer), writer, config, history).run(source)
    if writer.is_lost:  # the other side is gone: Python's own last flush must not fail
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _game_of(run: Path) -> Settings:
    """A Shogi run's game settings, read without importing what trains it: that takes seconds."""
    path = run / "config.yaml"
    settings = read_yaml(path) if path.is_file() else {}
    require_trust(run, settings)  # before the protocol begins; the agent is loaded later
    game = settings.get("game")
    if isinstance(game, dict) and game.get("name") == "shogi" and is_whole(game.get("history", 0), 0):
        return game
    from senju.runs.run import Run

    opened = Run(run)
    opened.require_game("shogi")
    return opened.config.game


def _require_checkpoint(run: Path, checkpoint: str | None) -> None:
    """Refuse a run that cannot play before the protocol begins; its weights are read later."""
    if checkpoint is None and any((run / "checkpoints").glob("update_*")):
        return
    from senju.runs.run import Run

    checkpoints = Run(run).checkpoints
    if checkpoint is None:
        checkpoints.latest()
    else:
        checkpoints.named(checkpoint)


def _load_model(run: Path, checkpoint: str | None, trust: bool) -> "Model":
    from senju.runs.run import Run

    model = Run(run, trust).agent_at(checkpoint).policy()
    gc.collect()
    gc.freeze()  # what is loaded stays; scanning it again would cost a tenth of a second during a move
    return model


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Log everything to a file, instead of warnings to standard error."""
    try:
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"cannot write the log {path}: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("senju")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()
