"""Maximum flow and minimum cut through a fabric. Source: Dinitz 1970.

Our own code, because the available solvers are optional extras, and because the two directions of a cable
serve as each other's residual arc here, which halves the work. Bounds are computed again from the cut that a
flow yields, so rounding cannot make them too large.
"""

from collections.abc import Sequence

import numpy as np

from railweave.framework.analysis.limits.wires import Wires
from railweave.framework.model.arrays import Bool, Float, Int64

NOISE = 1e-12
"""Share of the flow looked for below which an arc counts as full: rounding errors of sums."""


class FlowNetwork:
    """The nodes of a fabric, a source with an arc to every rank, and a sink with an arc from every rank.

    `label` (n_nodes,): classes of nodes that are merged (alike.py); without it each node is one.
    """

    def __init__(self, wires: Wires, label: Int64 | None = None) -> None:
        self._label = np.arange(wires.fabric.n_nodes) if label is None else label
        n = self._n = int(self._label.max()) + 1
        self._source, self._sink = n, n + 1
        ends = self._label[wires.src], self._label[wires.dst]
        cables, cable = np.unique(np.minimum(*ends) * n + np.maximum(*ends), return_inverse=True)
        # a cable's arcs are 2i from its lower end and 2i + 1 back; a link within a class is in neither cut
        self._arc_of_link = 2 * cable + (ends[0] > ends[1])
        self._n_arcs = 2 * len(cables)
        low, high = np.divmod(cables, n)
        tails = np.stack((low, high), axis=1).ravel().tolist()
        heads = np.stack((high, low), axis=1).ravel().tolist()
        self._home = self._label[wires.ranks]
        self._homes = np.unique(self._home)
        homes = self._homes.tolist()
        for tail, head in [(n, home) for home in homes] + [(home, n + 1) for home in homes]:
            tails += [tail, head]
            heads += [head, tail]
        self._tails, self._heads = tails, heads
        self._arcs: list[list[int]] = [[] for _ in range(n + 2)]
        for arc, tail in enumerate(tails):
            self._arcs[tail].append(arc)

    def narrowest(
        self, pipes: Float, into: Sequence[float], out: Sequence[float], enough: float
    ) -> Bool | None:
        """(n_nodes,): the source's side of a minimum cut if less than `enough` bits flow, else None.

        `pipes`: (n_links,) bits that each link passes. `into`, `out`: (n_ranks,) bits from the source into
        each rank, and from each into the sink; the same for ranks of one class.
        """
        cap = np.bincount(self._arc_of_link, np.minimum(pipes, 2 * enough), self._n_arcs).tolist()
        for way in (into, out):
            for bits in np.bincount(self._home, way, self._n)[self._homes].tolist():
                cap += [bits, 0.0]
        noise, flow = NOISE * enough, 0.0
        while flow < enough * (1 - 1e-10):
            level = self._levels(cap, noise)
            if level[self._sink] < 0:
                return (np.array(level[: self._n]) >= 0)[self._label]
            flow += self._blocking(cap, level, noise)
        return None

    def _levels(self, cap: list[float], noise: float) -> list[int]:
        """Distance from the source over arcs with room, -1 where there is no path; complete if the sink is
        unreachable."""
        level = [-1] * (self._sink + 1)
        level[self._source] = 0
        edge, heads, arcs = [self._source], self._heads, self._arcs
        while edge and level[self._sink] < 0:
            following = []
            for node in edge:
                for arc in arcs[node]:
                    if cap[arc] > noise and level[heads[arc]] < 0:
                        level[heads[arc]] = level[node] + 1
                        following.append(heads[arc])
            edge = following
        return level

    def _blocking(self, cap: list[float], level: list[int], noise: float) -> float:
        """Saturate the shortest paths; returns the flow added."""
        heads, tails, arcs, sink = self._heads, self._tails, self._arcs, self._sink
        turn = [0] * len(level)
        flow, node, path = 0.0, self._source, list[int]()
        while True:
            if node == sink:
                pushed = min([cap[arc] for arc in path])
                for arc in path:
                    cap[arc] -= pushed
                    cap[arc ^ 1] += pushed
                flow += pushed
                full = next(i for i, arc in enumerate(path) if cap[arc] <= noise)
                node = tails[path[full]]
                del path[full:]
            mine, deeper = arcs[node], level[node] + 1
            for place in range(turn[node], len(mine)):
                arc = mine[place]
                if cap[arc] > noise and level[heads[arc]] == deeper:
                    turn[node] = place
                    path.append(arc)
                    node = heads[arc]
                    break
            else:
                if not path:
                    return flow
                turn[node] = len(mine)
                level[node] = -1
                node = tails[path.pop()]
