"""The tightest of all cuts, or of all partitions, by maximum flows.

What ranks must receive from ranks, over all cuts. Source: ForestColl (arXiv 2402.06787), section 4:
all-gather's limit is the largest (ranks inside) x S/n / (rate out) over all cuts that leave a rank outside; a
guess is high enough when the whole array flows to every single rank. Here the guess rises to the bound of the
cut that refutes it (Dinkelbach 1967), so each rank is tested once, and of ranks that are alike one.

All-reduce: what must cross between the parts of a partition of the ranks, over all partitions. Between p
parts every element must cross at least 2(p - 1) times: the part that adds up has received from the p - 1
others, and they must receive the sum (one-way gossip: Harary and Schwenk 1974; for single ranks and one link
rate this is the well-known 2(n - 1)S/(nB)). So the links that leave the parts carry 2(p - 1)S together.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from math import inf
from typing import NamedTuple

import numpy as np

from railweave.framework.analysis.limits.alike import Alike, all_alike, ranks_alike
from railweave.framework.analysis.limits.family import gpu_sets
from railweave.framework.analysis.limits.flow import FlowNetwork
from railweave.framework.analysis.limits.wires import BETTER, NOTHING, CutBound, Wires, seconds
from railweave.framework.model.arrays import Bool, Float, Int64

Value = Callable[[Bool], CutBound]
MOST_OF_ALL_SETS = 8
"""Ranks up to which an all-to-all is held against every set of them."""
LEAST_ALIKE = 4
"""Ranks that are alike, on average, from which on prices by class are tried: with fewer they cost what the
weakest partition does."""


def gather_bound(wires: Wires, bits: float, at_least: CutBound, apart: Sequence[Alike]) -> CutBound:
    """The all-gather of an array of `bits`: every rank's share reaches every rank. With reversed wires: the
    reduce-scatter. `apart`: ranks of which none is like another, and one like every rank."""
    n, best = len(wires.ranks), at_least

    def value(inside: Bool) -> CutBound:
        return wires.cut(float(inside[wires.ranks].sum()) * bits / n, inside)

    for alike in apart:
        network = FlowNetwork(wires, alike.label)
        best = _raised(wires, network, best, [bits / n] * n, _only(alike.first, n, 2 * bits), bits, value)
    return best


def pair_bound(
    wires: Wires,
    pairs: Sequence[tuple[int, int, FlowNetwork]],
    bits: float,
    at_least: CutBound,
    value: Value | None = None,
) -> CutBound:
    """`bits` flow from the first to the second rank of every pair, over its network, one pair at a time.

    `value`: the bound that a cut which is too narrow gives, by default for its `bits`.
    """
    n, best = len(wires.ranks), at_least
    for source, sink, network in pairs:
        best = _raised(
            wires,
            network,
            best,
            _only(source, n, 2 * bits),
            _only(sink, n, 2 * bits),
            bits,
            value or (lambda inside: wires.cut(bits, inside)),
        )
    return best


def exchange_bound(wires: Wires, bits: float, at_least: CutBound) -> CutBound:
    """`bits` from every rank to all of them in equal parts, out of and into sets of ranks, each with the
    switches that make its links fewest: all sets of few ranks, else those of the family."""
    n, best, nodes = len(wires.ranks), at_least, wires.fabric.n_nodes
    if n <= MOST_OF_ALL_SETS:
        sets = np.arange(1, 1 << (n - 1))[:, None] >> np.arange(n) & 1 > 0
    else:
        families = [(label[wires.ranks], parts) for label, parts, _ in gpu_sets(wires.fabric)]
        sets = np.concatenate([label == np.arange(parts)[:, None] for label, parts in families])
        sets = sets[sets.any(axis=1) & ~sets.all(axis=1)]
    marks = np.zeros((len(sets), nodes), np.int64)
    marks[:, wires.ranks] = sets
    apart = all_alike(wires, marks)

    def must(within: Bool) -> float:
        return bits / n * int(within.sum()) * int((~within).sum())

    for way in (wires, wires.reverse()):

        def value(inside: Bool, way: Wires = way) -> CutBound:
            return way.cut(must(inside[way.ranks]), inside)

        for alike in apart:
            within, network = sets[alike.first], FlowNetwork(way, alike.label)
            need = must(within)
            into, out = (np.where(side, 4 * need, 0.0).tolist() for side in (within, ~within))
            best = _raised(way, network, best, into, out, need, value)
    return best


def broadcast_bound(
    wires: Wires, bits: float, at_least: Sequence[CutBound], roots: Sequence[int]
) -> CutBound:
    """`bits` from the best of `roots`, places in the list of ranks, to every rank.

    at_least: (n_ranks,) by root.
    """
    lower, best = list(at_least), CutBound(inf, "around every root")
    for chosen in sorted(roots, key=lambda r: lower[r].seconds):
        if lower[chosen].seconds * BETTER >= best.seconds:
            continue

        def value(inside: Bool) -> CutBound:
            """The bound of the cut, noted for every root on its side."""
            cut = wires.cut(bits, inside)
            for other in np.flatnonzero(inside[wires.ranks]):
                lower[other] = lower[other].or_larger(cut)
            return cut

        for alike in ranks_alike(wires, chosen):
            if alike.first != chosen and lower[chosen].seconds < best.seconds:
                pair = (chosen, alike.first, FlowNetwork(wires, alike.label))
                lower[chosen] = pair_bound(wires, [pair], bits, lower[chosen], value)
        best = min(best, lower[chosen], key=lambda bound: bound.seconds)
    return best if best.seconds < inf else lower[roots[0]]


def _only(rank: int, n: int, bits: float) -> list[float]:
    return [bits if i == rank else 0.0 for i in range(n)]


def _raised(
    wires: Wires,
    network: FlowNetwork,
    best: CutBound,
    into: Sequence[float],
    out: Sequence[float],
    enough: float,
    value: Value,
) -> CutBound:
    """The first bound, from `best` upwards, in whose time `enough` flows."""
    while best.seconds < inf:
        inside = network.narrowest(wires.rate * best.seconds + wires.free, into, out, enough)
        if inside is None:
            break
        bound = value(inside)
        if bound.seconds <= best.seconds * BETTER:
            break
        best = bound
    return best


def partition_bound(
    wires: Wires, bits: float, at_least: CutBound, apart: Sequence[Alike]
) -> tuple[CutBound, Float | None]:
    """The largest bound of all partitions, by the links that leave their parts; with reversed wires, that
    enter them.

    A part is ranks and the switches that make its links fewest; parts may share a switch, since data to a
    rank of another part leaves its own in any case. A time is too short if some partition passes less than
    2(p - 1) `bits` in it. That is a minimum over partitions of a submodular function; the greedy algorithm
    for Dilworth truncations finds it by n minimum cuts (Cunningham 1985, "Optimal attack and reinforcement of
    a network"). Where prices show that there is none, they are returned too (see
    `_level_prices`, `_by_class`). `apart` as for `gather_bound`.
    """
    best, merged = at_least, [(alike, FlowNetwork(wires, alike.label)) for alike in apart]
    while best.seconds < inf:
        price = _level_prices(wires, bits, best.seconds, merged)
        by_class = None
        if price is None and (by_class := _by_class(wires, bits, best.seconds, merged)) is not None:
            price = by_class.price if by_class.price.sum() >= -2 * bits * BETTER else None
        if price is not None:
            return best, price
        bound = best if by_class is None else _between(wires, bits, by_class.parts)
        if bound.seconds <= best.seconds * BETTER:
            bound = _between(wires, bits, _weakest(FlowNetwork(wires), wires, bits, best.seconds))
        if bound.seconds <= best.seconds * BETTER:
            break
        best = bound
    return best, None


def _between(wires: Wires, bits: float, parts: Sequence[Bool]) -> CutBound:
    """What a partition bounds an all-reduce to."""
    if len(parts) < 2:
        return NOTHING
    crossing = np.array([wires.leaving(part) for part in parts]).sum(axis=0)
    return CutBound(float(seconds(2 * (len(parts) - 1) * bits, *crossing)), _words(wires, parts))


Merged = Sequence[tuple[Alike, FlowNetwork]]
"""Ranks that are alike, and the network of the first of them."""


def _level_prices(wires: Wires, bits: float, time_s: float, merged: Merged) -> Float | None:
    """(n_ranks,): prices that show that no partition is too narrow for this time, None where there are none
    so simple. They are -2 `bits` in all, and every set of ranks passes 2 `bits` more than its prices add up
    to, so the parts of a partition pass 2(p - 1) `bits`. Tried: one price for all, but for ranks that pass
    less by themselves."""
    n, pipes = len(wires.ranks), wires.rate * time_s + wires.free
    leaving = np.bincount(wires.src, pipes, wires.fabric.n_nodes)[wires.ranks]
    most = np.sort(leaving - 2 * bits)
    levels = (-2 * bits - np.append(0.0, np.cumsum(most)[:-1])) / np.arange(n, 0, -1)
    fits = np.flatnonzero(levels <= most + (BETTER - 1) * bits)
    if not len(fits):
        return None
    price: Float = np.minimum(leaving - 2 * bits, levels[fits[0]])
    pays, gets = np.maximum(-price, 0.0), np.maximum(price, 0.0)
    enough = 2 * bits + float(gets.sum())
    for alike, network in merged:
        into = gets.copy()
        into[alike.first] = 2 * enough
        if network.narrowest(pipes, into.tolist(), pays.tolist(), enough) is not None:
            return None
    return price


class _ByClass(NamedTuple):
    """The largest prices (n_ranks,) that are the same for ranks that are alike, and a partition of the ranks
    that allows no larger ones; it is empty where sets that do not are several images of one."""

    price: Float
    parts: list[Bool]


def _by_class(wires: Wires, bits: float, time_s: float, merged: Merged) -> _ByClass | None:
    """The greedy algorithm of `_weakest` with a class of ranks in each step: its price falls to what the
    narrowest set with one of them allows (Dinkelbach 1967), since a set that is tight for one has an image
    for each of the others. None where few ranks are alike."""
    n, pipes = len(wires.ranks), wires.rate * time_s + wires.free
    number = np.empty(n, np.int64)
    for i, (alike, _) in enumerate(merged):
        number[alike.members] = i
    apart = all(_tells_apart(alike.label[wires.ranks], number) for alike, _ in merged)
    if len(merged) * LEAST_ALIKE > n or not apart:
        return None
    leaving = np.bincount(wires.src, pipes, wires.fabric.n_nodes)[wires.ranks]
    price: Float = np.asarray(leaving - 2 * bits, np.float64)
    parts: list[Bool] = []
    complete = True
    for i, (alike, network) in enumerate(merged):
        tight = np.arange(wires.fabric.n_nodes) == wires.ranks[alike.members][:, None]
        while True:
            pays, gets = np.maximum(-price, 0.0), np.where(number <= i, np.maximum(price, 0.0), 0.0)
            enough = 2 * bits + float(gets.sum())
            pays[number > i] = gets[alike.first] = 2 * enough
            inside = network.narrowest(pipes, gets.tolist(), pays.tolist(), enough)
            within = None if inside is None else inside[wires.ranks]
            if inside is None or within is None:
                break
            lacks = float(price[within].sum()) + 2 * bits - float(pipes[wires.out(inside)].sum())
            if lacks <= (BETTER - 1) * bits:
                break
            shared = np.count_nonzero(within[alike.members])
            price[alike.members] -= lacks / shared
            tight, complete = inside[None], complete and shared == len(alike.members)
        for part in tight:
            parts = _joined(wires, parts, part)
    return _ByClass(price, parts if complete else [])


def _joined(wires: Wires, parts: Sequence[Bool], inside: Bool) -> list[Bool]:
    """The parts with another one, which takes in those that share a rank with it."""
    within = inside[wires.ranks]
    meets = np.array([np.any(part[wires.ranks] & within) for part in parts], bool)
    joined: Bool = np.any([inside, *compress(parts, meets)], axis=0)
    return [*compress(parts, ~meets), joined]


def _tells_apart(label: Int64, number: Int64) -> bool:
    """Whether no class of `label` (n_ranks,) has ranks of two classes of `number` (n_ranks,)."""
    of_label = np.zeros(int(label.max()) + 1, np.int64)
    of_label[label] = number
    return bool(np.array_equal(of_label[label], number))


def _weakest(network: FlowNetwork, wires: Wires, bits: float, time_s: float) -> list[Bool]:
    """The parts (n_nodes,) for which the bits that leave them in `time_s`, less 2 `bits` each, have the least
    sum."""
    n = len(wires.ranks)
    pipes = np.minimum(wires.rate * time_s + wires.free, 4 * n * bits)  # wider is as good as infinite
    infinite = 2 * float(pipes.sum()) + 4 * n * bits
    price = [0.0] * n
    parts: list[Bool] = []
    for rank in range(n):
        into = [max(0.0, price[i]) for i in range(rank)] + [0.0] * (n - rank)
        out = [max(0.0, -price[i]) for i in range(rank)] + [infinite] * (n - rank)
        into[rank], out[rank] = infinite, 0.0
        inside = network.narrowest(pipes, into, out, infinite)
        assert inside is not None, "the cut around a rank alone is narrower than all links together"
        leaving = float(pipes[wires.out(inside)].sum())
        within = inside[wires.ranks]
        price[rank] = leaving - 2 * bits - sum(price[i] for i in range(rank) if within[i])
        parts = _joined(wires, parts, inside)
    return parts


def _words(wires: Wires, parts: Sequence[Bool]) -> str:
    sizes = sorted((int(part[wires.ranks].sum()) for part in parts), reverse=True)
    if sizes[0] == 1:
        return f"between {len(parts)} single GPUs"
    text = ", ".join(map(str, sizes[:4])) + (", ..." if len(sizes) > 4 else "")
    return f"between {len(parts)} parts of {text} GPUs"
