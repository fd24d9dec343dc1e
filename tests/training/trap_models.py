"""A network that goes wrong on demand while it is trained; it looks for its orders in a folder."""

import os
import threading
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from senju.config import Part
from senju.errors import ModelError
from senju.models.model import Model
from senju.training.learner_memory import TrainingReport
from senju.workers.channel import Kind, Message, SocketChannel
from tests.backends.trap_games import spring

NAME = f"{__name__}:Trap"
DAWDLING_SECONDS = 1.7  # of a step
AT_STEP = 2  # of those that a process has taken: in the middle of a training


class TrapConfig(Part):
    folder: str = Field("", description="Where the orders are; empty: nothing goes wrong.")
    spared: int = Field(0, description="The process that is never harmed.")
    seat: int = Field(0, description="Whose network it is.")


class Trap(Model):
    """A linear network with a trap in it."""

    Config = TrapConfig

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        assert isinstance(config, TrapConfig)
        self._folder, self._is_spared = Path(config.folder or "/nowhere"), config.spared == os.getpid()
        self._num_steps, self._seat = 0, config.seat
        self.layer = nn.Linear(int(torch.tensor(observation_shape).prod()), num_actions + 1)
        if not self._is_spared:
            self._watch_sending()

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            self._num_steps += 1
            if self._num_steps > AT_STEP:
                self._obey("step")
        outputs = self.layer(observation.flatten(1))
        return outputs[:, :-1], outputs[:, -1]

    def _obey(self, where: str) -> None:
        path = self._folder / f"{where}.orders"
        if self._is_spared or not path.exists():
            return
        kind, times = path.read_text().split()
        if int(times) > 1:
            path.write_text(f"{kind} {int(times) - 1}")
        else:
            path.rename(self._folder / "sprung")
        if kind == "dawdle":
            threading.Event().wait(DAWDLING_SECONDS)
            return
        if kind == "diverge":
            raise ModelError("update 1: loss not finite: training has diverged")
        spring(kind, self._folder)

    def _watch_sending(self) -> None:
        """Go wrong between a training's end and the done message."""
        send = SocketChannel.send

        def send_or_not(channel: SocketChannel, message: Message) -> None:
            report = message.values[-1] if message.kind == Kind.DONE else None
            if isinstance(report, TrainingReport) and report.trained.seat == self._seat:
                self._obey("sending")
            send(channel, message)

        SocketChannel.send = send_or_not  # type: ignore[method-assign]


def order(folder: Path, kind: str, where: str = "step", times: int = 1) -> None:
    """Let it go wrong the next time, or the next times."""
    (folder / "sprung").unlink(missing_ok=True)
    (folder / f"{where}.orders").write_text(f"{kind} {times}")


def was_sprung(folder: Path) -> bool:
    return (folder / "sprung").exists()
