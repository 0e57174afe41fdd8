"""Breadth-first searches from many destinations at once: a bit each while they spread, then a link per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.routing.batches import starts

STATES = 1 << 21
"""Destinations x nodes searched in one go: their bits stay in the processor's cache, and the memory is bounded."""
FAR = np.iinfo(np.uint16).max - 1
"""Hops to where no path leads; one more is still no number of hops."""

Bits = NDArray[np.uint8]
Unsigned = NDArray[np.unsignedinteger[Any]]


class Search:
    """Fewest hops over the links that are up. A destination is searched for when first asked for, then kept.

    Keeps 3 bytes for every pair of a node and a GPU, 4 where a node has over 255 links.
    """

    def __init__(self, fabric: Fabric, down: Bool) -> None:
        self._n_nodes, self._n_gpus = fabric.n_nodes, fabric.n_gpus
        up = np.flatnonzero(~down)
        by_node = up[np.argsort(fabric.link_src[up], kind="stable")]  # a node's own by id
        self._link = by_node.astype(np.int32)
        self._ahead = fabric.link_dst[self._link].astype(np.int64)
        degree = np.bincount(fabric.link_src[up], minlength=fabric.n_nodes)
        self._start = np.cumsum(degree) - degree
        # Nodes of one degree are worked on together; (nodes,), and where their links lead (nodes, degree).
        self._alike: list[tuple[Int64, Int64]] = []
        for links in np.unique(degree[degree > 0]):
            nodes = np.flatnonzero(degree == links)
            self._alike.append((nodes, self._ahead[self._start[nodes][:, None] + np.arange(links)]))
        self._known = np.zeros(fabric.n_gpus, bool)
        self._hops = np.zeros((fabric.n_gpus, fabric.n_gpus), np.uint16)
        self._which: Unsigned = np.zeros(
            (fabric.n_nodes, fabric.n_gpus), np.min_scalar_type(int(degree.max()))
        )

    def paths(self, src: Int64, dst: Int64) -> tuple[Int64, Int32]:
        """(hop_start (P+1,), links (H,)). No hops to where no path leads, nor from a GPU to itself."""
        self._learn(dst)
        left = self._hops.ravel().take(src * self._n_gpus + dst).astype(np.int64)
        hop_start = starts(left)
        links = np.empty(int(hop_start[-1]), np.int32)
        place, node, end = hop_start[:-1], src, dst
        which = self._which.ravel()
        while True:
            going = left > 0
            if not going.all():
                place, node, end, left = place[going], node[going], end[going], left[going]
            if not len(left):
                return hop_start, links
            out = self._start.take(node) + which.take(node * self._n_gpus + end)
            links[place] = self._link.take(out)
            node = self._ahead.take(out)
            place, left = place + 1, left - 1

    def _learn(self, ends: Int64) -> None:
        new = np.zeros(self._n_gpus, bool)
        new[ends] = True
        new &= ~self._known
        missing = np.flatnonzero(new)
        block = max(1, STATES // self._n_nodes)
        for first in range(0, len(missing), block):
            some = missing[first : first + block]
            hops = self._distances(some)
            self._which[:, some] = self._lowest(hops)
            self._hops[:, some] = np.where(hops < FAR, hops, 0)[: self._n_gpus]
            self._known[some] = True

    def _distances(self, ends: Int64) -> NDArray[np.uint16]:
        """(nodes, ends): hops from each node to each end, FAR where no path leads.

        Every node holds a bit per end, set when that end is in reach; a step takes the bits of the nodes ahead.
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
        found = np.where(_unpacked(reached, len(ends)), 0, FAR).astype(np.uint16)
        for place, digit in enumerate(digits):
            found |= _unpacked(digit, len(ends)).astype(np.uint16) << place
        return found

    def _lowest(self, hops: NDArray[np.uint16]) -> Unsigned:
        """(nodes, ends): which of its links each node takes, the first that comes closer; 0 where none does."""
        which = np.zeros(hops.shape, self._which.dtype)
        for nodes, ahead in self._alike:
            mine, first = hops[nodes], np.zeros((len(nodes), hops.shape[1]), which.dtype)
            for link in reversed(range(ahead.shape[1])):
                np.copyto(first, link, where=hops[ahead[:, link]] + 1 == mine, casting="unsafe")
            which[nodes] = first
        return which


def _unpacked(bits: Bits, count: int) -> Bits:
    return np.unpackbits(bits, axis=1, count=count)
