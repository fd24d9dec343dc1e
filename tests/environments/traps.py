"""Worlds that do something wrong, at a place that the test chooses."""

import itertools
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.environments.meadow import Buffer, Forager, Meadow, Model


class SpringTrap:
    """Does something once, in the first process that comes by."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def spring(self, name: str) -> None:
        try:
            Path(self.folder, name).touch(exist_ok=False)
        except FileExistsError:
            return
        if name.startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)  # hangs


class Trapped(Meadow):
    """In the 3rd turn of copy 1 a worker dies, and another hangs; so do learners when agent 2 trains."""

    def __init__(self, config: Any, copy: int) -> None:
        super().__init__(config)
        self.copy, self.trap = copy, SpringTrap(config["trap"])
        train = self.agents[2].model.train_step

        def train_step() -> Any:
            epoch = self.agents[2].model.last_epoch
            if epoch > 0:
                self.trap.spring("kill-learner" if epoch == 1 else "hang-learner")
            return train()

        self.agents[2].model.train_step = train_step

    def take_turn(self, epoch: int) -> None:  # type: ignore[override]
        if self.copy == 1 and self.world.turn == 2 and epoch > 0:
            self.trap.spring("kill-worker" if epoch == 1 else "hang-worker")
        super().take_turn()


class RaisingModel(Model):
    """Cannot be trained in epoch 1."""

    def train_step(self) -> Any:
        if self.last_epoch == 1:
            raise ZeroDivisionError("no batch")
        return super().train_step()


class Raising(Meadow):
    """Agent 1 cannot be trained in epoch 1."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.agents[1].model = RaisingModel(50, 4)


class DivergedModel(Model):
    """Its loss is no number from the second epoch on."""

    def end_epoch_action(self, epoch: int) -> None:
        self.is_lost = epoch > 0

    def train_step(self) -> Any:
        loss = super().train_step()
        return math.nan if self.is_lost else loss


class Diverging(Meadow):
    """Agent 1 diverges."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.agents[1].model = DivergedModel(50, 4)


class Overreaching(Meadow):
    """Agent 2 chooses an action that it does not have, in turn 4."""

    def take_turn(self) -> None:
        if self.world.turn == 4:
            self.agents[2].get_action = lambda state: 4  # type: ignore[method-assign]
        super().take_turn()


class Blind(Meadow):
    """Agent 0 cannot see in turn 2."""

    def take_turn(self) -> None:
        if self.world.turn == 2:
            self.agents[0].location = None
        super().take_turn()


class Leaving(Meadow):
    """Ends the whole program in turn 3."""

    def take_turn(self) -> None:
        if self.world.turn == 3:
            raise SystemExit(5)
        super().take_turn()


class Doomed(Meadow):
    """The process that plays it dies."""

    def take_turn(self) -> None:
        os._exit(5)


class Marked(Meadow):
    """Whatever agent i sees is i + 1."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for number, agent in enumerate(self.agents, 1):
            agent.pov = lambda world, number=number: np.full(50, number, np.float32)  # type: ignore[misc]


class Residual(Meadow):
    """Keeps things from episode to episode, and draws from its own generators without a seed."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.num_turns, self.seen = 0, [0]
        self.rng, self.old, self.torch = np.random.default_rng(), np.random.RandomState(), torch.Generator()
        self.dice = random.Random()

    def take_turn(self) -> None:
        self.num_turns += 1
        self.seen.append(self.num_turns)
        draws = (self.rng.random(), self.old.rand(), torch.rand(1, generator=self.torch).item())
        super().take_turn()
        self.world.berries[self.dice.randrange(5), :4] = (len(self.seen), *draws)


class Filing(Residual):
    """Has something that cannot be looked into."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.numbers = itertools.count()

    def take_turn(self) -> None:
        self.num_turns = next(self.numbers)
        super().take_turn()


class Reborn(Meadow):
    """Makes its agents anew in reset."""

    def reset(self) -> None:
        self.agents = [Forager(Model(50, 4)) for _ in self.agents]
        super().reset()


class Secretive(Meadow):
    """Fills memories past add_memory."""

    def take_turn(self) -> None:
        self.agents[1].model.memory.add(np.zeros(50), 0, 0.0, False)


class Growing(Meadow):
    """Agent 0 sees more every turn."""

    def take_turn(self) -> None:
        self.world.turn += 1
        self.agents[0].add_memory(np.zeros(self.world.turn), 0, 0.0, False)


