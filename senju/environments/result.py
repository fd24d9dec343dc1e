"""What came of a run of a user's own world."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.runs.timeline import Timeline


class EpochReport(NamedTuple):
    """An epoch that all copies have played and all agents have learned from."""

    epoch: int
    rewards: tuple[float, ...]  # by agent: the sum over the epoch's turns, averaged over copies
    losses: tuple[float | None, ...]  # by agent; None where it did not train
    num_turns: int  # of all copies
    seconds: float  # since the report before
    playing_seconds: float  # of all workers together
    learning_seconds: float  # of all learners together

    def __str__(self) -> str:
        rewards = ", ".join(f"{reward:.4g}" for reward in self.rewards)
        losses = ", ".join("-" if loss is None else f"{loss:.4g}" for loss in self.losses)
        return f"epoch {self.epoch}: rewards {rewards}; losses {losses}; {self.seconds:.2f} s"


@dataclass(frozen=True)
class ExperimentResult:
    """Every epoch's figures, what went wrong and was healed, and who did what when."""

    epochs: tuple[EpochReport, ...]
    events: tuple[str, ...]
    timeline: Timeline = field(repr=False)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """[epoch, agent]: sums over an epoch's turns, averaged over copies."""
        return np.array([report.rewards for report in self.epochs])

    @property
    def losses(self) -> NDArray[np.float64]:
        """[epoch, agent]: not a number where an agent did not train."""
        return np.array([report.losses for report in self.epochs], np.float64)

    @property
    def num_turns(self) -> int:
        """Turns of all copies in all epochs."""
        return sum(report.num_turns for report in self.epochs)

    @property
    def seconds(self) -> float:
        """From the first episode's start to the last lesson's end."""
        return sum(report.seconds for report in self.epochs)
