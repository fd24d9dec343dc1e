"""The engine's options: one settings model, from which the `option` lines are made."""

from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

from senju.config import Part, nearest, validated
from senju.errors import ConfigError
from senju.search.settings import MAX_TREE_MIB
from senju.usi.protocol import ProtocolError, quoted
from senju.usi.situation import MAX_PLIES, DeclarationRule, ShogiRules

MAX_SEED: Final = 2**31 - 1  # programs keep an option's number in 32 bits
_GAME: Final = ShogiRules()


class EngineConfig(Part):
    """Options that a Shogi program can set; the run and the command line set the defaults."""

    usi_ponder: bool = Field(False, description="Send the expected reply, to ponder on, with each move.")
    usi_hash: int = Field(512, ge=1, le=MAX_TREE_MIB, description="MiB the search tree may take.")
    nodes: int = Field(0, ge=0, le=10**9, description="Nodes per move; 0: as many as the time allows.")
    batch: int = Field(16, ge=1, le=1024, description="Positions evaluated at once.")
    temperature: int = Field(0, ge=0, le=1000, description="In hundredths; 0: best move, 100: by visits.")
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Random seed, used where the temperature is not 0.")
    threads: int = Field(1, ge=1, le=512, description="Math threads; one gives the same moves every time.")
    resign_value: int = Field(
        10, ge=0, le=1000, description="Winning chance (‰) to resign below, for 3 moves."
    )
    max_ply: int = Field(_GAME.max_plies, ge=1, le=MAX_PLIES, description="Plies until it ends undecided.")
    declaration_rule: DeclarationRule = Field(_GAME.declaration, description="Rule of the entering king.")
    move_overhead: int = Field(30, ge=0, le=60_000, description="Milliseconds every move loses in transit.")
    byoyomi_margin: int = Field(100, ge=0, le=60_000, description="Milliseconds of a clock left unused.")


STANDARD_NAMES: Final = {"usi_ponder": "USI_Ponder", "usi_hash": "USI_Hash"}


def option_name(field: str) -> str:
    """An option's name in the protocol.

    >>> option_name("move_overhead"), option_name("usi_hash")
    ('MoveOverhead', 'USI_Hash')
    """
    return STANDARD_NAMES.get(field) or "".join(word.capitalize() for word in field.split("_"))


def option_lines(config: EngineConfig) -> Iterator[str]:
    """The `option` lines, with the current values as defaults."""
    for field, info in EngineConfig.model_fields.items():
        yield f"option name {option_name(field)} type {_type_text(info, getattr(config, field))}"


def _type_text(info: FieldInfo, value: Any) -> str:
    if info.annotation is bool:
        return f"check default {str(value).lower()}"
    if get_origin(info.annotation) is Literal:
        choices = " ".join(f"var {choice}" for choice in get_args(info.annotation))
        return f"combo default {value} {choices}"
    low = next(bound.ge for bound in info.metadata if hasattr(bound, "ge"))
    high = next(bound.le for bound in info.metadata if hasattr(bound, "le"))
    return f"spin default {value} min {low} max {high}"


FIELDS: Final = {option_name(field).lower(): field for field in EngineConfig.model_fields}


def with_option(config: EngineConfig, name: str, value: str) -> EngineConfig:
    """The settings with one option changed; names are case-insensitive."""
    field = FIELDS.get(name.lower())
    if field is None:
        hint = nearest(name[:40], map(option_name, EngineConfig.model_fields))
        raise ProtocolError(f"setoption: unknown option {quoted(name)}; {hint}")
    try:
        return validated(EngineConfig, {**config.model_dump(), field: value})
    except ConfigError:
        allowed = _type_text(EngineConfig.model_fields[field], getattr(config, field))
        raise ProtocolError(
            f"setoption: {option_name(field)} cannot be {quoted(value)}; it is of type {allowed}"
        ) from None
