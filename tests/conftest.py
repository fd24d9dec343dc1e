"""What many tests share: runs that train in a moment, and the `senju` command, here or as a process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.testing import CliRunner

import senju
from senju.cli import console
from senju.cli.app import app
from senju.config import Settings, merged
from senju.runs import run_config
from senju.runs.run import Run
from senju.trust import STATE_VARIABLE
from senju.workers.fork_server import ForkServerLease
from tests.facts import Facts

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

SENJU = Path(sys.executable).with_name("senju")
DECISIONS_PER_UPDATE = 32 * 8
SMALL: Settings = {
    "collect": {"num_games": 32, "games_per_shard": 32, "rollout_steps": 8},
    "algorithm": {"name": "ppo", "minibatch_size": 128, "epochs": 1},
    "model": {"name": "mlp", "hidden": [16]},
    "evaluation": {"interval": 0, "games": 4, "opponents": ["random"], "final_opponents": []},
    "checkpoint": {"interval": 1000},
    "threads": 1,
}
ENVIRONMENT = {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}  # wide, so that tables do not wrap


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with worker processes are slow: a fork server takes seconds to start."""
    for item in items:
        if "processes" in getattr(getattr(item, "callspec", None), "params", {}).values():
            item.add_marker(pytest.mark.slow)


class BadSettings(NamedTuple):
    """Settings that must be refused, and the facts that the message must mention."""

    changes: Settings
    expected: Facts
    game: str = "tic_tac_toe"


