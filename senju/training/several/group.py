"""Agents side by side: started, followed, asked to stop, and none left running."""

import json
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from selectors import EVENT_READ, DefaultSelector
from signal import Signals
from typing import Any, Literal

from senju.training.interrupt import StopRequest
from senju.training.run import Run
from senju.training.several.folder import is_finished, saved_update
from senju.training.several.process import AgentProcess
from senju.training.several.shares import Cores, share_out, usable_cores

State = Literal["starting", "training", "finished", "stopped", "failed"]
ENDED: tuple[State, ...] = ("finished", "stopped", "failed")


@dataclass
class Trainee:
    """One of several agents, and what is known of its training."""

    run: Run
    cores: Cores
    state: State = "starting"
    is_asked_to_stop: bool = False
    update: int = 0
    steps_per_second: float = 0.0
    seconds_left: float = 0.0
    strengths: dict[str, dict[str, Any]] = field(default_factory=dict)  # last results, by opponent
    why: str = ""  # where it failed
    last_lines: tuple[str, ...] = ()  # of what it printed, where it failed

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.run.path.name

    @property
    def total_updates(self) -> int:
        """Updates until it is done."""
        return self.run.config.total_updates


class GroupListener:
    """Told what happens while agents train, in a thread of its own; every method may be left as it is."""

    def on_start(self, agents: Sequence[Trainee]) -> None:
        """All processes are started."""

    def on_progress(self, agents: Sequence[Trainee]) -> None:
        """One of them has come further."""

    def on_evaluation(self, agent: Trainee, update: int, result: dict[str, Any]) -> None:
        """A match of one of them is over."""

    def on_output(self, agent: Trainee, line: str) -> None:
        """One of them printed a line."""

    def on_end(self, agent: Trainee) -> None:
        """One of them has ended, well or not."""


def seat_agents(runs: Sequence[Run]) -> list[Trainee]:
    """Agents for these runs; those that have something left to do share the cores out."""
    unfinished = [run for run in runs if not is_finished(run)]
    shares = dict(zip(unfinished, share_out(usable_cores(), len(unfinished)), strict=True))
    return [
        Trainee(
            run,
            shares.get(run, ()),
            "starting" if run in shares else "finished",
            update=saved_update(run),
        )
        for run in runs
    ]


def train_agents(
    agents: Sequence[Trainee],
    stop: StopRequest,
    listener: GroupListener | None = None,
    max_updates: int | None = None,
) -> None:
    """Train agents until all have ended; what became of each is in it.

    One that fails does not stop the others. A stop is passed on to all, and each saves; an exception, like
    that of a second Ctrl-C, ends them at once.
    """
    wake, waker = socket.socketpair()
    group = _Group(agents, listener or GroupListener(), max_updates)
    with wake, waker, closing(group), ThreadPoolExecutor(1) as executor:
        try:
            group.start()
            following = executor.submit(group.follow)
            following.add_done_callback(lambda _: waker.send(b"."))
            has_stopped = False
            while not following.done():
                stop.wait(wake)
                if stop.signal is not None and not has_stopped:
                    group.stop(stop.signal)
                    has_stopped = True
            following.result()
        finally:
            group.kill()  # the thread that follows them sees their ends, and only then are pipes closed


class _Group:
    """The processes of agents."""

    def __init__(self, agents: Sequence[Trainee], listener: GroupListener, max_updates: int | None) -> None:
        self._agents, self._listener, self._max_updates = agents, listener, max_updates
        self._processes: list[tuple[Trainee, AgentProcess]] = []

    def start(self) -> None:
        for agent in self._agents:
            if agent.state in ENDED:
                continue
            try:
                process = AgentProcess(agent.run.path, agent.cores, self._max_updates, agent.run.trust)
            except OSError as error:  # no memory, too many files or processes
                agent.state, agent.why = "failed", f"its process cannot be started: {error.strerror}"
            else:
                self._processes.append((agent, process))

    def follow(self) -> None:
        """Take in what the processes tell and print, until the last has ended."""
        self._listener.on_start(self._agents)
        for agent in self._agents:
            if agent.state == "failed":
                self._listener.on_end(agent)
        with DefaultSelector() as selector:
            for agent, process in self._processes:
                for pipe in (process.events, process.output):
                    selector.register(pipe, EVENT_READ, (agent, process))
            while selector.get_map():
                for key, _ in selector.select():
                    self._read(selector, key.fd, *key.data)

    def _read(self, selector: DefaultSelector, pipe: int, agent: Trainee, process: AgentProcess) -> None:
        if pipe not in selector.get_map():
            return  # it has ended since the selector looked
        lines = process.read_lines(pipe)
        if pipe == process.output:
            if lines is None:
                selector.unregister(pipe)
            self._take_output(agent, process, lines or [])
        elif lines is not None:
            for line in lines:
                self._take(agent, json.loads(line))
        else:  # the end of its events is the end of the process
            for each in {process.events, process.output} & set(selector.get_map()):
                selector.unregister(each)
            self._end(agent, process)

    def _take_output(self, agent: Trainee, process: AgentProcess, lines: list[str]) -> None:
        process.last_lines.extend(lines)
        for line in lines:
            self._listener.on_output(agent, line)

    def _take(self, agent: Trainee, told: dict[str, Any]) -> None:
        event = told.pop("event")
        if event in ("began", "progress"):
            for name in ("update", "steps_per_second", "seconds_left"):
                setattr(agent, name, told.get(name, getattr(agent, name)))
            if agent.state == "starting":
                agent.state = "training"
            self._listener.on_progress(self._agents)
        elif event == "evaluation":
            agent.strengths[told["result"]["opponent"]] = told["result"]
            self._listener.on_evaluation(agent, told["update"], told["result"])
        elif event == "failed":
            agent.why = told["why"]
        else:
            agent.state = "finished" if told["is_finished"] else "stopped"

    def _end(self, agent: Trainee, process: AgentProcess) -> None:
        how = process.wait()
        self._take_output(agent, process, process.read_rest())
        if agent.state not in ENDED:
            agent.why = agent.why or f"its process {how or 'ended without a word'}"
            agent.state, agent.last_lines = "failed", tuple(process.last_lines)
        self._listener.on_end(agent)

    def stop(self, number: Signals) -> None:
        """Ask all that still train to stop."""
        for agent, process in self._processes:
            if agent.state not in ENDED:
                agent.is_asked_to_stop = True
                process.send_signal(number)

    def kill(self) -> None:
        """End those that still run at once."""
        for _, process in self._processes:
            process.kill()

    def close(self) -> None:
        for _, process in self._processes:
            process.close()
