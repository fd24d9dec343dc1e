"""Turns a declared world into tables of numbers for the kernels."""

import math

import numpy as np
from numpy.typing import NDArray

from senju.config import nearest
from senju.errors import ConfigError
from senju.games.gridworld.core import layout as at
from senju.games.gridworld.core.layout import NONE, Tables
from senju.games.gridworld.names import OWN_PLANES, Names
from senju.games.gridworld.rules import NOTHING, Spawn, WorldRules
from senju.kernels import pack_legal


def state_dtype(grid_shape: tuple[int, ...], num_agents: int) -> np.dtype[np.void]:
    """The dtype of one row's state."""
    agents = (num_agents,)
    return np.dtype(
        [
            ("key", np.uint64),
            ("turn", np.uint32),
            ("grid", np.uint8, grid_shape),  # [layer, row, column] of kinds
            ("y", np.uint8, agents),
            ("x", np.uint8, agents),
            ("facing", np.uint8, agents),
            ("marked", np.uint8, agents),
        ]
    )


def make_tables(rules: WorldRules, names: Names) -> Tables:
    """The tables of a world; raises ConfigError if its rules are inconsistent."""
    beams, spawns, scatters = rules.beams, rules.spawns, rules.scatters
    if max(len(spawns), len(scatters)) > at.MOST_RULES:
        raise ConfigError(
            f"{len(spawns)} spawns, {len(scatters)} scatters; expected at most {at.MOST_RULES} each"
        )
    most_kinds = max((len(spawn.kinds) for spawn in spawns), default=1)
    spawn_kinds = np.zeros((len(spawns), most_kinds), np.uint8)
    for rule, spawn in enumerate(spawns):
        kinds = [names.kind(kind, f"spawning on {spawn.onto}") for kind in spawn.kinds]
        spawn_kinds[rule, : len(kinds)] = kinds
    limits = [spawn.only_while.at_most if spawn.only_while else 1.0 for spawn in spawns]
    beam_rows = [[names.kinds.index(beam.name), beam.length, beam.sideways] for beam in beams]
    # unit_interval(word) < p is (word >> 11) < p * 2**53
    thresholds = [math.ceil(math.ldexp(spawn.probability, 53)) for spawn in spawns]
    return Tables(
        sizes=_sizes(rules, names),
        kinds=_kinds(rules, names),
        values=np.array([0.0, *[kind.value for kind in rules.kinds], *[0.0] * len(beams)]),
        actions=_actions(rules),
        legal=pack_legal(np.ones(len(rules.actions), np.bool_)),
        beams=_table(beam_rows, at.BEAM_COLUMNS),
        beam_changes=_beam_changes(rules, names),
        hit_values=np.array([beam.hit_value for beam in beams], np.float64),
        spawns=_table([_spawn(spawn, names) for spawn in spawns], at.SPAWN_COLUMNS),
        spawn_kinds=spawn_kinds,
        thresholds=np.array(thresholds, np.uint64),
        limits=np.array(limits, np.float64),
        scatters=_scatters(rules, names),
        map=names.map.reshape(-1).copy(),
        starts=_starts(rules, names),
        tag_value=np.array([rules.tag.value if rules.tag else 0.0]),
    )


def _table(rows: list[list[int]], columns: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), columns)


def _sizes(rules: WorldRules, names: Names) -> NDArray[np.int64]:
    sizes = np.full(at.NUM_SIZES, NONE, np.int64)
    _, height, width = names.map.shape
    sizes[at.HEIGHT], sizes[at.WIDTH], sizes[at.LAYERS] = height, width, names.num_layers
    if rules.beams:
        sizes[at.BEAM_LAYER] = names.num_layers
    sizes[at.AGENTS], sizes[at.MAX_TURNS] = rules.num_agents, rules.max_turns
    fields = state_dtype(names.map.shape, rules.num_agents).fields
    assert fields is not None
    offsets = [fields[field][1] for field in ("grid", "y", "x", "facing", "marked")]
    sizes[at.GRID_AT : at.MARKED_AT + 1] = offsets
    view, planes = rules.view, names.planes
    sizes[at.PLANES], sizes[at.VIEW_HEIGHT], sizes[at.VIEW_WIDTH] = names.view_shape
    cells = names.view_shape[1] * names.view_shape[2]
    if view.shows_position and cells < max(height, width):
        raise ConfigError(
            f"a view of {cells} cells is too small for shows_position on a map of {height}×{width}; "
            f"use a larger radius, for at least {max(height, width)} cells"
        )
    if view.radius is not None:
        sizes[at.RADIUS] = view.radius
    if view.outside is not None:
        sizes[at.OUTSIDE] = names.kind(view.outside, "view.outside")
    if view.shows_mark and rules.tag is None:
        raise ConfigError("view.shows_mark needs tag=TagRule(…)")
    for index, plane in zip(range(at.AGENT_PLANE, at.COLUMN_PLANE + 1), OWN_PLANES, strict=True):
        sizes[index] = planes.index(plane) if plane in planes else NONE
    if rules.tag and not 0 <= rules.tag.num_marked <= rules.num_agents:
        raise ConfigError(f"num_marked={rules.tag.num_marked}; expected 0 to num_agents={rules.num_agents}")
    sizes[at.NUM_MARKED] = rules.tag.num_marked if rules.tag else NONE
    return sizes


