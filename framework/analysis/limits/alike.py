"""Which nodes of a fabric are alike for flows, so that one stands for all.

Colour refinement: nodes get the colours of what their links lead to and come from, again and again. Two
programs of flows whose nodes get equal colours have the same optimum (Grohe, Kersting, Mladenov and Selman,
"Dimension reduction via colour refinement", 2014), so one maximum flow is enough for both; and nodes of one
colour may be merged into one, since a flow that is spread evenly over them is as large.
"""

from typing import NamedTuple

import numpy as np

from railweave.framework.analysis.limits.wires import Wires
from railweave.framework.model.arrays import Int64, Marks, distinct, mixed

MOST_ROUNDS = 16
"""Rounds of refinement; where colours are not settled by then, as on long rings, nothing counts as alike."""


class Alike(NamedTuple):
    """Markings that are alike: the `first` of them, and the class (n_nodes,) of every node under it, counted
    from 0."""

    first: int
    label: Int64


def first_of_alike(wires: Wires, marks: Int64) -> list[Alike]:
    """Of markings (m, n_nodes) of the nodes, the first of all that are alike."""
    order = [np.argsort(end, kind="stable") for end in (wires.src, wires.dst)]
    far = wires.dst[order[0]], wires.src[order[1]]
    widths = mixed(wires.rate.view(np.int64), wires.free.view(np.int64))
    width = [widths[links] | np.uint64(1) for links in order]
    ends = [
        np.searchsorted(end[links], np.arange(wires.fabric.n_nodes + 1))
        for end, links in zip((wires.src, wires.dst), order, strict=True)
    ]
    rank = np.zeros(wires.fabric.n_nodes, np.int64)
    rank[wires.ranks] = 1
    colour = mixed(marks, np.broadcast_to(rank, marks.shape))
    count = 0
    for _ in range(MOST_ROUNDS):
        if (now := len(distinct(colour.ravel().view(np.int64)))) == count:
            first = np.sort(np.unique(colour.sum(axis=1), return_index=True)[1]).tolist()
            return [Alike(one, np.unique(colour[one], return_inverse=True)[1]) for one in first]
        count = now
        shown = mixed(colour)
        by_node = np.ascontiguousarray(shown.T)  # in rows: whole rows are looked up and added
        sums = [_sums(by_node[far[way]] * width[way][:, None], ends[way]) for way in (0, 1)]
        colour = mixed(shown, *sums)
    return [Alike(one, np.arange(wires.fabric.n_nodes)) for one in range(len(marks))]


def _sums(of_link: Marks, ends: Int64) -> Marks:
    """(m, n_nodes): the sum over the links of each node, of (n_links, m)."""
    sums = np.zeros((len(ends) - 1, of_link.shape[1]), np.uint64)
    used = np.flatnonzero(np.diff(ends))
    sums[used] = np.add.reduceat(of_link, ends[used], axis=0)
    return sums.T


def of_ranks(wires: Wires, *others: int) -> Int64:
    """(n_ranks, n_nodes): each rank marked, and in all rows the places `others` in the list of ranks."""
    marks = np.zeros((len(wires.ranks), wires.fabric.n_nodes), np.int64)
    marks[np.arange(len(marks)), wires.ranks] = 1
    for other in others:
        marks[:, wires.ranks[other]] += 2
    return marks
