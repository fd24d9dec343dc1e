"""Settings of the search."""

from typing import Final

from pydantic import Field, NonNegativeInt, PositiveInt

from senju.config import Part

MAX_TREE_NODES: Final = 50_000_000
MAX_TREE_MIB: Final = 2**16  # that many nodes hardly ever take more


class SearchConfig(Part):
    """Settings of the tree search."""

    nodes: NonNegativeInt = Field(
        800, description="New positions looked at per move; 0: no limit but being stopped, proof and memory."
    )
    batch_size: int = Field(
        16, ge=1, le=4096, description="Positions evaluated together; another number gives other bits."
    )
    exploration: float = Field(1.25, ge=0, le=100, description="Weight of the policy against the value.")
    exploration_base: float = Field(
        19652.0, gt=0, description="Visits after which that weight has grown by about 0.7; it grows slowly."
    )
    first_play: float = Field(
        0.25,
        ge=0,
        le=2,
        description="How much less than its position an unvisited move is worth, at full policy mass.",
    )
    virtual_loss: float = Field(
        1.0, ge=0, le=10, description="How many losses a visit counts while its evaluation is on its way."
    )
    noise: float = Field(0.0, ge=0, le=1, description="Share of Dirichlet noise in the root's priors.")
    noise_concentration: float = Field(
        10.0,
        gt=0,
        le=1e6,
        description="Sum of the noise's parameters over all legal moves; small: few moves.",
    )
    temperature: float = Field(
        0.0, ge=0, le=10, description="0 plays the best move; 1 draws a move in proportion to its visits."
    )
    look_ahead: int = Field(
        3,
        ge=0,
        le=1000,
        description="Nearer to the root than so many plies, every move is tried for an end of the game.",
    )
    max_tree_nodes: PositiveInt = Field(
        1_000_000,
        le=MAX_TREE_NODES,
        description="Positions kept at most; each takes 64 bytes and 12 more for each of its legal moves.",
    )
    max_tree_mib: PositiveInt = Field(
        2048, le=MAX_TREE_MIB, description="MiB that the positions kept may take."
    )
