"""A family of cuts that is quick to evaluate: single GPUs, the GPUs of each switch, and their complements."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.framework.limits.wires import NOTHING, CutBound, Wires, seconds
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float, Int64


@dataclass(frozen=True)
class _Partition:
    """Disjoint GPU sets. `part` (n_nodes,): the set of each node, -1 outside all; `names` by set."""

    part: Int64
    names: tuple[str, ...]


def family_bounds(wires: Wires, collective: str, size_bits: float) -> list[CutBound]:
    """The largest bound of the family; for a broadcast one for each rank as its root.

    `size_bits` on the wire. With x of n ranks inside a cut, what must leave it and what must enter it:
    all-gather xS/n and (n-x)S/n; reduce-scatter (n-x)S/n and xS/n; all-to-all x(n-x)S/n both; all-reduce S
    both, and over all parts of a partition into p together 2(p-1)S; broadcast S both; send-recv S for every
    rank inside whose next is outside, and S for every rank outside whose next is inside.
    """
    fabric, order, n = wires.fabric, wires.ranks, len(wires.ranks)
    best, roots = NOTHING, _Roots(n)
    takes_part = np.zeros(fabric.n_gpus)
    takes_part[order] = 1.0
    for partition in _partitions(fabric):
        x = np.bincount(partition.part[: fabric.n_gpus], takes_part, len(partition.names))
        leave, enter = _crossing(wires, partition)
        home = partition.part[order]
        for k in np.flatnonzero((x > 0) & (x < n)):
            if collective == "send-recv":
                must_leave, must_enter = _to_next(home == k, size_bits)
            else:
                must_leave, must_enter = _payload(collective, float(x[k]), n, size_bits)
            both = [
                CutBound(seconds(bits, float(rate[k]), float(free[k])), f"{direction} {partition.names[k]}")
                for direction, bits, (rate, free) in (
                    ("out of", must_leave, leave),
                    ("into", must_enter, enter),
                )
            ]
            if collective == "broadcast":
                roots.cut(home == k, *both)
            else:
                best = max(best, *both, key=_seconds)
        busy = int((x > 0).sum())
        if collective == "all-reduce" and busy > 1:
            for rate, free in (leave, enter):
                between = seconds(2 * (busy - 1) * size_bits, float(rate.sum()), float(free.sum()))
                if between > best.seconds:
                    best = CutBound(between, f"between {partition.names[0]} and all others of the kind")
    return roots.best if collective == "broadcast" else [best]


def _seconds(bound: CutBound) -> float:
    return bound.seconds


class _Roots:
    """The bound of a broadcast for every possible root."""

    def __init__(self, n: int) -> None:
        self.best = [NOTHING] * n

    def cut(self, within: Bool, out: CutBound, into: CutBound) -> None:
        """Add a cut around the ranks `within`: `out` bounds roots inside it, `into` those outside."""
        for rank, inside in enumerate(within):
            self.best[rank] = max(self.best[rank], out if inside else into, key=_seconds)


def _to_next(within: Bool, bits: float) -> tuple[float, float]:
    """Bits that leave and enter when every rank sends `bits` to the next in the list; within: by rank."""
    there = np.roll(within, -1)
    return float((within & ~there).sum()) * bits, float((~within & there).sum()) * bits


def _payload(collective: str, x: float, n: int, bits: float) -> tuple[float, float]:
    match collective:
        case "all-gather":
            return x * bits / n, (n - x) * bits / n
        case "reduce-scatter":
            return (n - x) * bits / n, x * bits / n
        case "all-to-all":
            return x * (n - x) * bits / n, x * (n - x) * bits / n
        case _:
            return bits, bits


def _crossing(wires: Wires, partition: _Partition) -> tuple[tuple[Float, Float], tuple[Float, Float]]:
    """((rate, free bits) out of each part, (rate, free bits) into it)."""
    a, b = partition.part[wires.fabric.link_src], partition.part[wires.fabric.link_dst]
    out, into = (a != b) & (a >= 0), (a != b) & (b >= 0)
    parts = len(partition.names)

    def sums(part: Int64, chosen: Bool) -> tuple[Float, Float]:
        rate, free = (np.bincount(part[chosen], of[chosen], parts) for of in (wires.rate, wires.free))
        return np.asarray(rate, np.float64), np.asarray(free, np.float64)

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
        part[:n] = group.size  # GPUs without a switch of the kind form one more set
        part[fabric.link_src[links[::-1]]] = fabric.link_dst[links[::-1]] - group.first
        _take_in_switches(fabric, part)
        names = (*(f"the GPUs of {group.name(group.first + i)}" for i in range(group.size)), "the other GPUs")
        yield _Partition(part, names)


def _take_in_switches(fabric: Fabric, part: Int64) -> None:
    """Add every switch whose GPUs are all of one set to that set: its links are then inside, not cut."""
    n = fabric.n_gpus
    links = np.flatnonzero((fabric.link_src < n) & (fabric.link_dst >= n))
    switch, of = fabric.link_dst[links], part[fabric.link_src[links]]
    low, high = np.full(fabric.n_nodes, np.iinfo(np.int64).max), np.full(fabric.n_nodes, -1, np.int64)
    np.minimum.at(low, switch, of)
    np.maximum.at(high, switch, of)
    agreed = np.flatnonzero(low == high)
    part[agreed] = low[agreed]
