"""Equal-cost multi-path as switches do it: a hash per flow, blind to load and health."""

from collections.abc import Mapping, Sequence

import numpy as np

from railweave.framework.hookspecs import Explanation, Fact, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import starts
from railweave.framework.routing.equal_cost import EqualCost, NextHops
from railweave.plugins.ecmp.hashing import FlowHash

MOST_QPS = 64
"""Queue pairs of a pair at most: each costs a walk over the fabric and a rule for each destination."""


class Ecmp(Router):
    """One path per flow: at every switch a hash of the flow picks among the equal-cost next hops that are up.
    A pair has one flow, or one for each of `qps` queue pairs, which take its messages in turn; with `split`
    its packets.

    The cost is the GPUs passed through, then the hops. Two flows may be hashed onto one link while another
    stands idle: that is the point of this baseline. On rail-optimised fabrics it is the leaf's choice of a
    spine. Sources: RFC 2992 (hash over next hops); Zhang et al., "Hashing linearity enables relative path
    control in data centers", ATC 2021 (polarisation).
    """

    summary = "equal-cost paths, one per flow by a hash as in switches: collisions and all"
    parameters: tuple[Parameter, ...] = (
        Parameter("seed", 1, "count", "seed of the hash", minimum=0, maximum=2**63 - 1),
        Parameter("salted", True, "bool", "every switch hashes differently; false: all alike (polarisation)"),
        Parameter("qps", 1, "count", "queue pairs of a pair, each with a path", minimum=1, maximum=MOST_QPS),
        Parameter("split", False, "bool", "the packets of a message to all queue pairs in turn"),
    )

    def __init__(self, seed: int = 1, salted: bool = True, qps: int = 1, *, split: bool = False) -> None:
        self._seed, self._salted, self._qps = seed, salted, qps
        self.chooser = "" if split or qps == 1 else "messages"

    def configured(self, options: Mapping[str, Value]) -> "Ecmp":
        return Ecmp(
            int(options["seed"]), bool(options["salted"]), int(options["qps"]), split=bool(options["split"])
        )

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Every pair that the fabric still joins is reached. It knows no virtual channels."""
        return ("reroutes",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that searches from the destinations of the pairs requested.

        Raises HealthError for a snapshot of another fabric.
        """
        health.check_fits(fabric)
        search = EqualCost(fabric, health.down)
        hashes = [FlowHash(fabric, self._seed, self._salted, number) for number in range(self._qps)]

        def walk(hops: NextHops, *block: Int64) -> PathBatch:
            flows = [_walk(fabric, flow_hash, hops, *block) for flow_hash in hashes]
            return together(flows) if len(flows) > 1 else flows[0]

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            return search.paths(src, dst, walk)

        return RouteTable("ecmp", health.version, fabric.n_gpus, resolve)

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """What each switch had to choose from and which it took. Raises RouteError for a GPU that is not
        there, otherwise as `routes` does."""
        fabric.check_gpus(src, dst)
        table = self.routes(fabric, health)
        paths = table.path(src, dst) if src != dst else ()
        choices: list[str] = []
        if paths:
            *_, (_, _, hops) = EqualCost(fabric, health.down).towards(np.array([dst]))
            for link in dict.fromkeys(link for path in paths for link in path.links):
                node = int(fabric.link_src[link])
                options = hops.link[hops.start[node] : hops.start[node + 1]]
                if len(options) > 1:
                    names = ", ".join(fabric.link_name(int(option)) for option in options)
                    choices.append(f"{name(node)}: {fabric.link_name(link)}, of {names}")
        salt = "salted by switch" if self._salted else "all switches alike"
        why = f"hash of the flow at every switch with a choice (seed {self._seed}, {salt})"
        if src == dst:
            why = "same GPU"
        elif not paths:
            why = "unreachable: no path over links that are up"
        elif not choices:
            why = "the only path of least cost"
        facts: dict[str, Fact] = {"seed": self._seed, "salted": str(self._salted).lower()}
        if self._qps > 1:
            facts["queue_pairs"] = self._qps
        return Explanation(why, facts | {"choices": choices})


def _walk(
    fabric: Fabric,
    flow_hash: FlowHash,
    hops: NextHops,
    state: Int64,
    src: Int64,
    dst: Int64,
    before: Int64,
    last: Int64,
) -> PathBatch:
    """The paths along the links that the switches pick one after the other, to the nodes `before`; then the
    links `last`, where there are any."""
    flows, node = flow_hash.flows(src, dst), src.copy()
    reachable = (hops.start[state + src + 1] > hops.start[state + src]) & (src != dst)
    walking = np.flatnonzero(reachable)
    columns = [np.empty((len(src), 0), np.int32)]
    while walking.size:
        at = state[walking] + node[walking]
        count = hops.start[at + 1] - hops.start[at]
        link = last[walking]
        on = np.flatnonzero(node[walking] != before[walking])
        pick = flow_hash.pick(flows[walking[on]], node[walking[on]], count[on])
        link[on] = hops.link[hops.start[at[on]] + pick]
        column = np.full((len(src), 1), -1, np.int32)
        column[walking, 0] = link
        node[walking] = fabric.link_dst[link]
        walking = walking[node[walking] != dst[walking]]
        columns.append(column)
    return PathBatch.single(src, dst, np.concatenate(columns, axis=1), reachable=reachable)


def together(parts: Sequence[PathBatch]) -> PathBatch:
    """The paths of all `parts`, which are of the same pairs and have one path or none for each: every path
    once, its weight how many of them take it. Pairs without a path have none in any."""
    first, n, longest = (
        parts[0],
        len(parts[0].src),
        max(int(np.diff(p.hop_start).max(initial=0)) for p in parts),
    )
    has = np.diff(first.pair_start) > 0
    rows = np.full((len(parts), n, longest), -1, np.int32)
    for row, part in zip(rows, parts, strict=True):
        length = np.diff(part.hop_start)
        place = np.arange(longest) < length[:, None]
        filled = np.full((len(length), longest), -1, np.int32)
        filled[place] = part.links
        row[has] = filled
    original = np.full((len(parts), n), -1)  # of each pair's queue pairs, the first with the same path
    for number, row in enumerate(rows):
        original[(rows == row).all(axis=2) & (original < 0)] = number
    weight = np.stack([(original == number).sum(axis=0) for number in range(len(parts))], axis=1) / len(parts)
    kept = (weight > 0) & has[:, None]
    hops = rows.transpose(1, 0, 2)[kept]
    return PathBatch(
        first.src,
        first.dst,
        starts(kept.sum(axis=1)),
        weight[kept],
        starts((hops >= 0).sum(axis=1)),
        hops[hops >= 0],
    )
