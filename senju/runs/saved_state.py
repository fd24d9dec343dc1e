"""The schema of a checkpoint's state, checked before anything is restored from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from senju.errors import SenjuError
from senju.runs.checkpoint import BlobName, Saved, damaged, require_types

_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Number = Annotated[int, Field(ge=1, lt=2**31)]  # of an opponent
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _PoolOpponent(Saved):
    number: _Number
    name: str
    weight_index: int = Field(ge=-1, lt=2**31)
    update: int = Field(ge=-1, lt=2**53)
    is_drawn: bool = True
    left_at: int = Field(-1, ge=-1, lt=2**53)
    wins: _Count = 0
    draws: _Count = 0
    losses: _Count = 0
    recent_games: _Amount = 0.0
    recent_score: _Amount = 0.0


class _Pool(Saved):
    next: _Number
    opponents: list[_PoolOpponent]
    results: list[Annotated[list[_Count], Field(min_length=5, max_length=5)]]  # two numbers, three counts


class _Named(Saved):
    model_config = ConfigDict(extra="allow")

    name: str


class _Opponent(Saved):
    description: str
    model: _Named | None = None
    acting: dict[str, Any] = Field({})


class _State(Saved):
    model_config = ConfigDict(extra="allow")

    update: int = Field(ge=0, lt=10**9)  # as in the names of checkpoints
    steps: _Count = 0
    seconds: _Amount
    learner: dict[str, Any]
    turns: list[BlobName] = Field([])
    pool: _Pool | None = None
    fixed: list[_Opponent] = Field([])
    opponents_weights: dict[Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}$")], BlobName] = Field({})


def require_state(path: Path, state: dict[str, Any]) -> None:
    """Refuse a checkpoint whose state is not one that a run saves."""
    saved = require_types(_State, path, state)
    if saved.pool is None:
        return
    opponents = saved.pool.opponents
    indices = {o.number: o.weight_index for o in opponents if o.weight_index >= 0}
    missing = [number for number in indices if str(number) not in saved.opponents_weights]
    if missing:
        raise damaged(path, f"it names no weights of opponent {missing[0]}")
    numbers = {o.number for o in opponents}
    if len(numbers) < len(opponents) or len(set(indices.values())) < len(indices):
        raise damaged(path, "two opponents in its pool have the same number or weight index")
    if any(first == second for first, second, *_ in saved.pool.results):
        raise damaged(path, "an opponent in its pool has results against itself")


@contextmanager
def restoring_from(path: Path) -> Iterator[None]:
    """Turn the error of a learner or network that cannot load its own state into a CheckpointError."""
    try:
        yield
    except SenjuError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        raise damaged(path, f"it does not fit ({type(error).__name__}: {error})") from error
