"""What packets would add to an iteration that was computed as flows."""

import numpy as np

from railweave.framework.model import PacketFormat, PathBatch
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.findings import CriticalPath


def packet_delay_s(critical: CriticalPath, rates_bps: Float, latency_s: Float, packet: PacketFormat) -> float:
    """Seconds that store and forward adds to a critical path of flows, at `rates_bps` and with `latency_s` of
    links, (n_links,) each.

    A flow passes all links of its path at once; a packet of L bits is sent on once all of it is there. So a
    message over links of rates r_j lands L (sum 1/r_j - max 1/r_j) later: its packets follow each other
    through the slowest link, and one of them takes its time on each of the others. That holds for every
    message of the path that waits for another to land.
    """
    if not len(critical.steps):
        return 0.0
    bit_s = np.where(rates_bps > 0, 1 / np.where(rates_bps > 0, rates_bps, 1.0), 0.0)
    packet_bits = 8 * np.minimum(packet.wire_bytes_of(critical.message_bytes), packet.full_packet_bytes)
    once, in_turn, busy, travel_s = _of_parts(critical.paths, bit_s, latency_s)
    steps, took_s = critical.steps, critical.end_s - critical.begin_s
    hidden_s = np.maximum((1 - busy) * took_s - steps * travel_s, 0)
    seconds = np.maximum(steps * packet_bits * in_turn - hidden_s, np.minimum(steps, 1) * packet_bits * once)
    if critical.last is not None:
        seconds[-1] = steps[-1] * packet_bits[-1] * _of_last(critical.last, bit_s)
    return float(seconds.sum())


def _of_parts(paths: PathBatch, bit_s: Float, latency_s: Float) -> tuple[Float, Float, Float, Float]:
    """(n,) of each part, whose pairs wait for each other in turn if there are several: seconds that a bit
    needs on all links of a path but the slowest, the most of any pair and the mean; the share of the time in
    which the mean pair sends if the slowest does so without a pause, as the links of its path, with the load
    of the part, are faster; and the mean latency. What such a pair waits anyway hides what packets add."""
    n_paths, n, hop_path, part = len(paths.weight), len(paths.src), paths.hop_path, paths.path_pair
    hop_bit_s = bit_s[paths.links]
    _, place = np.unique(part[hop_path] * len(bit_s) + paths.links, return_inverse=True)
    load = np.bincount(place, paths.weight[hop_path])[place]
    others = np.bincount(hop_path, hop_bit_s, n_paths) - _largest(hop_bit_s, hop_path, n_paths)
    needs = _largest(load * hop_bit_s, hop_path, n_paths)
    longest = _largest(needs, part, n)
    busy = np.bincount(part, paths.weight * needs, n) / np.where(longest > 0, longest, 1.0)
    travel_s = np.bincount(hop_path, latency_s[paths.links], n_paths)
    means = (
        np.bincount(part, paths.weight * of_path, n).astype(np.float64) for of_path in (others, travel_s)
    )
    in_turn, travel = means
    return _largest(others, part, n), in_turn, busy, travel


def _of_last(paths: PathBatch, bit_s: Float) -> float:
    """Seconds that a bit of messages that end together adds: the links that hold them begin with the first
    packet that reaches them, and behind these the last one has the rest of the longest path to go."""
    n_paths, hop_path = len(paths.weight), paths.hop_path
    hop_bit_s, links = bit_s[paths.links], paths.links
    needs = np.bincount(links, paths.weight[hop_path], len(bit_s))[links] * hop_bit_s
    holds = needs >= _largest(needs, hop_path, n_paths)[hop_path] * (1 - 1e-9)
    until = np.cumsum(hop_bit_s)
    before = until - hop_bit_s - np.append(0.0, until)[paths.hop_start[:-1]][hop_path]
    first = np.full(len(bit_s), np.inf)
    np.minimum.at(first, links, before)
    behind = np.bincount(hop_path, hop_bit_s, n_paths)[hop_path] - before - hop_bit_s
    return float((first[links] + behind)[holds].max(initial=0.0))


def _largest(values: Float, place: Int64, n: int) -> Float:
    """(n,): the largest of the values of each."""
    largest = np.zeros(n)
    np.maximum.at(largest, place, values)
    return largest
