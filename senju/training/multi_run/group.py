"""Trains several runs side by side: starts their processes, follows them, stops them, leaves none running."""

import math
import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from signal import Signals
from typing import Any, Literal

from senju.runs.interrupt import StopRequest
from senju.runs.run import Run
from senju.training.multi_run.run_role import RunExecutor, RunRole
from senju.training.multi_run.shares import Cores, share_out, usable_cores
from senju.workers.conditions import WakingCondition
from senju.workers.process import ProcessHandle
from senju.workers.role import Limits
from senju.workers.tasks import Assignment, Tasks
from senju.workers.team import Team

State = Literal["starting", "training", "finished", "stopped", "failed"]
LAST_LINES = 20  # of what a failed run printed
ENDED: tuple[State, ...] = ("finished", "stopped", "failed")


@dataclass
class Trainee:
    """One of several agents, and the state of its training."""

    run: Run
    cores: Cores
    state: State = "starting"
    is_asked_to_stop: bool = False
    update: int = 0
    steps_per_second: float = 0.0
    seconds_left: float = 0.0
    strengths: dict[str, dict[str, Any]] = field(default_factory=dict)  # last results, by opponent
    why: str = ""  # the cause of a failure
    last_lines: tuple[str, ...] = ()  # of its output; kept if it failed
    incomplete_line: str = ""  # of its output, without its end so far
    worker: int = -1  # the index of its process

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.run.path.name

    @property
    def total_updates(self) -> int:
        """The number of updates of the whole run."""
        return self.run.config.total_updates


class GroupListener:
    """Called while agents train; override the methods you need."""

    def on_start(self, agents: Sequence[Trainee]) -> None:
        """All processes are started."""

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        """An agent reported progress."""

    def on_evaluation(self, agent: Trainee, update: int, result: dict[str, Any]) -> None:
        """A match of an agent is over."""

    def on_output(self, agent: Trainee, line: str) -> None:
        """An agent printed a line."""

    def on_end(self, agent: Trainee) -> None:
        """An agent finished, stopped or failed."""


def is_finished(run: Run) -> bool:
    """Whether all updates are trained and evaluated."""
    update = run.checkpoints.newest_update
    if update < run.config.total_updates:
        return False
    if run.config.is_independent:
        return any(record["update"] == update for record in run.episodes)
    due = {*run.config.evaluation.opponents, *run.config.evaluation.final_opponents}
    played = [record for record in run.evaluations if record["update"] == update]
    return len(played) >= len(due)


def new_trainees(runs: Sequence[Run]) -> list[Trainee]:
    """A trainee for each run; unfinished ones get an equal share of the cores each."""
    unfinished = [run for run in runs if not is_finished(run)]
    shares = dict(zip(unfinished, share_out(usable_cores(), len(unfinished)), strict=True))
    return [
        Trainee(
            run,
            shares.get(run, ()),
            "starting" if run in shares else "finished",
            update=run.checkpoints.newest_update,
        )
        for run in runs
    ]


def train_agents(
    agents: Sequence[Trainee],
    stop: StopRequest,
    listener: GroupListener | None = None,
    max_updates: int | None = None,
) -> None:
    """Train agents until all have ended; the state of each says how.

    An agent that fails does not stop the others. A stop request goes to all agents, and each saves; an
    exception, as from a second Ctrl-C, ends them at once.
    """
    wake, waker = socket.socketpair()
    with wake, waker, closing(_Group(agents, listener or GroupListener(), max_updates, waker)) as group:
        group.start()
        while any(agent.state not in ENDED for agent in agents):
            stop.wait(wake)
            if stop.signal is not None:
                group.stop(stop.signal)
            group.follow()


class _Group:
    """A team whose worker i trains the i-th unfinished run."""

    def __init__(
        self,
        agents: Sequence[Trainee],
        listener: GroupListener,
        max_updates: int | None,
        waker: socket.socket,
    ) -> None:
        self._agents, self._listener = agents, listener
        self._training = [agent for agent in agents if agent.state not in ENDED]
        for index, agent in enumerate(self._training):
            agent.worker = index
        self._failures: list[tuple[int, str]] = []  # of workers
        self._tasks = Tasks(prefer=lambda agent, workers: int(agent.worker))
        role = RunRole(max_updates, self._on_failure)
        limits = Limits(
            math.inf, math.inf, attempts=1, kills_per_failure=1, reset_interval=1, is_on_demand=True
        )
        executor = RunExecutor([agent.cores for agent in self._training])
        self._team = Team(role, self._tasks, executor, limits, changed=WakingCondition(waker))

    def start(self) -> None:
        self._listener.on_start(self._agents)
        for agent in self._training:
            self._tasks.put(agent)
        if self._training:
            self._team.start(len(self._training))
            self._team.open()

    def _on_failure(self, index: int, why: str) -> None:
        """In the team's thread, under its lock: this run is not tried again."""
        self._failures.append((index, why))
        self._tasks.abandon(Assignment(0, self._training[index]))

    def follow(self) -> None:
        """Handle the messages and the output of the processes."""
        team = self._team
        with team.changed:
            team.wait_for(lambda: True)
            notes, results = team.take_notes(), self._tasks.take()
            failures, self._failures[:] = list(self._failures), []
        for note in notes:
            self._take_note(self._training[note.worker], note.values)
        for agent, result in results:
            if "why" in result:
                self._end(agent, "failed", result["why"])
            else:
                self._end(agent, "finished" if result["is_finished"] else "stopped")
        for index, why in failures:
            if self._training[index].state not in ENDED:
                self._end(self._training[index], "failed", why.partition("; it printed:")[0])

    def _take_note(self, agent: Trainee, values: dict[str, Any]) -> None:
        if "output" in values:
            *lines, agent.incomplete_line = (agent.incomplete_line + values["output"]).split("\n")
            self._take_lines(agent, lines)
        elif "evaluation" in values:
            result = values["evaluation"]
            agent.strengths[result["opponent"]] = result
            self._listener.on_evaluation(agent, values["update"], result)
        else:
            for name, value in values["progress"].items():
                setattr(agent, name, value)
            if agent.state == "starting":
                agent.state = "training"
            self._listener.on_progress(self._agents)

    def _take_lines(self, agent: Trainee, lines: Sequence[str]) -> None:
        agent.last_lines = (*agent.last_lines, *lines)[-LAST_LINES:]
        for line in lines:
            self._listener.on_output(agent, line)

    def _end(self, agent: Trainee, state: State, why: str = "") -> None:
        if agent.incomplete_line:
            self._take_lines(agent, [agent.incomplete_line])
        agent.state, agent.why = state, why
        if state != "failed":
            agent.last_lines = ()
        self._listener.on_end(agent)

    def stop(self, number: Signals) -> None:
        """Ask all agents that train to stop, each once; processes that start later are asked then."""
        for index, handle in self._team.handles().items():
            agent = self._training[index]
            if agent.state in ENDED or agent.is_asked_to_stop or not isinstance(handle, ProcessHandle):
                continue
            agent.is_asked_to_stop = True
            handle.send_signal(number)

    def close(self) -> None:
        """Kill all processes that still run."""
        self._team.close()
        for agent in self._training:
            if agent.state not in ENDED:
                self._end(agent, "failed", "its process was killed before its end")
