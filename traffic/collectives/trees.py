"""Trees over ranks, as the parent of every rank (-1 at the root): NCCL's binary trees, and the binomial tree.
All-reduce and broadcast along trees or a chain, in chunks that follow one another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.arithmetic import count_of, nonzero_input
from railweave.traffic.collectives.entries import Entries, Parts, columns, parts_of
from railweave.traffic.collectives.operations import AllReduce, Operation, longest_s

CHAIN, TREE = "chain", "tree"
CHUNKS = 8
"""Parts of a tree's half: all levels of the tree send at once."""


def double_binary_tree(n: int) -> tuple[Int64, Int64]:
    """Parents in NCCL's two trees over n ranks: a rank with children in one is a leaf in the other, where
    possible.

    The second tree is the first one mirrored (n even) or shifted by one rank (n odd).

    Source: Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    2009; the shape is that of NCCL's src/graph/trees.cc.
    """
    first = [binary_parent(rank, n) for rank in range(n)]
    if n % 2:
        second = [-1 if (up := first[(rank - 1) % n]) < 0 else (up + 1) % n for rank in range(n)]
    else:
        second = [-1 if (up := first[n - 1 - rank]) < 0 else n - 1 - up for rank in range(n)]
    return np.array(first), np.array(second)


def binary_parent(rank: int, n: int) -> int:
    """A rank's parent in the tree whose root is 0 and where odd ranks are leaves: its lowest set bit moves up
    by one place or, where that leads beyond the n ranks, is cleared."""
    if rank == 0:
        return -1
    low = rank & -rank
    up = (rank ^ low) | (low << 1)
    return up if up < n else rank ^ low


def binomial_parent(rank: int) -> int:
    """A rank's parent in the binomial tree with root 0: the rank without its lowest set bit."""
    return -1 if rank == 0 else rank & (rank - 1)


def children_of(parents: Int64) -> Int64:
    """(n, most): the children of every rank, ascending, then -1."""
    child = np.flatnonzero(parents >= 0)
    child = child[np.argsort(parents[child], kind="stable")]
    parent = parents[child]
    place = np.arange(len(child)) - np.searchsorted(parent, parent)
    children = np.full((len(parents), int(place.max(initial=-1)) + 1), -1)
    children[parent, place] = child
    return children


def depths_of(parents: Int64) -> Int64:
    """How many steps every rank is below its root."""
    depths, ancestors = (parents >= 0).astype(np.int64), parents
    while (below := ancestors >= 0).any():  # depth below an ancestor 1, 2, 4 ... steps up, and its own
        depths += np.where(below, depths[ancestors], 0)
        ancestors = np.where(below, ancestors[ancestors], -1)
    return depths


class TreeAllReduce(AllReduce):
    """Each of NCCL's two binary trees reduces half of the buffer to its root and passes the result down
    again, in chunks that follow one another.

    Ranks are the nodes of the trees; NCCL has servers there, and a chain of GPUs inside each. Source: as
    double_binary_tree.
    """

    summary = "double binary tree (NCCL's), half of the buffer on each, in chunks; any fabric"
    name = "tree-all-reduce"
    parameters: tuple[Parameter, ...] = (
        Parameter("chunks", CHUNKS, "count", "parts of each tree's half that follow one another", 1, 4096),
    )

    def __init__(self, chunks: int = CHUNKS) -> None:
        self._chunks = chunks

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        for phase in ("reduce", "broadcast"):
            entries.phase(phase)
        halves = parts_of(0, count, 2)
        trees = double_binary_tree(len(ranks))
        for parents, first, length in zip(trees, *halves, strict=True):
            if length:
                _add_tree(entries, parents, parts_of(first, length, min(self._chunks, int(length))))


