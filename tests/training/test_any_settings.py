"""Whatever settings come in, a run's config comes out, or a ConfigError."""

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from senju.config import Settings, parse_assignment, read_yaml, validated
from senju.errors import ConfigError
from senju.games import GAMES
from senju.runs.presets import preset
from senju.runs.run_config import DEFAULT_PARTS, RunConfig, dump_config, load_config, merged, resolve_config
from senju.training.parallel_config import resolved
from senju.trials.scale import SMALL, scaled_config

_NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.integers(0, 2**70).map(lambda n: 2 ** n.bit_length()),
    st.sampled_from([0, -1, 1, 1.5, True, 1048573, 65521, 2**31, 2**63, 10**30, 1e30, 1e308, 10**99]),
)
_WORDS = st.sampled_from(
    [
        *(
            "independent",
            "opponents",
            "self_play",
            "async",
            "dqn",
            "ppo",
            "mlp",
            "resnet",
            "plane_net",
            "auto",
        ),
        *("serial", "processes", "threads", "stacked", "random", "minimax:2", "perfect", "cpu", "cuda:99"),
        *("name", "hidden", "seats", "0", "1", "<<", "", "2001-13-45", "x:y", "\0", "é", "meta", "cpu:x"),
        *GAMES.names(),
    ]
)
_VALUES = st.recursive(
    st.one_of(st.none(), _NUMBERS, _WORDS, st.text(max_size=8), st.binary(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(_WORDS, st.integers(0, 3)), inner, max_size=3),
    ),
    max_leaves=6,
)
_KEYS = sorted({"seats", "device", "learners", "attention", "parallel", *RunConfig.model_fields})


def _places(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(part, dict):
        return [path]
    return [place for key, inner in part.items() for place in _places(inner, (*path, key))] + [path]


@st.composite
def changed_presets(draw: st.DrawFn) -> Settings:
    """A game's settings with a few places changed."""
    game = draw(st.sampled_from(GAMES.names()))
    changed: Any = copy.deepcopy(merged(DEFAULT_PARTS, preset(game), {"game": {"name": game}}))
    for _ in range(draw(st.integers(1, 4))):
        *above, key = draw(st.sampled_from([place for place in _places(changed) if place]))
        part = changed
        for each in above:
            part = part[each]
        where = draw(st.one_of(st.just(key), _WORDS, st.sampled_from(_KEYS)))
        part[where] = draw(_VALUES)
    return dict(changed)


@pytest.mark.slow
@given(changed_presets())
@settings(deadline=None)
def test_any_change_of_a_preset_is_settings_or_a_config_error(given_settings: Settings) -> None:
    for read in (
        lambda: resolve_config(None, given_settings),
        lambda: validated(RunConfig, given_settings),
        lambda: scaled_config(None, SMALL, given_settings),
        lambda: resolved(given_settings),
    ):
        with suppress(ConfigError):
            read()


@pytest.mark.slow
@given(changed_presets())
@settings(deadline=None)
def test_any_file_is_a_config_that_survives_being_saved_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, given_settings: Settings
) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "changed.yaml"
    file.write_bytes(yaml.safe_dump(given_settings, allow_unicode=True).encode("utf-8", "surrogatepass"))
    with suppress(ConfigError):
        load_config(file)
    with suppress(ConfigError):
        config = resolve_config(None, read_yaml(file))
        file.write_text(dump_config(config))
        assert load_config(file) == config


@given(st.sampled_from(_KEYS), _WORDS, _VALUES)
@settings(deadline=None)
def test_any_assignment_is_settings_or_a_config_error(part: str, key: str, value: object) -> None:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True)
    for assignment in (f"{part}={text}", f"{part}.{key}={text}"):
        with suppress(ConfigError):
            resolve_config("tic_tac_toe", parse_assignment(assignment))
