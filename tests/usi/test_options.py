"""The engine's options: how they are announced and set."""

import pytest

from senju.games.shogi.game import ShogiConfig
from senju.games.shogi.layout import MAX_PLIES
from senju.search.settings import MAX_TREE_MIB, MAX_TREE_NODES, SearchConfig
from senju.usi.options import EngineConfig, option_lines, with_option
from senju.usi.protocol import ProtocolError
from senju.usi.situation import ShogiRules

NAMES = [
    "USI_Ponder",
    "USI_Hash",
    "Nodes",
    "Batch",
    "Temperature",
    "Seed",
    "Threads",
    "ResignValue",
    "MaxPly",
    "DeclarationRule",
    "MoveOverhead",
    "ByoyomiMargin",
]


def test_every_option_is_announced_with_its_type() -> None:
    lines = list(option_lines(EngineConfig(nodes=64)))
    assert [line.split()[2] for line in lines] == NAMES
    assert "option name USI_Ponder type check default false" in lines
    assert "option name Nodes type spin default 64 min 0 max 1000000000" in lines
    assert "option name DeclarationRule type combo default 27 var 27 var 24 var none" in lines


def test_limits_and_defaults_of_the_game_are_those_of_the_rules() -> None:
    rules = ShogiConfig()
    lines = list(option_lines(EngineConfig()))
    assert f"option name MaxPly type spin default {rules.max_plies} min 1 max {MAX_PLIES}" in lines
    assert ShogiRules() == (rules.max_plies, rules.declaration, rules.history)


def test_numbers_fit_into_32_bits_as_programs_expect() -> None:
    spins = [line.split() for line in option_lines(EngineConfig()) if " spin " in line]
    assert all(int(words[-1]) < 2**31 for words in spins)


def test_all_that_is_announced_can_be_set_and_searched_with() -> None:
    hash_line = next(line for line in option_lines(EngineConfig()) if "USI_Hash" in line)
    assert hash_line.endswith(f" min 1 max {MAX_TREE_MIB}")
    config = with_option(EngineConfig(), "USI_Hash", str(MAX_TREE_MIB))
    assert SearchConfig(max_tree_mib=config.usi_hash, max_tree_nodes=MAX_TREE_NODES)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("Nodes", "800", "nodes", 800),
        ("nodes", "0", "nodes", 0),
        ("USI_Ponder", "true", "usi_ponder", True),
        ("usi_ponder", "false", "usi_ponder", False),
        ("DeclarationRule", "24", "declaration_rule", "24"),
        ("Seed", "2147483647", "seed", 2**31 - 1),
    ],
)
def test_option_is_set_by_its_name_in_any_case(name: str, text: str, field: str, value: object) -> None:
    assert getattr(with_option(EngineConfig(), name, text), field) == value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Nodse", "800", "'Nodse'.*'Nodes'"),
        ("x" * 10_000, "800", "'xxx"),
        ("Nodes", "many", "Nodes.*'many'.*spin default 7 min 0 max 1000000000"),
        ("Nodes", "-1", "Nodes.*'-1'"),
        ("Nodes", "", "Nodes.*''"),
        ("Nodes", "9" * 5000, "Nodes.*'9999"),
        ("DeclarationRule", "28", "combo default 27 var 27 var 24 var none"),
        ("USI_Ponder", "perhaps", "USI_Ponder.*'perhaps'.*check"),
    ],
)
def test_wrong_option_is_refused_with_what_is_allowed(name: str, value: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message) as caught:
        with_option(EngineConfig(nodes=7), name, value)
    assert len(str(caught.value)) < 400
