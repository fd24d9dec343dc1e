"""The plan: what a backend plays, as plain typed records that can be sent anywhere.

One codec serves all: `plan.model_dump(mode="json")` and `Plan.model_validate`.
"""

from typing import Annotated

from pydantic import Field

from senju.collect.device_actor import DeviceEvaluation
from senju.collect.exploration import BY_POLICY, Acting
from senju.collect.resignation import NEVER, Resignation
from senju.config import Part, Settings
from senju.opponents.opponent_players import OpponentSettings

_Count = Annotated[int, Field(ge=1, lt=2**31)]
_MAX_PARTS = 4  # of a rollout; a shard keeps a state for each


class PolicyPlan(Part):
    """A policy that learns, and how much of its play is kept for its learner."""

    model: Settings  # name and settings
    seed: int = Field(0, ge=0, lt=2**63)  # of the network's first weights
    acting: Acting = BY_POLICY
    kept_turns: int = Field(1, ge=1, lt=2**53)  # rollouts that stay readable: the newest, or a replay
    keeps_final: bool = False  # whether the positions in which games were truncated stay as well
    transient_turns: _Count = 1  # turns of which all columns are kept


class Plan(Part):
    """What a backend plays. One policy plays all seats, or each seat has its own."""

    game: Settings  # name and settings
    policies: tuple[PolicyPlan, ...] = Field(min_length=1)
    seed: int = Field(ge=0, lt=2**63)
    num_shards: _Count
    games_per_shard: _Count
    rollout_steps: _Count
    opponents: OpponentSettings | None = None  # None: the policies play all seats
    num_snapshots: int = Field(0, ge=0, lt=2**31)  # slots for the weights of past policies
    is_shared: bool = False  # whether rollouts lie in shared memory because other processes learn from them
    max_lag: int = Field(0, ge=0, lt=2**31)  # rollouts a shard may be ahead of the learner; 0: `sync` mode
    whole_games: bool = False  # whether each rollout is one game of every row, from its start to its end
    max_game_length: int = Field(0, ge=0, lt=2**63)  # steps after which a game is truncated; 0: never
    resignation: Resignation = NEVER
    evaluation: DeviceEvaluation | None = None  # None: workers evaluate on their cores
    folder: str | None = None  # for files that the user may need, such as a failing shard
    sockets: tuple[str, ...] = ()  # socket files that workers remove if this process is killed

    @property
    def max_opponents(self) -> int:
        """How many opponents there can be at once."""
        return self.num_snapshots + (len(self.opponents.fixed) if self.opponents else 0)

    @property
    def num_parts(self) -> int:
        """Parts of a rollout that different workers may play.

        In `async` mode the weights may change between them, opponents remember failures within a rollout, and
        a device values truncated positions together, at the end of what one worker played.
        """
        is_whole = self.max_lag > 0 or self.opponents is not None or self.evaluation is not None
        return 1 if is_whole else min(_MAX_PARTS, self.rollout_steps)

    def first_step(self, part: int) -> int:
        """The step of a rollout at which a part begins."""
        return self.rollout_steps * part // self.num_parts