class Forgetful(Meadow):
    """As on-policy models do, agents empty their memories when an epoch begins."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for agent in self.agents:
            agent.model.start_epoch_action = lambda epoch, model=agent.model: model.memory.clear()  # type: ignore[misc]


class Turnless:
    """A world without a turn of its own, whose agents have a memory of another kind."""

    def __init__(self) -> None:
        self.world = Meadow({"experiment": {"max_turns": 9}}).world
        self.agents = [Listing() for _ in range(2)]

    def reset(self) -> None:
        self.world.clear()


class Listing(Forager):
    """Remembers tensors, tuples and dictionaries in a list, and learns nothing but their number."""

    def __init__(self) -> None:
        super().__init__(self)
        self.memory: list[Any] = []
        self.known = 0

    def pov(self, world: Any) -> Any:
        return {"berries": torch.from_numpy(world.berries.copy()), "at": self.location}

    def get_action(self, state: Any) -> Any:
        return int(np.random.randint(4)), 0.25

    def act(self, world: Any, action: Any) -> float:
        return super().act(world, action[0])

    def add_memory(self, state: Any, action: Any, reward: float, done: bool) -> None:
        self.memory.append((state, action, reward, done))

    def train_step(self) -> None:
        self.known = len(self.memory)


SHARED = Meadow({"experiment": {"max_turns": 2}})
SHARED_MODEL = Model(50, 4)
SHARED_NET = torch.nn.Linear(4, 4)
SHARED_BUFFER = Buffer(8, 50)


def _with(change: Any, *numbers: int) -> Meadow:
    meadow = Meadow({"experiment": {"max_turns": 2}})
    for number in numbers:
        change(meadow.agents[number])
    return meadow


def same_world() -> Meadow:
    return SHARED


def same_agent() -> Meadow:
    meadow = Meadow({"experiment": {"max_turns": 2}})
    meadow.agents[0] = SHARED.agents[0]
    return meadow


def same_agent_twice() -> Meadow:
    meadow = Meadow({"experiment": {"max_turns": 2}})
    meadow.agents[2] = meadow.agents[0]
    return meadow


def same_model() -> Meadow:
    return _with(lambda agent: setattr(agent, "model", SHARED_MODEL), 1)


def same_network() -> Meadow:
    return _with(lambda agent: setattr(agent.model, "local", SHARED_NET), 1)


def same_memory() -> Meadow:
    return _with(lambda agent: setattr(agent.model, "memory", SHARED_BUFFER), 0)


def same_array() -> Meadow:
    states = np.zeros((8, 50), np.float32)
    return _with(lambda agent: setattr(agent.model.memory, "states", states), 0, 1)


def tied_weights() -> Meadow:
    meadow = Meadow({"experiment": {"max_turns": 2}, "agents": 2})
    meadow.agents[1].model.target = meadow.agents[0].model.target
    return meadow


class Ending(Meadow):
    """Does in turn 3 what would end a program of its own, by the name in the config."""

    def take_turn(self) -> None:
        if self.world.turn == 3:
            self.end(self.config["end"])
        super().take_turn()

    def end(self, how: str) -> None:
        if how == "SIGINT":
            signal.raise_signal(signal.SIGINT)
            return
        raise {
            "KeyboardInterrupt": KeyboardInterrupt,
            "SystemExit": SystemExit,
            "GeneratorExit": GeneratorExit,
        }[how]("enough")


class EndingModel(Model):
    """Is interrupted when it is trained."""

    def train_step(self) -> Any:
        raise KeyboardInterrupt("enough")


class EndingLesson(Meadow):
    """Agent 1 is interrupted when it is trained."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.agents[1].model = EndingModel(50, 4)


def ending_factory(config: Any, copy: int) -> Meadow:
    """Calls sys.exit() where copy 1 is made."""
    if copy == 1:
        raise SystemExit("enough")
    return Meadow(config)


class Forking(Meadow):
    """Forks in turn 2 of epoch 1, and the child comes back; the process waits for the child's end."""

    def take_turn(self, epoch: int) -> None:  # type: ignore[override]
        if self.world.turn == 2 and epoch == 1:
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
            elif self.config["child"] == "raises":
                raise ZeroDivisionError("in the child")
            elif self.config["child"] == "leaves":
                raise SystemExit
        super().take_turn()


class ForkingLesson(Meadow):
    """Agent 1 forks when it is trained, and both come back."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        model = self.agents[1].model
        train = model.train_step

        def train_step() -> Any:
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
            return train()

        model.train_step = train_step  # type: ignore[method-assign]


SLEEP = [sys.executable, "-c", "import time; time.sleep(1000)"]
HELPERS = ("subprocess", "session", "fork", "orphan", "multiprocessing")


def start_helper(how: str) -> int:
    """Start a process that sleeps; return its number."""
    if how == "subprocess":
        return subprocess.Popen(SLEEP).pid
    if how == "session":
        return subprocess.Popen(SLEEP, start_new_session=True).pid
    if how == "multiprocessing":
        helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        helper.start()
        assert helper.pid is not None
        return helper.pid
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        if how == "orphan" and os.fork():  # its child lives on, in a session of its own
            os._exit(0)
        os.setsid()
        os.write(say, str(os.getpid()).encode())
        time.sleep(1000)
        os._exit(0)
    if how == "orphan":
        os.waitpid(pid, 0)
    found = int(os.read(said, 100))
    os.close(said)
    os.close(say)
    return found


class Helped(Meadow):
    """Keeps helper processes of all kinds, whose numbers are files in a folder; in epoch 1 it may end."""

    def reset(self) -> None:
        super().reset()
        folder = Path(self.config["trap"])
        if os.getpid() != self.config["spared"] and not (folder / f"worker-{os.getpid()}").exists():
            for how in HELPERS:
                (folder / f"helper-{start_helper(how)}").touch()
            (folder / f"worker-{os.getpid()}").touch()

    def take_turn(self, epoch: int) -> None:  # type: ignore[override]
        if epoch == 1 and self.world.turn == 3 and self.config["then"] == "raise":
            raise ZeroDivisionError("enough")
        if epoch == 1 and self.config["then"] == "kill":
            SpringTrap(self.config["trap"]).spring("kill-worker")
        super().take_turn()
