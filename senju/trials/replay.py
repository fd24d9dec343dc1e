"""A failing shard, played alone in this process."""

import faulthandler
import traceback
from dataclasses import dataclass

from senju.backends.reproduction import Reproduction
from senju.machine import math_threads
from senju.usercode import passes_on

__all__ = ["ReplayResult", "Reproduction", "replay"]

STANDARD_ERROR = 2  # the descriptor: sys.stderr may be something that has none


@dataclass(frozen=True)
class ReplayResult:
    """The outcome of playing a rollout again."""

    error: str | None  # the exception's name and text; None where it finished
    traceback: str = ""


def replay(reproduction: Reproduction) -> ReplayResult:
    """Play the rollout as a worker would, with Python's stack shown should the interpreter crash."""
    was_enabled = faulthandler.is_enabled()
    if not was_enabled:
        faulthandler.enable(STANDARD_ERROR)
    try:
        with math_threads(1):
            reproduction.play()
    except BaseException as error:  # whatever the game or the model raises is what is looked for
        if passes_on(error):
            raise
        return ReplayResult(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))
    finally:
        if not was_enabled:
            faulthandler.disable()
    return ReplayResult(None)