BAD_SETTINGS = {
    "unknown game": BadSettings({}, ("unknown game", "'conect_four'", "'connect_four'"), "conect_four"),
    "missing module": BadSettings({}, ("game 'no_such:Game'", "module 'no_such'"), "no_such:Game"),
    "not a game": BadSettings({}, ("'pathlib:Path'", "senju.games.game.Game"), "pathlib:Path"),
    "unknown model": BadSettings({"model": {"name": "resnt"}}, ("unknown model", "'resnt'", "'resnet'")),
    "unknown algorithm": BadSettings(
        {"algorithm": {"name": "pppo"}}, ("unknown algorithm", "'pppo'", "'ppo'")
    ),
    "unknown backend": BadSettings(
        {"backend": {"name": "seriel"}}, ("unknown backend", "'seriel'", "'serial'")
    ),
    "unknown key": BadSettings({"totl_steps": 5}, ("unknown setting", "'totl_steps'", "'total_steps'")),
    "unknown inner key": BadSettings(
        {"collect": {"num_game": 32}}, ("unknown setting", "'collect.num_game'", "'num_games'")
    ),
    "unknown model key": BadSettings({"model": {"hiden": [8]}}, ("unknown setting", "'model.hiden'")),
    "unknown algorithm key": BadSettings(
        {"algorithm": {"epoch": 1}}, ("unknown setting", "'algorithm.epoch'", "'epochs'")
    ),
    "shards do not divide": BadSettings(
        {"collect": {"num_games": 10, "games_per_shard": 4}},
        ("num_games=10", "shards of 4", "8 or 12"),
    ),
    "shards too large": BadSettings(
        {"collect": {"num_games": 10, "games_per_shard": 64}}, ("num_games=10", "shards of 64", "try 64")
    ),
    "minibatch does not divide": BadSettings(
        {"algorithm": {"minibatch_size": 100}},
        ("minibatch_size=100", "256 decisions", "32 games × 8 steps", "64 or 128"),
    ),
    "minibatch too large": BadSettings(
        {"algorithm": {"minibatch_size": 1000}}, ("minibatch_size=1000", "256 decisions", "try 256")
    ),
    "odd games": BadSettings({"evaluation": {"games": 3}}, "evaluation.games=3"),
    "no games": BadSettings({"evaluation": {"games": 0}}, "evaluation.games=0"),
    "unknown opponent": BadSettings(
        {"evaluation": {"opponents": ["grandmaster"]}},
        ("opponent 'grandmaster'", "random", "minimax:DEPTH", "greedy:DEPTH", "perfect"),
    ),
    "unknown final opponent": BadSettings(
        {"evaluation": {"final_opponents": ["me"]}}, "unknown opponent 'me'"
    ),
    "minimax without a look": BadSettings(
        {"evaluation": {"opponents": ["minimax:0"]}}, ("minimax:0", "minimax:DEPTH", "1 to 9")
    ),
    "minimax too deep": BadSettings(
        {"evaluation": {"opponents": ["minimax:13"]}}, ("minimax:13", "minimax:DEPTH", "1 to 9")
    ),
    "minimax of no depth": BadSettings(
        {"evaluation": {"opponents": ["minimax:x"]}}, ("minimax:x", "minimax:DEPTH", "1 to 9")
    ),
    "perfect elsewhere": BadSettings(
        {"evaluation": {"opponents": ["perfect"]}},
        ("tic_tac_toe", "solver", "`perfect`", "minimax:DEPTH"),
    ),
    "greedy elsewhere": BadSettings(
        {"evaluation": {"opponents": ["greedy:1"]}},
        ("tic_tac_toe", "heuristic", "minimax:1"),
    ),
    "greedy too deep": BadSettings(
        {"evaluation": {"opponents": ["greedy:3"]}}, ("greedy:3", "greedy:DEPTH", "1 to 2")
    ),
    "giving up too easily": BadSettings({"collect": {"resign_below": 1.1}}, "collect.resign_below=1.1"),
    "more than all exempt": BadSettings({"collect": {"resign_exempt": 2}}, "collect.resign_exempt=2"),
    "resigning where no seat wins": BadSettings(
        {"collect": {"resign_below": 0.9}, "evaluation": {"opponents": []}},
        ("resign_below=0.9", "zero-sum", "two seats", "meeting", "0"),
        "tests.collect.toy_games:Meeting",
    ),
    "absent GPU": BadSettings({"device": "cuda:99"}, "device='cuda:99'"),
    "unknown device": BadSettings({"device": "abacus"}, "device='abacus'"),
    "device without memory": BadSettings({"device": "meta"}, "device='meta'"),
    "device without its module": BadSettings({"device": "hpu"}, "device='hpu'"),
    "no steps": BadSettings({"total_steps": 0}, "total_steps=0"),
    "half a step": BadSettings({"total_steps": 1.5}, "total_steps=1.5"),
    "negative seed": BadSettings({"seed": -1}, "seed=-1"),
    "huge seed": BadSettings({"seed": 2**63}, "seed=9223372036854775808"),
    "negative threads": BadSettings({"threads": -1}, "threads=-1"),
    "no learning": BadSettings({"algorithm": {"learning_rate": 0}}, "algorithm.learning_rate=0"),
    "text for a number": BadSettings({"algorithm": {"epochs": "many"}}, "algorithm.epochs='many'"),
    "no layers": BadSettings({"model": {"hidden": []}}, "model.hidden=[]"),
    "empty layer": BadSettings({"model": {"hidden": [0]}}, "model.hidden.0=0"),
    "epsilon above all": BadSettings(
        {"algorithm": {"name": "dqn", "epsilon_start": 1.5}}, "algorithm.epsilon_start=1.5"
    ),
    "epsilon below nothing": BadSettings(
        {"algorithm": {"name": "dqn", "epsilon_end": -0.1}}, "algorithm.epsilon_end=-0.1"
    ),
    "epsilon that rises": BadSettings(
        {"algorithm": {"name": "dqn", "epsilon_start": 0.1, "epsilon_end": 0.5}},
        ("epsilon_end=0.5", "epsilon_start=0.1"),
    ),
    "opponents' epsilon above all": BadSettings(
        {"collect": {"seating": "opponents"}, "opponents": {"epsilon": 2}}, "opponents.epsilon=2"
    ),
    "no replay": BadSettings({"algorithm": {"name": "dqn", "replay_size": 0}}, "algorithm.replay_size=0"),
    "replay larger than memory": BadSettings(
        {"algorithm": {"name": "dqn", "replay_size": 10**15}}, ("algorithm.replay_size", str(10**15), "MiB")
    ),
    "no learning steps": BadSettings(
        {"algorithm": {"name": "dqn", "steps_per_batch": 0}}, "algorithm.steps_per_batch=0"
    ),
    "learning that never starts": BadSettings(
        {"algorithm": {"name": "dqn", "replay_size": 1000}},
        ("learning_starts=2000", "replay_size=1000"),
    ),
    "unknown key of dqn": BadSettings(
        {"algorithm": {"name": "dqn", "nstep": 2}},
        ("unknown setting", "'algorithm.nstep'", "'n_step'"),
    ),
    "zero opponents": BadSettings(
        {"collect": {"seating": "opponents"}, "opponents": {"snapshot_interval": 0}},
        ("collect.seating=opponents", "opponents.fixed", "opponents.snapshot_interval"),
    ),
    "opponents without a seat": BadSettings(
        {"opponents": {"fixed": ["minimax:2"]}},
        ("opponents.fixed", "'minimax:2'", "collect.seating=self_play"),
    ),
    "opponents in the only seat": BadSettings(
        {"collect": {"seating": "opponents"}, "evaluation": {"opponents": []}},
        ("collect.seating=opponents", "bandit", "one seat"),
        "tests.collect.toy_games:Bandit",
    ),
    "unknown opponent to train against": BadSettings(
        {"collect": {"seating": "opponents"}, "opponents": {"fixed": ["random", "grandmaster"]}},
        ("opponent 'grandmaster'", "random", "minimax:DEPTH", "greedy:DEPTH", "perfect"),
    ),
    "empty pool": BadSettings(
        {"collect": {"seating": "opponents"}, "opponents": {"size": 0}}, "opponents.size=0"
    ),
    "nothing kept": BadSettings({"checkpoint": {"keep": 0}}, "checkpoint.keep=0"),
    "a number for a part": BadSettings({"model": 3}, "model=3"),
    "several at once": BadSettings({"seed": -1, "threads": -2}, "seed=-1"),
}


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is trusted after a test is not trusted by the user who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_VARIABLE, str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_gpu_unless_named() -> Iterator[None]:
    """Runs whose settings name no device use the CPU, also where the tests find a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_config, "find_gpu", lambda: None)
        yield


@pytest.fixture(autouse=True)
def _cuda_is_there(request: pytest.FixtureRequest) -> None:
    """Tests that need a CUDA device are skipped where there is none."""
    if request.node.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def one_math_thread() -> Iterator[None]:
    """Tests share their machine: more threads would only make them wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def bad_settings(request: pytest.FixtureRequest) -> BadSettings:
    """Each of the bad settings in turn."""
    bad: BadSettings = request.param
    return bad