def _add_tree(entries: Entries, parents: Int64, spans: Parts) -> None:
    """Send every chunk up the tree and down again; in time slots, so that no chunk queues on its way up
    behind another on its way down."""
    children, depths = children_of(parents), depths_of(parents)
    deepest = int(depths.max())
    below = np.flatnonzero(parents >= 0)
    by_depth = below[np.argsort(depths[below], kind="stable")]
    from_leaves = by_depth[::-1]
    for chunk, (first, length) in enumerate(zip(*spans, strict=True)):
        up, down = np.full((2, len(parents) + 1), -1)
        numbers = entries.n_entries + np.arange(len(below))
        up[from_leaves], down[by_depth] = numbers, numbers + len(below)
        entries.phase("reduce")
        entries.add(
            from_leaves,
            parents[from_leaves],
            first=first,
            length=length,
            reduce=True,
            after=columns(up[children[from_leaves]]),
            slot=chunk + deepest - depths[from_leaves],
        )
        entries.phase("broadcast")
        to, parent = by_depth, parents[by_depth]
        at_root = down[parent] < 0
        entries.add(
            parent,
            to,
            first=first,
            length=length,
            after=columns(down[parent], np.where(at_root[:, None], up[children[parent]], -1)),
            slot=chunk + deepest + depths[to],
        )


class Broadcast(Operation):
    """One rank's buffer to all: `chain` passes it from rank to rank in the cycle of ranks, beginning at the
    root (NCCL's ring); `tree` is the binomial tree over the same order. Chunks follow one another.

    The size is one rank's buffer, rounded down to whole elements (nccl-tests). `redop` does not matter.
    """

    summary = "one rank's buffer to all, along a chain or down a binomial tree; any fabric"
    kind = name = "broadcast"
    same_result_everywhere = True
    parameters: tuple[Parameter, ...] = (
        Parameter("root", 0, "count", "the rank whose buffer is sent", minimum=0),
        Parameter("shape", CHAIN, "text", "the shape of its path", choices=(CHAIN, TREE)),
        Parameter("chunks", CHUNKS, "count", "parts of the buffer that follow one another", 1, 4096),
    )

    def __init__(self, root: int = 0, shape: str = CHAIN, chunks: int = CHUNKS) -> None:
        self._root, self._shape, self._chunks = root, shape, chunks

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        super().check(fabric, ranks)
        if self._root >= len(ranks):
            raise ExperimentError(
                f"broadcast has no rank {self._root} to start from; root is 0 to {len(ranks) - 1}."
            )

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        entries.phase("broadcast")
        n = len(ranks)
        parents = np.array(
            [place - 1 if self._shape == CHAIN else binomial_parent(place) for place in range(n)]
        )
        depths = depths_of(parents)
        by_depth = 1 + np.argsort(depths[1:], kind="stable")
        parent, rank_at = parents[by_depth], (self._root + np.arange(n)) % n
        for chunk, (first, length) in enumerate(
            zip(*parts_of(0, count, min(self._chunks, count)), strict=True)
        ):
            arrival = np.full(n, -1)
            arrival[by_depth] = entries.n_entries + np.arange(n - 1)
            entries.add(
                rank_at[parent],
                rank_at[by_depth],
                first=first,
                length=length,
                after=columns(arrival[parent]),
                slot=chunk + depths[by_depth],
            )

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: numbers without a 0 at the root, 0 at all others."""
        buffers = np.zeros((schedule.n_ranks, count_of(schedule)), schedule.dtype)
        buffers[self._root] = nonzero_input(schedule, self._root, count_of(schedule), seed)
        return list(buffers)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the root holds, the same for every rank."""
        return inputs[self._root]

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """(n - 2 + chunks) x (a chunk at the slowest link) + (n - 1) x latency, for the chain on a ring of
        all its GPUs: the last of the chunks leaves the root after the others, and crosses n - 1 links. None
        for the tree. Source: NCCL's ring broadcast."""
        if self._shape != CHAIN or fabric.kind != "ring" or schedule.n_ranks != fabric.n_gpus:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        hops = schedule.n_ranks - 1
        chunks = schedule.n_transfers // hops
        return (hops - 1 + chunks) * longest_s(fabric, schedule, packet) + hops * float(
            fabric.latency_s.max()
        )
