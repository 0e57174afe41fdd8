"""All-reduce: what must cross between the parts of a partition of the ranks, over all partitions.

Between p parts every element must cross at least 2(p - 1) times: the part that adds up has received from the
p - 1 others, and they must receive the sum (one-way gossip: Harary and Schwenk 1974; for single ranks and one
link rate this is the well-known 2(n - 1)S/(nB)). So the links that leave the parts carry 2(p - 1)S together.
"""

from math import inf

import numpy as np

from railweave.framework.limits.flow import Network
from railweave.framework.limits.wires import BETTER, CutBound, Wires, seconds
from railweave.framework.model.arrays import Bool


def partition_bound(wires: Wires, bits: float, at_least: CutBound) -> CutBound:
    """The largest bound of all partitions, by the links that leave their parts; with reversed wires, that
    enter them.

    A part is ranks and the switches that make its links fewest; parts may share a switch, since data to a
    rank of another part leaves its own in any case. A time is too short if some partition passes less than
    2(p - 1) `bits` in it. That is a minimum over partitions of a submodular function; the greedy algorithm
    for Dilworth truncations finds it by n minimum cuts (Cunningham 1985, "Optimal attack and reinforcement of
    a network").
    """
    network, best = Network(wires), at_least
    while best.seconds < inf:
        parts = _weakest(network, wires, bits, best.seconds)
        crossing = np.array([wires.leaving(part) for part in parts]).sum(axis=0)
        needed = seconds(2 * (len(parts) - 1) * bits, *map(float, crossing))
        if needed <= best.seconds * BETTER:
            break
        best = CutBound(needed, _words(wires, parts))
    return best


def _weakest(network: Network, wires: Wires, bits: float, time_s: float) -> list[Bool]:
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
        joined = inside.copy()
        apart = []
        for part in parts:
            if np.any(part[wires.ranks] & within):
                joined |= part
            else:
                apart.append(part)
        parts = [*apart, joined]
    return parts


def _words(wires: Wires, parts: list[Bool]) -> str:
    sizes = sorted((int(part[wires.ranks].sum()) for part in parts), reverse=True)
    if sizes[0] == 1:
        return f"between {len(parts)} single GPUs"
    text = ", ".join(map(str, sizes[:4])) + (", ..." if len(sizes) > 4 else "")
    return f"between {len(parts)} parts of {text} GPUs"
