"""`senju train --agents N`: output, refusals, signals to real processes, and nothing left running."""

import json
import os
import re
import signal
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

import senju
from senju.cli import display as displays
from senju.cli.multi_run import MultiRunDisplay
from senju.machine import available_cores
from senju.runs.run import Run
from senju.training.multi_run.api import train_several
from senju.training.multi_run.group import Trainee
from tests.conftest import SMALL, Invoke, Options, Start, Train, WaitUntil, as_options
from tests.facts import Facts, assert_mentions

ENDLESS: dict[str, Any] = {"updates": 10**6, "checkpoint": {"interval": 10**6}}  # only stopping saves


def children(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def has_updates(run: Path, count: int = 3) -> bool:
    metrics = run / "metrics.jsonl"
    return metrics.exists() and metrics.read_text().count("\n") >= count


@pytest.fixture
def finished(train_small: Train, tmp_path: Path) -> Path:
    """A folder of two finished agents."""
    for number in (1, 2):
        train_small(f"several/agent_{number}", seed=number - 1)
    return tmp_path / "several"


def test_agents_are_compared_at_the_end(invoke: Invoke, finished: Path) -> None:
    result = invoke("train", "--resume", "several")
    assert (result.exit_code, result.stderr) == (0, "")
    for expected in (
        "2 agents of tic_tac_toe by ppo",
        "1,024 steps each",
        "seeds 0, 1",
        "Folder: several",
        "against random",
        "mean",
        "lowest, highest",
        "Who beats whom",
        "agent_1@4",
        "senju play tic_tac_toe --run several/agent_",
    ):
        assert expected in result.stdout
    assert "Go on with" not in result.stdout


def test_comparison_as_json_is_one_document_and_is_kept(invoke: Invoke, finished: Path) -> None:
    found = json.loads(invoke("train", "--resume", "several", "--json").stdout)
    assert found == json.loads((finished / "comparison.json").read_text())
    assert found["finished"] is True
    assert [(row["name"], row["seed"], row["state"]) for row in found["agents"]] == [
        ("agent_1", 0, "finished"),
        ("agent_2", 1, "finished"),
    ]
    assert found["strengths"]["random"]["agents"] == 2
    assert found["strongest"] in ("agent_1", "agent_2")
    assert found["round_robin"]["pairs"][0]["games"] == 40
    again = json.loads(invoke("train", "--resume", "several", "--json").stdout)
    assert again == found  # nothing was trained, and the same games were played


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        (["--agents", "0"], 2, "--agents"),
        (["--agents", "257"], 2, "--agents"),
        (["--agents", "many"], 2, "--agents"),
        (["--agents", "2", "--devices", "cpu,cuda:99"], 2, "device='cuda:99'"),
        (["--agents", "2", "--devices", "cpu,"], 2, ("'cpu,'", "names with commas")),
        (
            ["--agents", "1", "--devices", "cpu,cpu"],
            2,
            "2 devices for 1 agent",
        ),
        (["--devices", "cpu,cpu"], 2, ("one device", "2")),
        (["--devices", "cuda:99"], 2, "device='cuda:99'"),
        (["--devices", ""], 2, "names with commas"),
        (["--agents", "2", "--checkpoint", "best"], 2, ("--checkpoint best", "one run")),
        (["--agents", "2", "--run", "file"], 1, ("file", "exists")),
        (["--agents", "2", "--run", "file/run"], 1, ("file/run", "Not a directory")),
        (["--agents", "2", "--seed", str(2**63 - 1)], 2, f"seed={2**63}"),
        (["--agents", "2", "--resume", "nothing"], 1, ("nothing", "no agents")),
    ],
)
def test_bad_arguments_are_explained_before_anything_starts(
    invoke: Invoke, tmp_path: Path, options: list[str], code: int, expected: Facts
) -> None:
    (tmp_path / "file").write_text("in the way")
    result = invoke("train", "tic_tac_toe", *as_options(SMALL), *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert_mentions(result.stderr, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        (["--run", "other"], 2, "run='other'"),
        (["--preset", "gpu"], 2, ("preset='gpu'", "new agents")),
        (["--agents", "3"], 2, ("agents=3", "several", "2")),
        (["--devices", "cpu"], 2, ("device", "cannot change")),
        (["--set", "model.hidden=[8]"], 2, ("model", "cannot change")),
        (["--opponents", "pool"], 2, ("collect.seating", "opponents.fixed", "cannot change")),
        (
            ["--checkpoint", "4"],
            2,
            ("--checkpoint 4", "one run", "--resume several/"),
        ),
    ],
)
def test_bad_resume_is_explained(
    invoke: Invoke, finished: Path, options: list[str], code: int, expected: Facts
) -> None:
    before = Run(finished / "agent_1").config
    result = invoke("train", "--resume", "several", *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert_mentions(result.stderr, expected)
    assert Run(finished / "agent_1").config == before
    assert not (finished / "comparison.json").exists()


def test_one_device_needs_no_agents(invoke: Invoke, small_options: Options) -> None:
    assert invoke("train", "tic_tac_toe", "--run", "run", "--devices", "cpu", *small_options()).exit_code == 0
    assert Run("run").config.device == "cpu"


def shown_on_terminal(*agents: Trainee) -> str:
    screen = StringIO()
    console = Console(force_terminal=True, file=screen, width=160, height=40)
    with MultiRunDisplay(console, agents) as display:
        display.on_output(agents[0], "a [warning]")
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


def test_live_display_has_a_row_for_each_agent_and_one_for_all(finished: Path) -> None:
    first, second = (Run(finished / f"agent_{number}") for number in (1, 2))
    result = first.evaluations[-1]
    one = Trainee(first, (0, 1), "training", update=1, steps_per_second=1000.0, seconds_left=75.0)
    two = Trainee(second, (2,), "training", True, 2, 2500.0, 15.0, {"random": result})
    shown = shown_on_terminal(one, two)
    last = shown[shown.rindex("╭") :]
    for line in (
        r"agent_1 +cpu +0-1 +.* 1/4 +1,000 +1:15 +— +training",
        rf"agent_2 +cpu +2 +.* 2/4 +2,500 +0:15 +{100 * result['score']:.1f} % +stopping",
        r"all +0-2 +.* 3/8 +3,500 +1:15 +0 of 2 ended",
    ):
        assert re.search(line, last), last
    assert "agent_1: a [warning]" in shown
    one.state, two.state = "finished", "failed"
    shown = shown_on_terminal(one, two)
    assert re.search(r"agent_1 .* finished", shown)
    assert re.search(r"agent_2 .* failed", shown)
    assert "2 of 2 ended" in shown


def test_without_a_terminal_there_are_lines(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displays, "PLAIN_INTERVAL", 0.0)
    screen, run = StringIO(), Run(finished / "agent_1")
    agents = [Trainee(run, (0,), "training", False, 2, 1500.0, 30.0)] * 2
    with MultiRunDisplay(Console(file=screen, width=100), agents) as display:
        display.on_progress(agents)
        display.on_evaluation(agents[0], 4, run.evaluations[-1])
        agents[0].state = "finished"
        display.on_end(agents[0])
    first, second, third = screen.getvalue().splitlines()
    assert_mentions(first, "updates 2, 2 of 4", "3,000 steps/s", "0:30 left")
    assert_mentions(second, "agent_1", "update 4", "against random")
    assert re.search(r"\d %.*\d % to .*\d %", second)
    assert_mentions(third, "agent_1", "finished", "update 2")


BREAKS_ONCE = """
from senju.games.tic_tac_toe import TicTacToe


class BreaksOnce(TicTacToe):
    def step(self, states, actions, out):
        try:
            open("broken", "x").close()
        except FileExistsError:
            super().step(states, actions, out)
        else:
            raise ZeroDivisionError("on purpose")
"""


@pytest.mark.slow
def test_agent_that_fails_does_not_stop_the_others_and_becomes_on_resume_what_it_would_have_become(
    invoke: Invoke, small_options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_game.py").write_text(BREAKS_ONCE)
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--agents", 2, "--run", "several", *small_options())
    result = invoke("train", "own_game:BreaksOnce", *options)
    assert result.exit_code == 1
    states = {row["name"]: row for row in json.loads(Path("several/comparison.json").read_text())["agents"]}
    (failed,) = (name for name, row in states.items() if row["state"] == "failed")
    (good,) = states.keys() - {failed}
    assert (states[good]["state"], states[good]["update"]) == ("finished", 4)
    assert f"error: {failed} failed" in result.stderr
    assert "ZeroDivisionError: on purpose" in result.stderr.partition(f"{failed} failed")[2]
    assert "senju train --resume several" in result.stdout

    before = Path(f"several/{good}/metrics.jsonl").stat()
    runs = train_several(resume="several")
    assert Path(f"several/{good}/metrics.jsonl").stat() == before  # it was left alone
    for index, run in enumerate(runs):
        alone = senju.train("own_game:BreaksOnce", run=f"alone_{index}", **run_settings(run))
        mine, yours = (each.checkpoints.latest() / "tensors.safetensors" for each in (run, alone))
        assert mine.read_bytes() == yours.read_bytes()


def run_settings(run: Run) -> dict[str, Any]:
    return run.config.model_dump(mode="json", exclude={"game"})


@pytest.mark.slow
def test_killed_agent_is_named_and_a_signal_stops_and_saves_the_others(
    start_senju: Start, small_options: Options, wait_until: WaitUntil, tmp_path: Path
) -> None:
    options = ("--agents", 2, "--run", "several", "--seed", 5, *small_options(**ENDLESS))
    process = start_senju("train", "tic_tac_toe", *options)
    runs = [tmp_path / "several" / f"agent_{number}" for number in (1, 2)]
    wait_until(lambda: all(map(has_updates, runs)), process)
    agents = children(process)
    assert len(agents) == 2
    if hasattr(os, "sched_setaffinity"):
        cores = [set(agent.cpu_affinity()) for agent in agents]
        assert sum(map(len, cores)) == max(2, available_cores())
        assert set.union(*cores) <= os.sched_getaffinity(0)

    (second,) = (agent for agent in agents if json.loads(agent.cmdline()[-1])["index"] == 1)
    second.kill()
    reached = len(Run(runs[0]).metrics)
    wait_until(lambda: has_updates(runs[0], reached + 3), process)  # the others go on
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert not any(agent.is_running() for agent in agents)
    assert re.search(r"error: agent_2 failed.*SIGKILL", errors)
    assert errors.count("stopping") == 1
    assert "senju train --resume several" in output
    assert "Who beats whom" not in output  # after Ctrl-C the user does not want to wait for games
    assert [len(Run(run).checkpoints.all()) for run in runs] == [1, 0]
    assert [Run(run).config.seed for run in runs] == [5, 6]


@pytest.mark.slow
def test_nothing_is_left_running_when_the_parent_is_killed(
    start_senju: Start, small_options: Options, wait_until: WaitUntil, tmp_path: Path
) -> None:
    options = ("--agents", 2, "--workers", 1, "--run", "several", *small_options(**ENDLESS))
    process = start_senju("train", "tic_tac_toe", *options)
    wait_until(lambda: all(has_updates(tmp_path / f"several/agent_{n}") for n in (1, 2)), process)
    everybody = children(process)
    assert len(everybody) == 6  # each agent with its worker and its fork server
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(everybody, timeout=10)
    assert alive == []
