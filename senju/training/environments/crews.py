"""The two kinds of processes: those that play, and those that teach agents and know them."""

import contextlib

from senju.training.environments.block import Block
from senju.training.environments.processes import Member, Processes, Start
from senju.training.environments.tasks import Episode, Learnt, Lesson, Result, Task


class PlayerProcesses(Processes):
    """Any of them plays any episode."""

    role, name = "player", "worker"

    def _queue_of(self, task: Task) -> int:
        return 0

    def _serves(self, member: Member, queue: int) -> bool:
        return True

    def _can_do_without(self, member: Member) -> bool:
        return len(self.members) > 1

    def _send(self, member: Member, task: Task) -> None:
        """An episode, after what has been published since this process played last."""
        assert isinstance(task, Episode)
        for agent, (version, block) in enumerate(task.acting):
            if member.versions.get(agent) != version:
                member.channel.send("acting", block, agent=agent, version=version)
                member.versions[agent] = version
        member.channel.send("play", copy=task.copy, epoch=task.epoch)


class LearnerProcesses(Processes):
    """Each knows some of the agents, and nobody else does.

    What is kept here of an agent is its last written state and the lessons since: a process that takes
    another's place gets the state and takes these lessons again, by the same random numbers.
    """

    role, name = "learner", "learner"
    needs_states = True

    def __init__(self, start: Start, num_processes: int, states: list[Block]) -> None:
        self.states = states
        self._since: list[list[Lesson]] = [[] for _ in states]
        super().__init__(start, num_processes)
        for member in self.members:
            self._prepare(member)

    def _queue_of(self, task: Task) -> int:
        assert isinstance(task, Lesson)
        return task.agent % len(self.members)

    def _serves(self, member: Member, queue: int) -> bool:
        return member.index == queue

    def _prepare(self, member: Member) -> list[Task]:
        again: list[Task] = []
        for agent, state in enumerate(self.states):
            if agent % len(self.members) == member.index:
                with contextlib.suppress(ConnectionError):  # its end, which comes next, tells more
                    member.channel.send("state", state, agent=agent)
                again += self._since[agent]
        return again

    def _send(self, member: Member, task: Task) -> None:
        assert isinstance(task, Lesson)
        values = {"agent": task.agent, "epoch": task.epoch, "trains": task.trains, "keeps": task.keeps}
        member.channel.send("lesson", task.experience, **values)

    def _learn_of(self, task: Task, result: Result) -> None:
        assert isinstance(task, Lesson)
        assert isinstance(result, Learnt)
        if result.state is not None:
            self.states[task.agent], self._since[task.agent] = result.state, []
        elif task not in self._since[task.agent]:
            self._since[task.agent].append(task)