def _kinds(rules: WorldRules, names: Names) -> NDArray[np.int64]:
    table = np.zeros((len(names.kinds), at.KIND_COLUMNS), np.int64)
    table[:, at.IS_PASSABLE] = True
    table[:, at.LEAVES] = np.arange(len(table))
    table[:, at.PLANE] = [names.planes.index(kind) if kind in names.planes else NONE for kind in names.kinds]
    for index, kind in enumerate(rules.kinds, 1):
        table[index, at.IS_PASSABLE], table[index, at.STOPS_BEAMS] = kind.is_passable, kind.stops_beams
        if not math.isfinite(kind.value):
            raise ConfigError(f"kind {kind.name}: value={kind.value}; expected a finite number")
        if kind.leaves is not None:
            where = f"kind {kind.name}: leaves"
            table[index, at.LEAVES] = _becomes(names, where, kind.name, kind.leaves)
    return table


def _becomes(names: Names, where: str, old: str, new: str) -> int:
    """The number of the kind that replaces another one: of the same layer, or nothing."""
    before, after = names.kind(old, where), names.kind(new, where)
    if before and after and names.layers[before] != names.layers[after]:
        raise ConfigError(
            f"{where}: {old} is in layer {names.layers[before]}, {new} in layer {names.layers[after]}; "
            "a kind can only replace another one of the same layer"
        )
    return after


def _actions(rules: WorldRules) -> NDArray[np.int64]:
    beams = [beam.name for beam in rules.beams]
    table = np.full((len(rules.actions), at.ACTION_COLUMNS), NONE, np.int64)
    for index, action in enumerate(rules.actions):
        if action.direction is not None:
            table[index, at.DIRECTION] = action.direction
        if action.beam is not None:
            if action.beam not in beams:
                hint = nearest(action.beam, beams)
                raise ConfigError(f"action {action.name}: unknown beam {action.beam!r}; {hint}")
            table[index, at.BEAM] = beams.index(action.beam)
    return table


def _beam_changes(rules: WorldRules, names: Names) -> NDArray[np.uint8]:
    changes = np.tile(np.arange(len(names.kinds), dtype=np.uint8), (len(rules.beams), 1))
    for index, beam in enumerate(rules.beams):
        for old, new in beam.changes.items():
            where = f"beam {beam.name}: changes"
            if old == NOTHING:
                raise ConfigError(f"{where}: a beam cannot change {NOTHING}; name kinds of things")
            changes[index, names.kind(old, where)] = _becomes(names, where, old, new)
    return changes


def _spawn(spawn: Spawn, names: Names) -> list[int]:
    where = f"spawning on {spawn.onto}"
    named = [kind for kind in (spawn.onto, *spawn.kinds) if kind != NOTHING]
    if not named:
        raise ConfigError(f"{where}: kinds has only {NOTHING}; name a kind of thing")
    for kind in spawn.kinds:
        _becomes(names, where, named[0], kind)
    layer = names.layers[names.kind(named[0], where)]
    columns = [names.kind(spawn.onto, where), layer, len(spawn.kinds), int(spawn.under_agents)]
    share = spawn.only_while
    if share is None:
        return [*columns, NONE, NONE, NONE, NONE]
    kinds = [names.kind(kind, f"{where}: only_while") for kind in (share.kind, share.other)]
    return [*columns, *kinds, *[names.layers[kind] if kind else layer for kind in kinds]]


def _scatters(rules: WorldRules, names: Names) -> NDArray[np.int64]:
    """The table of scatters; each takes its cells from those that earlier ones left."""
    rows, room = [], [np.bincount(layer.reshape(-1), minlength=len(names.kinds)) for layer in names.map]
    for scatter in rules.scatters:
        where = f"scattering {scatter.kind}"
        kind, onto = names.kind(scatter.kind, where), names.kind(scatter.onto, where)
        _becomes(names, where, scatter.onto, scatter.kind)
        cells = room[names.layers[kind or onto]]
        if not 0 <= scatter.count <= cells[onto]:
            raise ConfigError(
                f"{where}: count={scatter.count}, but the map has {cells[onto]} cells of {scatter.onto}; "
                f"use 0 to {cells[onto]}"
            )
        cells[onto] -= scatter.count
        cells[kind] += scatter.count
        rows.append([kind, onto, names.layers[kind or onto], scatter.count])
    return _table(rows, at.SCATTER_COLUMNS)


def _starts(rules: WorldRules, names: Names) -> NDArray[np.int64]:
    """The cells on which agents may start, row by row."""
    wanted = [names.kind(kind, "start_on") for kind in rules.start_on]
    passable = np.array([True, *[kind.is_passable for kind in rules.kinds]])
    grid = names.map[: names.num_layers].reshape(names.num_layers, -1)
    is_empty = (grid == 0).all(axis=0)
    holds_wanted = np.isin(grid, [kind for kind in wanted if kind]).any(axis=0)
    is_free = passable[grid].all(axis=0) & (holds_wanted | (is_empty & (0 in wanted)))
    starts = np.flatnonzero(is_free).astype(np.int64)
    _, height, width = names.map.shape
    what = f"the map of {height}×{width}"
    if not len(starts):
        raise ConfigError(
            f"{what} has no free cell of the kind {' or '.join(rules.start_on)} for agents to start on; "
            "change the map or start_on"
        )
    blocking = {kind.name for kind in rules.kinds if not kind.is_passable}
    num_free = len(starts) - sum(each.count for each in rules.scatters if each.kind in blocking)
    if num_free < rules.num_agents:
        raise ConfigError(
            f"{what} has {num_free} free cells for agents to start on, too few for "
            f"num_agents={rules.num_agents}; use at most {num_free} or a larger map"
        )
    return starts
