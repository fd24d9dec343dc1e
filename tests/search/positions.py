"""Positions and trees that several tests look at."""

import numpy as np

from senju.games.game import Game, States
from senju.games.rows import CLOCK, Rows, choose_at_random
from senju.search.puct import TreeSearch
from senju.search.tree import Tree


def random_positions(game: Game, num_rows: int, num_moves: int, seed: int = 0) -> States:
    """Positions after random moves; rows whose game ended before are left out."""
    states = Rows(game, np.arange(num_rows, dtype=np.uint32), seed).states
    for step in range(num_moves):
        seen, outcomes = game.new_observations(len(states)), game.new_outcomes(len(states))
        game.observe(states, seen)
        clock, actions = np.zeros(len(states), CLOCK), np.zeros((len(states), 1), np.int32)
        clock["row"], clock["step"] = np.arange(len(states)), step
        choose_at_random(seen.legal, clock, np.uint64(seed), 1, actions)
        game.step(states, actions, outcomes)
        states = states[~(outcomes.terminated | outcomes.truncated)]
    return states


def tree_of(search: TreeSearch) -> Tree:
    return search._tree


def check_tree(tree: Tree) -> None:
    """What holds in every tree between two batches."""
    nodes = tree.nodes[: tree.num_nodes]
    assert not nodes["pending"].any()
    assert (nodes["lower"] <= nodes["upper"]).all()
    assert (nodes["parent"][1:] < np.arange(1, len(nodes))).all()
    for index, node in enumerate(nodes):
        edges = tree.edges[node["first_edge"] : node["first_edge"] + node["num_edges"]]
        opened, unopened = edges[: node["num_opened"]], edges[node["num_opened"] :]
        assert len(set(edges["action"].tolist())) == len(edges)  # no move twice
        children = nodes[opened["child"]]
        assert (children["parent"] == index).all()
        assert (children["action"] == opened["action"]).all()
        assert (children["depth"] == node["depth"] + 1).all()
        if len(unopened):
            assert unopened["prior"][0] == unopened["prior"].max()
        if len(edges):  # every visit but the first went on to a child
            assert node["visits"] == 1 + children["visits"].sum()
            assert abs(edges["prior"].sum() - 1.0) < 1e-5
