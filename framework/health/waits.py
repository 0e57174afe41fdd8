"""How long messages wait for lost packets, by what the transport states of its senders."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from railweave.framework.model import Fabric, PathBatch
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.senders import Senders, spread

ROUND_TRIPS = 2.0
"""Of silence, after which a sender asks (RFC 8985, section 7.2)."""
NEWEST = 0.125
"""The share of the newest round trip in the smoothed one, by which senders wait (RFC 6298, section 2)."""
TRIES, MOST_LOST = 8, 0.99
"""How many times a packet may be sent again, and the largest share of lost packets, in expected waits: links
that lose everything are down."""
SAME = 1e-6
"""Within which links are equally busy."""


class LossWaits(NamedTuple):
    """How long a message of each pair (P,) waits in the mean, seconds: `asked_s` for packets that its sender
    asks for after silence, `again_s` for others. `chance`: that any pair of a set that sends together waits
    for the former, the largest of all sets; waits are that much longer then."""

    asked_s: Float
    again_s: Float
    chance: float

    @property
    def mean_s(self) -> Float:
        return self.asked_s + self.again_s

    def if_asked_s(self) -> Float:
        """What messages wait where packets are asked for."""
        return self.again_s + self.asked_s / max(self.chance, np.finfo(float).tiny)


class Bursts(NamedTuple):
    """What `pairs` (P,) send in the same phase of a schedule: messages `in_a_row` (P,), each waiting for none
    of others, and the bits (P,) of all of a row."""

    pairs: Int64
    in_a_row: Float
    bits: Float


@dataclass(frozen=True)
class Sending:
    """Pairs that send along their paths as the `senders` of the transport do, in packets of `packet_bits`,
    over links (L,) of such capacities."""

    fabric: Fabric
    paths: PathBatch
    capacity_bps: Float
    senders: Senders
    packet_bits: float

    def expected_waits(self, loss: Float, phases: Sequence[Bursts]) -> LossWaits:
        """What messages wait for what links (L,) lose, in the mean over the phases that their pair is in.
        Pairs of a phase go on together, so that the longest wait is that of all; pairs that lose nothing do
        not wait. `phases`: their pairs by position in `paths`.

        No later packet tells that the last of a row is missing on its path: those lost are sent again one
        after the other, each after the first wait of its sender, if it is lost as well after the timeout,
        then after twice as long, and so on. Any other of the last round trip is sent again a round trip
        later, time and again.
        """
        paths, senders = self.paths, self.senders
        n, pair = len(paths.src), paths.path_pair
        n_paths = np.bincount(pair, minlength=n).astype(np.float64)
        lost = np.bincount(pair, paths.weight * lost_share(paths, loss[paths.links]), n).astype(np.float64)
        missed_on = _missed(paths, loss, (senders.ack_every / np.maximum(n_paths, 1))[pair])
        waits = np.bincount(pair, missed_on, n) > 0
        packet_s, travel_s = np.zeros(n), np.zeros(n)
        np.maximum.at(packet_s, pair[paths.hop_path], self._seconds(self.packet_bits)[paths.links])
        np.maximum.at(travel_s, pair, self._there_and_back_s())
        in_trip = np.divide(travel_s, packet_s, out=np.zeros(n), where=packet_s > 0)
        asked_s, again_s, n_phases, chance = np.zeros(n), np.zeros(n), np.zeros(n), 0.0
        for phase in phases:
            of_set = phase.pairs
            n_phases[of_set] += 1
            if not waits[of_set].any():
                continue
            packets = phase.bits / self.packet_bits
            missed, tails = _missed_of_last(paths, missed_on, of_set, np.maximum(packets, 1))
            first_s = np.maximum(senders.first_s[of_set], ROUND_TRIPS * self.round_trips_s(phase)[of_set])
            longest_s = _longest_s(missed, tails, first_s, senders.timeout_s[of_set], senders.most_s[of_set])
            again = _most_often(lost[of_set], np.minimum(in_trip[of_set], packets))
            asked_s[of_set] += longest_s / phase.in_a_row
            again_s[of_set] += again * travel_s[of_set] / phase.in_a_row
            chance = max(chance, _any(missed, tails))
        asked_s, again_s = (np.where(waits, s / np.maximum(n_phases, 1), 0.0) for s in (asked_s, again_s))
        return LossWaits(asked_s, again_s, chance)

    def round_trips_s(self, phase: Bursts) -> Float:
        """(P,): the smoothed round trips of the pairs of `paths` when those of a phase have sent its rows.

        What a pair has under way takes as long as its share of its busiest links needs for it. That is its
        window, or, where links of its NIC are among the busiest, what it has in its NIC, at each of them:
        others' packets wait there as long as its own. Until the window is full round trips grow from packet
        to packet, and the smoothed one is behind them.
        """
        paths, senders = self.paths, self.senders
        n, links, hop_path, pair = len(paths.src), paths.links, paths.hop_path, paths.path_pair
        n_paths, sends = len(pair), np.zeros(n, bool)
        sends[phase.pairs] = True
        weight = (paths.weight * sends[pair])[hop_path]
        shares = np.bincount(links, weight, self.fabric.n_links).astype(np.float64)
        hop_s = self._seconds(shares)[links]
        bit_s = np.zeros(n_paths)  # at the pair's share of the busiest link of a path
        np.maximum.at(bit_s, hop_path, hop_s)
        busiest = hop_s >= bit_s[hop_path] * (1 - SAME)
        from_nic = np.zeros(len(links), bool)
        from_nic[paths.hop_start[:-1][np.diff(paths.hop_start) > 0]] = True
        until_asked_s = ((senders.ack_every - 1) / 2 * self.packet_bits)[pair] * bit_s
        idle_s = self._there_and_back_s() + until_asked_s
        queued_s = np.maximum(self._waiting_bits(phase)[pair] * bit_s - idle_s, 0)
        in_nic_bits = np.minimum(senders.nic_bits, senders.window_bits)
        in_nics_s = in_nic_bits[pair] * bit_s * np.bincount(hop_path, busiest, n_paths)
        from_busy_nic = np.bincount(hop_path, busiest & from_nic, n_paths) > 0
        queued_s = np.where(from_busy_nic, np.minimum(queued_s, in_nics_s), queued_s)
        return np.bincount(pair, paths.weight * (idle_s + queued_s), n).astype(np.float64)

    def _waiting_bits(self, phase: Bursts) -> Float:
        """(P,): what the pairs of a phase have under way, as their smoothed round trips show it."""
        packets = phase.bits / self.packet_bits
        most = np.minimum(self.senders.window_bits[phase.pairs] / self.packet_bits, packets)
        behind = (1 / NEWEST - 1) * (1 - (1 - NEWEST) ** most) * (1 - NEWEST) ** (packets - most)
        of_pair = np.zeros(len(self.paths.src))
        of_pair[phase.pairs] = np.maximum(most - behind, 0) * self.packet_bits
        return of_pair

    def _there_and_back_s(self) -> Float:
        """(paths,): the latency of each path and of that of its answers."""
        latency_s, links = self.fabric.latency_s, self.paths.links
        of_hop = latency_s[links] + latency_s[links ^ 1]
        return np.bincount(self.paths.hop_path, of_hop, len(self.paths.weight)).astype(np.float64)

    def _seconds(self, bits: Float | float) -> Float:
        """(L,): what links need for these bits; 0 for links whose rate is 0."""
        rate = self.capacity_bps
        return np.divide(bits, rate, out=np.zeros_like(rate), where=rate > 0)


def _missed(paths: PathBatch, loss: Float, ack_every: Float) -> Float:
    """(paths,): the probability that the sender misses nothing though the last packet of a path is lost, or
    one before it of which no later answer, one for `ack_every` (paths,) packets, arrives to tell."""
    lost, unanswered = (lost_share(paths, loss[links]) for links in (paths.links, paths.links ^ 1))
    every = np.maximum(ack_every, 1)
    no_loss_before, no_loss = (1 - lost) ** (every - 1), (1 - lost) ** every
    unseen = 1 - no_loss_before + no_loss_before * unanswered * (1 - no_loss) / (1 - no_loss * unanswered)
    return np.asarray(lost + (1 - lost) * unanswered * unseen, np.float64)


def _missed_of_last(paths: PathBatch, missed: Float, of_set: Int64, packets: Float) -> tuple[Float, Float]:
    """Of the pairs `of_set`, each: the share of the last packets of paths that is `missed` (paths,), and how
    many there are of a row of `packets`. A path of a small share has one as any other if it has a packet."""
    pair, n = paths.path_pair, len(paths.src)
    of_row = np.zeros(n)
    of_row[of_set] = packets
    last = np.minimum(of_row[pair] * paths.weight, 1)
    many = np.maximum(np.bincount(pair, last, n)[of_set], 1.0)
    return np.asarray(np.bincount(pair, last * missed, n)[of_set] / many, np.float64), many


def lost_share(paths: PathBatch, loss: Float) -> Float:
    """(paths,): the share of the packets of each path that its hops lose, `loss` (H,)."""
    passed = np.bincount(paths.hop_path, np.log1p(-np.minimum(loss, MOST_LOST)), len(paths.weight))
    return np.asarray(np.minimum(-np.expm1(passed), MOST_LOST), np.float64)


def _longest_s(share: Float, packets: Float, first_s: Float, timeout_s: Float, most_s: Float) -> Float:
    """(P,): what each pair would wait, if it did so as often as the one that does most often, for its
    `packets`, a `share` of them lost each time. How often is a negative binomial distribution."""
    exactly = (1 - share) ** packets
    or_more, sum_s, wait_s, step_s = 1 - exactly, np.zeros(len(share)), first_s, timeout_s
    same = 2 / (packets + 1)  # how likely a wait is for the packet of the one before, if few are lost
    for times in range(1, TRIES + 1):
        sum_s += wait_s * _any(or_more)
        exactly = exactly * share * (packets + times - 1) / times
        or_more = np.maximum(or_more - exactly, 0)
        wait_s = (1 - same) * first_s + same * spread(times) * step_s
        step_s = np.minimum(2 * step_s, most_s)
    return sum_s


def _most_often(share: Float, packets: Float) -> float:
    """How often the unluckiest packet is lost, of this number of packets of each pair."""
    return sum(_any(share**times, packets) for times in range(1, TRIES + 1))


def _any(chance: Float, many: Float | float = 1.0) -> float:
    """The probability that any event happens, of `many` independent ones of each of these chances."""
    return float(-np.expm1((many * np.log1p(-np.minimum(chance, MOST_LOST))).sum()))
