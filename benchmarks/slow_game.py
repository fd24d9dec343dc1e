r"""Connect Four in which every move costs processor time: a game that takes a millisecond a step.

Run senju in this folder, so that it finds the module; a turn of 4 shards of 8 games and 8 steps takes 256 ms.

    senju bench slow_game:SlowConnectFour --workers 1,2 --set collect.rollout_steps=8 \
        --set collect.num_games=32 --set collect.games_per_shard=8
"""

from time import thread_time

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from senju.config import Part
from senju.games.connect_four import ConnectFour
from senju.games.game import Outcomes, States


class SlowConfig(Part):
    """Settings of the slow game."""

    milliseconds: float = Field(
        1.0, ge=0, le=10_000, description="Processor time that each row's step takes."
    )


class SlowConnectFour(ConnectFour):
    """Connect Four with unchanged rules and slow moves."""

    Config = SlowConfig

    name = "slow_connect_four"

    def step(self, states: States, actions: NDArray[np.int32], out: Outcomes) -> None:
        """Drop the movers' stones, and spend the time of all rows."""
        super().step(states, actions, out)
        assert isinstance(self.config, SlowConfig)
        spend(len(states) * self.config.milliseconds / 1000)


def spend(seconds: float) -> None:
    """Keep a core busy, and Python's lock with it.

    By the thread's own clock: by the wall's, workers that share a core or a lock would be done as soon
    as those that have one each, and any number of them would seem to pay.
    """
    end = thread_time() + seconds
    while thread_time() < end:
        pass
