"""Which nodes of a fabric are alike for flows, so that one stands for all.

Colour refinement: nodes get the colours of what their links lead to and come from, again and again. Two
programs of flows whose nodes get equal colours have the same optimum (Grohe, Kersting, Mladenov and Selman,
"Dimension reduction via colour refinement", 2014), so one maximum flow is enough for both; and nodes of one
colour may be merged into one, since a flow that is spread evenly over them is as large.
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from railweave.framework.analysis.limits.wires import Wires
from railweave.framework.model.arrays import Int32, Int64, Marks, distinct, mixed

MOST_ROUNDS = 16
"""Rounds of refinement; where colours are not settled by then, as on long rings, nothing counts as alike."""
KEPT = 1024
"""Fabrics whose ranks that are alike are kept; each takes some 30 kB at 256 GPUs."""

Whole = Int32 | Int64


class Alike(NamedTuple):
    """Markings that are alike: their places `members`, ascending, and the class (n_nodes,) of every node
    under the first of them, counted from 0."""

    members: Int64
    label: Int64

    @property
    def first(self) -> int:
        return int(self.members[0])


def ranks_alike(wires: Wires, *others: int) -> tuple[Alike, ...]:
    """The ranks that are alike, each marked by itself; in all markings the places `others` in the list of
    ranks are marked, too. Results are kept: they depend on which links pass equally much, not on how much,
    and a study has the same damage at many depths."""
    arrays = wires.src, wires.dst, _same_width(wires), wires.ranks
    return _kept_ranks_alike(
        wires.fabric.n_nodes, *(array.astype(np.int32).tobytes() for array in arrays), *others
    )


@lru_cache(KEPT)
def _kept_ranks_alike(
    n_nodes: int, src: bytes, dst: bytes, width: bytes, ranks: bytes, *others: int
) -> tuple[Alike, ...]:
    ends = np.frombuffer(src, np.int32), np.frombuffer(dst, np.int32)
    members = np.frombuffer(ranks, np.int32)
    marks = np.zeros((len(members), n_nodes), np.int64)
    marks[np.arange(len(marks)), members] = 1
    for other in others:
        marks[:, members[other]] += 2
    return tuple(_alike(n_nodes, ends, np.frombuffer(width, np.int32), members, marks))


def _same_width(wires: Wires) -> Int64:
    """(n_links,): a number for each link, the same for links that pass equally much in any time; numbers
    count from 0 in the order of the links."""
    width = mixed(wires.rate.view(np.int64), wires.free.view(np.int64))
    _, first, number = np.unique(width, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def all_alike(wires: Wires, marks: Int64) -> list[Alike]:
    """Of markings (m, n_nodes) of the nodes, those that are alike."""
    return _alike(wires.fabric.n_nodes, (wires.src, wires.dst), _same_width(wires), wires.ranks, marks)


def _alike(
    n_nodes: int, link_ends: tuple[Whole, Whole], same_width: Whole, ranks: Whole, marks: Int64
) -> list[Alike]:
    order = [np.argsort(end, kind="stable") for end in link_ends]
    far = link_ends[1][order[0]], link_ends[0][order[1]]
    widths = mixed(same_width.astype(np.int64))
    width = [widths[links] | np.uint64(1) for links in order]
    ends = [
        np.searchsorted(end[links], np.arange(n_nodes + 1))
        for end, links in zip(link_ends, order, strict=True)
    ]
    rank = np.zeros((n_nodes, 1), np.int64)
    rank[ranks] = 1
    # (n_nodes, m): whole rows are looked up and added
    colour = mixed(np.ascontiguousarray(marks.T), np.broadcast_to(rank, marks.T.shape))
    count = 0
    for _ in range(MOST_ROUNDS):
        if (now := len(distinct(colour.ravel().view(np.int64)))) == count:
            _, number = np.unique(colour.sum(axis=0), return_inverse=True)
            alike = [np.flatnonzero(number == index) for index in range(int(number.max()) + 1)]
            alike.sort(key=lambda members: int(members[0]))
            return [Alike(same, np.unique(colour[:, same[0]], return_inverse=True)[1]) for same in alike]
        count = now
        shown = mixed(colour)
        colour = mixed(shown, *(_sums(shown[far[way]], width[way], ends[way]) for way in (0, 1)))
    return [Alike(np.array([index]), np.arange(n_nodes)) for index in range(len(marks))]


def _sums(of_link: Marks, width: Marks, ends: Int64) -> Marks:
    """(n_nodes, m): the sum over the links of each node, of (n_links, m) times `width` (n_links,)."""
    of_link *= width[:, None]
    count, m = np.diff(ends), of_link.shape[1]
    sums = np.empty((len(count), m), np.uint64)
    edges = [0, *(np.flatnonzero(np.diff(count)) + 1).tolist(), len(count)]
    for low, high in pairwise(edges):  # nodes with equally many links: reduceat takes three times as long
        rows = of_link[ends[low] : ends[high]].reshape(high - low, count[low], m)
        np.add.reduce(rows, axis=1, out=sums[low:high])
    return sums
