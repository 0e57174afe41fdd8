"""What a message takes alone on idle links: the time that slowdowns relate to."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, PathBatch
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int64
from railweave.plugins.packet.layout import HEAD_BYTES
from railweave.plugins.packet.windows import links_of

PICOSECONDS = 1e12
"""In a second."""


@dataclass(frozen=True, eq=False, slots=True)
class Times(ArrayNoun):
    """Of a packet of each of m messages on the h links of a path, (m, h) each: `whole` until its last byte
    has left a link, `on` until the next link may begin with it."""

    whole: Float
    on: Float

    @property
    def before(self) -> Float:
        """(m, h): from the start of the path until each link may begin."""
        return np.asarray(np.cumsum(self.on, axis=1) - self.on, np.float64)


def alone_ps(
    fabric: Fabric,
    packet: PacketFormat,
    paths: PathBatch,
    pair: Int64,
    size: Int64,
    cut_through: bool = False,
) -> Float:
    """(m,): picoseconds that messages of `size` bytes (m,) of the pairs `pair` (m,) of `paths` take, each
    alone on idle links; inf without a path.

    All packets take the path that a full packet is fastest on: packet k may begin on link j once it is there
    and packet k - 1 has left, so the time is that of the longest way through this grid of packets and links.
    Of a pair whose paths begin with several links: the longer of the first packet's time, and that of all
    bytes at the rate that the paths carry together and of the last packet on the other links.
    """
    result = np.full(len(pair), np.inf)
    if not len(paths.weight):
        return result
    best, carried = _fastest(fabric, packet, paths), links_of(fabric, paths, packet)
    carry = carried.rate / PICOSECONDS
    hops = np.where(best >= 0, np.diff(paths.hop_start)[best], 0)
    for n_hops in np.unique(hops[pair]).tolist():
        which = np.flatnonzero(hops[pair] == n_hops)
        if n_hops:
            first = paths.hop_start[best[pair[which]]]
            links = paths.links[first[:, None] + np.arange(n_hops)].astype(np.int64)
            shared = _LoneMessages(fabric, packet, links, size[which], cut_through)
            several = carried.nic_rate[pair[which]] > fabric.capacity_bps[links[:, 0]] / 8
            spread = shared.over_several(carry[pair[which]])
            result[which] = np.where(several, spread, shared.over_one())
    return result


def _fastest(fabric: Fabric, packet: PacketFormat, paths: PathBatch) -> Int64:
    """(P,): for every pair the path that a full packet needs the least time for, NONE without one."""
    link_s = 8 * packet.full_packet_bytes / fabric.capacity_bps + fabric.latency_s
    path_s = np.bincount(paths.hop_path, link_s[paths.links], len(paths.weight))
    order = np.lexsort((path_s, paths.path_pair))
    has: Bool = np.diff(paths.pair_start) > 0
    best = np.full(len(paths.src), -1, np.int64)
    best[has] = order[paths.pair_start[:-1][has]]
    return best


class _LoneMessages:
    """Messages of `size` bytes (m,) over `links` (m, h)."""

    def __init__(
        self, fabric: Fabric, packet: PacketFormat, links: Int64, size: Int64, cut_through: bool
    ) -> None:
        self._packets = packet.packets_of(size)
        last = size - (self._packets - 1) * packet.path_mtu
        ps_per_byte = 8 * PICOSECONDS / fabric.capacity_bps[links]
        keeps_up = np.zeros(links.shape, bool)
        keeps_up[:, :-1] = cut_through & (ps_per_byte[:, 1:] >= ps_per_byte[:, :-1])

        def times(wire_bytes: Int64) -> Times:
            serialised = np.floor(wire_bytes[:, None] * ps_per_byte + 0.5)
            head = np.floor(np.minimum(wire_bytes, HEAD_BYTES)[:, None] * ps_per_byte + 0.5)
            return Times(serialised, np.where(keeps_up, head, serialised))

        single = self._packets == 1
        first_bytes = _padded(np.where(single, size, packet.path_mtu)) + packet.HEADERS + packet.RETH
        last_bytes = np.where(single, first_bytes, _padded(last) + packet.HEADERS)
        self._first, self._last = times(first_bytes), times(last_bytes)
        self._full = times(np.full(len(size), packet.full_packet_bytes))
        self._bytes = packet.wire_bytes_of(size)
        self._latency = np.rint(fabric.latency_s[links] * PICOSECONDS).sum(axis=1)

    def over_one(self) -> Float:
        """(m,): one packet behind the other, on links of any rates. The longest way goes from the first
        packet to the full ones on link `a`, and from these to the last one on link `b`."""
        first, full, last, n = self._first, self._full, self._last, self._packets
        hops = first.whole.shape[1]
        to_end = last.before[:, -1:] - last.before + last.whole[:, -1:]
        longest = np.where(n == 1, first.before[:, -1] + first.whole[:, -1], 0.0)
        for a in range(hops):
            begun = first.before[:, a] + first.whole[:, a]
            longest = np.where(n == 2, np.maximum(longest, begun + to_end[:, a]), longest)
            slowest = np.zeros(len(n))
            for b in range(a, hops):
                slowest = np.maximum(slowest, full.whole[:, b])
                between = full.before[:, b] - full.before[:, a] + full.whole[:, b] + (n - 3) * slowest
                longest = np.where(n > 2, np.maximum(longest, begun + between + to_end[:, b]), longest)
        return np.asarray(longest + self._latency, np.float64)

    def over_several(self, carry: Float) -> Float:
        """(m,): spread over paths that carry `carry` (m,) bytes a picosecond together."""
        first, last = (times.before[:, -1] + times.whole[:, -1] for times in (self._first, self._last))
        all_out = self._bytes / carry + last - self._last.whole[:, 0]
        return np.asarray(np.maximum(first, all_out) + self._latency, np.float64)


def _padded(size: Int64) -> Int64:
    return np.asarray(-(-size // 4) * 4, np.int64)
