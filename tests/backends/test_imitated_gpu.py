"""The path of a GPU, imitated on the CPU: graphs, the choice by torch, and what happens without them."""

import logging
from typing import Any

import numpy as np
import pytest

from senju.collect import device_actor, device_network
from tests.backends.test_device_evaluation import SEATINGS, differing, plan_of, played, started
from tests.imitated_cuda import IMITATED, ImitatedRegistration, imitate


@pytest.fixture(autouse=True)
def _imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    imitate(monkeypatch)
    monkeypatch.setattr("senju.backends.backend.RegisteredMemory", ImitatedRegistration)


@pytest.mark.parametrize("name", SEATINGS)
def test_threads_play_the_bytes_of_the_serial_backend(name: str) -> None:
    plan = plan_of(name, IMITATED)
    expected = played(plan, "serial")
    for num_workers in (1, 3):
        assert not differing(expected, played(plan, "threads", num_workers))


@pytest.mark.parametrize("name", [name for name in SEATINGS if name != "whole games"])
def test_a_gpu_chooses_what_the_cpu_chooses(name: str) -> None:
    """The batches have the same shapes, so the outputs are equal; log-probabilities round otherwise."""
    with started(plan_of(name, IMITATED), "serial") as found, started(plan_of(name, None), "serial") as host:
        for one, other in zip(found.collect(), host.collect(), strict=True):
            for slot, expected in zip(one.slots, other.slots, strict=True):
                is_own = expected.seats >= 0
                assert (slot.actions[is_own] == expected.actions[is_own]).all()
                assert (slot.explored == expected.explored).all()
                assert (slot.rewards == expected.rewards).all()
                for column in ("log_probs", "values"):
                    own, theirs = getattr(slot, column)[is_own], getattr(expected, column)[is_own]
                    np.testing.assert_allclose(own, theirs, rtol=1e-5, atol=2e-6)
                np.testing.assert_allclose(slot.bootstrap, expected.bootstrap, rtol=1e-5, atol=2e-6)


def no_capture(*_: Any) -> Any:
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


@pytest.mark.parametrize("name", ["self-play", "opponents", "independent agents"])
def test_a_network_that_cannot_be_captured_is_evaluated_without(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_of(name, IMITATED)
    expected = played(plan, "serial")
    for module in (device_actor, device_network):
        monkeypatch.setattr(module, "recorded", no_capture)
    with caplog.at_level(logging.WARNING):
        for backend in ("serial", "threads"):
            assert not differing(expected, played(plan, backend))
    assert "operation not permitted" in caplog.text
    assert "and more" not in caplog.text


def test_lack_of_memory_at_a_capture_is_not_taken_for_a_network_that_cannot_be_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_memory(*_: Any) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(device_actor, "recorded", no_memory)
    with pytest.raises(Exception, match="memory"), started(plan_of("self-play", IMITATED), "serial"):
        pass
