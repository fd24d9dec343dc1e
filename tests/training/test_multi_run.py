"""Several agents: shares of cores and devices, folders, processes, and the comparison."""

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import senju
from senju.config import Settings, merged
from senju.errors import ConfigError, RunFolderError
from senju.machine import available_cores
from senju.runs.interrupt import StopRequest
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.training.multi_run.api import is_of_several, open_agents, prepare_several, train_several
from senju.training.multi_run.comparison import COMPARISON, compare, play_each_other, save_comparison
from senju.training.multi_run.group import GroupListener, Trainee, is_finished, new_trainees, train_agents
from senju.training.multi_run.shares import deal_out, on_cores, parse_devices, share_out, usable_cores
from tests.conftest import DECISIONS_PER_UPDATE, SMALL, Train
from tests.facts import Facts, mentions
from tests.training.worlds import hunt_settings


@pytest.mark.parametrize("num_agents", range(1, 12))
@pytest.mark.parametrize("num_cores", [1, 2, 3, 8, 48])
def test_cores_are_shared_out_fairly(num_cores: int, num_agents: int) -> None:
    cores = list(range(100, 100 + num_cores))
    shares = share_out(cores, num_agents)
    assert len(shares) == num_agents
    given = [core for share in shares for core in share]
    if num_agents <= num_cores:
        assert sorted(given) == cores  # all of them, none twice
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    else:
        assert [len(share) for share in shares] == [1] * num_agents
        turns = [given.count(core) for core in cores]
        assert max(turns) - min(turns) <= 1


def test_zero_agents_need_no_cores() -> None:
    assert share_out([0, 1], 0) == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinities")
def test_process_limited_to_cores_sees_no_others() -> None:
    before, core = os.sched_getaffinity(0), usable_cores()[-1]
    assert set(usable_cores()) <= before
    assert len(usable_cores()) == available_cores()
    with on_cores((core,)):
        assert available_cores() == 1
        assert usable_cores() == (core,)
    assert os.sched_getaffinity(0) == before


def test_devices_go_round_and_none_is_left_without_work() -> None:
    assert deal_out(["a", "b"], 5) == ["a", "b", "a", "b", "a"]
    with pytest.raises(ConfigError, match="3 devices for 2 agents"):
        deal_out(["a", "b", "c"], 2)


@pytest.mark.parametrize("text", ["", "cpu,", ",", "cuda:0,,cuda:1", " "])
def test_device_that_is_empty_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=mentions(repr(text), "cuda:0,cuda:1")):
        parse_devices(text)


@pytest.fixture
def settings() -> Settings:
    return merged(SMALL, {"total_steps": 4 * DECISIONS_PER_UPDATE})


def create(folder: Path, settings: Settings, num_agents: int = 2, **options: Any) -> list[Run]:
    given = {"game": "tic_tac_toe", "devices": (), "run": folder, "resume": None, **options}
    return prepare_several(num_agents=num_agents, settings=settings, **given)


def test_new_agents_are_runs_with_seeds_that_count_up(tmp_path: Path, settings: Settings) -> None:
    runs = create(tmp_path / "several", {**settings, "seed": 7}, 3)
    assert [run.path for run in runs] == [tmp_path / "several" / f"agent_{n}" for n in (1, 2, 3)]
    assert [run.config.seed for run in runs] == [7, 8, 9]
    first, *others = (run.config.model_dump(exclude={"seed"}) for run in runs)
    assert all(other == first for other in others)
    assert is_of_several(tmp_path / "several")
    assert not is_of_several(runs[0].path)
    assert [run.path for run in open_agents(tmp_path / "several")] == [run.path for run in runs]


def test_math_threads_fit_an_agents_share_of_the_cores(tmp_path: Path, settings: Settings) -> None:
    settings["threads"], cores = 0, usable_cores()  # as many as there are cores
    runs = create(tmp_path / "several", settings, len(cores))
    assert [run.config.threads for run in runs] == [1] * len(cores)
    alone = create(tmp_path / "alone", settings, 1)
    assert [run.config.threads for run in alone] == [len(cores)]


