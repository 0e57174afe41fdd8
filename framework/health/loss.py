"""What loss costs the transport: the one place where lost packets become a score."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PathBatch
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.senders import Senders

IMPROBABLE = 1e-4
"""Probability of a run of packets without a loss, at the stated loss, below which the loss is over."""
WAIT_PACKETS = 6.0
"""Packet times that a step waits for a lost packet, besides those in which it is sent again."""
ROUND_TRIPS = 2.0
"""Of silence, after which a sender asks (RFC 8985, section 7.2), with all windows of a link in its queue."""
TRIES, MOST_LOST = 8, 0.99
"""How many times a packet may be sent again, and the largest share of lost packets, in expected waits."""
MESSAGE_WAITS_PACKETS = 72.0
"""Packet times that a message waits for what a link loses, over loss / (1 - loss). Measured with the
transport in virtual time, rings of messages of 4, 16 and 64 packets, losses of 1 to 10 %: 49 to 86."""


def speed_at_loss(loss: Float) -> Float:
    """The speed that a link keeps at these shares of lost packets (0..1): (1 - loss) / (1 + 6 loss).

    A share `loss` of the link carries what is lost, and every loss holds up the step that needs the packet
    until it is missed and repeated. Measured with the transport, steps of 16 packets of 4 KiB, on links of 1
    and 4 Mb/s: a ring takes 1.09, 1.21, 1.5 and 2.7 times as long at losses of 1, 3, 10 and 20 %; this says
    1.07, 1.22, 1.8 and 2.8. Longer steps wait less (64 packets: 1.07 at 3 %), shorter ones longer.
    """
    return np.asarray((1.0 - loss) / (1.0 + WAIT_PACKETS * loss))


def passes_at_loss(capacity_bps: Float, loss: Float, packet_bits: float) -> tuple[Float, Float]:
    """What links (L,) pass at these shares of lost packets: the rate that what is sent again leaves, and the
    seconds that a message waits for it, whatever its length. Other messages pass meanwhile.

    So a score, which is that of a step of 16 packets on a link that waits for nothing else, says too much of
    a single cable: a ring of four takes 1.34 times as long if one of its links loses 20 %, and 2.9 if all do.
    """
    rate_bps = capacity_bps * (1.0 - loss)
    waits_bits = MESSAGE_WAITS_PACKETS * loss * packet_bits
    wait_s = np.divide(waits_bits, rate_bps, out=np.zeros_like(rate_bps), where=rate_bps > 0)
    return np.asarray(rate_bps), np.asarray(wait_s)


def waits_s(
    fabric: Fabric,
    paths: PathBatch,
    loss: Float,
    senders: Senders,
    packet_bits: float,
    together: Sequence[tuple[Int64, Float, Float]],
) -> Float:
    """(P,): seconds that a message of each pair of `paths` waits for what links (L,) lose, in the mean over
    the sets of pairs that it is in, which send `together` (positions, messages in a row and their bits)
    and go on together, so that the longest wait is that of all. Pairs that lose nothing do not wait.

    Nobody misses the last packet of a row on a path, nor its answer: it is sent again after the first wait of
    its sender, if that is lost as well after the timeout, then after twice as long, and so on. Any other of
    the last round trip is sent again a round trip later, time and again.
    """
    n, hop_path, pair = len(paths.src), paths.hop_path, paths.path_pair
    back = paths.links ^ 1
    there, answer, latency_s = (
        np.bincount(hop_path, of_hop, len(pair)).astype(np.float64)
        for of_hop in (
            np.log1p(-_lost(loss[paths.links])),
            np.log1p(-_lost(loss[back])),
            fabric.latency_s[paths.links] + fabric.latency_s[back],
        )
    )
    packet_s, travel_s = np.zeros(n), np.zeros(n)
    np.maximum.at(packet_s, pair[hop_path], packet_bits / fabric.capacity_bps[paths.links])
    np.maximum.at(travel_s, pair, latency_s)
    last = -np.expm1(np.bincount(pair, there + answer, n))
    again, one = (
        np.bincount(pair, -paths.weight * np.expm1(of_path), n).astype(np.float64)
        for of_path in (there + answer, there)
    )
    in_trip = np.divide(travel_s, packet_s, out=np.zeros(n), where=packet_s > 0)
    result, sets = np.zeros(n), np.zeros(n)
    for of_set, in_a_row, bits in together:
        sets[of_set] += 1
        if not last[of_set].any():
            continue
        waiting_bits, under_way = np.zeros(n), np.minimum(senders.window_bits[of_set], bits)
        # in the mean over a row: until a window is under way, more and more of it waits
        waiting_bits[of_set] = under_way * (1 - under_way / (2 * bits))
        many = np.minimum(in_trip[of_set], bits / packet_bits)
        wait_s = np.maximum(senders.first_s, ROUND_TRIPS * _queued_s(fabric, paths, waiting_bits))
        step_s, sum_s = senders.timeout_s, np.zeros(n)
        for k in range(TRIES):
            sum_s += wait_s * _any(last[of_set] * again[of_set] ** k)
            sum_s += travel_s * _any(one[of_set] ** (k + 1), many)
            wait_s, step_s = step_s, np.minimum(2 * step_s, senders.most_s)
        result[of_set] += sum_s[of_set] / in_a_row
    return np.where(last > 0, result / np.maximum(sets, 1), 0.0)


def _queued_s(fabric: Fabric, paths: PathBatch, waiting_bits: Float) -> Float:
    """(P,): seconds of the longest queue on the paths of each pair, where so much of every pair waits."""
    of_hop, longest_s = paths.path_pair[paths.hop_path], np.zeros(len(waiting_bits))
    hops = np.flatnonzero(waiting_bits[of_hop])
    link, pair = paths.links[hops], of_hop[hops]
    queue_bits = np.bincount(link, waiting_bits[pair] * paths.weight[paths.hop_path[hops]], fabric.n_links)
    np.maximum.at(longest_s, pair, (queue_bits / fabric.capacity_bps)[link])
    return longest_s


def _any(chance: Float, many: Float | float = 1.0) -> float:
    """The probability that any event happens, of `many` independent ones of each of these chances."""
    return float(-np.expm1((many * np.log1p(-_lost(chance))).sum()))


def _lost(share: Float) -> Float:
    """What may be lost and still arrive one day; links that lose everything are down."""
    return np.minimum(share, MOST_LOST)


def packets_to_end(loss: Float) -> Float:
    """How many packets in a row without a loss end a stated loss (0..1): infinitely many where it is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(IMPROBABLE) / np.log1p(-np.asarray(loss)))
