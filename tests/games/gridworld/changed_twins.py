"""Twins with one rule changed each, to see that the comparison would notice."""

from collections.abc import Iterator

from tests.games.gridworld.twin_cleanup import APPLE, ORCHARD, POLLUTION, RIVER, TwinCleanup
from tests.games.gridworld.twin_tag import TwinTag
from tests.games.gridworld.twin_treasure_hunt import TwinTreasureHunt
from tests.games.gridworld.twin_world import NOTHING, STEPS, Agent, TwinWorld


class ReversedOrder(TwinWorld):
    """The last agent acts first."""

    def act(self, agent: Agent, action: int) -> None:
        self.waiting = [*getattr(self, "waiting", []), (agent, action)]

    def after_acting(self) -> None:
        for agent, action in reversed(self.waiting):
            super().act(agent, action)
        self.waiting = []
        super().after_acting()


class ChangesFirst(TwinWorld):
    """Things change before all act."""

    def before_acting(self) -> None:
        super().before_acting()
        super().change()

    def change(self) -> None:
        if self.turn == 0:
            super().change()


class HuntInReversedOrder(ReversedOrder, TwinTreasureHunt): ...


class CleanupInReversedOrder(ReversedOrder, TwinCleanup): ...


class TagInReversedOrder(ReversedOrder, TwinTag): ...


class HuntChangesFirst(ChangesFirst, TwinTreasureHunt): ...


class CleanupChangesFirst(ChangesFirst, TwinCleanup): ...


class GrowsUnderAgents(TwinTreasureHunt):
    def change(self) -> None:
        for y, x in self.cells():
            if self.ground[y][x] == NOTHING:
                self.may_grow(y, x)


class WallsAreFree(TwinTreasureHunt):
    def act(self, agent: Agent, action: int) -> None:
        before = agent.reward
        super().act(agent, action)
        agent.reward = max(agent.reward, before)


class LooksUpFirst(TwinTag):
    def first_neighbour(self, it: Agent) -> Agent | None:
        above = self.agent_at(it.y - 1, it.x)
        return above if above and not above.is_it else super().first_neighbour(it)


class ItIsPaidToo(TwinTag):
    def after_acting(self) -> None:
        it = [agent for agent in self.agents if agent.is_it]
        super().after_acting()
        for agent in it:
            agent.reward = self.free_value


class BeamsPassWalls(TwinCleanup):
    def beam_cells(self, agent: Agent) -> Iterator[tuple[int, int]]:
        ahead, right = STEPS[agent.facing], STEPS[(agent.facing + 1) % 4]
        for side in range(-self.beam_sideways, self.beam_sideways + 1):
            for distance in range(1, self.beam_length + 1):
                y = agent.y + distance * ahead[0] + side * right[0]
                x = agent.x + distance * ahead[1] + side * right[1]
                if self.is_inside(y, x):
                    yield y, x


class BeamsStay(TwinCleanup):
    def before_acting(self) -> None: ...


class EatsWhatGrowsBeneath(TwinCleanup):
    def before_acting(self) -> None:
        super().before_acting()
        for agent in self.agents:
            if self.ground[agent.y][agent.x] == APPLE:
                self.ground[agent.y][agent.x] = ORCHARD
                agent.reward += self.apple_value


class HalfIsTooMuch(TwinCleanup):
    """No apples where exactly the most is polluted that may be."""

    def is_clean_enough(self) -> bool:
        dirty, clean = self.count(POLLUTION), self.count(RIVER)
        return dirty < self.most_pollution * (dirty + clean)
