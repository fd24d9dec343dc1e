"""Options that several parts of senju share, declared once with their bounds and descriptions."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from senju.collect.resignation import Resignation
from senju.config import Part, Proportion
from senju.machine import available_cores

Count = Annotated[  # 0 or none: automatic
    int, BeforeValidator(lambda value: 0 if value is None else value), Field(ge=0, le=4096)
]


class WorkerOptions(Part):
    """Shared by the backends, `parallel` of runs and of own worlds, and ParallelManager."""

    num_workers: Count = Field(0, description="Workers that play; 0 or none: one for each core.")

    @property
    def resolved_workers(self) -> int:
        """The number of workers, with 0 replaced by the number of cores."""
        return self.num_workers or available_cores()


class GameEndOptions(Part):
    """When games end early; shared by `collect` of runs and by ParallelManager."""

    max_game_length: int = Field(
        0, ge=0, le=2**31, description="Steps after which a game is cut (truncated); 0: never."
    )
    resign_below: Proportion = Field(
        0.0, description="A player resigns when its value is below minus this; 0: never."
    )
    resign_exempt: Proportion = Field(
        0.1, description="Share of the games that are always played to the end."
    )

    @property
    def resignation(self) -> Resignation:
        """When a player resigns."""
        return Resignation(self.resign_below, self.resign_exempt)
