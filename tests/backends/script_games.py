"""Games and models that behave otherwise in a worker than in the process that starts it."""

import os
from pathlib import Path

from pydantic import Field

from senju.config import Part
from senju.games.connect_four import ConnectFour


class GreedyConfig(Part):
    folder: str = Field("", description="Where it notes that it has failed.")
    spared: int = Field(0, description="The process in which it does not fail.")


class Greedy(ConnectFour):
    """Finds no memory, in the first worker that makes it."""

    Config = GreedyConfig

    def __init__(self, config: Part | None = None) -> None:
        super().__init__(config)
        assert isinstance(self.config, GreedyConfig)
        if os.getpid() == self.config.spared:
            return
        try:
            (Path(self.config.folder) / "failed").touch(exist_ok=False)
        except FileExistsError:
            return
        raise MemoryError("not a byte is left")
