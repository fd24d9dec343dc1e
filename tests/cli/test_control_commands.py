"""`senju status`, `pause`, `resume`, `reset` and `workers` against a server that answers like a run."""

import json
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from rich.console import Console

from senju.cli.status import inspect, render, showing
from senju.errors import ControlError
from senju.runs.control import ControlServer, ask_if_trained
from senju.runs.run import Run
from tests.conftest import Invoke, Start, Train
from tests.facts import Facts, assert_mentions

SECONDS = 60.0
WORKER = {
    "index": 0,
    "state": "playing",
    "pid": 4711,
    "shard": 3,
    "rollouts": 1234,
    "restarts": 2,
    "busy_share": 0.914,
    "memory_bytes": 300 * 2**20,
}
STATUS = {
    "state": "running",
    "pid": 4700,
    "update": 12,
    "total_updates": 2000,
    "steps": 98_304,
    "steps_per_second": 54_321.9,
    "seconds_left": 3675.2,
    "lag": 1.0,
    "explanation": "evaluation-bound 71 %: more workers would help",
    "backend": {
        "backend": "processes",
        "wanted_workers": 3,
        "workers": [WORKER, {**WORKER, "index": 1, "state": "waiting", "shard": None, "pid": 4712}],
        "slots_ready": 4,
        "slots_playing": 2,
        "slots_held": 0,
        "slots_free": 10,
        "version": 12,
        "restarts": 2,
        "set_aside": [5],
        "shared_bytes": 2**21,
        "memory_bytes": 3 * 2**30,
    },
}


class Trained:
    """A run's folder, and a server that gives these answers in order, and repeats the last one."""

    def __init__(self, path: Path, answers: tuple[dict[str, Any], ...]) -> None:
        self.path = path
        self._answers, self._requests = list(answers), Queue[tuple[str, dict[str, Any]]]()
        self._server = ControlServer(path, self._answer).__enter__()
        self.end = self._server.close

    def _answer(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._requests.put((command, arguments))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if "error" in answer:
            raise ControlError(answer["error"])
        return answer

    def next_request(self) -> tuple[str, dict[str, Any]]:
        """What it is asked next."""
        return self._requests.get(timeout=SECONDS)


Answering = Callable[..., Trained]


@pytest.fixture
def answering(tic_tac_toe_run: Run, tmp_path: Path) -> Iterator[Answering]:
    """Starts a server that answers for the run in the folder `name`; none outlives the test."""
    with ExitStack() as ends:

        def start(*answers: dict[str, Any], name: str = "run") -> Trained:
            trained = Trained(Path(shutil.copytree(tic_tac_toe_run.path, tmp_path / name)), answers)
            ends.callback(trained.end)
            return trained

        yield start


def test_status_shows_progress_workers_slots_and_the_bottleneck(invoke: Invoke, answering: Answering) -> None:
    answering(STATUS)
    result = invoke("status", "run")
    assert (result.exit_code, result.stderr) == (0, "")
    cells = [[cell.strip() for cell in line.strip("│┃").split("│")] for line in result.stdout.splitlines()]
    for expected in (
        ["state", "running"],
        ["update", "12 of 2,000"],
        ["steps", "98,304"],
        ["speed", "54,322 steps/s"],
        ["time left", "1:01:15"],
        ["lag", "1"],
        ["backend", "processes"],
        ["workers", "2 of 3"],
        ["slots", "4 ready, 2 playing, 0 held, 10 free"],
        ["restarts", "2"],
        ["memory", "3.0 GiB, shared 2 MiB"],
        ["shards set aside", "5"],
        ["time goes to", "evaluation-bound 71 %: more workers would help"],
        ["0", "playing", "3", "1,234", "2", "91 %", "300 MiB", "4711"],
        ["1", "waiting", "—", "1,234", "2", "91 %", "300 MiB", "4712"],
    ):
        assert expected in cells


def test_status_shows_the_load_of_the_gpu(invoke: Invoke, answering: Answering) -> None:
    load = {"gpu_busy": 0.92, "gpu_memory": 41 * 2**30, "gpu_memory_total": 140 * 2**30}
    answering({**STATUS, **load})
    shown = " ".join(invoke("status", "run").stdout.split())
    assert_mentions(shown, "GPU", "92 % busy, 41.0 GiB of 140.0 GiB")
    assert load.items() <= json.loads(invoke("status", "run", "--json").stdout).items()


def test_status_as_json_is_the_whole_answer(invoke: Invoke, answering: Answering) -> None:
    answering(STATUS)
    assert json.loads(invoke("status", "run", "--json").stdout) == {"run": "run", **STATUS}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"state": "starting"},
        {"state": "starting", "backend": None, "seconds_left": None, "lag": None},
        {"state": "running", "gpu_busy": None},
        {"state": "paused", "backend": {"workers": [{}]}, "steps_per_second": float("inf"), "update": "x"},
    ],
)
def test_status_with_parts_missing_is_shown_all_the_same(answer: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=120)
    console.print(render({"run": "run", "state": "—", **answer}))
    assert "— of —" in console.file.getvalue()  # type: ignore[attr-defined]


