"""Physical lower bounds on the time of a collective: no algorithm is faster than the links of a cut.

A bound holds for any graph, uneven and damaged ones included: what must cross a cut cannot cross it faster
than its links allow. A run that beats the bound is wrong. Sources: ForestColl (arXiv 2402.06787) for
all-gather and reduce-scatter; nccl-tests doc/PERFORMANCE.md for the 2(n - 1) transfers per element of an
all-reduce. Valid without in-network reduction and multicast, which this emulation does not have.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from railweave.framework.analysis.limits.alike import ranks_alike
from railweave.framework.analysis.limits.cuts import (
    broadcast_bound,
    exchange_bound,
    gather_bound,
    pair_bound,
    partition_bound,
)
from railweave.framework.analysis.limits.family import family_bounds
from railweave.framework.analysis.limits.flow import FlowNetwork
from railweave.framework.analysis.limits.paths import has_solver, paths_bound
from railweave.framework.analysis.limits.wires import CutBound, Wires
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float, readonly

COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "send-recv")
LARGEST_SEARCH = 1 << 18
"""Ranks x links up to which all cuts are searched (256 GPUs); beyond it the family of cuts alone is used."""
KEPT = 64
"""Searches whose bounds are kept."""


def tightest_cut(
    fabric: Fabric,
    collective: str,
    size_bytes: float,
    packet: PacketFormat,
    *,
    capacity_bps: Float | None = None,
    free_packets_per_link: float = 0.0,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
) -> CutBound:
    """The largest known lower bound on the time of `collective`, and the cut that gives it.

    size_bytes: as nccl-tests counts it (the whole array of an all-gather or reduce-scatter, the buffer of a
    rank otherwise). capacity_bps: (n_links,) the rates as they are now, 0 for a dead link; the fabric's own
    by default. free_packets_per_link: full packets that each live link's token bucket lets go early. ranks:
    the GPUs that take part; all by default. root: the place in `ranks` that a broadcast starts from; by
    default the best one. Latency is not counted. inf when a cut that must be crossed has no rate.

    Over all cuts, by maximum flows: all-gather and reduce-scatter, whose limit this is (trees reach it where
    as much enters a node as leaves it: ForestColl), and broadcast (trees reach it: Edmonds 1973).

    Over all partitions: all-reduce, 2(p - 1)S between p parts, and S out of and into every set of ranks. On
    even fabrics that is twice the all-gather's limit. On uneven ones twice the all-gather's limit does not
    bound an all-reduce: a slow GPU may send its array to be summed elsewhere and receive the result, S per
    direction at the same time. The bound returned holds there too, but whether a schedule reaches it is
    unknown.

    All-to-all and send-recv: the least time of any routing, if a solver is installed and the fabric is small
    (see `paths`); else the largest of plain prices and, for an all-to-all, the narrowest cuts around the sets
    of ranks of the family, for a send-recv around every pair. Fabrics with more than `LARGEST_SEARCH` ranks x
    links: the family alone.
    """
    collective = collective.replace("_", "-")
    rate: Float = fabric.capacity_bps if capacity_bps is None else readonly(capacity_bps, np.float64)
    order = np.arange(fabric.n_gpus) if ranks is None else np.asarray(ranks, np.int64)
    # bits on the wire for `size_bytes` of payload, and those that a token bucket lets go early
    bits = 8.0 * packet.full_packet_bytes / packet.path_mtu * size_bytes
    free = np.where(rate > 0, 8.0 * packet.full_packet_bytes * free_packets_per_link, 0.0)
    wires = Wires(fabric, rate, free, order)
    if bits == 0 or len(order) * fabric.n_links > LARGEST_SEARCH:
        family = family_bounds(wires, collective, bits)
        return family[root] if root is not None else min(family, key=lambda bound: bound.seconds)
    return _searched(_Question(wires, collective, bits, root))


class _Question:
    """What a search depends on. Runs that are compared ask the same again and again: they begin on the same
    healthy fabric."""

    def __init__(self, wires: Wires, collective: str, bits: float, root: int | None) -> None:
        self.wires, self.collective, self.bits, self.root = wires, collective, bits, root
        fabric = wires.fabric
        nodes = tuple(
            (g.kind, g.first, g.shape, g.prefix, b"" if g.places is None else g.places.tobytes())
            for g in fabric.groups
        )
        arrays = fabric.link_src, fabric.link_dst, wires.rate, wires.free, wires.ranks
        solver = collective in ("all-to-all", "send-recv") and has_solver()
        scalars = collective, bits, root, solver, fabric.kind, nodes
        self._key = (*scalars, *(array.tobytes() for array in arrays))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(KEPT)
def _searched(question: _Question) -> CutBound:
    wires, collective, bits = question.wires, question.collective, question.bits
    family = family_bounds(wires, collective, bits)
    if collective == "send-recv":
        return _send_recv(wires, bits, family[0])
    if collective == "all-to-all":
        n = len(wires.ranks)
        best = family[0].or_larger(paths_bound(wires, (bits / n) * (1.0 - np.eye(n))))
        return exchange_bound(wires, bits, best)
    return _over_all_cuts(wires, collective, bits, family, question.root)


def _over_all_cuts(
    wires: Wires, collective: str, bits: float, family: Sequence[CutBound], root: int | None
) -> CutBound:
    """The largest bound of all cuts or partitions; of a broadcast without a root, that of its best one."""
    apart = ranks_alike(wires)
    match collective:
        case "all-gather":
            return gather_bound(wires, bits, family[0], apart)
        case "reduce-scatter":
            return gather_bound(wires.reverse(), bits, family[0], apart)
        case "all-reduce":
            best, price = partition_bound(wires, bits, family[0], apart)
            best, other = partition_bound(wires.reverse(), bits, best, apart)
            if price is not None and other is not None and np.allclose(price, other, 1e-9, 1e-9 * bits):
                return best  # of a set and the others one costs -`bits` or more, so both ways pass `bits`
            from_first = [
                (alike.first, FlowNetwork(wires, alike.label))
                for alike in ranks_alike(wires, 0)
                if alike.first
            ]
            pairs = [(0, i, network) for i, network in from_first]
            return pair_bound(wires, pairs + [(i, 0, network) for i, network in from_first], bits, best)
        case _:
            roots = [alike.first for alike in apart] if root is None else [root]
            return broadcast_bound(wires, bits, family, roots)


def _send_recv(wires: Wires, bits: float, best: CutBound) -> CutBound:
    n = len(wires.ranks)
    following = np.roll(np.arange(n), -1)

    def value(inside: Bool) -> CutBound:
        within = inside[wires.ranks]
        return wires.cut(bits * int((within & ~within[following]).sum()), inside)

    network = FlowNetwork(wires)
    best = pair_bound(wires, [(i, int(following[i]), network) for i in range(n)], bits, best, value)
    demand = np.zeros((n, n))
    demand[np.arange(n), following] = bits
    return best.or_larger(paths_bound(wires, demand))
