"""What the user's code raises to end a program, and a fork that returns twice, are reported."""

import os
from typing import Any

import pytest

from senju.environments.environment import ParallelEnvironment
from senju.errors import WorkerError
from tests.environments import traps
from tests.environments.meadow import make_config
from tests.environments.runs import knowledge
from tests.facts import mentions

IN_PROCESS = {"enabled": False}
THREAD = {"use_threads": True, "num_workers": 1, "num_learners": 1}
PROCESS = {"num_workers": 1, "num_learners": 1}


def run(factory: Any, parallel: dict[str, Any], **config: Any) -> ParallelEnvironment:
    env = ParallelEnvironment(factory, make_config(**parallel) | config)
    env.run_experiment_parallel()
    return env


@pytest.mark.parametrize("end", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_what_a_world_raises_to_end_the_program_is_reported_by_a_thread(end: str) -> None:
    expected = mentions("epoch 0", "copy 0", "turn 3", "world", f"{end}: enough")
    with pytest.raises(WorkerError, match=expected):
        run(traps.Ending, THREAD, end=end)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_what_a_world_raises_to_end_the_program_is_reported_by_a_process(end: str) -> None:
    expected = mentions("epoch 0", "copy 0", "turn 3", "world", f"{end}: enough", "worker 0")
    with pytest.raises(WorkerError, match=expected):
        run(traps.Ending, PROCESS, end=end)


@pytest.mark.parametrize(
    ("end", "expected"),
    [("SystemExit", WorkerError), ("GeneratorExit", WorkerError), ("KeyboardInterrupt", KeyboardInterrupt)],
)
def test_in_process_all_but_an_interrupt_which_may_be_ctrl_c_is_reported(
    end: str, expected: type[BaseException]
) -> None:
    with pytest.raises(expected, match="enough"):
        run(traps.Ending, IN_PROCESS, end=end)


@pytest.mark.slow
def test_interrupt_that_a_world_sends_to_its_worker_changes_nothing() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(traps.Ending, IN_PROCESS, end="SIGINT")
    assert knowledge(run(traps.Ending, PROCESS, end="SIGINT")) == knowledge(run(traps.Meadow, IN_PROCESS))


@pytest.mark.parametrize("parallel", [THREAD, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_interrupt_raised_by_a_model_that_learns_is_reported(parallel: dict[str, Any]) -> None:
    expected = mentions("epoch 0", "turn 6", "agent 1 (Forager)", "learning", "KeyboardInterrupt: enough")
    with pytest.raises(WorkerError, match=expected):
        run(traps.EndingLesson, parallel)


@pytest.mark.parametrize("parallel", [IN_PROCESS, THREAD, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_factory_that_exits_is_reported(parallel: dict[str, Any]) -> None:
    with pytest.raises(WorkerError, match=mentions("copy 1", "world", "SystemExit: enough")):
        run(traps.ending_factory, parallel)


@pytest.mark.parametrize("parallel", [IN_PROCESS, THREAD, pytest.param(PROCESS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("child", "expected"),
    [("returns", "returned"), ("raises", "ZeroDivisionError: in the child")],
)
def test_fork_that_returns_twice_is_refused(parallel: dict[str, Any], child: str, expected: str) -> None:
    pid = os.getpid()
    forking = r"\d+" if parallel is PROCESS else str(pid)  # elsewhere a worker forks
    with pytest.raises(
        WorkerError, match=rf"os\.fork\(\) .*process {forking}\b.* child, process \d+, .*{expected}"
    ):
        run(traps.Forking, parallel, child=child)
    assert os.getpid() == pid


@pytest.mark.parametrize("parallel", [IN_PROCESS, THREAD, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_forked_child_that_exits_changes_nothing(parallel: dict[str, Any]) -> None:
    assert knowledge(run(traps.Forking, parallel, child="leaves")) == knowledge(run(traps.Meadow, IN_PROCESS))


@pytest.mark.parametrize("parallel", [IN_PROCESS, THREAD, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_model_that_forks_when_it_learns_is_refused(parallel: dict[str, Any]) -> None:
    with pytest.raises(WorkerError, match=r"os\.fork\(\)"):
        run(traps.ForkingLesson, parallel)
