"""A family of cuts that is quick to evaluate: single GPUs, the GPUs of each switch or with one coordinate,
halves of fabrics without switches, and their complements."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from railweave.framework.analysis.limits.wires import NOTHING, CutBound, Wires, seconds
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.model.arrays import Float, Int64

MOST_HALVES = 16
"""Halves of one axis that are tried."""


def family_bounds(wires: Wires, collective: str, size_bits: float) -> list[CutBound]:
    """The largest bound of the family; for a broadcast one for each rank as its root.

    `size_bits` on the wire. With x of n ranks inside a cut, what must leave it and what must enter it:
    all-gather xS/n and (n-x)S/n; reduce-scatter (n-x)S/n and xS/n; all-to-all x(n-x)S/n both; all-reduce S
    both, and over all parts of a partition into p together 2(p-1)S; broadcast S both; send-recv S for every
    rank inside whose next is outside, and S for every rank outside whose next is inside.
    """
    order, n = wires.ranks, len(wires.ranks)
    best = [NOTHING] * (n if collective == "broadcast" else 1)
    for label, parts, name in gpu_sets(wires.fabric):
        home = label[order]
        x = np.bincount(home, minlength=parts)
        cuts = np.flatnonzero((x > 0) & (x < n))
        if not len(cuts):
            continue
        must_leave, must_enter = _payload(collective, home, x, size_bits)
        leave, enter = _narrowest(wires, label, parts, (must_leave, must_enter))
        out = seconds(must_leave[cuts], *leave[:, cuts])
        into = seconds(must_enter[cuts], *enter[:, cuts])
        if collective == "broadcast":
            _raise_roots(best, np.searchsorted(cuts, home), cuts, out, into, name)
        else:
            bound_s = np.stack((out, into), axis=1).ravel()
            cut, inward = divmod(int(np.argmax(bound_s)), 2)
            words = f"{'into' if inward else 'out of'} {name(int(cuts[cut]))}"
            best = [max(*best, CutBound(float(bound_s.max()), words), key=_seconds)]
        if collective == "all-reduce" and len(cuts) > 1:
            words = f"between {name(0)} and all others of the kind"
            for way in (leave, enter):
                between = float(seconds(2 * (len(cuts) - 1) * size_bits, *way.sum(axis=1)))
                best = [max(*best, CutBound(between, words), key=_seconds)]
    return best


def _seconds(bound: CutBound) -> float:
    return bound.seconds


def _raise_roots(
    best: list[CutBound], home: Int64, cuts: Int64, out: Float, into: Float, name: Callable[[int], str]
) -> None:
    """A broadcast must leave the cut of its root, and enter all others. `home`: the place of each rank's cut
    among `cuts`."""
    first = int(np.argmax(into))
    others = np.where(np.arange(len(into)) == first, -np.inf, into)
    second = int(np.argmax(others))
    for rank, own_cut in enumerate(home.tolist()):
        bounds = [(float(out[own_cut]), "out of", own_cut)]
        other = second if own_cut == first else first
        if other != own_cut:
            bounds.append((float(into[other]), "into", other))
        largest, way, cut = max(bounds, key=lambda bound: (bound[0], -bound[2]))
        if largest > best[rank].seconds:
            best[rank] = CutBound(largest, f"{way} {name(int(cuts[cut]))}")


def _payload(collective: str, home: Int64, x: Int64, bits: float) -> tuple[Float, Float]:
    """What must leave and what must enter each part, which has x of the n ranks; `home` (n,) is theirs."""
    n = len(home)
    match collective:
        case "all-gather":
            return x * bits / n, (n - x) * bits / n
        case "reduce-scatter":
            return (n - x) * bits / n, x * bits / n
        case "all-to-all":
            return x * (n - x) * bits / n, x * (n - x) * bits / n
        case "send-recv":
            following = np.roll(home, -1)
            moves = home != following
            leave, enter = (np.bincount(ends[moves], minlength=len(x)) for ends in (home, following))
            return np.float64(bits) * leave, np.float64(bits) * enter
        case _:
            return np.full(len(x), bits), np.full(len(x), bits)


def _crossing(wires: Wires, part: Int64, parts: int) -> tuple[Float, Float]:
    """(2, parts) each: rate and free bits out of each part, and into it."""
    ends = part[wires.fabric.link_src], part[wires.fabric.link_dst]
    crosses = ends[0] != ends[1]

    def sums(end: Int64) -> Float:
        chosen = crosses & (end >= 0)
        return np.stack(
            [np.bincount(end[chosen], values[chosen], parts) for values in (wires.rate, wires.free)]
        )

    return sums(ends[0]), sums(ends[1])


def _narrowest(wires: Wires, label: Int64, parts: int, must: tuple[Float, Float]) -> tuple[Float, Float]:
    """(2, parts) each: rate and free bits out of each set of GPUs, and into it, with those of its switches
    with which what `must` leave and enter it takes the longest."""
    best: list[Float] | None = None
    for part in _with_switches(wires.fabric, label):
        crossing = _crossing(wires, part, parts)
        if best is None:
            best = list(crossing)
            continue
        for way, (ours, bits) in enumerate(zip(crossing, must, strict=True)):
            longer = seconds(bits, *ours) > seconds(bits, *best[way])
            best[way] = np.where(longer, ours, best[way])
    assert best is not None
    return best[0], best[1]


def gpu_sets(fabric: Fabric) -> Iterator[tuple[Int64, int, Callable[[int], str]]]:
    """Disjoint sets of all GPUs: single ones; the GPUs that are nearest to each switch of a kind; those that
    share their first coordinates, or one of them; halves of fabrics without switches. The set of each GPU,
    (n_gpus,), how many there are, and the name of each."""
    n = fabric.n_gpus
    yield np.arange(n), n, fabric.node_name
    if len(fabric.groups) == 1:
        yield from _halves(fabric)
        return
    seen = set[bytes]()
    for group in fabric.groups[1:]:
        nearest = _nearest(fabric, group)
        seen.add(np.unique(nearest, return_inverse=True)[1].tobytes())
        yield nearest, group.size + 1, partial(_set_name, group)
    shape, places = fabric.groups[0].shape, fabric.gpu_coordinates
    chosen = [slice(0, end) for end in range(1, len(shape))]
    chosen += [slice(axis, axis + 1) for axis in range(len(shape))]
    for axes in chosen:
        label = np.ravel_multi_index(tuple(places[:, axes].T), shape[axes])
        number = np.unique(label, return_inverse=True)[1].astype(np.int64)
        if number.tobytes() not in seen:
            seen.add(number.tobytes())
            yield number, int(number.max()) + 1, partial(_some_of, fabric, number)


def _nearest(fabric: Fabric, group: NodeGroup) -> Int64:
    """(n_gpus,): the switch of the group that is nearest to each GPU over other switches, the first of those
    as near; `group.size` where there is none."""
    n, far = fabric.n_gpus, np.iinfo(np.int64).max
    first = np.full(fabric.n_nodes, far)
    first[group.first : group.first + group.size] = np.arange(group.size)
    open_links = np.flatnonzero(fabric.link_dst >= n)  # a GPU passes nothing on to a switch
    src, dst = fabric.link_src[open_links], fabric.link_dst[open_links]
    while np.any(first[:n] == far):
        fresh = first.copy()
        np.minimum.at(fresh, src, first[dst])
        fresh = np.where(first < far, first, fresh)
        if np.array_equal(fresh, first):
            break
        first = fresh
    nearest: Int64 = np.minimum(first[:n], group.size)
    return nearest


def _with_switches(fabric: Fabric, label: Int64) -> Iterator[Int64]:
    """(n_nodes,): the set of every node, -1 outside all. First of the GPUs alone; then with the switches
    next to them whose GPUs are all of one set, so that their links are inside and not cut; then with those
    behind these whose nearest GPUs are, and so on."""
    part = np.full(fabric.n_nodes, -1, np.int64)
    part[: fabric.n_gpus] = label
    yield part
    mixed, far = -2, np.iinfo(np.int64).max
    mark = part.copy()  # -1: not reached, mixed: nearest GPUs of several sets
    src, dst = fabric.link_src, fabric.link_dst
    while True:
        links = np.flatnonzero((mark[dst] == -1) & (mark[src] != -1))
        if not len(links):
            return
        low, high = np.full(fabric.n_nodes, far), np.full(fabric.n_nodes, -far)
        np.minimum.at(low, dst[links], mark[src[links]])
        np.maximum.at(high, dst[links], mark[src[links]])
        reached = np.flatnonzero(high > -far)
        mark[reached] = np.where(low[reached] == high[reached], low[reached], mixed)
        if np.any(mark[reached] >= 0):
            yield np.where(mark >= 0, mark, -1)


def _halves(fabric: Fabric) -> Iterator[tuple[Int64, int, Callable[[int], str]]]:
    """The GPUs of k/2 places in a row along each axis, and the others: they limit all-to-alls on tori."""
    for axis, length in enumerate(fabric.groups[0].shape):
        place = fabric.gpu_coordinates[:, axis]
        for first in range(0, length // 2, max(1, length // MOST_HALVES)):
            outside = ((place - first) % length >= length // 2).astype(np.int64)
            yield outside, 2, partial(_some_of, fabric, outside)


def _some_of(fabric: Fabric, part: Int64, which: int) -> str:
    gpus = np.flatnonzero(part == which)
    names = [fabric.node_name(int(gpu)) for gpu in gpus[:4]]
    return f"the {len(gpus)} GPUs {', '.join(names)}{', ...' if len(gpus) > 4 else ''}"


def _set_name(group: NodeGroup, which: int) -> str:
    others = which == group.size
    return "the other GPUs" if others else f"the GPUs of {group.name(group.first + which)}"
