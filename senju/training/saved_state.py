"""What a checkpoint's state must hold, checked before anything is taken from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from senju.errors import CheckpointError, SenjuError
from senju.training.checkpoint import BLOB_NAME, damaged

_BlobName = Annotated[str, Field(pattern=rf"^{BLOB_NAME.pattern}$")]
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Number = Annotated[int, Field(ge=1, lt=2**31)]  # of an opponent
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Saved(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Member(_Saved):
    number: _Number
    name: str
    place: int = Field(ge=-1, lt=2**31)
    update: int = Field(ge=-1, lt=2**53)
    is_drawn: bool = True
    left_at: int = Field(-1, ge=-1, lt=2**53)
    wins: _Count = 0
    draws: _Count = 0
    losses: _Count = 0
    recent_games: _Amount = 0.0
    recent_score: _Amount = 0.0


class _Pool(_Saved):
    next: _Number
    members: list[_Member]
    results: list[Annotated[list[_Count], Field(min_length=5, max_length=5)]]  # two numbers, three counts


class _Named(_Saved):
    model_config = ConfigDict(extra="allow")

    name: str


class _Opponent(_Saved):
    description: str
    model: _Named | None = None
    acting: dict[str, Any] = Field(default_factory=dict)


class _State(_Saved):
    model_config = ConfigDict(extra="allow")

    update: int = Field(ge=0, lt=10**9)  # as in the names of checkpoints
    steps: _Count = 0
    seconds: _Amount
    learner: dict[str, Any]
    turns: list[_BlobName] = Field(default_factory=list)
    pool: _Pool | None = None
    fixed: list[_Opponent] = Field(default_factory=list)
    opponents_weights: dict[Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}$")], _BlobName] = Field(
        default_factory=dict
    )


def require_state(path: Path, state: dict[str, Any]) -> None:
    """Refuse a checkpoint whose state is not what a run saves."""
    try:
        saved = _State.model_validate(state)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CheckpointError(damaged(path, f"{place} in its state: {first['msg']}")) from None
    if saved.pool is None:
        return
    members = saved.pool.members
    missing = [m.number for m in members if m.place >= 0 and str(m.number) not in saved.opponents_weights]
    if missing:
        raise CheckpointError(damaged(path, f"it names no weights of opponent {missing[0]}"))
    numbers, places = [m.number for m in members], [m.place for m in members if m.place >= 0]
    if len(set(numbers)) < len(numbers) or len(set(places)) < len(places):
        raise CheckpointError(damaged(path, "two opponents in its pool have the same number or place"))
    if any(first == second for first, second, *_ in saved.pool.results):
        raise CheckpointError(damaged(path, "an opponent in its pool has results against itself"))


@contextmanager
def taken_up(path: Path) -> Iterator[None]:
    """Say of what a learner or a network cannot take from a checkpoint that the checkpoint is damaged.

    What these save is their own, a user's included, so that nothing else can check it before.
    """
    try:
        yield
    except SenjuError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        what = f"it does not fit ({type(error).__name__}: {error})"
        raise CheckpointError(damaged(path, what)) from error
