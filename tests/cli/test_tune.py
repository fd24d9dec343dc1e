"""`senju tune` and automatic settings on the command line."""

import json
from pathlib import Path

import pytest

from senju.runs.run import Run
from senju.runs.run_config import RunConfig, load_config, resolve_config
from senju.training.api import prepare
from senju.training.multi_run.api import prepare_several
from senju.trials import tuning
from senju.trials.speed import Figures
from tests.conftest import SMALL, Invoke, Options
from tests.facts import Facts, assert_mentions
from tests.fake_gpu import FakeMeter, install

QUICK = ("tune", "tic_tac_toe", "--seconds", "5")


@pytest.fixture(autouse=True)
def given_speeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are twice as fast, bfloat16 is a little faster."""
    if request.node.get_closest_marker("slow"):
        return

    def measure(config: RunConfig, *others: object) -> Figures[float]:
        speed = 1000.0 * (1 + (config.backend["name"] == "threads"))
        speed *= 1.1 if config.algorithm["precision"] == "bfloat16" else 1.0
        return Figures(0.1, 2 * speed, 2 * speed, 0.001, speed, speed, 1e6, 1e6, {}, {})

    monkeypatch.setattr(tuning, "measure", measure)
    monkeypatch.setattr(tuning, "available_cores", lambda: 2)
    monkeypatch.setattr(tuning, "processor_has_bfloat16", lambda: True)


def test_table_shows_what_was_tried_and_marks_the_best(invoke: Invoke) -> None:
    result = invoke(*QUICK)
    assert result.exit_code == 0, result.stderr
    for expected in ("as senju train would", "backend=threads (2 workers)", "end to end", "2.20", "--out"):
        assert expected in result.stdout
    (best,) = [line for line in result.stdout.splitlines() if "← best" in line]
    assert "algorithm.precision=bfloat16" in best
    assert "rounds differently" in result.stdout


def test_file_is_taken_by_train_and_never_overwritten(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke(*QUICK, "--out", "tuned.yaml")
    assert "train --config tuned.yaml" in result.stdout
    config = load_config(Path("tuned.yaml"))
    assert config.backend["name"] == "threads"
    assert resolve_config(None, config.model_dump(mode="json")) == config
    assert invoke("train", "--config", "tuned.yaml", "--run", "run", "--max-updates", 1).exit_code == 0
    assert Run("run").config == config
    again = invoke(*QUICK, "--out", "tuned.yaml")
    assert again.exit_code == 2
    assert_mentions(again.stderr, "tuned.yaml exists already", "another name")


def test_result_as_json_has_every_trial(invoke: Invoke) -> None:
    result = invoke(*QUICK, "--json", "--set", "backend.name=serial")
    assert result.stderr == ""
    record = json.loads(result.stdout)
    assert record["best"] == {"algorithm.precision": "bfloat16"}
    assert record["trials"][0]["changes"] == {}
    assert record["trials"][0]["end_to_end"]["median"] == 1000.0
    assert all("backend" not in trial["changes"] for trial in record["trials"])
    assert record["config"]["algorithm"]["precision"] == "bfloat16"


def test_interrupt_shows_and_keeps_what_was_measured(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = tuning.measure

    def measure(config: RunConfig, *others: object) -> Figures[float]:
        if config.algorithm["precision"] == "bfloat16":
            raise KeyboardInterrupt
        return measured(config, *others)  # type: ignore[arg-type]  # the fake one of the fixture

    monkeypatch.setattr(tuning, "measure", measure)
    result = invoke(*QUICK, "--out", "tuned.yaml")
    assert result.exit_code == 130
    assert "← best" in result.stdout
    assert load_config(Path("tuned.yaml")).backend["name"] == "threads"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tune", "chess"], "unknown game 'chess'"),
        (["tune", "tic_tac_toe", "--out", "tuned.txt"], (".yaml", "tuned.txt")),
        (["tune", "tic_tac_toe", "--out", "nowhere/tuned.yaml"], "no folder nowhere"),
        (["tune", "tic_tac_toe", "--set", "modle=mlp"], ("'modle'", "'model'")),
    ],
)
def test_mistakes_are_explained(invoke: Invoke, arguments: list[str], expected: Facts) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)


@pytest.mark.slow
def test_tuning_really_measures(invoke: Invoke, small_options: Options) -> None:
    result = invoke("tune", "tic_tac_toe", "--seconds", 3, "--json", *small_options(backend="serial"))
    record = json.loads(result.stdout)
    assert record["trials"][0]["end_to_end"]["median"] > 0


def test_train_shows_what_it_chose_and_status_too(invoke: Invoke, small_options: Options) -> None:
    options = small_options(algorithm={"precision": "auto"})
    result = invoke("train", "tic_tac_toe", "--run", "run", *options)
    assert result.exit_code == 0, result.stderr
    assert "the CPU evaluates and learns: algorithm.precision=" in result.stdout
    assert "measuring" not in result.stdout + result.stderr
    assert_mentions(invoke("status", "run").stdout, "chosen", "algorithm.precision=")
    assert json.loads(invoke("status", "run", "--json").stdout)["chosen"] == Run("run").config.chosen
    assert "precision: auto" not in (Path("run") / "config.yaml").read_text()


def test_several_agents_are_measured_once_and_share_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = install(monkeypatch, FakeMeter())
    said: list[str] = []
    settings = {**SMALL, "collect": {"num_games": "auto", "games_per_shard": "auto"}}
    runs = prepare_several("tic_tac_toe", 3, [], tmp_path / "runs", None, settings, announce=said.append)
    assert len(said) == 1
    assert len({(run.config.collect, run.config.chosen, run.config.device) for run in runs}) == 1
    assert [run.config.seed for run in runs] == [0, 1, 2]
    assert [kernels for _, _, kernels in meter.asked].count("repeatable") == 1


def test_number_of_workers_is_kept_where_senju_chooses_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cpu = prepare("tic_tac_toe", tmp_path / "cpu", None, None, {**SMALL, "device": "cpu"}, workers=2)
    assert on_cpu.config.backend["name"] == "processes"
    assert on_cpu.config.backend["num_workers"] == 2
    install(monkeypatch, FakeMeter())
    on_gpu = prepare("tic_tac_toe", tmp_path / "gpu", None, None, dict(SMALL), workers=2)
    assert on_gpu.config.backend["name"] == "threads"
    assert on_gpu.config.backend["num_workers"] == 2
