"""A network that goes wrong on demand, in the process that evaluates."""

import json
import time
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from senju.backends.backend import Plan
from senju.collect.device_actor import DeviceEvaluation
from senju.config import Part
from senju.models.model import Model
from tests.backends.common import PLAN, changed, model_of


class TrappedConfig(Part):
    folder: str = Field("", description="Where the orders are; empty: nothing goes wrong.")


class Trapped(Model):
    """One linear layer, with a trap in it."""

    Config = TrappedConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, TrappedConfig)
        self._folder = Path(config.folder or "/nowhere")
        self._layer = nn.Linear(int(torch.tensor(observation_shape).prod()), num_actions + 1)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        found = self._layer(observation.flatten(1))
        logits, values = found[:, :-1], found[:, -1]
        kind = self._take_order(len(observation))
        if kind == "raise":
            raise RuntimeError("the trap is sprung")
        if kind == "raise OSError":
            raise FileNotFoundError("the trap is sprung")
        if kind == "nan":
            logits = logits.clone()
            logits[1] = torch.nan
            (self._folder / "network-is-wrong").touch()
        if len(logits) == 1 and (self._folder / "network-is-wrong").exists():  # asked again, to explain it
            logits = logits * torch.nan
        if kind == "wait":
            while not (self._folder / "go").exists():
                time.sleep(0.002)
        return logits, values

    def _take_order(self, batch: int) -> str | None:
        orders = self._folder / "network-orders"
        if not orders.exists() or batch <= 2:  # as when a model is built, or warmed up
            return None
        try:
            orders.rename(self._folder / "network-sprung")
        except FileNotFoundError:  # another worker's evaluation took it
            return None
        found: str = json.loads((self._folder / "network-sprung").read_text())
        return found


def trapped_plan(folder: Path, **changes: Any) -> Plan:
    """A plan whose network can go wrong in the process that evaluates."""
    model = {"name": "tests.backends.trap_models:Trapped", "folder": str(folder)}
    return changed(PLAN, model=model, evaluation=DeviceEvaluation(), num_shards=4, **changes)


def order_network(plan: Plan, kind: str) -> None:
    """Let the network go wrong once, at its next step."""
    folder = Path(model_of(plan)["folder"])
    (folder / "network-written").write_text(json.dumps(kind))
    (folder / "network-written").rename(folder / "network-orders")


def network_was_sprung(plan: Plan) -> bool:
    return (Path(model_of(plan)["folder"]) / "network-sprung").exists()
