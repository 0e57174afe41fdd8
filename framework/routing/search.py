"""Breadth-first searches from many destinations at once: a bit each while they spread, then a link per
node."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric, PathBatch
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import join, starts, take

STATES = 1 << 21
"""Destinations x nodes searched in one go: their bits stay in the processor's cache, and the memory is
bounded."""
FAR = np.iinfo(np.uint16).max - 1
"""Hops to where no path leads; one more is still no number of hops."""

KEPT = 1 << 28
"""Bytes of searches kept: all of them up to some 9,000 nodes, and the most recent ones beyond."""

Bits = NDArray[np.uint8]
Unsigned = NDArray[np.unsignedinteger[Any]]


class Search:
    """Fewest hops over the links that are up; of equal next hops the link of lowest id. Among GPUs alone it
    is the link to the next node in the cycle of ids, and a node of odd id takes the second of two, so that
    pairs which are as far apart both ways round a ring are split. A destination is searched for when a pair
    first needs it, then kept.

    Keeps 3 bytes for every node and destination in use (4 where a node has over 255 links), of at most `kept`
    destinations at a time: as many as fit KEPT bytes.
    """

    def __init__(self, fabric: Fabric, down: Bool, *, kept: int | None = None) -> None:
        self._n_nodes, self._n_gpus = fabric.n_nodes, fabric.n_gpus
        self._splits = len(fabric.groups) == 1
        up = np.flatnonzero(~down)
        ahead = (fabric.link_dst[up].astype(np.int64) - fabric.link_src[up]) % fabric.n_nodes
        by_node = up[np.lexsort((up, ahead * self._splits, fabric.link_src[up]))]
        self._link = by_node.astype(np.int32)
        self._ahead = fabric.link_dst[self._link].astype(np.int64)
        degree = np.bincount(fabric.link_src[up], minlength=fabric.n_nodes)
        self._start = np.cumsum(degree) - degree
        # Nodes of one degree are worked on together; (nodes,), and where their links lead (nodes, degree).
        self._alike: list[tuple[Int64, Int64]] = []
        for links in np.unique(degree[degree > 0]):
            nodes = np.flatnonzero(degree == links)
            self._alike.append((nodes, self._ahead[self._start[nodes][:, None] + np.arange(links)]))
        self._kept = min(fabric.n_gpus, kept or max(1, KEPT // (3 * fabric.n_nodes)))
        self._column = np.full(fabric.n_gpus, -1)  # of each destination in the arrays below
        self._used = 0
        self._hops: Unsigned = np.zeros((fabric.n_gpus, 0), np.uint16)
        self._which: Unsigned = np.zeros((fabric.n_nodes, 0), np.min_scalar_type(int(degree.max(initial=0))))

    def paths(self, src: Int64, dst: Int64) -> PathBatch:
        """The paths of these pairs; none to where no path leads, nor from a GPU to itself."""
        wanted = np.zeros(self._n_gpus, bool)
        wanted[dst] = True
        ends = np.flatnonzero(wanted)
        if len(ends) <= self._kept:
            return self._paths(src, dst, ends)
        blocks = [ends[first : first + self._kept] for first in range(0, len(ends), self._kept)]
        rows = [np.flatnonzero((dst >= some[0]) & (dst <= some[-1])) for some in blocks]
        parts = (self._paths(src[r], dst[r], some) for r, some in zip(rows, blocks, strict=True))
        return take(join(*parts), np.argsort(np.concatenate(rows)))

    def _paths(self, src: Int64, dst: Int64, ends: Int64) -> PathBatch:
        self._learn(ends)
        end = self._column.take(dst)
        room = self._which.shape[1]
        left = self._hops.ravel().take(src * room + end).astype(np.int64)
        hop_start = starts(left)
        links = np.empty(int(hop_start[-1]), np.int32)
        place, node = hop_start[:-1], src
        which = self._which.ravel()
        while (going := left > 0).any():
            if not going.all():
                place, node, end, left = place[going], node[going], end[going], left[going]
            out = self._start.take(node) + which.take(node * room + end)
            links[place] = self._link.take(out)
            node = self._ahead.take(out)
            place, left = place + 1, left - 1
        reachable = np.diff(hop_start) > 0
        return PathBatch.in_row(src, dst, hop_start, links, reachable=None if reachable.all() else reachable)

    def _learn(self, ends: Int64) -> None:
        missing = ends[self._column[ends] < 0]
        if self._used + len(missing) > self._kept:
            self._column[:], self._used, missing = -1, 0, ends
        room = self._which.shape[1]
        if self._used + len(missing) > room:
            room = min(self._kept, max(2 * room, self._used + len(missing)))
            self._hops, self._which = (
                np.pad(array, ((0, 0), (0, room - array.shape[1]))) for array in (self._hops, self._which)
            )
        block = max(1, STATES // self._n_nodes)
        for first in range(0, len(missing), block):
            some = missing[first : first + block]
            columns = slice(self._used, self._used + len(some))
            hops = self._distances(some)
            self._which[:, columns] = self._lowest(hops)
            self._hops[:, columns] = np.where(hops < FAR, hops, 0)[: self._n_gpus]
            self._column[some] = np.arange(self._used, self._used + len(some))
            self._used += len(some)

    def _distances(self, ends: Int64) -> NDArray[np.uint16]:
        """(nodes, ends): hops from each node to each end, FAR where no path leads.

        Every node holds a bit per end, set when that end is in reach; a step takes the bits of the nodes
        ahead.
        """
        number = np.arange(len(ends))
        reached: Bits = np.zeros((self._n_nodes, (len(ends) + 7) // 8), np.uint8)
        reached[ends, number // 8] = 128 >> number % 8
        digits: list[Bits] = []  # of the hops, as binary numbers, the lowest first
        hops = 0
        while True:
            wider = reached.copy()
            for nodes, ahead in self._alike:
                wider[nodes] |= np.bitwise_or.reduce(reached[ahead], axis=1)
            fresh = wider ^ reached
            if not fresh.any():
                break
            reached, hops = wider, hops + 1
            if hops >> len(digits):
                digits.append(np.zeros_like(reached))
            for place, digit in enumerate(digits):
                if hops >> place & 1:
                    digit |= fresh
        distance = np.where(np.unpackbits(reached, axis=1, count=len(ends)), 0, FAR).astype(np.uint16)
        for place, digit in enumerate(digits):
            distance |= np.unpackbits(digit, axis=1, count=len(ends)).astype(np.uint16) << place
        return distance

    def _lowest(self, hops: NDArray[np.uint16]) -> Unsigned:
        """(nodes, ends): which of its links each node takes, of those that come closer; 0 where none does."""
        which = np.zeros(hops.shape, self._which.dtype)
        for nodes, ahead in self._alike:
            mine, first = hops[nodes], np.zeros((len(nodes), hops.shape[1]), which.dtype)
            last, count = first.copy(), first.copy()
            for link in reversed(range(ahead.shape[1])):
                closer = hops[ahead[:, link]] + 1 == mine
                np.copyto(first, link, where=closer, casting="unsafe")
                if self._splits:
                    np.copyto(last, link, where=closer & (count == 0), casting="unsafe")
                    count += closer
            if self._splits:
                np.copyto(first, last, where=(count == 2) & (nodes % 2 == 1)[:, None])
            which[nodes] = first
        return which