@pytest.fixture
def small() -> Settings:
    """Settings of a run whose update takes milliseconds."""
    return merged(SMALL)


Train = Callable[..., Run]


@pytest.fixture
def train_small(tmp_path: Path) -> Train:
    """Trains `updates` small updates into the folder `name`; further arguments are those of `senju.train`."""

    def train(name: str = "run", game: str = "tic_tac_toe", *, updates: int = 4, **changes: Any) -> Run:
        settings = merged(SMALL, {"total_steps": updates * DECISIONS_PER_UPDATE}, changes)
        return senju.train(game, run=tmp_path / name, **settings)

    return train


@pytest.fixture(scope="session")
def tic_tac_toe_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run with three checkpoints and strength measured twice; not to be written to."""
    watched = {"checkpoint": {"interval": 2}, "evaluation": {"interval": 3}}
    settings = merged(SMALL, {"total_steps": 6 * DECISIONS_PER_UPDATE}, watched)
    return senju.train("tic_tac_toe", run=tmp_path_factory.mktemp("runs") / "tic_tac_toe", **settings)


@pytest.fixture(scope="session")
def connect_four_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of Connect Four; not to be written to."""
    settings = merged(SMALL, {"total_steps": 2 * DECISIONS_PER_UPDATE})
    return senju.train("connect_four", run=tmp_path_factory.mktemp("runs") / "connect_four", **settings)


def as_options(settings: Settings, path: str = "") -> list[str]:
    options: list[str] = []
    for key, value in settings.items():
        if isinstance(value, dict):
            options += as_options(value, f"{path}{key}.")
        else:
            options += ["--set", f"{path}{key}={json.dumps(value)}"]
    return options


Options = Callable[..., list[str]]


@pytest.fixture
def small_options() -> Options:
    """The small settings, with changes, as options of `senju train`."""

    def options(*, updates: int = 4, **changes: Any) -> list[str]:
        return as_options(merged(SMALL, {"total_steps": updates * DECISIONS_PER_UPDATE}, changes))

    return options


class Output(NamedTuple):
    """What a command left behind."""

    exit_code: int
    stdout: str
    stderr: str


Invoke = Callable[..., Output]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs the command line in this process, in an empty folder; an unforeseen error is raised."""
    monkeypatch.chdir(tmp_path)
    for each in (console.out, console.err):  # the environment of the tests may fix their width
        monkeypatch.setattr(each, "_width", None)

    def run(*arguments: object, typed: str | None = None) -> Output:
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=typed, env=ENVIRONMENT)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Output(result.exit_code, result.stdout, result.stderr)

    return run


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_senju(tmp_path: Path) -> Iterator[Start]:
    """Starts the installed `senju` command as a process of its own; none outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **options: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [str(SENJU), *map(str, arguments)],
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **{"cwd": tmp_path, **options},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


WaitUntil = Callable[..., None]


@pytest.fixture
def wait_until() -> WaitUntil:
    """Waits for a condition, up to a deadline; stops early where the process that should meet it ended."""

    def wait(
        condition: Callable[[], object], process: "subprocess.Popen[str]", seconds: float = 180.0
    ) -> None:
        # five processes that start take 15 s of processor time: 60 s where seven programs share two cores
        deadline = time.monotonic() + seconds
        while not condition():
            if process.poll() is not None:
                pytest.fail(f"the process ended with {process.returncode}: {process.communicate()}")
            if time.monotonic() > deadline:
                pytest.fail(f"not so within {seconds} seconds")
            time.sleep(0.002)

    return wait


@pytest.fixture(scope="session")
def _fork_server() -> Iterator[None]:
    kept = ForkServerLease()
    yield
    kept.close()


@pytest.fixture(autouse=True)
def _processes_are_forked(request: pytest.FixtureRequest) -> None:
    """Slow tests start many processes: they share one fork server, which loads everything once."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("_fork_server")
