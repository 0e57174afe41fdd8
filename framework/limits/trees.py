"""What ranks must receive from ranks, over all cuts: the largest bound, by maximum flows.

Source: ForestColl (arXiv 2402.06787), section 4: all-gather's limit is the largest (ranks inside) x S/n /
(rate out) over all cuts that leave a rank outside; a guess is high enough when the whole array flows to every
single rank. Here the guess rises to the bound of the cut that refutes it (Dinkelbach 1967), so each rank is
tested once.
"""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from railweave.framework.limits.flow import Network
from railweave.framework.limits.wires import BETTER, CutBound, Wires
from railweave.framework.model.arrays import Bool

Value = Callable[[Bool], CutBound]


def gather_bound(wires: Wires, bits: float, at_least: CutBound) -> CutBound:
    """The all-gather of an array of `bits`: every rank's share reaches every rank. With reversed wires: the
    reduce-scatter."""
    n, network, best = len(wires.ranks), Network(wires), at_least

    def value(inside: Bool) -> CutBound:
        return wires.cut(float(inside[wires.ranks].sum()) * bits / n, inside)

    for sink in range(n):
        best = _raised(wires, network, best, [bits / n] * n, _only(sink, n, 2 * bits), bits, value)
    return best


def pair_bound(
    wires: Wires,
    pairs: Sequence[tuple[int, int]],
    bits: float,
    at_least: CutBound,
    value: Value | None = None,
    network: Network | None = None,
) -> CutBound:
    """`bits` flow from the first to the second rank of every pair, one pair at a time.

    `value`: the bound that a cut which is too narrow gives, by default for its `bits`.
    """
    n, best = len(wires.ranks), at_least
    network = network or Network(wires)
    for source, sink in pairs:
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


def broadcast_bound(
    wires: Wires, bits: float, at_least: Sequence[CutBound], root: int | None = None
) -> CutBound:
    """`bits` from the `root` (a place in the list of ranks; None for the best one) to every rank.

    at_least: (n_ranks,) by root.
    """
    n, network = len(wires.ranks), Network(wires)
    lower, best = list(at_least), CutBound(inf, "around every root")
    roots = range(n) if root is None else [root]
    for chosen in sorted(roots, key=lambda r: lower[r].seconds):
        if lower[chosen].seconds * BETTER >= best.seconds:
            continue

        def value(inside: Bool) -> CutBound:
            """The bound of the cut, noted for every root on its side."""
            cut = wires.cut(bits, inside)
            for other in np.flatnonzero(inside[wires.ranks]):
                lower[other] = lower[other].or_larger(cut)
            return cut

        for sink in range(n):
            if sink != chosen and lower[chosen].seconds < best.seconds:
                lower[chosen] = pair_bound(wires, [(chosen, sink)], bits, lower[chosen], value, network)
        best = min(best, lower[chosen], key=lambda bound: bound.seconds)
    return best if best.seconds < inf else lower[roots[0]]


def _only(rank: int, n: int, bits: float) -> list[float]:
    return [bits if i == rank else 0.0 for i in range(n)]


def _raised(
    wires: Wires,
    network: Network,
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
