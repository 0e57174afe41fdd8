"""Fewest hops on any fabric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.hookspecs import Configurable
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.parameters import Value

UNUSED = "unused"
"""Kind of links that exist but carry nothing: the way back on rings of one direction."""

STATES = 1 << 21
"""Destinations x nodes searched in one go; bounds the memory."""


class Shortest(Configurable):
    """One path of fewest hops for every pair, around links that are down; scores do not matter.

    Among equal next hops each node takes the link of lowest id, so all traffic of a node to one destination
    leaves by one link.
    """

    summary = "fewest hops on any fabric, around what is down; ignores scores"
    serves: tuple[str, ...] = ("*",)
    damped: bool = False

    def configured(self, options: Mapping[str, Value]) -> Shortest:
        return self

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Whoever the fabric still joins is reached. It knows no virtual channels."""
        return ("reroutes",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that searches from the destinations it is asked about.

        Raises HealthError for a snapshot of another fabric.
        """
        if len(health.down) != fabric.n_links:
            raise HealthError(
                f"health of {len(health.down)} links does not belong to this {fabric.kind} of {fabric.n_links}."
            )
        idle = np.array([kind == UNUSED for kind in fabric.kinds])[fabric.link_kind]
        search = Search(fabric, health.down | idle)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            hops, reachable = search.paths(src, dst)
            return PathBatch.single(src, dst, hops, reachable=reachable)

        return RouteTable("shortest", health.version, fabric.n_gpus, resolve)


class Search:
    """Breadth-first searches backwards from many destinations at once over the links that are up."""

    def __init__(self, fabric: Fabric, down: Bool) -> None:
        self._n_nodes, self._src, self._dst = fabric.n_nodes, fabric.link_src, fabric.link_dst
        up = np.flatnonzero(~down)
        self._links = up[np.argsort(fabric.link_dst[up], kind="stable")]
        self._start = np.searchsorted(fabric.link_dst[self._links], np.arange(fabric.n_nodes + 1))

    def paths(self, src: Int64, dst: Int64) -> tuple[Int32, Bool]:
        """(hops, reachable): hops (P, longest) link ids, -1 behind the end; a GPU has no path to itself."""
        ends, which = np.unique(dst, return_inverse=True)
        parts: list[tuple[Int64, Int32]] = []
        reachable = np.zeros(len(src), bool)
        block = max(1, STATES // self._n_nodes)
        by_end = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[by_end], np.arange(0, len(ends) + block, block))
        for first, low, high in zip(range(0, len(ends), block), cuts, cuts[1:], strict=False):
            rows = by_end[low:high]
            towards = self._next_links(ends[first : first + block])
            state = (which[rows] - first) * self._n_nodes + src[rows]
            reachable[rows] = (towards[state] >= 0) & (src[rows] != dst[rows])
            parts.append((rows, self._walk(towards, state, dst[rows], reachable[rows])))
        longest = max((part.shape[1] for _, part in parts), default=0)
        hops = np.full((len(src), longest), -1, np.int32)
        for rows, part in parts:
            hops[rows, : part.shape[1]] = part
        return hops, reachable

    def _next_links(self, ends: Int64) -> Int32:
        """(ends x nodes,) flat: the link by which each node leaves towards each end; -1 at it and where cut off."""
        n = self._n_nodes
        towards = np.full(len(ends) * n, -1, np.int32)
        visited = np.zeros(len(ends) * n, bool)
        frontier = np.arange(len(ends)) * n + ends
        visited[frontier] = True
        while frontier.size:
            base, node = frontier - frontier % n, frontier % n
            count = self._start[node + 1] - self._start[node]
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            link = self._links[np.repeat(self._start[node], count) + within]
            state = np.repeat(base, count) + self._src[link]
            fresh = ~visited[state]
            state, link = state[fresh], link[fresh]
            order = np.lexsort((link, state))  # the first of each state is its lowest link
            frontier, lowest = np.unique(state[order], return_index=True)
            towards[frontier] = link[order][lowest]
            visited[frontier] = True
        return towards

    def _walk(self, towards: Int32, state: Int64, dst: Int64, reachable: Bool) -> Int32:
        """(rows, longest): the links met by following `towards` from each state to its end."""
        base, node = state - state % self._n_nodes, state % self._n_nodes
        walking = np.flatnonzero(reachable)
        columns: list[Int32] = []
        while walking.size:
            column = np.full(len(state), -1, np.int32)
            column[walking] = towards[base[walking] + node[walking]]
            node[walking] = self._dst[column[walking]]
            walking = walking[node[walking] != dst[walking]]
            columns.append(column)
        return np.stack(columns, axis=1) if columns else np.empty((len(state), 0), np.int32)