def test_many_agents_are_ordered_by_number(tmp_path: Path, settings: Settings) -> None:
    create(tmp_path / "several", settings, 11)
    assert [run.config.seed for run in open_agents(tmp_path / "several")] == list(range(11))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"num_agents": 0}, ("agents=0", "1 to 256")),
        ({"num_agents": 257}, ("agents=257", "1 to 256")),
        ({"devices": ["cpu", "cuda:99"]}, "device='cuda:99'"),
        ({"devices": ["cpu"] * 3}, "3 devices for 2 agents"),
        ({"changes": {"seed": 2**63 - 1}}, f"seed={2**63}"),  # the second agent's
        ({"game": "__main__:Mine"}, "__main__"),
        ({"preset": "large"}, ("preset 'large'", "tic_tac_toe")),
        ({"changes": {"evaluation": {"opponents": ["me"]}}}, "unknown opponent 'me'"),
        ({"changes": {"opponents": "pool,"}}, ("opponents='pool,'", "number 2", "empty")),
        ({"changes": {"opponents": ["__main__:mine"]}}, ("'__main__:mine'", "script")),
    ],
)
def test_agents_that_cannot_be_trained_leave_no_folder(
    tmp_path: Path, settings: Settings, options: dict[str, Any], expected: Facts
) -> None:
    given = merged(settings, options.pop("changes", {}))
    with pytest.raises(ConfigError, match=mentions(expected)):
        create(tmp_path / "runs" / "several", given, **options)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_taken_stays_as_it_is(tmp_path: Path, settings: Settings, train_small: Train) -> None:
    create(tmp_path / "several", settings)
    with pytest.raises(RunFolderError, match=mentions("several", "exists", "--resume")):
        create(tmp_path / "several", settings, 3)
    assert len(open_agents(tmp_path / "several")) == 2
    (tmp_path / "mine").mkdir()
    with pytest.raises(RunFolderError, match=mentions("mine", "exists")):
        create(tmp_path / "mine", settings)
    with pytest.raises(RunFolderError, match=mentions("run folder", "/proc/several")):
        create(Path("/proc/several"), settings)


