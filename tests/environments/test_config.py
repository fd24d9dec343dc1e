"""Every kind of configuration gives the same settings, and factories get it as it is."""

import argparse
import dataclasses
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from senju.environments.config import WorldOptions, read_settings
from senju.environments.environment import ParallelEnvironment
from senju.environments.factory import WorldFactory, WorldSource
from senju.environments.generators import Purpose, generators_restored
from senju.errors import ConfigError
from tests.environments.meadow import Meadow, make_config
from tests.environments.runs import knowledge


@dataclasses.dataclass
class Experiment:
    epochs: int = 3
    max_turns: int = 6


@dataclasses.dataclass
class Config:
    experiment: Experiment = dataclasses.field(default_factory=Experiment)
    parallel: Any = dataclasses.field(default_factory=lambda: {"copies": 2})
    seed: int = 7


class Namespaces:
    class experiment:  # as people write it
        epochs, max_turns, record_period = 3, 6, 50

    class parallel:
        copies = 2

    seed = 7


class Attributes(MutableMapping[str, Any]):
    """Keys and attributes alike, as some libraries have them."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = {
            key: Attributes(value) if isinstance(value, dict) else value for key, value in content.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._content[name]

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._content[name] = value

    def __delitem__(self, name: str) -> None:
        del self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


PLAIN = {"experiment": {"epochs": 3, "max_turns": 6, "seed": 7, "name": "mine"}, "parallel": {"copies": 2}}
SPAN_STYLES = {
    "dictionary": PLAIN,
    "dataclass": Config(),
    "classes": Namespaces,
    "namespace": SimpleNamespace(
        experiment=argparse.Namespace(epochs=3, max_turns=6, seed=7), parallel={"copies": 2}
    ),
    "attributes": Attributes(PLAIN),
    "options": {"experiment": Experiment(), "parallel": WorldOptions(copies=2, seed=7)},
}


@pytest.mark.parametrize("kind", SPAN_STYLES)
def test_settings_are_read_of_any_kind(kind: str) -> None:
    settings = read_settings(SPAN_STYLES[kind])
    assert (settings.experiment.epochs, settings.experiment.max_turns) == (3, 6)
    assert (settings.parallel.copies, settings.parallel.seed) == (2, 7)


def world_with(config: Any) -> Any:
    return SimpleNamespace(config=config)


def new_source(config: Any) -> WorldSource:
    return WorldSource(f"{__name__}:world_with", config, read_settings(make_config()))


@pytest.mark.parametrize("kind", SPAN_STYLES)
def test_configurations_arrive_in_other_processes(kind: str) -> None:
    arrived = WorldSource.unpacked(new_source(SPAN_STYLES[kind]).packed())
    with generators_restored():
        config = arrived.new_world(0, Purpose.LEARNING_WORLD).config
    assert read_settings(config) == read_settings(SPAN_STYLES[kind])
    if kind != "classes":
        assert type(config) is type(SPAN_STYLES[kind])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"parallel": {"num_worker": 3}},
            r"unknown setting.*'parallel\.num_worker'.*'num_workers'",
        ),
        ({"parallel": {"copies": 0}}, "parallel.copies=0.*equal to 1"),
        ({"experiment": {"epochs": 3}}, "experiment.max_turns"),
        ({"experiment": None}, "experiment.epochs"),
        ({"parallel": 5}, "config.parallel=5.* part"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read_settings(make_config() | change)


def test_path_in_a_configuration_is_named() -> None:
    with pytest.raises(ConfigError, match=r"config.output\[0\] is PosixPath"):
        new_source({"output": [Path("here")]}).packed()


def test_factories_get_what_their_parameters_are_called() -> None:
    def make(factory: Any) -> Any:
        return WorldFactory(factory).make("the config", seed=5, copy=2)

    assert make(lambda: "nothing") == "nothing"
    assert make(lambda cfg: cfg) == "the config"
    assert make(lambda anything: anything) == "the config"
    assert make(lambda config, seed, copy=0, height=3: (config, seed, copy, height)) == (
        "the config",
        5,
        2,
        3,
    )
    assert make(lambda rank=8, settings=None, *, index=0: (rank, settings, index)) == (8, None, 0)
    assert make(lambda **options: options) == {}


def test_factory_may_be_named() -> None:
    named = ParallelEnvironment("tests.environments.meadow:Meadow", make_config(enabled=False))
    given = ParallelEnvironment(Meadow, make_config(enabled=False))
    for env in (named, given):
        env.run_experiment_parallel()
    assert knowledge(named) == knowledge(given)


def test_worlds_cannot_change_each_others_configuration() -> None:
    def factory(config: dict[str, Any]) -> Meadow:
        config["experiment"]["max_turns"] += 1
        return Meadow(config)

    config = make_config(enabled=False)
    result = ParallelEnvironment(factory, config).run_experiment_parallel()
    assert config["experiment"]["max_turns"] == 6
    assert result.num_turns == 3 * 3 * 6
