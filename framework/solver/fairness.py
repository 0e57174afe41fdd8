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
    if len(link) < len(capacity):
        ids, link = np.unique(link, return_inverse=True)
        capacity = capacity[ids]
    link, n_links = link.astype(np.intp), len(capacity)
    rest, share, fair = capacity.astype(np.float64), np.zeros(n_links), np.zeros(n_links)
    weight, count = np.bincount(link, use, n_links), np.bincount(link, minlength=n_links)
    while len(link):  # places instead of masks, and `at` instead of `reduceat`: three to six times as fast
        np.divide(rest, weight, out=fair, where=count > 0)
        np.maximum(share, fair, out=share)  # they only grow
        hop_share = share[link]
        lowest = np.full(n, np.inf)  # by flow: the smallest share along it
        np.minimum.at(lowest, flow, hop_share)
        limited = np.flatnonzero(lowest[flow] < hop_share * (1 - TIE))
        later = np.zeros(n_links, bool)
        later[link[limited]] = True
        done = np.zeros(n, bool)
        done[flow[np.flatnonzero(~later[link])]] = True
        of_done = done[flow]
        last, kept = np.flatnonzero(of_done), np.flatnonzero(~of_done)
        ended, flows = link[last], flow[last]
        rates[flows] = lowest[flows]
        rest = np.maximum(rest - np.bincount(ended, use[last] * rates[flows], n_links), 0.0)
        weight -= np.bincount(ended, use[last], n_links)
        count -= np.bincount(ended, minlength=n_links)
        flow, link, use = flow[kept], link[kept], use[kept]
    return rates


def hops_of(start: Int64, flows: NDArray[np.integer]) -> Int64:
    """Positions of all hops of these flows, one flow behind the other."""
    count = start[flows + 1] - start[flows]
    shift = start[flows] - np.cumsum(count) + count
    hops: Int64 = np.arange(int(count.sum())) + np.repeat(shift, count)
    return hops
