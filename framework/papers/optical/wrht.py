"""Wrht, a tree of groups that gather at their middle node, extended from all-reduce to all-gather.

Source: Dai et al., "Wrht", as Table I of arXiv 2211.15119 compares it: groups of m = 2w + 1 neighbours, so
that every member reaches the middle in one step on its own wavelength; once the middle nodes are so few that
all-to-all fits, ceil(n^2 / 8) <= w, they exchange; then the levels are walked down again. The source defines
no all-gather beyond its number of steps. Here the groups of a level are as even as possible; a member sends
what it holds, one item a step on its wavelength; on the levels down it receives every item it lacks in the
same manner.
"""

from typing import NamedTuple

import numpy as np

from railweave.framework.model.arrays import Int64
from railweave.framework.papers.optical.arcs import ring_exchange
from railweave.framework.papers.optical.closed_forms import check_ring, ring_wavelengths
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan


class Level(NamedTuple):
    """`members` (M,), the middle node at which each gathers, `heads` (M,), and its `wavelength` (M,) in its
    group."""

    members: Int64
    heads: Int64
    wavelength: Int64


def levels(nodes: int, wavelengths: int) -> tuple[list[Level], Int64]:
    """The levels of gathering, lowest first, and the nodes that exchange at the top (a single one holds
    everything)."""
    left = np.arange(nodes)
    tree: list[Level] = []
    while len(left) > 1 and ring_wavelengths(len(left), published=True) > wavelengths:
        groups = np.array_split(left, -(-len(left) // (2 * wavelengths + 1)))
        middles = np.array([group[(len(group) - 1) // 2] for group in groups])
        heads = np.repeat(middles, [len(group) for group in groups])
        distance = np.abs(np.arange(len(left)) - np.searchsorted(left, heads))
        away = distance > 0
        tree.append(Level(left[away], heads[away], distance[away] - 1))
        left = middles
    return tree, left


def stage_needs(nodes: int, wavelengths: int) -> list[tuple[str, int, int]]:
    """(name, steps, wavelengths) of each stage of `wrht_plan`, without building its lightpaths."""
    tree, top = levels(nodes, wavelengths)
    held_items = np.ones(nodes, np.int64)
    up, down = [], []
    for number, level in enumerate(tree, 1):
        lanes = int(level.wavelength.max()) + 1
        up.append((f"gather {number}", int(held_items[level.members].max()), lanes))
        down.append((f"spread {number}", nodes - int(held_items[level.members].min()), lanes))
        np.add.at(held_items, level.heads, held_items[level.members])
    if len(top) > 1:
        up.append(("exchange", int(held_items[top].max()), ring_wavelengths(len(top))))
    return up + down[::-1]


def wrht_plan(nodes: int, wavelengths: int) -> LightpathPlan:
    """Gather up the levels, exchange at the top, spread everything down again."""
    check_ring(nodes, wavelengths)
    tree, top = levels(nodes, wavelengths)
    held_items = [np.array([node]) for node in range(nodes)]
    rows: list[tuple[int, int, int, int, bool, int]] = []
    stages: list[tuple[str, int]] = []

    def send(name: str, paths: list[tuple[int, int, bool, int, Int64]]) -> None:
        """One stage: each (src, dst, up, wavelength, items) lightpath carries an item a step."""
        begin = sum(count for _, count in stages)
        for src, dst, up, wavelength, items in paths:
            rows.extend((begin + i, src, dst, int(item), up, wavelength) for i, item in enumerate(items))
            held_items[dst] = np.concatenate((held_items[dst], items))
        stages.append((name, max(len(path[4]) for path in paths)))

    for number, level in enumerate(tree, 1):
        send(f"gather {number}", [(a, b, a < b, v, held_items[a]) for a, b, v in zip(*level, strict=True)])
    if len(top) > 1:
        arcs, before = ring_exchange(len(top)), list(held_items)
        corners = zip(top[arcs.src], top[arcs.dst], arcs.up, arcs.colour, strict=True)
        send("exchange", [(a, b, up, colour, before[a]) for a, b, up, colour in corners])
    for number, level in reversed(list(enumerate(tree, 1))):
        lacking = [np.setdiff1d(np.arange(nodes), held_items[a]) for a in level.members]
        paths = zip(*level, lacking, strict=True)
        send(f"spread {number}", [(b, a, b < a, v, items) for a, b, v, items in paths])
    table = np.array([(*row, False) for row in rows], np.int64).T
    return LightpathPlan.of_table("wrht", nodes, wavelengths, stages, table)