def test_status_of_a_finished_run_shows_the_facts_of_its_folder(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    result = invoke("status", tic_tac_toe_run.path)
    assert (result.exit_code, result.stderr) == (0, "")
    for expected in ("finished", "6 of 6", "1,536", "update_000000006", "entropy", "against random"):
        assert expected in result.stdout
    assert result.stdout.rstrip().endswith("not being trained now.")


def test_status_of_a_stopped_run_says_how_to_go_on(invoke: Invoke, train_small: Train) -> None:
    train_small(updates=4, max_updates=1)
    result = invoke("status", "run")
    assert result.exit_code == 0
    for expected in ("stopped", "1 of 4", "senju train --resume run"):
        assert expected in result.stdout
    document = json.loads(invoke("status", "run", "--json").stdout)
    assert (document["state"], document["update"], document["total_updates"]) == ("stopped", 1, 4)
    assert document["metrics"]["update"] == 1


def test_status_of_a_run_that_never_began_is_shown(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    Run.create(Path("new"), tic_tac_toe_run.config)
    result = invoke("status", "new")
    assert result.exit_code == 0
    assert "0 of 6" in result.stdout


def test_status_of_a_killed_run_is_that_of_its_folder(
    invoke: Invoke, tic_tac_toe_run: Run, tmp_path: Path
) -> None:
    shutil.copytree(tic_tac_toe_run.path, tmp_path / "run")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind("run/control.sock")
    assert "finished" in invoke("status", "run").stdout


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watching_a_run_that_is_not_trained_shows_it_once(
    invoke: Invoke, tic_tac_toe_run: Run, options: list[str]
) -> None:
    result = invoke("status", tic_tac_toe_run.path, "--watch", *options)
    assert result.exit_code == 0
    assert result.stdout == invoke("status", tic_tac_toe_run.path, *options).stdout


@pytest.mark.slow
def test_watching_goes_on_until_the_run_ends(start_senju: Start, answering: Answering) -> None:
    trained = answering(STATUS, {**STATUS, "update": 13})
    process = start_senju("status", "run", "--watch", "--interval", "0.1")
    assert process.stdout is not None
    assert process.stdout.readline() == "running, update 12 of 2,000, 54,322 steps/s, 1:01:15 left\n"
    assert process.stdout.readline() == "running, update 13 of 2,000, 54,322 steps/s, 1:01:15 left\n"
    trained.end()
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, "")
    assert "finished" in output


@pytest.mark.slow
def test_watching_as_json_prints_documents_and_ends_well_with_ctrl_c(
    start_senju: Start, answering: Answering
) -> None:
    trained = answering(STATUS)
    process = start_senju("status", "run", "--watch", "--json", "--interval", "0.1")
    for _ in range(3):
        assert trained.next_request() == ("status", {})
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, "")
    first, end = json.JSONDecoder().raw_decode(output)
    assert first == {"run": "run", **STATUS}
    assert json.JSONDecoder().raw_decode(output[end:].lstrip())[0] == first
    assert ask_if_trained(trained.path, "status") == STATUS  # the run goes on


def test_watching_on_a_terminal_draws_the_tables_anew(answering: Answering) -> None:
    trained = answering(STATUS, {**STATUS, "update": 13})
    screen = StringIO()
    with showing(Console(force_terminal=True, file=screen, width=140, height=60), True, False) as show:
        show(inspect(trained.path))
        show(inspect(trained.path))
    drawn = screen.getvalue()
    assert drawn.index("12 of 2,000") < drawn.index("13 of 2,000")
    assert "\x1b[" in drawn  # the cursor went back


