"""Physical lower bounds on the time of a collective: no algorithm is faster than the links of a cut.

A bound holds for any graph, also an uneven or damaged one: what must cross a cut cannot cross it faster than
its links. A run that beats it is wrong. Sources: ForestColl (arXiv 2402.06787) for all-gather and
reduce-scatter; nccl-tests doc/PERFORMANCE.md for the 2(n - 1) transfers per element of an all-reduce. Without
in-network reduction or multicast, which this emulation does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float, Int64, readonly

COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "send-recv")


@dataclass(frozen=True, slots=True)
class CutBound:
    """A lower bound in seconds and the cut that gives it, in words."""

    seconds: float
    cut: str


@dataclass(frozen=True)
class _Partition:
    """Disjoint GPU sets. `part` (n_nodes,): the set of each node, -1 outside all; `names` by set."""

    part: Int64
    names: tuple[str, ...]


def cut_bound_s(
    fabric: Fabric, collective: str, size_bytes: float, packet: PacketFormat, *,
    capacity_bps: Float | None = None, free_packets_per_link: float = 0.0, ranks: Sequence[int] | None = None,
) -> float:  # fmt: skip
    """Seconds that `collective` takes at least; see `tightest_cut`."""
    return tightest_cut(
        fabric, collective, size_bytes, packet,
        capacity_bps=capacity_bps, free_packets_per_link=free_packets_per_link, ranks=ranks,
    ).seconds  # fmt: skip


def tightest_cut(
    fabric: Fabric, collective: str, size_bytes: float, packet: PacketFormat, *,
    capacity_bps: Float | None = None, free_packets_per_link: float = 0.0, ranks: Sequence[int] | None = None,
) -> CutBound:  # fmt: skip
    """The largest lower bound of a family of cuts: every GPU, every switch's GPUs, and their complements.

    size_bytes: as nccl-tests counts it (the whole array of an all-gather or reduce-scatter, the buffer of a
    rank otherwise). capacity_bps: (n_links,) the rates as they are now, 0 for a dead link; the fabric's own by
    default. free_packets_per_link: full packets that each link's token bucket gives away in this time.
    ranks: the GPUs that take part; all by default. Latency is not counted. Endless (inf) when a cut that must
    be crossed has no rate.

    With x of n ranks inside a cut, in bytes of payload that must leave it | enter it:
    all-gather xS/n | (n-x)S/n; reduce-scatter (n-x)S/n | xS/n; all-to-all x(n-x)S/n | the same; all-reduce
    S | S, and over all parts of a partition into p together 2(p-1)S (p=n and one link rate: the well-known
    2(n-1)S/(nB)). On uneven fabrics twice the all-gather's bound is no limit to an all-reduce: one slow GPU may
    send its array to be summed elsewhere and take the result back, S each way and at the same time.
    broadcast: S out of a cut around the root, S into one without it; for the root that is best off, because
    which one it is does not show here. send-recv: S for every rank inside whose next in `ranks` is outside | the
    same the other way.

    Raises ExperimentError for an unknown collective, FabricError for capacities, a size or ranks that do not fit.
    """
    collective = collective.replace("_", "-")
    capacity, inside = _checked(fabric, collective, size_bytes, capacity_bps, ranks)
    n = int(inside.sum())
    order = np.arange(fabric.n_gpus) if ranks is None else np.asarray(ranks, np.int64)
    wire = 8.0 * packet.full_packet_bytes / packet.path_mtu  # bits on the wire per byte of payload
    free = 8.0 * packet.full_packet_bytes * free_packets_per_link

    def seconds(payload: float, rate: float, links: float) -> float:
        bits = max(0.0, payload * wire - links * free)
        return 0.0 if bits == 0 else bits / rate if rate > 0 else inf

    best = CutBound(0.0, "none")
    roots = _Roots(n)
    for partition in _partitions(fabric):
        x = np.bincount(partition.part[: fabric.n_gpus], inside, len(partition.names))
        leave, enter = _crossing(fabric, partition, capacity)
        home = partition.part[order]
        for k in np.flatnonzero((x > 0) & (x < n)):
            if collective == "send-recv":
                must_leave, must_enter = _to_next(home == k, size_bytes)
            else:
                must_leave, must_enter = _payload(collective, float(x[k]), n, size_bytes)
            ways = [
                CutBound(seconds(payload, float(rate[k]), float(links[k])), f"{way} {partition.names[k]}")
                for way, payload, (rate, links) in (
                    ("out of", must_leave, leave),
                    ("into", must_enter, enter),
                )
            ]
            if collective == "broadcast":
                roots.cut(home == k, *ways)
            else:
                best = max(best, *ways, key=_seconds)
        busy = int((x > 0).sum())
        if collective == "all-reduce" and busy > 1:
            for rate, links in (leave, enter):
                found = seconds(2 * (busy - 1) * size_bytes, float(rate.sum()), float(links.sum()))
                if found > best.seconds:
                    best = CutBound(found, f"between {partition.names[0]} and its like")
    return roots.lowest if collective == "broadcast" else best


def _seconds(bound: CutBound) -> float:
    return bound.seconds


class _Roots:
    """The bound of a broadcast for every root there may be."""

    def __init__(self, n: int) -> None:
        self._best = [CutBound(0.0, "none")]
        self._which = np.zeros(n, np.int64)
        self._seconds = np.zeros(n)

    def cut(self, within: Bool, out: CutBound, into: CutBound) -> None:
        """Take in a cut around the ranks `within`: what a root inside it meets, and what one outside does."""
        for bound, hit in ((out, within), (into, ~within)):
            worse = hit & (self._seconds < bound.seconds)
            self._seconds[worse] = bound.seconds
            self._which[worse] = len(self._best)
            self._best.append(bound)

    @property
    def lowest(self) -> CutBound:
        return self._best[int(self._which[self._seconds.argmin()])]


def _to_next(within: Bool, size: float) -> tuple[float, float]:
    """Bytes that leave and enter when every rank sends `size` to the next in the list; within: by rank."""
    there = np.roll(within, -1)
    return float((within & ~there).sum()) * size, float((~within & there).sum()) * size


def _payload(collective: str, x: float, n: int, size: float) -> tuple[float, float]:
    match collective:
        case "all-gather":
            return x * size / n, (n - x) * size / n
        case "reduce-scatter":
            return (n - x) * size / n, x * size / n
        case "all-to-all":
            return x * (n - x) * size / n, x * (n - x) * size / n
        case _:
            return size, size


def _crossing(
    fabric: Fabric, partition: _Partition, capacity: Float
) -> tuple[tuple[Float, Float], tuple[Float, Float]]:
    """((rate, links) out of each part, (rate, links) into it)."""
    a, b = partition.part[fabric.link_src], partition.part[fabric.link_dst]
    out, into = (a != b) & (a >= 0), (a != b) & (b >= 0)
    parts = len(partition.names)

    def sums(part: Int64, chosen: Bool) -> tuple[Float, Float]:
        rate = np.bincount(part[chosen], capacity[chosen], parts)
        return np.asarray(rate, np.float64), np.bincount(part[chosen], minlength=parts).astype(np.float64)

    return sums(a, out), sums(b, into)


def _partitions(fabric: Fabric) -> Iterator[_Partition]:
    """Single GPUs, then for each kind of switch the GPU sets of its switches."""
    n = fabric.n_gpus
    alone = np.full(fabric.n_nodes, -1, np.int64)
    alone[:n] = np.arange(n)
    yield _Partition(alone, tuple(fabric.node_name(gpu) for gpu in range(n)))
    for group in fabric.groups[1:]:
        links = np.flatnonzero(
            (fabric.link_src < n)
            & (fabric.link_dst >= group.first)
            & (fabric.link_dst < group.first + group.size)
        )
        if not links.size:
            continue
        part = np.full(fabric.n_nodes, -1, np.int64)
        part[:n] = group.size  # GPUs at no switch of the kind are one more set
        part[fabric.link_src[links[::-1]]] = fabric.link_dst[links[::-1]] - group.first
        _take_in_switches(fabric, part)
        names = (*(f"the GPUs of {group.name(group.first + i)}" for i in range(group.size)), "the other GPUs")
        yield _Partition(part, names)


def _take_in_switches(fabric: Fabric, part: Int64) -> None:
    """Give every switch whose GPUs are all of one set to that set: its links are then inside, not cut."""
    n = fabric.n_gpus
    links = np.flatnonzero((fabric.link_src < n) & (fabric.link_dst >= n))
    switch, of = fabric.link_dst[links], part[fabric.link_src[links]]
    low, high = np.full(fabric.n_nodes, np.iinfo(np.int64).max), np.full(fabric.n_nodes, -1, np.int64)
    np.minimum.at(low, switch, of)
    np.maximum.at(high, switch, of)
    agreed = np.flatnonzero(low == high)
    part[agreed] = low[agreed]


def _checked(
    fabric: Fabric,
    collective: str,
    size_bytes: float,
    capacity_bps: Float | None,
    ranks: Sequence[int] | None,
) -> tuple[Float, Float]:
    """(rates of all links, 1.0 for each GPU that takes part)."""
    if collective not in COLLECTIVES:
        raise ExperimentError(
            f"no physical limit is known for the collective {collective!r}; known are: {', '.join(COLLECTIVES)}."
        )
    if not size_bytes >= 0:
        raise FabricError(f"{collective} of {size_bytes} bytes: a size is 0 or more.")
    capacity: Float = fabric.capacity_bps if capacity_bps is None else readonly(capacity_bps, np.float64)
    if len(capacity) != fabric.n_links or not np.all(capacity >= 0):
        raise FabricError(
            f"{len(capacity)} capacities for {fabric.n_links} links: there must be one for each, 0 or more."
        )
    taking = np.arange(fabric.n_gpus) if ranks is None else np.asarray(ranks, np.int64)
    inside = np.zeros(fabric.n_gpus)
    if len(taking) and (taking.min() < 0 or taking.max() >= fabric.n_gpus):
        raise FabricError(f"a rank is none of the {fabric.n_gpus} GPUs of this {fabric.kind}.")
    inside[taking] = 1.0
    if int(inside.sum()) != len(taking) or len(taking) < 2:
        raise FabricError(f"{collective} over ranks {list(map(int, taking))}: it needs 2 or more, each once.")
    return capacity, inside
