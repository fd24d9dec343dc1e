"""The load of other programs during a measure: it distinguishes a slow repeat from a disturbed one."""

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")


def _busy_seconds() -> float | None:
    """CPU time of all processes and all cores since boot, with what the hypervisor took."""
    try:
        fields = _STAT.read_text().splitlines()[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class OtherLoad:
    """Starts counting when it is made."""

    def __init__(self) -> None:
        self._busy, self._own, self._start = _busy_seconds(), time.process_time(), time.perf_counter()

    def cores(self) -> float | None:
        """How many cores others kept busy, on average until now; None if the system does not report it."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        others = busy - self._busy - (time.process_time() - self._own)
        return max(0.0, round(others / (time.perf_counter() - self._start), 2))
