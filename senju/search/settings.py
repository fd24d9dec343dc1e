"""Settings of the search."""

from typing import Final

from pydantic import Field, NonNegativeInt, PositiveInt

from senju.config import Part

MAX_TREE_NODES: Final = 50_000_000
MAX_TREE_MIB: Final = 2**16  # the largest tree rarely takes more


class SearchConfig(Part):
    """Settings of the tree search."""

    nodes: NonNegativeInt = Field(800, description="New positions per move; 0: until stopped or solved.")
    batch_size: int = Field(16, ge=1, le=4096, description="Positions evaluated together.")
    exploration: float = Field(1.25, ge=0, le=100, description="Weight of the policy against the value.")
    exploration_base: float = Field(19652.0, gt=0, description="Visits that add about 0.7 to `exploration`.")
    first_play: float = Field(
        0.25,
        ge=0,
        le=2,
        description="How much lower than its position's value an unvisited move starts (FPU reduction).",
    )
    virtual_loss: float = Field(1.0, ge=0, le=10, description="Losses that a pending visit counts as.")
    noise: float = Field(0.0, ge=0, le=1, description="Share of Dirichlet noise in the root's priors.")
    noise_concentration: float = Field(
        10.0,
        gt=0,
        le=1e6,
        description="Sum of the Dirichlet parameters over all legal moves; small: noise on few moves.",
    )
    temperature: float = Field(0.0, ge=0, le=10, description="0: the best move; 1: sampled by visits.")
    look_ahead: int = Field(
        3,
        ge=0,
        le=1000,
        description="Up to this many plies from the root, every move is checked for ending the game.",
    )
    max_tree_nodes: PositiveInt = Field(
        1_000_000,
        le=MAX_TREE_NODES,
        description="Positions in the tree at most; each takes 64 bytes, and 12 for each legal move.",
    )
    max_tree_mib: PositiveInt = Field(2048, le=MAX_TREE_MIB, description="MiB that the tree may take.")
