"""A family of cuts that is quick to evaluate: single GPUs, the GPUs of each switch, and their complements."""

from collections.abc import Iterator

import numpy as np

from railweave.framework.limits.wires import NOTHING, CutBound, Wires, seconds
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float, Int64


def family_bounds(wires: Wires, collective: str, size_bits: float) -> list[CutBound]:
    """The largest bound of the family; for a broadcast one for each rank as its root.

    `size_bits` on the wire. With x of n ranks inside a cut, what must leave it and what must enter it:
    all-gather xS/n and (n-x)S/n; reduce-scatter (n-x)S/n and xS/n; all-to-all x(n-x)S/n both; all-reduce S
    both, and over all parts of a partition into p together 2(p-1)S; broadcast S both; send-recv S for every
    rank inside whose next is outside, and S for every rank outside whose next is inside.
    """
    order, n = wires.ranks, len(wires.ranks)
    best = [NOTHING] * (n if collective == "broadcast" else 1)
    for part, names in _partitions(wires.fabric):
        home = part[order]
        x = np.bincount(home, minlength=len(names))
        leave, enter = _crossing(wires, part, len(names))
        for k in np.flatnonzero((x > 0) & (x < n)):
            must_leave, must_enter = _payload(collective, home == k, size_bits)
            out = CutBound(seconds(must_leave, *leave[:, k]), f"out of {names[k]}")
            into = CutBound(seconds(must_enter, *enter[:, k]), f"into {names[k]}")
            if collective == "broadcast":
                within = zip(best, home == k, strict=True)
                best = [max(bound, out if inside else into, key=_seconds) for bound, inside in within]
            else:
                best = [max(*best, out, into, key=_seconds)]
        busy = int((x > 0).sum())
        if collective == "all-reduce" and busy > 1:
            words = f"between {names[0]} and all others of the kind"
            for way in (leave, enter):
                between = seconds(2 * (busy - 1) * size_bits, *way.sum(axis=1))
                best = [max(*best, CutBound(between, words), key=_seconds)]
    return best


def _seconds(bound: CutBound) -> float:
    return bound.seconds


def _payload(collective: str, inside: Bool, bits: float) -> tuple[float, float]:
    """What must leave and what must enter the ranks `inside` (n_ranks,)."""
    n, x = len(inside), float(inside.sum())
    match collective:
        case "all-gather":
            return x * bits / n, (n - x) * bits / n
        case "reduce-scatter":
            return (n - x) * bits / n, x * bits / n
        case "all-to-all":
            return x * (n - x) * bits / n, x * (n - x) * bits / n
        case "send-recv":
            following = np.roll(inside, -1)
            return float((inside & ~following).sum()) * bits, float((~inside & following).sum()) * bits
        case _:
            return bits, bits


def _crossing(wires: Wires, part: Int64, parts: int) -> tuple[Float, Float]:
    """(2, parts) each: rate and free bits out of each part, and into it."""
    ends = part[wires.fabric.link_src], part[wires.fabric.link_dst]
    crosses = ends[0] != ends[1]

    def sums(end: Int64) -> Float:
        chosen = crosses & (end >= 0)
        return np.stack([np.bincount(end[chosen], of[chosen], parts) for of in (wires.rate, wires.free)])

    return sums(ends[0]), sums(ends[1])


def _partitions(fabric: Fabric) -> Iterator[tuple[Int64, tuple[str, ...]]]:
    """Disjoint sets of GPUs: single ones, then for each kind of switch those of its switches; the set of each
    node (n_nodes,), -1 outside all, and the names of the sets."""
    n = fabric.n_gpus
    alone = np.full(fabric.n_nodes, -1, np.int64)
    alone[:n] = np.arange(n)
    yield alone, tuple(fabric.node_name(gpu) for gpu in range(n))
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
        yield part, names


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