def test_agents_of_another_kind_or_missing_are_refused(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "several"
    with pytest.raises(RunFolderError, match=mentions("several", "no agents")):
        open_agents(folder)
    runs = create(folder, settings, 3)
    longer = merged(settings, {"game": "tic_tac_toe", "seed": 9, "total_steps": 10**6})
    runs[1].save_config(resolve_config(None, longer))
    assert len(open_agents(folder)) == 3  # more steps do not make it another kind
    wider = merged(longer, {"model": {"hidden": [8]}, "collect": {"rollout_steps": 16}})
    runs[1].save_config(resolve_config(None, wider))
    with pytest.raises(RunFolderError, match=mentions("agent_1", "agent_2", "differ", "collect, model")):
        open_agents(folder)
    (runs[1].path / "config.yaml").unlink()
    with pytest.raises(RunFolderError, match=r"agent_2 is missing"):
        open_agents(folder)


@pytest.mark.parametrize(
    ("learners", "interval", "is_alike"), [("stacked", 1, True), ("sequential", 2, False)]
)
def test_agents_that_learn_in_another_way_belong_together_unless_the_result_differs(
    tmp_path: Path, learners: str, interval: int, is_alike: bool
) -> None:
    other = hunt_settings(seats={}, learners=learners, parallel={"enabled": True, "train_interval": interval})
    for number, settings in enumerate((hunt_settings(learners="sequential"), other), 1):
        Run.create(tmp_path / f"agent_{number}", resolve_config(None, {**settings, "seats": {}}))
    if is_alike:
        assert len(open_agents(tmp_path)) == 2
    else:
        with pytest.raises(RunFolderError, match=mentions("agent_2", "parallel.train_interval")):
            open_agents(tmp_path)


def test_run_is_finished_when_nothing_is_left_to_train_or_to_measure(train_small: Train) -> None:
    run = train_small(max_updates=2)
    assert not is_finished(run)
    senju.train(resume=run.path)
    assert is_finished(run)
    run.save_config(
        run.config.model_copy(
            update={
                "evaluation": run.config.evaluation.model_copy(update={"final_opponents": ("minimax:1",)})
            }
        )
    )
    assert not is_finished(run)


def test_finished_agents_take_no_cores(train_small: Train) -> None:
    done, half = train_small("several/agent_1"), train_small("several/agent_2", seed=1, max_updates=2)
    first, second = new_trainees([done, half])
    assert (first.state, first.cores, first.update) == ("finished", (), 4)
    assert (second.state, second.cores, second.update) == ("starting", usable_cores(), 2)


def finished(*runs: Run) -> list[Trainee]:
    return [Trainee(run, (), "finished") for run in runs]


def test_comparison_has_each_agent_and_mean_and_spread(train_small: Train, tmp_path: Path) -> None:
    agents = finished(train_small("several/agent_1"), train_small("several/agent_2", seed=1))
    agents.append(Trainee(create(tmp_path / "other", SMALL, 1)[0], (1,), "failed", why="it broke"))
    agents[2].last_lines = ("ZeroDivisionError",)
    found = compare(tmp_path / "several", agents)
    assert found["finished"] is False
    assert [row["seed"] for row in found["agents"]] == [0, 1, 0]
    assert [row["steps"] for row in found["agents"]] == [1024, 1024, 0]
    assert [row.get("why") for row in found["agents"]] == [None, None, "it broke"]
    assert found["agents"][2]["last_lines"] == ["ZeroDivisionError"]
    scores = [agent.run.evaluations[-1]["score"] for agent in agents[:2]]
    spread = found["strengths"]["random"]
    assert (spread["low"], spread["high"], spread["agents"]) == (min(scores), max(scores), 2)
    assert spread["mean"] == pytest.approx(sum(scores) / 2)
    assert spread["deviation"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    assert found["steps_per_second"]["agents"] == 2
    save_comparison(tmp_path / "several", found)
    assert json.loads((tmp_path / "several" / COMPARISON).read_text()) == found
    with pytest.raises(RunFolderError, match=r"cannot write .*nowhere"):
        save_comparison(tmp_path / "nowhere", found)


def test_agents_that_have_not_failed_play_each_other(train_small: Train, tmp_path: Path) -> None:
    agents = finished(*(train_small(f"several/agent_{n}", seed=n) for n in (1, 2, 3)))
    agents[1].state = "failed"
    result = play_each_other(tmp_path / "several", agents, StopRequest(), games=4)
    assert result is not None
    assert list(result.names) == ["agent_1@4", "agent_3@4"]
    assert result.between(0, 1).score.games <= 4
    agents[2].state = "failed"
    assert play_each_other(tmp_path / "several", agents, StopRequest()) is None


def test_agents_of_a_game_without_matches_do_not_meet(train_small: Train, tmp_path: Path) -> None:
    game = "tests.collect.toy_games:Meeting"
    runs = [train_small(f"agent_{n}", game, updates=1, evaluation={"opponents": []}) for n in (1, 2)]
    assert play_each_other(tmp_path, finished(*runs), StopRequest()) is None


class Heard(GroupListener):
    """Records the calls of a listener, in order."""

    def __init__(self) -> None:
        self.ends: list[Trainee] = []
        self.updates: list[tuple[int, ...]] = []

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        self.updates.append(tuple(agent.update for agent in agents))

    def on_end(self, agent: Trainee) -> None:
        self.ends.append(agent)


class Impatient(StopRequest):
    """A stop request after two presses of Ctrl-C."""

    def wait(self, wake: socket.socket) -> None:
        raise KeyboardInterrupt


class Hasty(StopRequest):
    """A stop request from before the first process was started."""

    def __init__(self) -> None:
        super().__init__()
        self.signal = signal.SIGTERM

    def wait(self, wake: socket.socket) -> None:
        """Look all the time, so that a process is asked as soon as it is there."""
        if select.select([wake], [], [], 0.001)[0]:
            super().wait(wake)


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not tell")
def test_second_interrupt_ends_all_agents_at_once(tmp_path: Path, settings: Settings) -> None:
    files, running = open_files(), set(psutil.Process().children())
    agents = new_trainees(create(tmp_path / "several", settings))
    heard = Heard()
    with pytest.raises(KeyboardInterrupt):
        train_agents(agents, Impatient(), heard)
    assert set(psutil.Process().children()) == running
    assert open_files() == files
    assert [agent.state for agent in agents] == ["failed"] * 2
    assert all("killed" in agent.why for agent in agents)
    assert heard.ends == agents


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not tell")
def test_process_that_cannot_be_started_is_that_agents_failure(
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, heard = open_files(), Heard()
    agents = new_trainees(create(tmp_path / "several", settings))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    train_agents(agents, StopRequest(), heard)
    assert heard.ends == agents
    assert [agent.state for agent in agents] == ["failed"] * 2
    assert all("No such file or directory" in agent.why for agent in agents)
    assert open_files() == files
    assert caplog.text == "", "the process that trains them reports it"


@pytest.mark.slow
def test_agent_that_is_asked_to_stop_while_it_starts_saves_all_the_same(
    tmp_path: Path, settings: Settings
) -> None:
    runs, heard = create(tmp_path / "several", settings), Heard()
    agents = new_trainees(runs)
    train_agents(agents, Hasty(), heard)  # Python itself is not up yet
    assert [agent.state for agent in agents] == ["stopped"] * 2, [agent.last_lines for agent in agents]
    assert heard.updates == [(0, 0)] * 2, "where each began"
    assert sorted(agent.name for agent in heard.ends) == ["agent_1", "agent_2"]
    for run in runs:
        assert [path.name for path in run.checkpoints.all()] == ["update_000000000"]


class Killer(Heard):
    """Kills the process of the first agent, once, when it trains."""

    has_killed = False

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        if not self.has_killed and agents[0].state == "training":
            self.has_killed = True
            (process,) = (each for each in psutil.Process().children() if is_trainer(each, index=0))
            process.kill()


def is_trainer(process: psutil.Process, index: int) -> bool:
    """Whether a process trains the run of that number."""
    try:
        start = json.loads(process.cmdline()[-1])
    except psutil.NoSuchProcess:  # another run's process has just ended
        return False
    return bool(start.get("index") == index and "RunHandler" in start["entry"])


@pytest.mark.slow
def test_killed_agent_has_failed_and_is_not_tried_again(tmp_path: Path, settings: Settings) -> None:
    """A killed agent is not restarted; the others are trained to their end."""
    endless = merged(settings, {"total_steps": 10**6 * DECISIONS_PER_UPDATE})
    agents = new_trainees(create(tmp_path / "several", settings))
    agents[0].run.save_config(resolve_config(None, merged(endless, {"game": "tic_tac_toe"})))
    heard = Killer()
    train_agents(agents, StopRequest(), heard)
    assert [agent.state for agent in agents] == ["failed", "finished"]
    assert "SIGKILL" in agents[0].why
    assert "agent_1" in agents[0].why
    assert [agent.name for agent in heard.ends].count("agent_1") == 1
    assert agents[1].update == 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "how many agents"),
        ({"agents": 2, "max_updates": 0}, ("max_updates=0", "1 or more")),
        ({"resume": "several", "run": "other"}, ("run='other'", "new agents")),
        ({"resume": "several", "preset": "gpu"}, ("preset='gpu'", "new agents")),
        ({"resume": "several", "agents": 3}, ("agents=3", "several", "2")),
        ({"resume": "several", "devices": ["cpu"]}, ("device", "cannot change")),
        ({"resume": "several", "seed": 3}, ("seed", "cannot change")),
    ],
)
def test_invalid_requests_are_explained(
    tmp_path: Path,
    settings: Settings,
    options: dict[str, Any],
    expected: Facts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    create(Path("several"), settings)
    with pytest.raises(ConfigError, match=mentions(expected)):
        train_several(None if "resume" in options else "tic_tac_toe", **options)
    assert [run.config.seed for run in open_agents(Path("several"))] == [0, 1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_devices_are_looked_for_before_anything_starts(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(ConfigError, match="device='cuda:1'"):
        train_several(
            "tic_tac_toe", agents=2, devices=["cpu", "cuda:1"], run=tmp_path / "several", **settings
        )
    assert list(tmp_path.iterdir()) == []
