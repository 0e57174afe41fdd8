"""What the paths of pairs are like on idle links, and the window of an ideal transport there."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, PathBatch
from railweave.framework.model.arrays import Float, Int64
from railweave.plugins.packet.layout import PICOSECONDS

SPARE_PACKETS = 8
"""Beyond the bandwidth-delay product: acknowledgements come for four packets at a time, and queues that share
a link need something to share."""


@dataclass(frozen=True, slots=True)
class Links:
    """Of the paths of pairs (P,): bytes a second that they carry together, the most that the NICs of the
    sender do, picoseconds of the longest round trip of a packet and its answer on idle links, most hops."""

    rate: Float
    nic_rate: Float
    trip: Int64
    hops: Int64


def links_of(fabric: Fabric, paths: PathBatch, packet: PacketFormat) -> Links:
    """Of the pairs of `paths`. What paths carry together is at most what their first links do, what their
    last links do, and what the slowest link of each does."""
    n, hop_path, pair = len(paths.src), paths.hop_path, paths.path_pair
    rate, latency = fabric.capacity_bps, fabric.latency_s
    both = 8.0 * (packet.full_packet_bytes + packet.acknowledgement_bytes)
    trip = both / rate[paths.links] + latency[paths.links] + latency[paths.links ^ 1]
    longest, hops = np.zeros(n), np.zeros(n, np.int64)
    np.maximum.at(longest, pair, np.bincount(hop_path, trip, len(paths.weight)))
    np.maximum.at(hops, pair, np.diff(paths.hop_start))
    slowest = np.full(len(paths.weight), np.inf)
    np.minimum.at(slowest, hop_path, rate[paths.links])
    has = np.diff(paths.hop_start) > 0
    out = _together(rate, pair[has], paths.links[paths.hop_start[:-1][has]].astype(np.int64), n)
    into = _together(rate, pair[has], paths.links[paths.hop_start[1:][has] - 1].astype(np.int64), n)
    carry = np.minimum(np.minimum(out, into), np.bincount(pair[has], slowest[has], n))
    return Links(carry / 8, out / 8, np.rint(longest * PICOSECONDS).astype(np.int64), hops)


def _together(rate_bps: Float, pair: Int64, link: Int64, n_pairs: int) -> Float:
    """(P,): the rates of the links of each pair together, each counted once."""
    used = np.unique(pair * len(rate_bps) + link)
    return np.bincount(used // len(rate_bps), rate_bps[used % len(rate_bps)], n_pairs).astype(np.float64)


def ideal_window(links: Links, packet: PacketFormat) -> Float:
    """(P,): bytes that keep all paths of a pair busy: what its NICs carry in the longest round trip, and
    SPARE_PACKETS."""
    return np.asarray(
        links.nic_rate * links.trip / PICOSECONDS + SPARE_PACKETS * packet.full_packet_bytes, np.float64
    )


def most_in_nic(paths: PathBatch) -> Int64:
    """(P,): packets that a pair has in the queues of a NIC that serves its pairs in turn: one, and two for
    each of its links where paths leave by several, so that none of them idles."""
    has, n_links = np.diff(paths.hop_start) > 0, int(paths.links.max(initial=0)) + 1
    used = np.unique(paths.path_pair[has] * n_links + paths.links[paths.hop_start[:-1][has]])
    first_links = np.bincount(used // n_links, minlength=len(paths.src))
    return np.where(first_links <= 1, 1, 2 * first_links)
