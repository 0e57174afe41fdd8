"""Max-min fair rates of flows over links, in whole arrays at a time."""

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Float, Int64

TIE = 1e-12
"""Shares that differ by less, relative to them, are equal: they come from sums in another order."""


def fair_rates(capacity: Float, start: Int64, link: NDArray[np.integer], use: Float) -> Float:
    """(n,), bit/s: the max-min fair rate of each of n flows. Flow f takes `use[h]` of each of its bit/s on
    `link[h]`, for h in start[f]:start[f + 1]; a flow without links has rate 0.

    Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), many links in one round: the flows of
    a link are done if none of them has a link with a smaller share, since what other links do can then no
    longer change it.
    """
    n = len(start) - 1
    rates = np.zeros(n)
    flow = np.repeat(np.arange(n), np.diff(start))
    ids, link = np.unique(link, return_inverse=True)
    rest, share = capacity[ids].astype(np.float64), np.zeros(len(ids))
    while len(flow):
        weight = np.bincount(link, use, len(ids))
        in_use = weight > 0
        share[in_use] = np.maximum(share[in_use], rest[in_use] / weight[in_use])  # they only grow
        begins = np.flatnonzero(np.diff(flow, prepend=-1))
        hop_share = share[link]
        lowest = np.repeat(
            np.minimum.reduceat(hop_share, begins), np.diff(np.append(begins, len(flow)))
        )  # by hop: the smallest share along its flow
        limit = np.full(len(ids), np.inf)
        np.minimum.at(limit, link, lowest)
        done = np.zeros(n, bool)
        done[flow[limit[link] >= hop_share * (1 - TIE)]] = True
        last = done[flow]
        rates[flow[last]] = lowest[last]
        rest = np.maximum(rest - np.bincount(link[last], (use * lowest)[last], len(ids)), 0.0)
        flow, link, use = flow[~last], link[~last], use[~last]
    return rates


def hops_of(start: Int64, flows: NDArray[np.integer]) -> Int64:
    """Positions of all hops of these flows, one flow behind the other."""
    count = start[flows + 1] - start[flows]
    shift = start[flows] - np.cumsum(count) + count
    hops: Int64 = np.arange(int(count.sum())) + np.repeat(shift, count)
    return hops
