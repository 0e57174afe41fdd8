"""What the transport states of its senders, for engines that compute (hookspecs.Transport, `senders`)."""

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, PathBatch
from railweave.framework.model.arrays import Float
from railweave.framework.model.senders import Senders
from railweave.traffic.rocev2.timing import Timing
from railweave.traffic.rocev2.tuning import SPAN, TIMEOUTS, Tuning, acknowledge_every

LATE = 64
"""A number of probes after which waits no longer grow."""


def senders(
    tuning: Tuning,
    fabric: Fabric,
    paths: PathBatch,
    packet: PacketFormat,
    window_bits: Float | None = None,
) -> Senders:
    """Those of the pairs of `paths`; `fabric` has the rates in use. `window_bits` (P,): their windows, None
    for those of the transport."""
    n_pairs, n_paths = len(paths.src), len(paths.weight)
    hop_path, path_pair = paths.hop_path, paths.path_pair
    capacity = fabric.capacity_bps[paths.links]
    slowest = np.full(n_paths, np.inf)
    np.minimum.at(slowest, hop_path, capacity)
    depth: Float = slowest * np.bincount(hop_path, 1 / capacity, n_paths)
    latency_s: Float = np.bincount(hop_path, fabric.latency_s[paths.links], n_paths).astype(np.float64)
    full_bits = 8 * packet.full_packet_bytes
    if window_bits is None:
        window = tuning.windows(slowest, depth, latency_s, path_pair, n_pairs, packet.full_packet_bytes)
        window_bits = np.asarray(full_bits * window, np.float64)
    rate, travel_s = np.full(n_pairs, np.inf), np.zeros(n_pairs)
    np.minimum.at(rate, path_pair, slowest)
    np.maximum.at(travel_s, path_pair, 2 * latency_s)
    stride = np.array([acknowledge_every(packets) for packets in range(SPAN + 1)])
    packets = np.clip(np.rint(window_bits / full_bits), 1, SPAN).astype(np.int64)
    first_s, timeout_s, most_s = _waits(window_bits / rate, travel_s)
    dead_after_s = np.maximum(tuning.dead_after, TIMEOUTS * timeout_s)
    ack_every = stride[packets].astype(np.float64)
    in_nic, stored = np.full(n_pairs, np.inf), np.full(n_pairs, float(full_bits))
    return Senders(window_bits, in_nic, stored, ack_every, first_s, timeout_s, most_s, dead_after_s)


def _waits(drain_s: Float, travel_s: Float) -> tuple[Float, Float, Float]:
    """(P,) each: the first wait, the second, and the longest, of pairs whose round trips took as long as a
    full window does."""
    distinct, kind = np.unique(drain_s + 1j * travel_s, return_inverse=True)
    waits = np.empty((3, len(distinct)))
    for i, (drain, travel) in enumerate(zip(distinct.real.tolist(), distinct.imag.tolist(), strict=True)):
        timing = Timing()
        timing.drain, timing.travel, timing.smoothed = drain, travel, drain + travel
        for row, timing.probes in enumerate((0, 1, LATE)):
            waits[row, i] = timing.backoff if timing.probes else timing.wait
    first_s, timeout_s, most_s = waits[:, kind]
    return first_s, timeout_s, most_s
