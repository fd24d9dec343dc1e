"""Backends: the contract (backend.py) and its implementations."""

from senju.backends.backend import Backend
from senju.registry import Registry

BACKENDS: Registry[Backend] = Registry(
    "backend",
    Backend,  # type: ignore[type-abstract]  # the registry only asks whether classes derive from it
    {
        "serial": "senju.backends.serial:Serial",
        "threads": "senju.backends.parallel:Threads",
        "processes": "senju.backends.parallel:Processes",
    },
)
