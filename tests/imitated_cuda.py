"""A GPU that is only imitated: its memory is the host's, and a graph calls what it captured.

It runs every line that a GPU runs, on machines without one: graphs with fixed addresses, streams, events, the
choice by torch. What it cannot show is in the tests that are marked `cuda`.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from senju.collect import device_actor, device_network
from senju.collect.device_actor import DeviceEvaluation, DeviceProgram

_calling = threading.Lock()  # a call puts its weights into a network that all graphs share
IMITATED = DeviceEvaluation("cpu", "float32", "eager")


class ImitatedStream:
    """Everything has happened already."""

    def wait_stream(self, other: Any) -> None:
        """Nothing is under way."""

    def synchronize(self) -> None:
        """Nothing is under way."""


class ImitatedEvent:
    """Must be recorded before it is waited for."""

    def __init__(self, blocking: bool = False) -> None:
        self._is_recorded = False

    def record(self, stream: ImitatedStream) -> None:
        self._is_recorded = True

    def synchronize(self) -> None:
        assert self._is_recorded


class ImitatedGraph:
    """Writes the results of another call to the same tensor, as a replay does."""

    def __init__(self, run: Callable[[], Tensor], result: Tensor) -> None:
        self._run, self._result = run, result

    @torch.no_grad()
    def replay(self) -> None:
        with _calling:
            self._result.copy_(self._run())


def _recorded(stream: ImitatedStream, run: Callable[[], Tensor]) -> tuple[ImitatedGraph, Tensor]:
    with torch.no_grad():
        result = run().clone()
    return ImitatedGraph(run, result), result


def imitate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs on the CPU take the path of a GPU."""
    zeros = torch.zeros

    def without_pinning(*arguments: Any, pin_memory: bool = False, **settings: Any) -> Tensor:
        return zeros(*arguments, **settings)

    monkeypatch.setattr(torch, "zeros", without_pinning)
    monkeypatch.setattr(DeviceProgram, "is_cuda", property(lambda self: True))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", ImitatedStream)
    monkeypatch.setattr(torch.cuda, "Event", ImitatedEvent)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    for module in (device_actor, device_network):
        monkeypatch.setattr(module, "recorded", _recorded)


class ImitatedRegistration:
    """Memory that needs no registration."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    def release(self) -> None:
        """There is nothing to undo."""
