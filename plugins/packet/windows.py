"""The window of an ideal transport."""

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, PathBatch
from railweave.framework.model.arrays import Float

SPARE_PACKETS = 8
"""Beyond the bandwidth-delay product: acknowledgements come for four packets at a time, and queues that share
a link need something to share."""


def ideal_window(fabric: Fabric, paths: PathBatch, packet: PacketFormat) -> Float:
    """(P,): bytes that keep all paths of a pair busy on idle links: the rate of its first links times the
    longest round trip of a packet and its acknowledgement, and SPARE_PACKETS."""
    n, hop_path, pair = len(paths.src), paths.hop_path, paths.path_pair
    rate, latency = fabric.capacity_bps, fabric.latency_s
    both = 8.0 * (packet.full_packet_bytes + packet.acknowledgement_bytes)
    trip = both / rate[paths.links] + latency[paths.links] + latency[paths.links ^ 1]
    of_path = np.bincount(hop_path, trip, len(paths.weight))
    longest = np.zeros(n)
    np.maximum.at(longest, pair, of_path)
    has = np.diff(paths.hop_start) > 0
    first = paths.links[paths.hop_start[:-1][has]].astype(np.int64)
    used = np.unique(pair[has] * fabric.n_links + first)
    out = np.bincount(used // fabric.n_links, rate[used % fabric.n_links], n)
    return np.asarray(out * longest / 8 + SPARE_PACKETS * packet.full_packet_bytes, np.float64)
