"""Figures of a fabric as built: distances between GPUs, the narrowest bisection, links by kind and by OCS."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float, Int64

WORDS = 1 << 22
"""Links x words of 64 destinations processed in one block; bounds the memory of the search."""

OFFSETS = 16
"""How many places along an axis are tried for a bisection."""

_ONES = np.array([byte.bit_count() for byte in range(256)], np.int64)


@dataclass(frozen=True, slots=True)
class Distances:
    """Hops (links) of shortest paths between GPUs, over other GPUs' NIC switches too.

    `diameter`: the longest; `least_sum`, `most_sum`: the sum of the distances from a GPU to all others, for
    the GPU with the smallest and the largest; equal on vertex-symmetric fabrics. `mean`: over all ordered
    pairs. `pairs`: how many ordered pairs are 0, 1, 2 ... hops apart (0 is left at 0). `unreachable` pairs
    are left out of all figures but their own count.
    """

    diameter: int
    least_sum: int
    most_sum: int
    mean: float
    pairs: tuple[int, ...]
    unreachable: int


@dataclass(frozen=True, slots=True)
class Bisection:
    """The narrowest of the bisections along an axis of the GPUs. `capacity_bps`, `links`: from one half to
    the other, one direction; `halves`: GPUs on either side; `cut`: where it runs, in words."""

    capacity_bps: float
    links: int
    halves: tuple[int, int]
    cut: str


@dataclass(frozen=True, slots=True)
class TopologyMetrics:
    """`kind_links`: directed links by kind; `kind_capacity_bps`: their rates together; `ocs_cables`: cables
    (pairs of links) by optical circuit switch."""

    gpus: int
    switches: int
    links: int
    distances: Distances
    bisection: Bisection
    kind_links: dict[str, int]
    kind_capacity_bps: dict[str, float]
    ocs_cables: dict[str, int]


def metrics(fabric: Fabric) -> TopologyMetrics:
    """The metrics of the fabric as built; pure."""
    kinds = len(fabric.kinds)
    capacity_bps = np.bincount(fabric.link_kind, fabric.capacity_bps, kinds)
    optical = np.bincount(fabric.ocs[0::2][fabric.ocs[0::2] >= 0], minlength=len(fabric.ocs_names))
    return TopologyMetrics(
        fabric.n_gpus,
        fabric.n_nodes - fabric.n_gpus,
        fabric.n_links,
        distances(fabric),
        bisection(fabric),
        dict(zip(fabric.kinds, np.bincount(fabric.link_kind, minlength=kinds).tolist(), strict=True)),
        dict(zip(fabric.kinds, capacity_bps.tolist(), strict=True)),
        dict(zip(fabric.ocs_names, optical.tolist(), strict=True)),
    )


def distances(fabric: Fabric) -> Distances:
    """Breadth-first searches to all GPUs at once: a bit per destination, OR-ed over the links of every
    node."""
    n = fabric.n_gpus
    used = np.flatnonzero(fabric.usable)
    order = used[np.argsort(fabric.link_src[used], kind="stable")]
    leaving, first = np.unique(fabric.link_src[order], return_index=True)
    far_ends = fabric.link_dst[order]
    total = np.zeros(n, np.int64)
    pairs = Counter[int]()
    block = 64 * max(1, WORDS // max(1, len(order)))
    for low in range(0, n, block):
        size = min(block, n - low)
        seen = np.zeros((fabric.n_nodes, -(-size // 64)), np.uint64)
        number = np.arange(size)
        missing = size * (n - 1)
        seen[low + number, number // 64] = np.uint64(1) << (number % 64).astype(np.uint64)
        fresh, hops = seen.copy(), 0
        while missing:
            hops += 1
            reached = np.zeros_like(seen)
            if len(first):
                reached[leaving] = np.bitwise_or.reduceat(fresh[far_ends], first, axis=0)
            fresh = reached & ~seen
            if not fresh.any():
                break
            seen |= fresh
            ones = _ones(fresh[:n])
            total += hops * ones
            pairs[hops] += int(ones.sum())
            missing -= int(ones.sum())
    diameter, joined = max((hops for hops, count in pairs.items() if count), default=0), pairs.total()
    return Distances(
        diameter,
        int(total.min()),
        int(total.max()),
        float(total.sum()) / joined if joined else 0.0,
        tuple(pairs[hops] for hops in range(diameter + 1)),
        n * (n - 1) - joined,
    )


def bisection(fabric: Fabric) -> Bisection:
    """The least capacity between halves of the GPUs, cut at places along each of their axes.

    Switches are on the side to which more of their capacity leads. Exact for tori with even sides (twisted
    ones only where a straight cut is the narrowest) and for rail fabrics; an upper bound for others.
    """
    cuts: list[Bisection] = []
    for axis, length in enumerate(fabric.groups[0].shape):
        if length < 2:
            continue
        for offset in sorted({i * length // OFFSETS for i in range(OFFSETS)}):
            inside = (fabric.gpu_coordinates[:, axis] - offset) % length < length // 2
            side = _with_switches(fabric, inside)
            across = side[fabric.link_src] & ~side[fabric.link_dst] & fabric.usable
            last = (offset + length // 2 - 1) % length
            cuts.append(
                Bisection(
                    float(fabric.capacity_bps[across].sum()),
                    int(across.sum()),
                    (int(inside.sum()), int((~inside).sum())),
                    f"axis {_axis_name(fabric, axis)}: {offset}..{last} against the rest",
                )
            )
    even = [cut for cut in cuts if cut.halves[0] == cut.halves[1]]
    return min(even or cuts, key=lambda cut: (abs(cut.halves[0] - cut.halves[1]), cut.capacity_bps))


def _ones(words: NDArray[np.uint64]) -> Int64:
    """(rows,): how many bits are set in each row."""
    ones: Int64 = _ONES[words.view(np.uint8)].sum(axis=1)
    return ones


def _axis_name(fabric: Fabric, axis: int) -> str:
    if len(fabric.groups[0].shape) == 1:
        return "of the GPUs"
    names = fabric.axis_names or [group.kind for group in fabric.groups[1:]] or ["x", "y", "z"]
    return names[axis] if axis < len(names) else str(axis)


def _with_switches(fabric: Fabric, inside: Bool) -> Bool:
    """(n_nodes,): the side of every node; switches where more of their capacity leads, inside if both are
    equal."""
    side = np.zeros(fabric.n_nodes, bool)
    placed = np.zeros(fabric.n_nodes, bool)
    side[: fabric.n_gpus], placed[: fabric.n_gpus] = inside, True
    for _ in range(2 * len(fabric.groups)):
        before = side.copy()
        for group in fabric.groups[1:]:
            part = slice(group.first, group.first + group.size)
            pull = np.where(side[fabric.link_dst], 1.0, -1.0) * fabric.capacity_bps * placed[fabric.link_dst]
            balance: Float = np.bincount(fabric.link_src, pull, fabric.n_nodes)[part].astype(np.float64)
            side[part] = np.where(balance == 0, True if not placed[part].any() else side[part], balance > 0)
            placed[part] = True
        if np.array_equal(side, before):
            break
    return side
