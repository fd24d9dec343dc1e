"""A process of a user's own world, once it is booted: it plays episodes, or it is some agents' learner."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

from senju.algorithms.optimising import load_optimizers
from senju.backends.processes.main import Told, prepare_for_work, run
from senju.errors import SenjuError, WorkerError
from senju.training.environments.block import Block, bundle, unbundle
from senju.training.environments.channel import Channel, Message, shortened
from senju.training.environments.config import RunSettings, WorldConfig
from senju.training.environments.contract import check_world
from senju.training.environments.copies import Player, described
from senju.training.environments.factory import WorldFactory
from senju.training.environments.generators import Purpose, seed_of, set_generators
from senju.training.environments.learners import Learners
from senju.training.environments.tasks import Episode, Learnt, Lesson, Played, Published, Result
from senju.usercode import ending_forked_child

preload = load_optimizers  # which the nursery calls


def work(index: int, connection: int, descriptor: int) -> bool:
    """Serve until the parent is gone; return whether the end was asked for."""
    return run(connection, lambda told: told, lambda _, told: _serve(Channel.of_descriptor(descriptor), told))


def _serve(channel: Channel, told: Told) -> bool:
    """Take messages; whatever goes wrong is told to the parent, which decides."""
    try:
        with ending_forked_child(partial(_tell, channel)):
            handle = _new_server(channel, told)
        gc.freeze()  # what has been imported is not looked through again and again
        channel.send("ready")
    except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; travels to the parent
        return _tell(channel, error)
    while (message := channel.receive()) is not None:
        try:
            handle(message)
        except ConnectionError:  # the parent closed its end, and will end this process
            return False
        except BaseException as error:  # noqa: BLE001  # the user's code may raise anything; travels to the parent
            return _tell(channel, error)
    return False


def _tell(channel: Channel, error: BaseException) -> bool:
    """Say what went wrong, in words that name agent, turn and epoch where they are known."""
    is_ours = isinstance(error, SenjuError)
    name = type(error).__name__ if is_ours else WorkerError.__name__
    text = str(error) if is_ours else described(error)
    channel.send("error", error=name, text=shortened(text))
    return False


def _new_server(channel: Channel, told: Told) -> Callable[[Message], None]:
    prepare_for_work(told["script"], f"the module of the factory {told['factory']}")
    config = channel.receive()
    assert config is not None
    assert config.block is not None
    world_config = WorldConfig.unpacked(told["config_kind"], config.block)
    factory, settings = WorldFactory(told["factory"]), RunSettings(**told["settings"])
    if told["role"] == "player":
        return _PlayerServer(channel, Player(factory, world_config, settings), told["num_agents"]).handle
    seed = settings.parallel.seed
    set_generators(seed, Purpose.CENTRE)
    env = factory.make(world_config.copy(), seed_of(seed, Purpose.CENTRE), 0)
    check_world(env)
    return _LearnerServer(channel, Learners(env, settings)).handle


class _PlayerServer:
    """Keeps what was published, and plays by it."""

    def __init__(self, channel: Channel, player: Player, num_agents: int) -> None:
        self._channel, self._player = channel, player
        self._acting: list[Any] = [None] * num_agents

    def handle(self, message: Message) -> None:
        """Take what an agent acts by, or play an episode."""
        if message.kind == "acting":
            self._acting[message.values["agent"]] = Published(message.values["version"], message.block)  # type: ignore[arg-type]  # it comes with a block
            return
        with ending_forked_child(partial(_tell, self._channel)):
            played = self._player.play(Episode(**message.values, acting=tuple(self._acting)))
        self._channel.send("experience", bundle(played.experience))
        self._channel.send("played", **_without_blocks(played, "experience"))


class _LearnerServer:
    """Keeps agents, and teaches them."""

    def __init__(self, channel: Channel, learners: Learners) -> None:
        self._channel, self._learners = channel, learners

    def handle(self, message: Message) -> None:
        """Take an agent's state, or give an agent a lesson."""
        assert message.block is not None
        if message.kind == "state":
            self._learners.put_state(message.values["agent"], message.block)
            return
        with ending_forked_child(partial(_tell, self._channel)):
            learnt = self._learners.learn(Lesson(**message.values, experience=message.block))
        if learnt.state is not None:
            self._channel.send("state", learnt.state)
        self._channel.send("acting", learnt.acting)
        self._channel.send("learnt", **_without_blocks(learnt, "acting", "state"))


def _without_blocks(result: Result, *names: str) -> dict[str, Any]:
    return {name: value for name, value in result._asdict().items() if name not in names}


def of_messages(kind: str, values: dict[str, Any], blocks: dict[str, list[Block]], track: str) -> Result:
    """A result as the parent puts it together again."""
    values = values | {"track": track}
    if kind == "played":
        values["rewards"] = tuple(values["rewards"])
        return Played(**values, experience=tuple(unbundle(blocks["experience"][0])))
    state = blocks["state"][0] if blocks.get("state") else None
    return Learnt(**values, acting=blocks["acting"][0], state=state)
