"""A failing shard, played alone in this process."""

import faulthandler

from senju.backends.reproduction import Reproduction
from senju.machine import math_threads
from senju.usercode import must_propagate

STANDARD_ERROR = 2  # the descriptor: sys.stderr may be something that has none


def replay(reproduction: Reproduction) -> BaseException | None:
    """Play the rollout as a worker would; return what it raises, or None where it finishes."""
    was_enabled = faulthandler.is_enabled()
    if not was_enabled:
        faulthandler.enable(STANDARD_ERROR)  # shows the stack if the interpreter crashes
    try:
        with math_threads(1):
            reproduction.play()
    except BaseException as error:  # this is the failure to be reproduced
        if must_propagate(error):
            raise
        return error
    finally:
        if not was_enabled:
            faulthandler.disable()
    return None
