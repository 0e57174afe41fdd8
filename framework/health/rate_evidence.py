"""What a link's departures say of its rate, and when: as the meter of the lab would learn it."""

import numpy as np

from railweave.framework.model.arrays import Bool, Float

RESOLUTION_S = 0.025
"""Time to which samples tell when a packet left, unless packets are shorter."""
EXACT_PACKETS, EXACT_S = 8, 0.08
"""What of a link's backlog has to leave before its rate counts as it is: packets, or as many RESOLUTION_S, in
that time at least."""
SUGGESTIVE_PACKETS = 2
"""Packets after which a rate that they do not contradict is known."""
STALL_S, SLOWER_OVER_S = 0.01, 0.05
"""Time for which a link may have stood still, so that it does not bound its rate; with which time constant,
in busy time, a slower reading replaces a rate. All so that rates show as soon as on a lab."""


class RateEvidence:
    """The rates of L links as far as the packets that waited show them: `rate_bps` (L,), NaN before any.

    What counts is how far apart packets left, so the first of a backlog says nothing; it is not among what is
    added if `waited`, which is then of packets that waited, however short the queue. Until samples
    tell that time well enough it bounds the rate from above: a link that has become slow seems slower and
    slower. `exact` (L,): whether what is known was accepted as it is. The time in which
    packets left is taken from the rate, without the error that samples of a lab have.
    """

    def __init__(self, line_bps: Float, packet_bytes: float, *, waited: bool = False) -> None:
        n, self._waited = len(line_bps), waited
        self._packet_bits = 8.0 * packet_bytes
        self._base_bps, self.rate_bps = line_bps.copy(), np.full(n, np.nan)
        self._bits, self._served_bps = np.zeros((2, n))
        self.exact, self._backlogged = np.zeros((2, n), bool)

    def add(self, backlogged: Bool, bits: Float, served_bps: Float) -> Bool:
        """In an interval `bits` (L,) left, at `served_bps`, of links some of which were `backlogged`; (L,):
        the links whose rate that states."""
        at = np.flatnonzero(backlogged & (bits > 0))
        served, base = served_bps[at], self._base_bps[at]
        begun, self._backlogged = backlogged & ~self._backlogged, backlogged
        if not self._waited:
            self._bits[begun] = np.maximum(self._bits[begun], 0.0) - self._packet_bits
        self._bits[at] = np.where(served == self._served_bps[at], self._bits[at], 0.0) + bits[at]
        self._served_bps[at] = served
        sum_bits = np.maximum(self._bits[at] // self._packet_bits, 0.0) * self._packet_bits
        busy_s = sum_bits / served
        error_bits = np.minimum(self._packet_bits, RESOLUTION_S * served)
        many = sum_bits >= EXACT_PACKETS * error_bits
        exact = many & (busy_s >= EXACT_S)
        with np.errstate(divide="ignore"):
            most_bps = (sum_bits + error_bits) / np.maximum(busy_s - STALL_S, 0.0)
        share = 1 - np.exp(-busy_s / SLOWER_OVER_S)
        rate = base - share * np.maximum(base - np.maximum(most_bps, served), 0.0)
        rate = np.where(exact | (many & (served > base)), served, rate)
        stated = exact | (rate < base) | (sum_bits >= SUGGESTIVE_PACKETS * self._packet_bits)
        self.rate_bps[at[stated]] = rate[stated]
        self.exact[at] = (exact | self.exact[at]) & (self.rate_bps[at] == served)
        self._base_bps[at[exact]], self._bits[at[exact]] = served[exact], 0.0
        stated_links = np.zeros(len(backlogged), bool)
        stated_links[at[stated]] = True
        return stated_links

    def know(self, links: Bool, served_bps: Float) -> None:
        """A train has shown the rates of these links."""
        self._base_bps = np.where(links, served_bps, self._base_bps)
        self.rate_bps = np.where(links, served_bps, self.rate_bps)
        self._bits = np.where(links, 0.0, self._bits)
        self.exact = self.exact | links