def test_pause_says_after_which_update_the_run_stands(invoke: Invoke, answering: Answering) -> None:
    trained = answering({"state": "paused", "update": 12})
    result = invoke("pause", "run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert_mentions(result.stdout, "Paused", "update 12", "senju resume run")
    assert trained.next_request()[0] == "pause"


def test_pause_waits_for_as_long_as_the_update_takes(invoke: Invoke, answering: Answering) -> None:
    pausing = {"state": "pausing", "update": 11}
    trained = answering(pausing, pausing, {"state": "paused", "update": 12})
    result = invoke("pause", "run", "--json")
    assert json.loads(result.stdout) == {"run": "run", "state": "paused", "update": 12}
    assert [trained.next_request()[0] for _ in range(3)] == ["pause"] * 3


def test_pause_taken_back_meanwhile_is_an_error(invoke: Invoke, answering: Answering) -> None:
    answering({"state": "pausing", "update": 11}, {"state": "running", "update": 12})
    result = invoke("pause", "run")
    assert (result.exit_code, result.stdout) == (1, "")
    assert_mentions(result.stderr, "run", "not pause")


@pytest.mark.slow
def test_pause_interrupted_says_what_the_run_will_do(start_senju: Start, answering: Answering) -> None:
    trained = answering({"state": "pausing", "update": 11})
    process = start_senju("pause", "run")
    assert trained.next_request()[0] == "pause"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (130, "")
    assert "resume" in errors
    assert "Traceback" not in errors


def test_resume_says_where_the_run_goes_on(invoke: Invoke, answering: Answering) -> None:
    trained = answering({"state": "running", "update": 12})
    assert_mentions(invoke("resume", "run").stdout, "update 12")
    assert trained.next_request() == ("resume", {})
    document = json.loads(invoke("resume", "run", "--json").stdout)
    assert document == {"run": "run", "state": "running", "update": 12}


@pytest.mark.parametrize(
    ("options", "asked", "replaced", "said"),
    [
        ([], None, [0, 1], "Workers 0, 1"),
        (["--worker", "1"], (1,), [1], "Worker 1"),
        (["--worker", "0", "--worker", "2"], (0, 2), [0, 2], "Workers 0, 2"),
        ([], None, [], "No worker"),
    ],
)
def test_reset_replaces_all_workers_or_those_named(
    invoke: Invoke, answering: Answering, options: list[str], asked: object, replaced: list[int], said: str
) -> None:
    trained = answering({"workers": replaced})
    assert_mentions(invoke("reset", "run", *options).stdout, said, "replaced")
    assert trained.next_request() == ("reset", {"workers": asked})


@pytest.mark.parametrize("order", [["run", "2"], ["2", "run"]])
def test_workers_takes_folder_and_number_in_either_order(
    invoke: Invoke, answering: Answering, order: list[str]
) -> None:
    trained = answering({"workers": 2})
    assert_mentions(invoke("workers", *order).stdout, "2 workers")
    assert trained.next_request() == ("workers", {"num_workers": 2})
    assert json.loads(invoke("workers", *order, "--json").stdout) == {"run": "run", "workers": 2}


def test_run_whose_name_is_a_number_comes_first(invoke: Invoke, answering: Answering) -> None:
    trained = answering({"workers": 1}, name="7")
    assert_mentions(invoke("workers", "7", "1").stdout, "1 worker")
    assert trained.next_request() == ("workers", {"num_workers": 1})


def test_fewer_workers_than_requested_are_reported(invoke: Invoke, answering: Answering) -> None:
    answering({"workers": 2})
    assert_mentions(invoke("workers", "run", "9").stdout, "2 workers", "9")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "many"], ("'run', 'many'", "1 or more")),
        (["run", "0"], ("'run', '0'", "1 or more")),
        (["0", "run"], ("'0', 'run'", "1 or more")),
        (["run", "²"], ("'run', '²'", "1 or more")),
        (["run"], "Missing argument"),
        (["run", "--", "-1"], ("'run', '-1'", "1 or more")),
    ],
)
def test_workers_without_a_number_is_refused(invoke: Invoke, arguments: list[str], expected: Facts) -> None:
    result = invoke("workers", *arguments)
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)


COMMANDS = [["status"], ["pause"], ["resume"], ["reset"], ["workers", "2"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_refusal_of_the_run_is_shown(invoke: Invoke, answering: Answering, command: list[str]) -> None:
    answering({"error": "no: [the run] has its reasons"})
    result = invoke(*command, "run")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: no: [the run] has its reasons\n"


@pytest.mark.parametrize("command", COMMANDS[1:], ids=lambda command: command[0])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_run_that_is_not_trained_cannot_be_controlled(
    invoke: Invoke, tic_tac_toe_run: Run, command: list[str], options: list[str]
) -> None:
    path = tic_tac_toe_run.path
    result = invoke(*command, path, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"senju train --resume {path}" in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_folder_that_is_no_run_is_refused(invoke: Invoke, command: list[str]) -> None:
    result = invoke(*command, "nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert_mentions(result.stderr, "error: nothing", "not a run", "config.yaml")
